use super::baseline::Baseline;
use super::rules::{BUILT_IN, built_in, source};
use super::source::{Memory, Reading, Source};
use super::*;
use crate::metric::{Histogram, Recent, Snapshot, View, table};
use proptest::prelude::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limit() -> Limit {
    Limit {
        side: Side::Above,
        warning: Some(92.0),
        critical: Some(98.0),
        hysteresis: 2.0,
        raise_after: secs(30),
        clear_after: secs(60),
    }
}

/// The levels after each of these values, ten seconds apart.
fn levels(limit: &Limit, values: &[f64]) -> Vec<Level> {
    let mut judge = Judge::default();
    let level = |(at, value): (usize, &f64)| judge.judge(limit, secs(at as u64 * 10), Some(*value));
    values.iter().enumerate().map(level).collect()
}

#[test]
fn a_bound_has_to_be_passed_for_a_while() {
    use Level::{Ok, Warning};
    assert_eq!(levels(&limit(), &[95.0, 95.0, 95.0, 95.0]), [Ok, Ok, Ok, Warning]);
    // A moment in between begins it anew.
    assert_eq!(levels(&limit(), &[95.0, 95.0, 91.0, 95.0, 95.0, 95.0, 95.0])[5..], [Ok, Warning]);
    let at_once = Limit { raise_after: Duration::ZERO, ..limit() };
    assert_eq!(levels(&at_once, &[92.0]), [Warning], "the bound itself is bad");
}

#[test]
fn a_value_that_swings_around_a_bound_changes_once() {
    let at_once = Limit { raise_after: Duration::ZERO, clear_after: Duration::ZERO, ..limit() };
    let values: Vec<f64> = (0..100).map(|turn| if turn % 2 == 0 { 92.1 } else { 91.9 }).collect();
    let all = levels(&at_once, &values);
    assert!(all.iter().all(|level| *level == Level::Warning), "{all:?}");
}

#[test]
fn worse_and_better_are_told_apart() {
    use Level::{Critical, Ok, Warning};
    let at_once = Limit { raise_after: Duration::ZERO, clear_after: Duration::ZERO, ..limit() };
    let values = [50.0, 99.0, 97.0, 95.9, 91.0, 89.0];
    assert_eq!(levels(&at_once, &values), [Ok, Critical, Critical, Warning, Warning, Ok]);
    let below = Limit { side: Side::Below, warning: Some(0.5), critical: None, hysteresis: 0.1, ..at_once };
    assert_eq!(levels(&below, &[0.9, 0.5, 0.55, 0.61]), [Ok, Warning, Warning, Ok]);
}

#[test]
fn without_a_figure_nobody_knows_after_a_while_and_what_was_is_not_forgotten() {
    let at_once = Limit { raise_after: Duration::ZERO, ..limit() };
    let mut judge = Judge::default();
    assert_eq!(judge.judge(&at_once, secs(0), None), Level::Unknown);
    assert_eq!(judge.judge(&at_once, secs(10), Some(95.0)), Level::Warning);
    assert_eq!(judge.judge(&at_once, secs(20), None), Level::Warning);
    assert_eq!(judge.judge(&at_once, secs(20) + UNKNOWN_AFTER, Some(f64::NAN)), Level::Unknown);
    assert_eq!(judge.judge(&at_once, secs(300), Some(91.0)), Level::Warning, "it is within the hysteresis");
    assert_eq!(Judge::resumed(Level::Critical).judge(&at_once, secs(0), Some(97.0)), Level::Critical);
    for level in Level::ALL {
        assert_eq!((Judge::resumed(level).level(), level.name().parse()), (level, Ok(level)));
    }
}

fn any_limit() -> impl Strategy<Value = Limit> {
    (any::<bool>(), 0.0..50.0, 0.0..20.0, 0.0..10.0, 0..5u64, 0..5u64).prop_map(
        |(above, bound, further, hysteresis, raise, clear)| {
            let side = if above { Side::Above } else { Side::Below };
            let critical = if above { bound + further } else { bound - further };
            Limit {
                side,
                warning: Some(bound),
                critical: Some(critical),
                hysteresis,
                raise_after: secs(raise * 10),
                clear_after: secs(clear * 10),
            }
        },
    )
}

