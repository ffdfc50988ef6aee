//! libiscsi's conformance suite, one process per test, and the file of what is expected of each test.
//!
//! `CUnit` counts a skipped test as passed. The suite says so only in its verbose transcript, by lines with
//! `[SKIPPED]`; some skips are said to `CUnit` alone and leave an empty transcript. Both are called a skip here.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::initiator::Initiator;
use crate::tool::Outcome;
use crate::{Node, Tool};

/// No single test takes longer than about 4 s against a target that answers.
const DEADLINE: Duration = Duration::from_secs(20);

/// How a test went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Everything it asserts held.
    Pass,
    /// It, or a part of it, did not run.
    Skip,
    /// An assertion failed, it hung, crashed, or could not log in.
    Fail,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Pass, Self::Skip, Self::Fail].into_iter().find(|status| status.word() == word)
    }
}

/// The status of a test and, unless it passed, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How it went.
    pub status: Status,
    /// What the suite said about it; empty for a pass.
    pub reason: String,
}

/// Verdicts by `Suite.Test`.
pub type Verdicts = BTreeMap<String, Verdict>;

/// The tests of the suite as `Suite.Test`. The family ALL has to hold every test of the other families.
pub fn tests() -> Vec<String> {
    let list = Tool::new("iscsi-test-cu").arg("--list").run().expect_success().stdout;
    let of = |family: &str| {
        let names = list.lines().filter_map(|line| line.strip_prefix(family)?.strip_prefix('.'));
        names.filter(|name| name.contains('.')).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = of("ALL");
    for family in ["SCSI", "iSCSI", "LINUX"] {
        let names = of(family);
        assert!(!names.is_empty(), "the suite has no family {family}");
        for name in names {
            assert!(all.contains(&name), "{family}.{name} is not in family ALL: the bed would miss it");
        }
    }
    all
}

/// Zeroes the ends of a volume of `blocks` of 512 bytes, where the tests work: some expect zeroes where they
/// have not written (`MultipathIO.CompareAndWrite`, block 256), so the order of the tests would count.
fn clean(node: &Node, volume: &str, blocks: u32) -> io::Result<()> {
    const PART: u32 = 128;
    const END: u32 = 2048;
    let mut session = Initiator::login(node.address(), volume)?;
    for block in (0..END).chain(blocks - END..blocks).step_by(PART as usize) {
        let answer = session.write(block, &vec![0; PART as usize * 512])?;
        if answer.status != 0 {
            return Err(io::Error::other(format!("{answer:?}")));
        }
    }
    Ok(())
}

/// Runs one test against `volume` of `node`, which has `blocks` of 512 bytes, and two portals for the
/// multipath tests.
pub fn run(node: &Node, volume: &str, blocks: u32, test: &str) -> Verdict {
    if let Err(error) = clean(node, volume, blocks) {
        let reason = format!("the volume cannot be zeroed before the test: {error}");
        return Verdict { status: Status::Fail, reason };
    }
    let mut tool = Tool::new("iscsi-test-cu")
        .args(["--dataloss", "--allow-sanitize", "--Verbose-scsi", "--test"])
        .arg(format!("ALL.{test}"))
        .arg(node.url(volume))
        .deadline(DEADLINE);
    if test.starts_with("MultipathIO.") {
        tool = tool.arg(node.url_by(1, volume));
    }
    judge(&tool.run())
}

fn judge(outcome: &Outcome) -> Verdict {
    let fail = |reason: String| Verdict { status: Status::Fail, reason };
    if outcome.expired() {
        return fail(format!("hung: no end within {} s", DEADLINE.as_secs()));
    }
    let everything = format!("{}\n{}", outcome.stdout, outcome.stderr);
    let Some((passed, failed)) = counts(&everything) else {
        let last = everything.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output");
        return fail(format!("did not run to its end: {}", tidy(last)));
    };
    if failed > 0 || passed != 1 {
        let marked = everything.lines().find(|line| line.contains("[FAILED]"));
        let asserted = everything.lines().find(|line| line.trim_start().starts_with("1. "));
        return fail(tidy(marked.or(asserted).unwrap_or("failed without a word")));
    }
    let transcript = everything.split_once("\n  Test: ").and_then(|(_, rest)| rest.split_once("..."));
    let transcript = transcript.map_or("", |(_, rest)| rest);
    // What follows the verdict is the clean-up, which skips things of its own.
    let mut said = transcript.lines().take_while(|line| !line.starts_with("passed"));
    if said.clone().all(|line| line.trim().is_empty()) {
        return Verdict { status: Status::Skip, reason: "left without a word".into() };
    }
    let skipped = |line: &&str| {
        let lower = line.to_lowercase();
        lower.contains("[skip") || lower.contains("skipping test")
    };
    if let Some(line) = said.find(skipped) {
        return Verdict { status: Status::Skip, reason: tidy(line) };
    }
    Verdict { status: Status::Pass, reason: String::new() }
}

/// Passed and failed tests from `CUnit`'s summary line `tests TOTAL RAN PASSED FAILED INACTIVE`.
fn counts(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().rfind(|line| line.trim_start().starts_with("tests "))?;
    let mut numbers = line.split_whitespace().skip(3).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn tidy(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace("[SKIPPED] ", "").replace("[FAILED] ", "");
    line.chars().take(120).collect()
}

/// Where the expectations stand.
pub fn expectation_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("libiscsi-expected.txt")
}

/// Reads expectations: lines of `Suite.Test  pass|skip|fail  reason`, `#` starts a comment.
pub fn read_expectations(text: &str) -> Verdicts {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let (name, status) = (words.next(), words.next().and_then(Status::from_word));
            let (Some(name), Some(status)) = (name, status) else {
                panic!("not an expectation: {line:?}\nhint: Suite.Test  pass|skip|fail  reason");
            };
            let reason = words.collect::<Vec<_>>().join(" ");
            (name.to_owned(), Verdict { status, reason })
        })
        .collect()
}

