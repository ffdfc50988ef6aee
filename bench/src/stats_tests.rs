use super::*;
use crate::rows::ROWS;

fn sample(target: &str, round: u32, iops: f64) -> Sample {
    let window = Window { requests: iops * 2.0, seconds: 2.0, iops };
    let cpu = CpuTimes { server: 1.0, clients: 0.5, busy: 1.6, stolen: 0.0 };
    Sample::new(&ROWS[0], target, round, window, cpu, 2.0)
}

fn summaries(samples: &[Sample]) -> Vec<Summary> {
    summarize(samples, ROWS, &["a".to_owned(), "b".to_owned()])
}

#[test]
fn the_median_is_the_middle() {
    let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
    assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 5.0 });
    assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median.to_bits(), 2.5_f64.to_bits());
    assert_eq!(Spread::of([]), None);
}

#[test]
fn figures_follow_from_the_window() {
    let sample = sample("a", 1, 50_000.0);
    assert!((sample.latency_us - 640.0).abs() < 1e-9);
    assert!((sample.mib_per_s - 195.3125).abs() < 1e-9);
    assert!((sample.server_cpu_per_million() - 10.0).abs() < 1e-9);
    assert!((sample.others_cpu_s - 0.1).abs() < 1e-9);
}

#[test]
fn the_ratio_is_that_of_the_medians_with_the_spread_of_the_rounds() {
    let samples = [
        sample("a", 1, 200.0),
        sample("b", 1, 100.0),
        sample("a", 2, 300.0),
        sample("b", 2, 50.0),
        sample("a", 3, 250.0),
        sample("b", 3, 80.0),
    ];
    let ratios = ratios(&samples, ROWS, "a", "b");
    assert_eq!(ratios.len(), 1);
    let ratio = &ratios[0];
    assert!((ratio.iops.median - 250.0 / 80.0).abs() < 1e-9);
    assert!((ratio.iops.min - 2.0).abs() < 1e-9);
    assert!((ratio.iops.max - 6.0).abs() < 1e-9);
    assert_eq!(ratio.verdict(), "ahead");
}

#[test]
fn one_round_the_other_way_is_not_ahead() {
    let samples = [sample("a", 1, 200.0), sample("b", 1, 100.0), sample("a", 2, 90.0), sample("b", 2, 100.0)];
    assert_eq!(ratios(&samples, ROWS, "a", "b")[0].verdict(), "even");
    assert_eq!(ratios(&samples[2..], ROWS, "a", "b")[0].verdict(), "behind");
}

#[test]
fn a_target_without_samples_has_no_ratio() {
    assert!(ratios(&[sample("a", 1, 1.0)], ROWS, "a", "b").is_empty());
    assert_eq!(summaries(&[sample("a", 1, 1.0)]).len(), 1);
}

#[test]
fn drift_is_flagged_either_way() {
    let calm = [sample("a", 1, 100.0), sample("a", 2, 114.0)];
    assert!(summaries(&calm)[0].warnings.is_empty(), "{:?}", summaries(&calm)[0].warnings);
    for last in [84.0, 116.0] {
        let warnings = &summaries(&[sample("a", 1, 100.0), sample("a", 2, last)])[0].warnings;
        assert!(warnings.iter().any(|warning| warning.contains("drift")), "{warnings:?}");
    }
}

#[test]
fn identical_samples_are_flagged_across_targets() {
    let summaries = summaries(&[sample("a", 1, 100.0), sample("b", 1, 100.0), sample("b", 2, 101.0)]);
    assert_eq!(summaries[0].warnings, ["identical sample in round 1"]);
    assert_eq!(summaries[1].warnings, ["identical sample in round 1"]);
}

#[test]
fn a_busy_client_and_a_busy_machine_are_flagged() {
    let mut one = sample("a", 1, 100.0);
    one.client_cpu_s = 1.95;
    one.others_cpu_s = 0.4;
    let warnings = &summaries(&[one])[0].warnings;
    assert!(warnings.iter().any(|warning| warning == "client is the limit"));
    assert!(warnings.iter().any(|warning| warning.contains("20 % of a core")), "{warnings:?}");
}

#[test]
fn a_ratio_that_the_client_caps_says_so() {
    let (mut ours, theirs) = (sample("a", 1, 200.0), sample("b", 1, 100.0));
    assert!(!ratios(&[ours.clone(), theirs.clone()], ROWS, "a", "b")[0].client_limited);
    ours.client_cpu_s = 1.96;
    let ratio = &ratios(&[ours, theirs], ROWS, "a", "b")[0];
    assert!(ratio.client_limited && ratio.cheaper());
}