proptest! {
    /// Nothing that happens between the bound and the end of the hysteresis changes anything.
    #[test]
    fn within_the_hysteresis_nothing_changes(
        limit in any_limit(),
        is_bad in any::<bool>(),
        parts in prop::collection::vec(0.01..0.99f64, 1..50),
    ) {
        let limit = Limit { critical: None, hysteresis: limit.hysteresis + 0.1, ..limit };
        let bound = limit.warning.unwrap();
        let mut judge = Judge::resumed(if is_bad { Level::Warning } else { Level::Ok });
        let before = judge.level();
        for (turn, part) in parts.iter().enumerate() {
            let inside = match limit.side {
                Side::Above => bound - part * limit.hysteresis,
                Side::Below => bound + part * limit.hysteresis,
            };
            prop_assert_eq!(judge.judge(&limit, secs(turn as u64 * 10), Some(inside)), before);
        }
    }

    /// Worse only after it was bad all the time for as long as it has to be, better only after it was well for as long.
    #[test]
    fn every_change_was_deserved(
        limit in any_limit(),
        values in prop::collection::vec(prop_oneof![(-30.0..90.0f64).prop_map(Some), Just(None)], 1..200),
    ) {
        let mut judge = Judge::resumed(Level::Ok);
        let mut was = judge.level();
        for (turn, value) in values.iter().enumerate() {
            let now = judge.judge(&limit, secs(turn as u64 * 10), *value);
            let needed = |needed: Duration| (needed.as_secs() / 10) as usize + 1;
            if now.is_bad() && was == Level::Ok {
                let last = &values[(turn + 1).checked_sub(needed(limit.raise_after)).unwrap()..=turn];
                let bound = limit.warning.unwrap();
                prop_assert!(last.iter().all(|value| value.is_some_and(|value| limit.passes(bound, value))));
            }
            if now == Level::Ok && was.is_bad() {
                let last = &values[(turn + 1).checked_sub(needed(limit.clear_after)).unwrap()..=turn];
                let bound = limit.warning.unwrap();
                prop_assert!(last.iter().all(|value| value.is_some_and(|value| limit.leaves(bound, value))));
            }
            was = now;
        }
    }

    /// What stays far on one side for long is told as that, whatever was before.
    #[test]
    fn what_lasts_is_told(limit in any_limit(), before in prop::sample::select(Level::ALL.to_vec())) {
        let mut judge = Judge::resumed(before);
        let far = |bad: bool| if bad == (limit.side == Side::Above) { 1e6 } else { -1e6 };
        for (at, bad, expected) in [(0, true, Level::Critical), (1000, false, Level::Ok)] {
            let mut level = judge.level();
            for turn in 0..10 {
                level = judge.judge(&limit, secs(at + turn * 10), Some(far(bad)));
            }
            prop_assert_eq!(level, expected);
        }
    }

    #[test]
    fn no_figure_makes_it_fail(values in prop::collection::vec(any::<f64>(), 1..50)) {
        let (mut judge, mut baseline) = (Judge::default(), Baseline::default());
        for (turn, value) in values.iter().enumerate() {
            judge.judge(&limit(), secs(turn as u64), Some(*value));
            if value.is_finite() {
                baseline.hold(value.abs().min(1e100));
                prop_assert!(baseline.mean.is_finite());
            }
        }
    }
}

#[test]
fn what_is_usual_is_learned_in_an_hour_and_a_bad_one_does_not_become_usual() {
    let mut baseline = Baseline::default();
    for _ in 0..360 {
        assert_eq!(baseline.hold(0.002), None);
    }
    let times = baseline.hold(0.02).unwrap();
    assert!((times - 10.0).abs() < 0.01, "{times}");
    for _ in 0..60 {
        baseline.hold(0.2);
    }
    let times = baseline.hold(0.2).unwrap();
    assert!(times > 20.0, "after ten bad minutes it is still {times} times what is usual");
}

/// A node with a pool of which so many slots are degraded, and so many more may fail.
fn snapshot(at: u64, state: u64, redundancy: u64, lost: u64) -> Snapshot {
    let mut snapshot = Snapshot::new(1_000_000 + at, secs(at));
    snapshot.push(&table::POOL_STATE, &["tank"], state);
    snapshot.push(&table::POOL_REDUNDANCY, &["tank"], redundancy);
    snapshot.push(&table::POOL_UNREPAIRABLE, &["tank"], lost);
    snapshot.push(&table::POOL_USAGE, &["tank"], 0.95);
    snapshot
}

