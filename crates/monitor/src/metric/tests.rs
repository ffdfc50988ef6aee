use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[test]
fn names_are_unique_and_say_unit_and_kind() {
    let mut names = HashSet::new();
    for family in table::ALL {
        let name = family.name;
        assert!(names.insert(name), "{name} is defined twice");
        assert!(is_name(name) && name.starts_with("fels_"), "{name}");
        assert_eq!(family.kind == Kind::Counter, name.ends_with("_total"), "{name}");
        let stem = name.trim_end_matches("_total");
        let suffix = match family.unit {
            Unit::Seconds => "_seconds",
            Unit::Bytes => "_bytes",
            Unit::Ratio => "_ratio",
            Unit::Celsius => "_celsius",
            Unit::Count | Unit::State => "",
        };
        assert!(stem.ends_with(suffix), "{name} does not say its unit");
        assert!(family.help.ends_with('.') && !family.title.is_empty(), "{name}");
        assert!(family.labels.iter().all(|label| is_name(label) && *label != "le"), "{name}");
        assert_eq!(family.labels.iter().collect::<HashSet<_>>().len(), family.labels.len(), "{name}");
        assert_eq!(find(name).unwrap().help, family.help);
    }
}

#[test]
fn graphs_of_munin_are_defined_once() {
    let mut graphs = HashSet::new();
    for family in table::ALL {
        let Some(munin) = family.munin else { continue };
        assert!(graphs.insert(munin.graph), "{} is drawn twice", munin.graph);
        assert!(is_name(munin.plugin) && is_name(munin.graph), "{}", family.name);
        assert!(munin.graph.starts_with(munin.plugin), "{}", munin.graph);
        let has_verbs = family.position("verb").is_some();
        assert_eq!(has_verbs, !munin.fields.is_empty(), "{} shows verbs", family.name);
    }
}

#[test]
fn series_are_called_as_prometheus_calls_them() {
    let mut snapshot = Snapshot::default();
    snapshot.push(&table::VOLUME_OPERATIONS, &["a\"b\\c\nd", "read"], 1u64);
    snapshot.push(&table::UPTIME, &[], 1.0);
    let samples = snapshot.samples();
    let name = r#"fels_volume_operations_total{volume="a\"b\\c\nd",verb="read"}"#;
    assert_eq!(samples[0].series(None), name);
    assert_eq!(samples[1].series(None), "fels_uptime_seconds");
    assert_eq!(samples[1].series(Some("p99")), "fels_uptime_seconds:p99");
    assert_eq!(samples[0].label("verb"), Some("read"));
    assert_eq!(samples[0].label("pool"), None);
}

#[test]
#[should_panic(expected = "has the labels")]
fn a_sample_has_the_labels_of_its_family() {
    Snapshot::default().push(&table::POOL_USED, &[], 1u64);
}

#[test]
fn buckets_follow_one_another_without_gaps() {
    let mut begin = 0;
    for index in 0..BUCKETS - 1 {
        assert_eq!(Histogram::index(begin), index);
        let mut one = Histogram::default();
        one.record(begin);
        #[expect(clippy::cast_sign_loss, reason = "positive")]
        let end = (one.quantile_s(1.0).unwrap() * 1e9).round() as u64;
        assert_eq!(Histogram::index(end - 1), index);
        assert_eq!(Histogram::index(end), index + 1);
        begin = end;
    }
    assert_eq!(begin, 1 << 36);
    assert_eq!(Histogram::index(u64::MAX), BUCKETS - 1);
}

#[test]
fn an_empty_histogram_has_no_figures() {
    let empty = Histogram::default();
    assert_eq!((empty.mean_s(), empty.quantile_s(0.5), empty.count()), (None, None, 0));
}

