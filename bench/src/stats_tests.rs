use super::*;
use crate::cpu::Spent;
use crate::output::Figures;
use crate::rows::ROWS;

fn sample(server: &str, round: u32, iops: f64) -> Sample {
    let figures = Figures { iops, mib_per_s: iops / 256.0, mean_us: 32e6 / iops, ..Figures::default() };
    let spent = Spent { wall_s: 2.0, server_s: 1.0, clients_s: 0.5, others_s: 0.1, stolen_s: 0.0 };
    Sample::new(&ROWS[0], server, round, &Window { figures, spent })
}

fn summaries(samples: &[Sample]) -> Vec<Summary> {
    let names = ["a", "b", "limit"].map(str::to_owned);
    summarize(samples, ROWS, &names, &names[2..])
}

fn ratio_of(samples: &[Sample]) -> Ratio {
    ratio(samples, ROWS[0].name, "a", "b").unwrap()
}

#[test]
fn the_median_is_the_middle() {
    let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
    assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 5.0 });
    assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median.to_bits(), 2.5_f64.to_bits());
    assert_eq!(Spread::of([]), None);
}

#[test]
fn cpu_time_is_for_the_requests_of_its_own_window() {
    // Half a core at 50,000 requests a second, however long the client measured.
    let sample = sample("a", 1, 50_000.0);
    assert!((sample.server_us - 10.0).abs() < 1e-9);
    assert!((sample.client_us - 5.0).abs() < 1e-9);
    assert!((sample.server_percent - 50.0).abs() < 1e-9);
    assert!((sample.others_percent - 5.0).abs() < 1e-9);
}

#[test]
fn the_ratio_is_the_middle_one_of_those_within_a_round() {
    let samples = [
        sample("a", 1, 200.0),
        sample("b", 1, 100.0),
        sample("a", 2, 100.0),
        sample("b", 2, 80.0),
        sample("a", 3, 100.0),
        sample("b", 3, 40.0),
    ];
    let ratio = ratio_of(&samples);
    // Of the medians it would be 100 / 80: two speeds of the machine.
    assert!((ratio.iops.median - 2.0).abs() < 1e-9);
    assert!((ratio.iops.min - 1.25).abs() < 1e-9);
    assert!((ratio.iops.max - 2.5).abs() < 1e-9);
    assert_eq!(ratio.verdict(), "ahead");
    assert!(ratio.cheaper());
}

#[test]
fn one_round_the_other_way_is_not_ahead() {
    let samples = [sample("a", 1, 200.0), sample("b", 1, 100.0), sample("a", 2, 90.0), sample("b", 2, 100.0)];
    assert_eq!(ratio_of(&samples).verdict(), "even");
    assert_eq!(ratio_of(&samples[2..]).verdict(), "behind");
}

#[test]
fn a_server_without_samples_has_no_ratio() {
    assert!(ratio(&[sample("a", 1, 1.0)], ROWS[0].name, "a", "b").is_none());
    assert_eq!(summaries(&[sample("a", 1, 1.0)]).len(), 1);
}

#[test]
fn the_limit_is_the_better_one_of_the_same_row() {
    let samples = [sample("a", 1, 80.0), sample("b", 1, 50.0), sample("limit", 1, 100.0)];
    let of_limit: Vec<Option<f64>> = summaries(&samples).iter().map(|summary| summary.of_limit).collect();
    assert_eq!(of_limit, [Some(0.8), Some(0.5), None]);
    let names = ["a", "b", "limit"].map(str::to_owned);
    let two = summarize(&samples, ROWS, &names, &names[1..]);
    assert_eq!(two[0].of_limit, Some(0.8));
    assert_eq!(two[1].of_limit, None);
}

#[test]
fn the_limit_is_that_of_the_same_round() {
    let samples = [
        sample("a", 1, 80.0),
        sample("limit", 1, 100.0),
        sample("a", 2, 45.0),
        sample("limit", 2, 50.0),
        sample("a", 3, 40.0),
        sample("limit", 3, 50.0),
    ];
    // Of the medians it would be 0.9.
    assert_eq!(summaries(&samples)[0].of_limit, Some(0.8));
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
fn identical_samples_are_flagged_across_servers() {
    let summaries = summaries(&[sample("a", 1, 100.0), sample("b", 1, 100.0), sample("b", 2, 101.0)]);
    assert_eq!(summaries[0].warnings, ["identical sample in round 1"]);
    assert_eq!(summaries[1].warnings, ["identical sample in round 1"]);
}

#[test]
fn a_busy_client_is_flagged() {
    let mut one = sample("a", 1, 100.0);
    one.client_percent = 98.0;
    let warnings = &summaries(&[one.clone()])[0].warnings;
    assert!(warnings.iter().any(|warning| warning == "client is the limit"), "{warnings:?}");
    // When both sides are used up, neither of them waits for the other alone.
    one.server_percent = 98.0;
    assert!(summaries(&[one])[0].warnings.iter().all(|warning| warning != "client is the limit"));
}

#[test]
fn a_ratio_that_the_client_caps_says_so() {
    let (mut ours, theirs) = (sample("a", 1, 200.0), sample("b", 1, 100.0));
    assert!(!ratio_of(&[ours.clone(), theirs.clone()]).client_limited);
    ours.client_percent = 98.0;
    let ratio = ratio_of(&[ours, theirs]);
    assert!(ratio.client_limited && ratio.cheaper());
}

#[test]
fn facts_are_summed_up_over_their_rounds() {
    let fact = |server, round, value| Fact::new(&ROWS[0], server, round, "time", "s", value);
    let summaries =
        summarize_facts(&[fact("a", 1, 3.0), fact("b", 1, 9.0), fact("a", 2, 1.0), fact("a", 3, 2.0)]);
    let seen: Vec<_> =
        summaries.iter().map(|one| (one.server.as_str(), one.value.median, one.value.max)).collect();
    assert_eq!(seen, [("a", 2.0, 3.0), ("b", 9.0, 9.0)]);
}
