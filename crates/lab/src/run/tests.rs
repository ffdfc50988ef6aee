//! Whole runs on files, from start to end.

use std::path::{Path, PathBuf};

use super::*;

fn file(folder: &Path, bytes: u64) -> PathBuf {
    let path = folder.join("volume");
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

fn short(load: &Load) -> Load {
    Load { time: Duration::from_millis(200), warm_up: Duration::ZERO, depth: 2, ..load.clone() }
}

fn options(path: &Path, loads: Vec<Load>) -> RunOptions {
    let test = |(number, load)| Test { name: format!("test {number}"), load: short(&load) };
    RunOptions {
        target: Target::File(path.to_owned()),
        profile: None,
        tests: loads.into_iter().enumerate().map(test).collect(),
        open: OpenOptions::default(),
        threads: Some(1),
        journal: None,
        ceiling: false,
    }
}

fn measure(options: &RunOptions) -> Result<Report, LabError> {
    run(options, |_| (), &AtomicBool::new(false))
}

#[test]
fn a_range_that_is_larger_than_null_does_not_take_the_figures_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 3 << 40);
    let load = Load { size: Some(2 << 40), offset: 1 << 30, ..Load::default() };
    let report = measure(&RunOptions { ceiling: true, ..options(&path, vec![load]) }).unwrap();
    let test = &report.tests[0];
    assert!(test.total.operations > 0 && test.ceiling_iops.is_some_and(|iops| iops > 0.0), "{test:?}");
}

#[test]
fn a_target_that_is_gone_before_the_next_test_leaves_the_figures_of_those_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 1 << 20);
    let options = options(&path, vec![Load::default(); 3]);
    let gone = |_: &Progress<'_>| drop(std::fs::remove_file(&path));
    let report = run(&options, gone, &AtomicBool::new(false)).unwrap();
    let [first, second] = report.tests.as_slice() else { panic!("{report:?}") };
    assert!(first.total.operations > 0 && first.errors == 0, "{first:?}");
    assert!(second.error_texts[0].contains("cannot be opened") && second.errors == 1, "{second:?}");
    assert!(report.failed() && !report.interrupted);
    // Of one that was not there at all there is nothing to tell.
    assert!(matches!(measure(&options), Err(LabError::Open { .. })));
}

#[test]
fn what_writes_nothing_cannot_be_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 1 << 20);
    let reads = Load { verify: true, ..Load::default() };
    let error = measure(&options(&path, vec![reads.clone()])).unwrap_err().to_string();
    assert!(error.contains("nothing to verify") && error.contains("hint: "), "{error}");
    // Among others of a profile it says so.
    let writes = Load { read_percent: 50, ..reads.clone() };
    let report = measure(&options(&path, vec![reads, writes])).unwrap();
    let said = |test: &TestReport| test.remarks.iter().any(|remark| remark.contains("nothing was verified"));
    assert!(said(&report.tests[0]) && !said(&report.tests[1]), "{report:?}");
}

/// What names the session that somebody opens to a port of this machine: its ISID, and who listens hangs up.
fn isid_of(open: impl FnOnce(Target)) -> [u8; 6] {
    use std::io::Read as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = std::thread::spawn(move || {
        let mut bhs = [0; 48];
        listener.accept().unwrap().0.read_exact(&mut bhs).unwrap();
        bhs
    });
    open(format!("iscsi://127.0.0.1:{port}/iqn.2026-11.internal.fels:peer/0").parse().unwrap());
    heard.join().unwrap()[8..14].try_into().unwrap()
}

#[test]
fn sessions_of_two_labs_are_two() {
    // A target ends the session that it has of the same name and number: one lab would end the other.
    let probed = || isid_of(|target| drop(probe(&target, &OpenOptions::default()).unwrap_err()));
    assert_ne!(probed(), probed());
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let head = crate::journal::Head { run: 1, block_size: 512, slot_size: 512, offset: 0, slots: 1 };
    std::fs::write(&journal, head.encode()).unwrap();
    let verified = || {
        isid_of(|target| {
            let options = VerifyOptions { target, journal: journal.clone(), open: OpenOptions::default() };
            drop(verify_journal(&options, &std::sync::Arc::default()).unwrap_err());
        })
    };
    assert_ne!(verified(), verified());
}
