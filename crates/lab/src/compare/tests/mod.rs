//! Tables from figures that are known, and comparisons of what needs no network.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::load::{Load, Rate};

/// Cases of `tables.txt`: a name, and the table.
const TABLES: &str = include_str!("tables.txt");
const TEST: &str = "Random-8k-70%Read";

fn load() -> Load {
    Load { read_percent: 70, block_size: 8192, ..Load::default() }
}

fn measured(round: usize, target: &str, reads: u64, writes: u64) -> Measured {
    Measured {
        round,
        test: TEST.to_owned(),
        target: target.to_owned(),
        reads: reads * 10,
        writes: writes * 10,
        read_iops: reads as f64,
        write_iops: writes as f64,
        lab_us_per_io: Some(1.5 + round as f64 / 10.0),
    }
}

/// A report of what was measured, with nothing that depends on the day or the machine.
fn report(names: &[&str], load: &Load, measured: &[Measured], ceilings: &[Measured]) -> CompareReport {
    let tests = [(TEST, load)];
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let rows = rows::rows(&tests, &names, measured, ceilings);
    let remarks = rows::remarks(&tests, &names, measured, &rows);
    let column = |name: &String| Column { name: name.clone(), target: format!("file:/srv/{name}") };
    CompareReport {
        schema: SCHEMA,
        version: "0".to_owned(),
        ended_unix_s: 0,
        host: Host { name: "host".to_owned(), kernel: "6.1".to_owned(), cpus: 2 },
        profile: Some("vmware".to_owned()),
        rounds: 3,
        targets: names.iter().map(column).collect(),
        interrupted: false,
        lost: Vec::new(),
        rows,
        effects: Vec::new(),
        remarks,
        samples: Vec::new(),
        ceilings: Vec::new(),
    }
}

fn steady() -> Vec<Measured> {
    vec![
        measured(1, "iscsi", 70_000, 30_000),
        measured(1, "nvme", 91_234, 39_100),
        measured(2, "nvme", 90_000, 38_571),
        measured(2, "iscsi", 69_000, 29_571),
        measured(3, "iscsi", 70_500, 30_214),
        measured(3, "nvme", 93_000, 39_857),
    ]
}

fn cases() -> Vec<(&'static str, CompareReport)> {
    let names = ["iscsi", "nvme"];
    let ceilings = [measured(1, "null:", 1_050_000, 450_000), measured(2, "null:", 1_000_000, 430_000)];
    let all = steady();
    let mut lost = report(&["iscsi", "nvme", "a third one"], &load(), &all[..3], &[]);
    lost.lost.push(Lost {
        target: "iscsi".to_owned(),
        round: 2,
        test: TEST.to_owned(),
        reason: "iscsi://127.0.0.1/x/0: connection refused".to_owned(),
    });
    lost.profile = None;
    let mut interrupted = report(&names, &load(), &all[..1], &[]);
    interrupted.interrupted = true;
    let doubtful = [
        measured(1, "iscsi", 70_000, 30_000),
        measured(2, "iscsi", 65_000, 27_857),
        measured(3, "iscsi", 60_000, 25_714),
        measured(1, "nvme", 65_000, 28_000),
        measured(2, "nvme", 64_000, 27_000),
        measured(3, "nvme", 65_000, 28_000),
    ];
    let near = [measured(1, "null:", 100_000, 430_000)];
    vec![
        ("two targets on a quiet machine", report(&names, &load(), &all, &ceilings)),
        ("a target went away, and one was never there", lost),
        ("interrupted in the first round", interrupted),
        (
            "drift, identical rounds and cells, and a lab that is the limit",
            report(&names, &load(), &doubtful, &near),
        ),
    ]
}

#[test]
fn every_table_has_its_form() {
    let expected: Vec<_> = TABLES.split("## ").filter(|case| !case.is_empty()).collect();
    let mut said = String::new();
    for (name, report) in cases() {
        write!(said, "## {name}\n{}\n", table(&report)).unwrap();
    }
    let found: Vec<_> = said.split("## ").filter(|case| !case.is_empty()).collect();
    assert!(found == expected, "these tables look different now:\n{said}");
}

#[test]
fn a_paced_load_may_have_equal_counts() {
    let rate = Some(Rate { per_second: 100_000.0, arrivals: crate::load::Arrivals::Constant });
    let same = [
        measured(1, "a", 70_000, 30_000),
        measured(2, "a", 70_000, 30_000),
        measured(1, "b", 70_000, 30_000),
    ];
    assert_eq!(report(&["a", "b"], &Load { rate, ..load() }, &same, &[]).remarks, Vec::<String>::new());
    let remarks = report(&["a", "b"], &load(), &same, &[]).remarks;
    assert_eq!(remarks.len(), 3, "two rounds, and the cells of reads and of writes: {remarks:?}");
}

#[test]
fn reads_alone_have_no_row_of_writes() {
    let reads = report(&["a", "b"], &Load { read_percent: 100, ..load() }, &steady(), &[]);
    assert_eq!(reads.rows.iter().map(|row| row.direction).collect::<Vec<_>>(), [Direction::Read]);
}

fn options(targets: Vec<NamedTarget>, rounds: usize) -> CompareOptions {
    let time = Duration::from_millis(300);
    let load = Load { time, warm_up: Duration::ZERO, depth: 4, size: Some(1 << 20), ..load() };
    CompareOptions {
        targets,
        profile: None,
        tests: vec![Test { name: TEST.to_owned(), load }],
        rounds,
        open: OpenOptions::default(),
        threads: Some(1),
        ceiling: true,
    }
}

