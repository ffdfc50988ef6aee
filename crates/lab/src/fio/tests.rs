//! The real fio, on nothing and on files: its JSON is that of the version that is installed.

use std::path::{Path, PathBuf};

use super::*;
use crate::report::TestReport;

const MIXED: &str = "\
[global]
bs=8k
size=8m
iodepth=16
rw=randrw
rwmixread=70
norandommap
time_based
[database]
rate_iops=1400,600
runtime=3
numjobs=2
[other]
stonewall
runtime=1
rate_iops=100,100
";

const VERIFIED: &str = "\
[global]
bs=8k
size=1m
iodepth=4
verify=crc32c
verify_state_save=0
[stored]
rw=RW
";

fn options(folder: &Path, job: &str, target: Target) -> FioOptions {
    let job_file = folder.join("job.fio");
    std::fs::write(&job_file, job).unwrap();
    FioOptions { job_file, target, program: PathBuf::from("fio") }
}

fn run_on(folder: &Path, job: &str, target: Target) -> Result<Report, LabError> {
    fio(&options(folder, job, target), |_| (), &AtomicBool::new(false))
}

fn volume(folder: &Path) -> PathBuf {
    let path = folder.join("volume");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    path
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 0.15
}

#[test]
fn the_figures_of_a_paced_job_are_those_it_was_paced_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    let options = options(folder.path(), MIXED, Target::Null);
    let report = fio(&options, |_| seen += 1, &AtomicBool::new(false)).unwrap();
    assert!(report.measured_by.as_deref().is_some_and(|by| by.starts_with("fio-3")), "{report:?}");
    let [database, other] = report.tests.as_slice() else { panic!("{report:?}") };
    assert_eq!((database.name.as_str(), other.name.as_str()), ("database", "other"));
    // Two clones at 1400 reads and 600 writes a second each, for three seconds.
    assert!(near(database.reads.iops, 2800.0) && near(database.writes.iops, 1200.0), "{database:?}");
    assert!(near(database.total.iops, 4000.0) && near(database.measured_s, 3.0), "{database:?}");
    assert!(near(database.total.mib_per_s, 31.25) && near(other.reads.iops, 100.0), "{database:?}");
    assert!(seen >= 3 && database.seconds.len() >= 2, "{seen} {:?}", database.seconds);
    let counted: u64 = database.seconds.iter().map(|second| second.reads + second.writes).sum();
    assert_eq!(counted, database.total.operations, "the seconds are the whole");
    let latency = &database.total.latency_us;
    assert!(latency.min <= latency.p50 && latency.p50 <= latency.p99 && latency.mean > 0.0, "{latency:?}");
    let load = &database.load;
    assert_eq!((load.block_size, load.read_percent, load.random_percent), (8192, 70, 100));
    assert_eq!((load.depth, load.jobs, load.size, load.verify), (16, 2, Some(8 << 20), false));
    let text = report::table(&report);
    assert!(text.contains("measured by fio-3") && text.contains("\ndatabase "), "{text}");
    assert!(report.to_json().contains("\"schema\": 1"));
}

