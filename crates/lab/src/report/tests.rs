//! Tables and remarks from figures that are known.

use std::time::Duration;

use super::*;
use crate::initiator::Geometry;
use crate::load::{Ended, Rate};

fn second(operations: u64, latency_us: u64) -> Second {
    let mut second = Second { span: Duration::from_secs(1), ..Second::default() };
    for number in 0..operations {
        let tally = if number % 2 == 0 { &mut second.tallies.reads } else { &mut second.tallies.writes };
        tally.add(8192, latency_us * 1000 + number);
    }
    second
}

fn report(seconds: Vec<Second>, load: &Load) -> TestReport {
    let geometry = Geometry {
        block_size: 512,
        physical_block_size: 4096,
        size: 1 << 30,
        maximum_transfer: 1 << 20,
        discard: false,
    };
    let measured =
        Measured { geometry, threads: 1, seconds, ended: Ended::default(), cpu: None, page_lists: None };
    test_report("Random-8k-70%Read", load, measured, None)
}

#[test]
fn figures_are_means_over_the_measured_time() {
    let report = report((0..6).map(|_| second(1280, 500)).collect(), &Load::default());
    assert!((report.total.iops - 1280.0).abs() < 0.01 && (report.total.mib_per_s - 10.0).abs() < 0.01);
    assert_eq!(report.reads.operations, 6 * 640);
    assert!((report.total.latency_us.p99 - 501.0).abs() < 1.0, "{}", report.total.latency_us.p99);
}

#[test]
fn drift_and_drops_are_named() {
    let mut seconds: Vec<_> = (0..10).map(|index| second(if index < 5 { 1000 } else { 800 }, 100)).collect();
    seconds[7] = second(10, 100);
    let remarks = report(seconds, &Load::default()).remarks;
    assert!(remarks.iter().any(|remark| remark.contains("no steady state")), "{remarks:?}");
    assert!(remarks.iter().any(|remark| remark.contains("second 8 (10 IO/s)")), "{remarks:?}");
}

#[test]
fn identical_samples_are_flagged() {
    let same = report((0..5).map(|_| second(1000, 100)).collect(), &Load::default());
    assert!(
        same.remarks.iter().any(|remark| remark.starts_with("4 seconds are identical")),
        "{:?}",
        same.remarks
    );
    let differ = report((0..5).map(|index| second(1000 + index, 100)).collect(), &Load::default());
    assert_eq!(differ.remarks, Vec::<String>::new());
    let mut tests = [same.clone(), same];
    flag_identical_tests(&mut tests);
    assert!(tests[1].remarks.last().unwrap().starts_with("identical to Random-8k"));
}

#[test]
fn a_dropped_backlog_is_told() {
    let rate = Some(Rate { per_second: 10.0, arrivals: crate::load::Arrivals::Constant });
    let mut test = report(vec![second(10, 100)], &Load { rate, ..Load::default() });
    test.dropped = 5;
    assert!(remarks(&test).iter().any(|remark| remark.contains("5 operations were due and dropped")));
}

#[test]
fn memory_that_is_kept_for_a_core_is_told() {
    let mut test = report(vec![second(10, 100)], &Load::default());
    for (bytes, told) in [(None, false), (Some(256 << 20), false), (Some(570 << 20), true)] {
        test.core_list_bytes = bytes;
        let remarks = remarks(&test);
        let is_told = remarks.iter().any(|remark| remark.contains("up to 570 MiB of free memory"));
        assert_eq!(is_told, told, "{remarks:?}");
    }
}

fn vmware(test: TestReport) -> Report {
    Report {
        schema: SCHEMA,
        version: "0".to_owned(),
        ended_unix_s: 0,
        host: Host { name: "host".to_owned(), kernel: "6.1".to_owned(), cpus: 2 },
        target: "null:".to_owned(),
        measured_by: None,
        profile: Some("vmware".to_owned()),
        interrupted: true,
        tests: vec![test],
    }
}

#[test]
fn a_test_that_was_stopped_before_its_first_second_took_no_time_not_minus_none() {
    let text = table(&vmware(report(Vec::new(), &Load::default())));
    assert!(text.contains("1 threads, 0.0 s") && text.contains("nothing was completed"), "{text}");
}

#[test]
fn the_picture_has_every_second_of_every_test() {
    let mut seconds: Vec<_> = (0..5).map(|index| second(1000 + index * 250, 100)).collect();
    // It was cut short.
    seconds.push(Second { span: Duration::from_millis(100), ..second(1, 100) });
    let svg = picture(&vmware(report(seconds, &Load::default())));
    for part in [
        ">Profile vmware<",
        ">null: on host \u{b7} 0:00 to 0:06<",
        "Random-8k-70%Read: last 2 k IO/s",
        "class=\"u\"",
    ] {
        assert!(svg.contains(part), "it lacks {part}: {svg}");
    }
}

#[test]
fn the_table_has_the_columns_of_the_profile() {
    let test = report((0..5).map(|index| second(1000 + index, 100)).collect(), &Load::default());
    let report = vmware(test);
    let text = table(&report);
    assert!(text.contains("Latency ms |      IO/s |  MB/s (MiB/s)"), "{text}");
    assert!(text.contains("Random-8k-70%Read          |      0.101 |    1002.0 |          7.83 |"), "{text}");
    assert!(text.contains("interrupted"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["tests"][0]["seconds"].as_array().unwrap().len(), 5);
    assert_eq!(json["tests"][0]["load"]["time_s"], 10.0);
}