/// One line for every test that did not do what was expected of it; empty when all did.
pub fn differences(backing: &str, expected: &Verdicts, seen: &Verdicts) -> String {
    let mut text = String::new();
    for (name, verdict) in seen {
        let (want, now) = (expected.get(name).map(|old| old.status), verdict.status);
        if want != Some(now) {
            let want = want.map_or("nothing", Status::word);
            let _ =
                writeln!(text, "{backing:8} {name}: expected {want}, now {}  {}", now.word(), verdict.reason);
        }
    }
    for name in expected.keys().filter(|name| !seen.contains_key(*name)) {
        let _ = writeln!(text, "{backing:8} {name}: expected, but the suite has no such test");
    }
    text
}

/// Writes what was seen as the new expectation. A reason somebody wrote is kept while the status stays.
pub fn bless(expected: &Verdicts, seen: &Verdicts) -> String {
    let mut text = String::from(
        "# What every test of libiscsi's iscsi-test-cu 1.19 is expected to do: Suite.Test  pass|skip|fail  reason\n\
         # FELS_BLESS=1 cargo test -p beds --release --test libiscsi   rewrites the statuses and keeps the reasons.\n",
    );
    for (name, verdict) in seen {
        let old = expected.get(name).filter(|old| old.status == verdict.status && !old.reason.is_empty());
        let reason = old.map_or(&verdict.reason, |old| &old.reason);
        let line = format!("{name:44} {}  {reason}", verdict.status.word());
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// For each test the worse of two verdicts.
pub fn worse_of(one: &Verdicts, other: &Verdicts) -> Verdicts {
    let mut worst = one.clone();
    for (name, verdict) in other {
        let entry = worst.entry(name.clone()).or_insert_with(|| verdict.clone());
        if verdict.status > entry.status {
            *entry = verdict.clone();
        }
    }
    worst
}