/// What fio prints a second after the start of a job that has read and written a thousand times each.
fn first_second_of_a_mixture(rw: &str) -> output::Snapshot {
    let io =
        r#"{"total_ios":1000,"io_bytes":4096000,"runtime":1000,"lat_ns":{"mean":5.0,"bins":{"5":1000}}}"#;
    let job =
        format!(r#"{{"jobname":"a","job options":{{"rw":"{rw}","bs":"4k"}},"read":{io},"write":{io}}}"#);
    let text = format!(r#"{{"fio version":"fio-3.33","timestamp_ms":9000,"jobs":[{job}]}}"#);
    serde_json::from_str(&text).unwrap()
}

fn of_first_second(rw: &str) -> TestReport {
    let mut figures = Figures::default();
    figures.take(first_second_of_a_mixture(rw));
    let geometry =
        Geometry { block_size: 512, physical_block_size: 512, size: 1, maximum_transfer: 1, discard: false };
    figures.tests(&geometry).remove(0)
}

#[test]
fn a_mixture_by_its_long_name_took_as_long_as_by_its_short_one() {
    for rw in ["rw", "readwrite", "randrw", "readwrite:8"] {
        let test = of_first_second(rw);
        assert!(near(test.measured_s, 1.0) && near(test.total.iops, 2000.0), "{rw}: {test:?}");
        assert_eq!(test.load.read_percent, 50, "{rw}");
    }
}

#[test]
fn the_first_second_of_a_mixture_is_no_two_seconds() {
    for rw in ["rw", "randrw"] {
        let seconds = of_first_second(rw).seconds;
        assert!(near(seconds[0].span_s, 1.0) && near(seconds[0].iops, 2000.0), "{rw}: {seconds:?}");
    }
}

#[test]
fn a_job_that_would_count_reads_and_writes_as_one_has_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let job = "[a]\nrw=randrw\nbs=4k\nsize=1m\ntime_based\nruntime=1\nrate_iops=1000,1000\nunified_rw_reporting=1\n";
    let report = run_on(folder.path(), job, Target::Null).unwrap();
    let test = &report.tests[0];
    assert!(near(test.reads.iops, 1000.0) && near(test.writes.iops, 1000.0), "{test:?}");
}

#[test]
fn what_ran_before_the_job_was_measured_is_in_no_figure() {
    let folder = tempfile::tempdir().unwrap();
    let job = "[a]\nrw=read\nbs=4k\nsize=1m\ntime_based\nramp_time=3\nruntime=2\nrate_iops=1000\n";
    let report = run_on(folder.path(), job, Target::Null).unwrap();
    let test = &report.tests[0];
    assert!(near(test.total.iops, 1000.0) && near(test.measured_s, 2.0), "{test:?}");
    let counted: u64 = test.seconds.iter().map(|second| second.reads).sum();
    assert_eq!(counted, test.total.operations, "{:?}", test.seconds);
    let span: f64 = test.seconds.iter().map(|second| second.span_s).sum();
    assert!(near(span, 2.0), "{:?}", test.seconds);
}

fn stored(rw: &str, spoil: impl FnOnce(&Path)) -> TestReport {
    let folder = tempfile::tempdir().unwrap();
    let path = volume(folder.path());
    let written =
        run_on(folder.path(), &VERIFIED.replace("RW", "randwrite"), Target::File(path.clone())).unwrap();
    assert!(!written.failed(), "{written:?}");
    assert_eq!(written.tests[0].reads.operations, 128, "all that was written is read again");
    spoil(&path);
    let job = VERIFIED.replace("RW", rw);
    run_on(folder.path(), &job, Target::File(path)).unwrap().tests.remove(0)
}

/// Other bytes in the middle of the 10th and of the 20th operation.
fn spoil(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    for place in [9, 19] {
        bytes[place * 8192 + 5000] ^= 0x40;
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn what_fio_verifies_is_reported() {
    let right = stored("read", |_| ());
    assert_eq!((right.findings.count, right.errors), (0, 0));
    assert_eq!(right.verified_by.as_deref(), Some("fio (crc32c)"));
    let wrong = stored("read", spoil);
    assert!(wrong.findings.count >= 1 && wrong.wrong_texts[0].contains("verify failed at"), "{wrong:?}");
    assert_eq!(wrong.errors, 0, "wrong data is no failed operation: {:?}", wrong.error_texts);
}

#[test]
fn wrong_data_that_fio_itself_ends_well_with_is_wrong() {
    // With this fio goes on, and its exit code is 0.
    let wrong = stored("read\ncontinue_on_error=verify", spoil);
    assert_eq!(wrong.findings.count, 2, "{wrong:?}");
    assert_eq!(wrong.wrong_texts.len(), 2, "{wrong:?}");
}

#[test]
fn what_fio_complains_about_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let error =
        run_on(folder.path(), "[a]\nrw=read\nnonsense=1\nsize=1m\n", Target::Null).unwrap_err().to_string();
    assert!(error.contains("Bad option <nonsense=1>") && error.contains("exit status: 1"), "{error}");
    let missing = Target::File(folder.path().join("none"));
    let error = run_on(folder.path(), "[a]\nrw=read\n", missing).unwrap_err();
    assert!(matches!(error, LabError::Open { .. }), "{error}");
}

#[test]
fn a_missing_fio_is_told_with_its_package() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        FioOptions { program: "/nowhere/fio".into(), ..options(folder.path(), MIXED, Target::Null) };
    let error = fio(&options, |_| (), &AtomicBool::new(false)).unwrap_err().to_string();
    assert_eq!(error, "there is no program /nowhere/fio; hint: install it: apt install fio");
}

#[test]
fn fio_ends_when_it_is_asked_to_and_what_it_measured_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let job = "[a]\nrw=read\nbs=4k\nsize=1m\ntime_based\nruntime=60\nrate_iops=1000\n";
    let (options, stop) = (options(folder.path(), job, Target::Null), AtomicBool::new(false));
    let start = std::time::Instant::now();
    let report = fio(&options, |_| stop.store(true, Ordering::Relaxed), &stop).unwrap();
    // One that does not hear it is killed, after ten seconds more.
    assert!(start.elapsed().as_secs() < 9, "{:?}", start.elapsed());
    assert!(report.interrupted && !report.failed(), "{report:?}");
    assert!(near(report.tests[0].reads.iops, 1000.0), "{:?}", report.tests[0]);
}

#[test]
fn what_fio_cannot_reach_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    for (address, protocol) in [
        ("iscsi://127.0.0.1/iqn.2026-11.internal.fels:demo/0", "iSCSI"),
        ("nvme://127.0.0.1/nqn.2026-11.internal.fels:demo/1", "NVMe/TCP"),
    ] {
        let error = run_on(folder.path(), MIXED, address.parse().unwrap()).unwrap_err().to_string();
        let (sentence, hint) = error.split_once("; hint: ").unwrap();
        assert_eq!(sentence, format!("fio has no initiator for {protocol}"));
        assert!(hint.contains("nbd://host:port/export") && hint.contains("file:/dev/"), "{hint}");
    }
}

#[test]
fn addresses_are_written_as_libnbd_reads_them() {
    let shown = |address: &str| match place(&address.parse().unwrap()).unwrap() {
        Place::Nbd { uri } => uri,
        other => panic!("{other:?}"),
    };
    assert_eq!(shown("nbd://[::1]:17000/demo"), "nbd://[::1]:17000/demo");
    assert_eq!(shown("nbd://localhost/a b%c"), "nbd://localhost:10809/a%20b%25c");
    let unix = "nbd+unix:///demo?socket=/run/my sock&1";
    assert_eq!(shown(unix), "nbd+unix:///demo?socket=/run/my%20sock%261");
}