fn named(name: &str, target: Target) -> NamedTarget {
    NamedTarget { name: name.to_owned(), target }
}

fn file(folder: &std::path::Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    path
}

#[test]
fn rounds_are_measured_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    let targets = ["one", "two"].map(|name| named(name, Target::File(file(folder.path(), name)))).to_vec();
    let mut seen = Vec::new();
    let report = compare(
        &options(targets, 2),
        |progress| seen.push((progress.number, progress.test.to_owned())),
        &AtomicBool::new(false),
    )
    .unwrap();
    let turns: Vec<_> = report.samples.iter().map(|sample| (sample.round, sample.target.as_str())).collect();
    assert_eq!(turns, [(1, "one"), (1, "two"), (2, "two"), (2, "one")]);
    assert!(!report.failed() && !report.interrupted && report.ceilings.len() == 2, "{report:?}");
    assert!(
        report.rows.iter().flat_map(|row| &row.cells).all(|cell| cell.rounds == 2 && cell.factor.is_some())
    );
    assert_eq!(seen.last().unwrap(), &((4, 4), format!("round 2 of 2, one, {TEST}")));
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["samples"].as_array().unwrap().len(), 4);
    assert_eq!(json["rows"][0]["cells"][0]["factor"]["median"], 1.0);
    assert!(json["samples"][0]["report"]["reads"]["latency_us"]["p99"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_target_that_goes_away_is_named_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two", "three"].map(|name| file(folder.path(), name));
    let targets = ["one", "two", "three"].iter().zip(&paths);
    let targets = targets.map(|(name, path)| named(name, Target::File(path.clone()))).collect();
    let mut gone = false;
    let report = compare(
        &options(targets, 3),
        |progress| {
            if progress.test.starts_with("round 2") && !std::mem::replace(&mut gone, true) {
                std::fs::remove_file(&paths[0]).unwrap();
            }
        },
        &AtomicBool::new(false),
    )
    .unwrap();
    assert_eq!(report.lost.len(), 1, "{:?}", report.lost);
    assert_eq!((report.lost[0].target.as_str(), report.lost[0].round), ("one", 2));
    let rounds: Vec<_> = report.rows[0].cells.iter().map(|cell| cell.rounds).collect();
    assert_eq!(rounds, [1, 3, 3]);
    assert!(report.failed() && table(&report).contains("LOST one in round 2"), "{}", table(&report));
}

#[test]
fn a_measurement_with_errors_is_no_sample() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two", "three"].map(|name| file(folder.path(), name));
    let targets = ["one", "two", "three"].iter().zip(&paths);
    let targets = targets.map(|(name, path)| named(name, Target::File(path.clone()))).collect();
    let mut options = options(targets, 1);
    options.tests[0].load.time = Duration::from_secs(3);
    let report = compare(
        &options,
        |progress| {
            if progress.number.0 == 1 {
                // After its first second there is nothing left to read.
                std::fs::File::options().write(true).open(&paths[0]).unwrap().set_len(0).unwrap();
            }
        },
        &AtomicBool::new(false),
    )
    .unwrap();
    assert!(report.lost[0].reason.contains("operations failed: "), "{:?}", report.lost);
    let cells = &report.rows[0].cells;
    assert_eq!(cells.iter().map(|cell| cell.rounds).collect::<Vec<_>>(), [0, 1, 1]);
    assert!(cells.iter().all(|cell| cell.factor.is_none()), "without a base there are no factors");
    assert!(report.samples[0].report.total.operations > 0, "but its figures are kept");
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let targets = ["one", "two"].map(|name| named(name, Target::File(file(folder.path(), name)))).to_vec();
    let stop = AtomicBool::new(false);
    let report = compare(
        &options(targets, 50),
        |progress| stop.store(progress.test.starts_with("round 2"), Ordering::Relaxed),
        &stop,
    )
    .unwrap();
    assert!(report.interrupted && !report.failed(), "{report:?}");
    assert!(report.samples.iter().all(|sample| sample.round == 1), "the one at hand is left out");
    assert_eq!(report.samples.len(), 2);
    assert!(table(&report).contains("interrupted: "), "{}", table(&report));
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "one");
    let one = || named("one", Target::File(path.clone()));
    let absent = named("two", Target::File(folder.path().join("none")));
    let small = {
        let path = folder.path().join("small");
        std::fs::write(&path, vec![0; 4096]).unwrap();
        named("small", Target::File(path))
    };
    for (targets, rounds, part) in [
        (vec![one()], 3, "one target only"),
        (vec![one(), one()], 3, "two targets are called one"),
        (vec![one(), named("null", Target::Null)], 0, "no rounds"),
        (vec![one(); 17], 1, "17 targets"),
        (vec![one(), small], 1, "small: "),
        (vec![one(), absent], 1, "none"),
    ] {
        let error = compare(&options(targets, rounds), |_| (), &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains(part) && error.to_string().contains("hint: "), "{error}");
    }
}

#[test]
fn a_table_of_nothing_has_dashes() {
    let empty = report(&["a", "b"], &load(), &[], &[]);
    assert!(empty.rows.iter().all(|row| row.cells.iter().all(|cell| cell.factor.is_none())));
    assert!(table(&empty).contains(" - "), "{}", table(&empty));
}