fn read(name: &str, view: &View, memory: &mut Memory) -> Vec<Reading> {
    built_in(name).unwrap().rule().source.readings(view, &[], memory)
}

#[test]
fn a_degraded_pool_is_critical_when_it_can_lose_no_more() {
    let mut memory = Memory::default();
    let mut health = |state, redundancy| {
        let view = Recent::new().push(snapshot(0, state, redundancy, 0));
        read("pool-degraded", &view, &mut memory)[0].value
    };
    assert_eq!(health(0, 2), Some(0.0));
    assert_eq!(health(0, 0), Some(0.0), "raid0 is whole as long as all are there");
    assert_eq!(health(1, 1), Some(1.0));
    assert_eq!(health(1, 0), Some(2.0));
    assert_eq!(health(2, 0), Some(2.0));
}

#[test]
fn lost_blocks_are_those_since_the_last_look() {
    let (mut recent, mut memory) = (Recent::new(), Memory::default());
    let mut growth = |at, lost| {
        let view = recent.push(snapshot(at, 0, 2, lost));
        read("block-unrepairable", &view, &mut memory)[0].value
    };
    assert_eq!([growth(0, 1), growth(10, 1), growth(20, 3)], [Some(1.0), Some(0.0), Some(2.0)]);
    assert_eq!(growth(30, 1), Some(1.0), "the node was started again, and has lost one since");
}

#[test]
fn latency_is_held_against_its_own_past_and_what_is_quick_is_not_slow() {
    let (mut recent, mut memory) = (Recent::new(), Memory::default());
    let mut histogram = Histogram::default();
    let mut times = |at: u64, nanoseconds: u64| {
        (0..100).for_each(|_| histogram.record(nanoseconds));
        let mut snapshot = Snapshot::new(at, secs(at));
        snapshot.push(&table::VOLUME_LATENCY, &["demo", "read"], histogram.clone());
        let view = recent.push(snapshot);
        read("volume-latency", &view, &mut memory)[0].value
    };
    for turn in 0..400 {
        times(turn * 10, 1_000_000);
    }
    assert!(times(4000, 4_000_000).unwrap() <= 1.0, "4 ms is not slow");
    assert!(times(4010, 40_000_000).unwrap() > 30.0);
}

#[test]
fn own_limits_name_a_metric_and_a_part_of_histograms() {
    assert_eq!(source("fels_pool_usage_ratio"), Ok(Source::Figure(&table::POOL_USAGE, None)));
    assert!(source("fels_volume_latency_seconds:p99").is_ok());
    for wrong in [
        "",
        "fels_none",
        "fels_volume_latency_seconds",
        "fels_volume_latency_seconds:p42",
        "fels_pool_usage_ratio:mean",
    ] {
        assert!(source(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_limit_says_what_is_the_matter_and_what_to_do() {
    for rule in BUILT_IN.iter().map(rules::BuiltIn::rule) {
        let labels: Vec<_> =
            rule.source.family().labels.iter().map(|label| (*label, format!("{label}-1"))).collect();
        for level in Level::ALL {
            let (sentence, hint) = words::say(&rule, &labels, level, Some(1.0));
            assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{sentence}");
            assert!(!level.is_bad() || !hint.is_empty(), "{}: {sentence}", rule.name);
            assert!(level == Level::Unknown || !sentence.contains(&rule.name), "{sentence}");
        }
    }
}

/// A latency of 0.4 ms above a bound of half a millisecond was told as `0.000 s, above 0.001 s`.
#[test]
fn a_small_figure_is_not_told_as_nothing() {
    let seconds = |value| words::figure(&table::VOLUME_LATENCY, value);
    for (value, told) in [
        (0.0, "0 s"),
        (0.0004, "0.000400 s"),
        (0.0005, "0.000500 s"),
        (-0.0125, "-0.0125 s"),
        (0.25, "0.250 s"),
        (20.0, "20.000 s"),
        (1234.5, "1234 s"),
        (1e-30, "0.000000000000 s"),
        (f64::NAN, "NaN s"),
    ] {
        assert_eq!(seconds(value), told);
    }
    let ratio = |value| words::figure(&table::POOL_USAGE, value);
    assert_eq!(
        [0.0, 0.000_25, 0.005, 0.05, 0.925].map(ratio),
        ["0.0 %", "0.025 %", "0.50 %", "5.0 %", "92.5 %"]
    );
}
