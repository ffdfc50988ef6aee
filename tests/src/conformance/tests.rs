use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use super::*;

fn outcome(transcript: &str, passed: u32, failed: u32) -> Outcome {
    let summary = format!(
        "Suite: Read10\n  Test: Simple ...{transcript}\n\nRun Summary:    Type  Total    Ran Passed Failed Inactive\n\
         suites      1      1    n/a      0        0\n               tests      1      1      {passed}      {failed}        0\n"
    );
    Outcome {
        command_line: String::new(),
        status: Some(ExitStatus::from_raw(0)),
        stdout: summary,
        stderr: String::new(),
        elapsed: Duration::ZERO,
        hung: String::new(),
    }
}

#[test]
fn a_skip_is_not_a_pass() {
    let said = outcome(
        "\n    Send READ10\n    [OK] READ10\npassed    Send PRIN\n    [SKIPPED] PERSISTENT RESERVE IN\n",
        1,
        0,
    );
    assert_eq!(judge(&said).status, Status::Pass);
    let marked = judge(&outcome("\n    Send X\n    [SKIPPED] X is not implemented.\npassed", 1, 0));
    assert_eq!((marked.status, marked.reason.as_str()), (Status::Skip, "X is not implemented."));
    let at_once =
        judge(&outcome("    [SKIPPED] Logical unit is not removable. Skipping test.\npassed", 1, 0));
    assert_eq!(
        (at_once.status, at_once.reason.as_str()),
        (Status::Skip, "Logical unit is not removable. Skipping test.")
    );
    assert_eq!(judge(&outcome("\npassed", 1, 0)).status, Status::Skip);
}

#[test]
fn what_does_not_end_well_has_failed() {
    let failed = judge(&outcome("\n    [FAILED] READ10 went wrong\nFAILED\n    1. test.c:1", 0, 1));
    assert_eq!((failed.status, failed.reason.as_str()), (Status::Fail, "READ10 went wrong"));
    let mut no_login = outcome("", 1, 0);
    no_login.stdout = "Failed to connect to SCSI device 0".into();
    assert_eq!(judge(&no_login).reason, "did not run to its end: Failed to connect to SCSI device 0");
    let mut hung = outcome("", 1, 0);
    hung.status = None;
    assert!(judge(&hung).reason.starts_with("hung"));
}

#[test]
fn every_change_is_a_difference() {
    let expected = read_expectations("# comment\nA.One  pass\nA.Two  skip  later\nA.Three  fail  known\n");
    assert_eq!(differences("memory", &expected, &expected), "");
    let seen = read_expectations("A.One  skip  not there\nA.Two  pass\nA.Four  pass\n");
    let text = differences("memory", &expected, &seen);
    for line in [
        "A.One: expected pass, now skip  not there",
        "A.Two: expected skip, now pass",
        "A.Four: expected nothing, now pass",
        "A.Three: expected, but the suite has no such test",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn blessing_keeps_reasons_that_still_hold() {
    let expected = read_expectations("A.One  skip  comes later\nA.Two  skip  comes later\n");
    let seen = read_expectations("A.One  skip  X is not implemented.\nA.Two  pass\n");
    let blessed = read_expectations(&bless(&expected, &seen));
    assert_eq!(blessed["A.One"].reason, "comes later");
    assert_eq!(blessed["A.Two"], Verdict { status: Status::Pass, reason: String::new() });
}