proptest! {
    #[test]
    fn a_quantile_is_never_too_little_and_at_most_an_eighth_too_much(
        mut times in prop::collection::vec(1024u64..1 << 36, 1..300), part in 0.0f64..=1.0,
    ) {
        let mut histogram = Histogram::default();
        for time in &times {
            histogram.record(*time);
        }
        times.sort_unstable();
        #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "small numbers")]
        let rank = ((part * times.len() as f64).ceil() as usize).clamp(1, times.len());
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let real = times[rank - 1] as f64 / 1e9;
        let told = histogram.quantile_s(part).unwrap();
        prop_assert!(told > real && told <= real * 1.125 + 1e-12, "{told} for {real}");
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e9;
        prop_assert!((histogram.mean_s().unwrap() / mean - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_came_since_and_what_was_before_are_all(before in prop::collection::vec(any::<u64>(), 0..50),
        after in prop::collection::vec(any::<u64>(), 0..50),
    ) {
        let mut then = Histogram::default();
        for time in &before {
            then.record(*time);
        }
        let mut now = then.clone();
        let mut alone = Histogram::default();
        for time in &after {
            now.record(*time);
            alone.record(*time);
        }
        prop_assert_eq!(now.since(&then).unwrap(), alone.clone());
        // Begun anew: the earlier one is no earlier state.
        if !after.is_empty() {
            prop_assert_eq!(then.since(&now), None);
        }
        alone.add(&then);
        prop_assert_eq!(&alone, &now);
        let counts: Vec<u64> = now.cumulative().map(|(_, count)| count).collect();
        prop_assert!(counts.is_sorted() && *counts.last().unwrap() <= now.count());
    }
}

fn at(seconds: u64) -> Snapshot {
    Snapshot::new(1_800_000_000 + seconds, Duration::from_secs(seconds))
}

fn value(view: &View, series: &str) -> f64 {
    view.readings.iter().find(|reading| reading.series == series).map_or(f64::NAN, |reading| reading.value)
}

#[test]
fn counters_become_rates_and_a_reset_is_not_known() {
    let mut recent = Recent::new();
    let series = "fels_volume_errors_total{volume=\"a\"}";
    let mut rates = Vec::new();
    for (second, count) in
        [(0, u64::MAX - 100), (10, u64::MAX), (20, 7), (30, 27), (30, 28), (20, 30), (30, 40)]
    {
        let mut snapshot = at(second);
        snapshot.push(&table::VOLUME_ERRORS, &["a"], count);
        rates.push(value(&recent.push(snapshot), series));
    }
    // Nothing before; exact near the end of numbers; a reset; then again; no time passed; time went back; again.
    let known: Vec<Option<f64>> = rates.iter().map(|rate| rate.is_finite().then_some(*rate)).collect();
    assert_eq!(known, [None, Some(10.0), None, Some(2.0), None, None, Some(1.0)]);
}

#[test]
fn a_series_that_went_away_comes_back_without_a_rate_over_the_gap() {
    let mut recent = Recent::new();
    let series = "fels_process_cpu_seconds_total";
    let mut cpu = |second, value: Option<f64>| {
        let mut snapshot = at(second);
        if let Some(value) = value {
            snapshot.push(&table::PROCESS_CPU, &[], value);
        }
        recent.push(snapshot)
    };
    cpu(0, Some(1.0));
    assert!(value(&cpu(10, None), series).is_nan());
    assert!(value(&cpu(20, Some(5.0)), series).is_nan());
    assert!((value(&cpu(30, Some(6.0)), series) - 0.1).abs() < 1e-9);
}

#[test]
fn histograms_tell_of_the_last_interval_and_of_the_last_minutes() {
    let mut recent = Recent::new();
    let mut histogram = Histogram::default();
    let mut step = |second: u64, times: &[u64]| {
        for time in times {
            histogram.record(*time);
        }
        let mut snapshot = at(second);
        snapshot.push(&table::VOLUME_LATENCY, &["a", "read"], histogram.clone());
        recent.push(snapshot)
    };
    let lately = |view: &View| view.lately(&view.snapshot.samples()[0]).unwrap().count();
    let series = "fels_volume_latency_seconds:mean{volume=\"a\",verb=\"read\"}";
    let first = step(0, &[1_000_000; 10]);
    assert!(value(&first, series).is_nan() && lately(&first) == 10);
    let second = step(10, &[3_000_000]);
    assert!((value(&second, series) - 0.003).abs() < 1e-12 && lately(&second) == 11);
    // Nothing happened: no latency, not one of zero.
    assert!(value(&step(20, &[]), series).is_nan());
    // The window begins at the last mark that is five minutes old: at 0, then at 300.
    assert_eq!(lately(&step(300, &[1; 2])), 13);
    assert_eq!(lately(&step(310, &[])), 3);
    assert_eq!(lately(&step(600, &[1; 4])), 7);
    assert_eq!(lately(&step(610, &[1; 5])), 9);
}

#[test]
fn evenness_is_of_portals_of_one_protocol_that_have_something_to_do() {
    let mut recent = Recent::new();
    let mut push = |second: u64, bytes: [u64; 3]| {
        let mut snapshot = at(second);
        for (address, read) in [("10.0.0.1:3260", bytes[0]), ("10.0.1.1:3260", bytes[1])] {
            snapshot.push(&table::PORTAL_BYTES, &["iscsi", address, "read"], read);
            snapshot.push(&table::PORTAL_BYTES, &["iscsi", address, "write"], 0u64);
        }
        snapshot.push(&table::PORTAL_BYTES, &["nbd", "127.0.0.1:10809", "read"], bytes[2]);
        recent.push(snapshot)
    };
    let series = "fels_portal_evenness_ratio{protocol=\"iscsi\"}";
    assert!(value(&push(0, [0, 0, 0]), series).is_nan());
    let busy = push(10, [100_000_000, 25_000_000, 1]);
    assert!((value(&busy, series) - 0.25).abs() < 1e-9);
    assert_eq!(busy.snapshot.of(&table::PORTAL_EVENNESS).count(), 1, "one portal alone has no evenness");
    assert!(value(&push(20, [100_000_100, 25_000_000, 1]), series).is_nan(), "idle");
    assert!(value(&push(30, [200_000_000, 25_000_000, 1]), series) < 1e-9, "a path that was pulled");
}

#[test]
fn a_portal_that_nobody_uses_is_no_path() {
    let mut recent = Recent::new();
    let mut push = |second: u64, bytes: u64| {
        let mut snapshot = at(second);
        for (address, read) in [("10.0.0.1:10809", bytes), ("[::]:10809", 0), ("/run/nbd.sock", 1)] {
            snapshot.push(&table::PORTAL_BYTES, &["nbd", address, "read"], read);
        }
        recent.push(snapshot)
    };
    push(0, 1);
    assert_eq!(push(10, 100_000_000).snapshot.of(&table::PORTAL_EVENNESS).count(), 0);
}
