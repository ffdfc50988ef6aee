//! Graphs are found in the names of series, and show what the history knows.

use super::*;
use crate::history::{Points, Slot};
use crate::metric::{Snapshot, Value};
use proptest::prelude::*;

/// The names of series of these samples, as the history has them.
fn series(of: &[(&'static Family, &[&str])]) -> Vec<String> {
    let mut snapshot = Snapshot::default();
    for (family, labels) in of {
        let value = match family.kind {
            Kind::Histogram => Value::Histogram(Box::default()),
            _ => Value::Integer(1),
        };
        snapshot.push(family, labels, value);
    }
    let parts = |kind| {
        if kind == Kind::Histogram { vec![Some("mean"), Some("p50"), Some("p99")] } else { vec![None] }
    };
    let names = |sample: &crate::metric::Sample| {
        parts(sample.family.kind).into_iter().map(|part| sample.series(part)).collect::<Vec<_>>()
    };
    snapshot.samples().iter().flat_map(names).collect()
}

fn graphs(of: &[(&'static Family, &[&str])]) -> Vec<(String, Vec<String>)> {
    let series = series(of);
    let graphs = all(series.iter().map(String::as_str));
    graphs.iter().map(|graph| (graph.name.clone(), graph.lines().map(str::to_owned).collect())).collect()
}

fn graph(name: &str, lines: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), lines.iter().map(|line| (*line).to_owned()).collect())
}

#[test]
fn a_volume_has_its_own_and_all_have_one_together() {
    let found = graphs(&[
        (&table::VOLUME_OPERATIONS, &["demo", "write"]),
        (&table::VOLUME_OPERATIONS, &["demo", "read"]),
        (&table::VOLUME_OPERATIONS, &["other", "read"]),
        (&table::VOLUME_IN_FLIGHT, &["demo"]),
        (&table::VOLUME_LATENCY, &["demo", "read"]),
    ]);
    let expected = [
        graph("volume_operations", &["read", "write"]),
        graph("volume_operations@demo", &["read", "write"]),
        graph("volume_operations@other", &["read"]),
        graph("volume_latency_seconds@demo", &["read mean", "read p99"]),
        graph("volume_in_flight@demo", &["all"]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_is_compared_stands_beside_each_other() {
    let found = graphs(&[
        (&table::MEMBER_STATE, &["tank", "10"]),
        (&table::MEMBER_STATE, &["tank", "9"]),
        (&table::LAYER_TIME, &["demo", "cache"]),
        (&table::LAYER_TIME, &["demo", "disk"]),
        (&table::PORTAL_CONNECTIONS, &["iscsi", "[::1]:3260"]),
        (&table::SHARD_CPU, &["1"]),
        (&table::SHARD_CPU, &["0"]),
        (&table::UPTIME, &[]),
        (&table::BUILD, &["1"]),
    ]);
    let expected = [
        graph("layer_time_seconds@demo", &["cache", "disk"]),
        graph("portal_connections", &["iscsi [::1]:3260"]),
        graph("member_state@tank", &["slot 9", "slot 10"]),
        graph("shard_cpu_seconds", &["shard 0", "shard 1"]),
        graph("uptime_seconds", &["all"]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn names_are_parts_of_paths() {
    let initiator = "a b/\u{e9}\"\n~@,";
    let of: &[(_, &[&str])] = &[(&table::INITIATOR_BYTES, &["nvme", initiator, "read"])];
    let names = graphs(of);
    assert_eq!(names[0].0, "initiator_bytes@nvme,a~20b~2F~C3~A9~22~0A~7E~40~2C");
    let series = series(of);
    let found = find(&names[0].0, series.iter().map(String::as_str)).unwrap();
    assert_eq!(found.note(), format!("protocol nvme, initiator {initiator}"));
}

#[test]
fn what_no_build_has_any_more_is_left_out() {
    let old = [
        "fels_none_total",
        "fels_uptime_seconds{a=\"b\"}",
        "fels_volume_in_flight{volume=\"x",
        "",
        "fels_uptime_seconds:p99",
    ];
    assert!(all(old.into_iter()).is_empty());
    assert!(find("none", old.into_iter()).is_none());
}

#[test]
fn every_family_has_a_unit_that_fits_and_a_name_of_its_own() {
    let mut names: Vec<_> = table::ALL.iter().map(|family| graph_name(family, &[])).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), table::ALL.len());
    let unit = |family: &'static Family| {
        let values: Vec<_> = family.labels.iter().map(|_| "1").collect();
        let series = series(&[(family, &values)]);
        all(series.iter().map(String::as_str))[0].unit()
    };
    assert_eq!(unit(&table::VOLUME_OPERATIONS), Unit::Iops);
    assert_eq!(unit(&table::VOLUME_BYTES), Unit::BytesPerSecond);
    assert_eq!(unit(&table::VOLUME_LATENCY), Unit::Seconds);
    assert_eq!(unit(&table::VOLUME_ERRORS), Unit::PerSecond);
    assert_eq!(unit(&table::SHARD_CPU), Unit::Share);
    assert_eq!(unit(&table::POOL_USED), Unit::Bytes);
    assert_eq!(unit(&table::POOL_USAGE), Unit::Share);
    assert_eq!(unit(&table::MEMBER_TEMPERATURE), Unit::Celsius);
    assert_eq!(unit(&table::POOL_STATE), Unit::Count);
}

#[test]
fn too_many_to_add_up_have_no_sum() {
    let names: Vec<_> = (0..=MAX_SUMMED).map(|number| number.to_string()).collect();
    let labels: Vec<_> = names.iter().map(|name| [name.as_str(), "read"]).collect();
    let of: Vec<_> = labels.iter().map(|labels| (&table::VOLUME_BYTES, &labels[..])).collect();
    let with = |count: usize| graphs(&of[..count]).iter().filter(|(name, _)| name == "volume_bytes").count();
    assert_eq!((with(MAX_SUMMED), with(MAX_SUMMED + 1)), (1, 0));
}

#[test]
fn what_the_history_knows_is_where_it_was() {
    let series = series(&[(&table::VOLUME_BYTES, &["a", "read"]), (&table::VOLUME_BYTES, &["b", "read"])]);
    let read = |series: &str, archive: Archive, range: std::ops::Range<u64>| -> Result<_, ()> {
        assert_eq!((archive, range), (Archive::Week, 1_000_020 - 604_800..1_000_020));
        // Of b there are but the last two minutes.
        let (begin_s, value) =
            if series.contains("\"a\"") { (1_000_020 - 180, 1.0) } else { (1_000_020 - 120, 10.0) };
        let known = |least, most| Slot { min: least, mean: f32::midpoint(least, most), max: most };
        let slots = [known(value, value * 3.0), Slot::UNKNOWN, Slot::of(value)];
        let count = ((1_000_020 - begin_s) / 60) as usize;
        Ok(Some(Points { begin_s, step_s: 60, slots: slots[..count].to_vec() }))
    };
    let draw = |name: &str| {
        find(name, series.iter().map(String::as_str)).unwrap().draw(Span::Week, 1_000_077, read).unwrap()
    };
    let one = draw("volume_bytes@a");
    assert_eq!((one.begin_s, one.step_s, one.slots), (1_000_020 - 604_800, 60, 10_080));
    let last = |lines: &chart::Lines| lines.lines[0].points[10_077..].to_vec();
    let point = |least, mean, most| Some(chart::Point { least, mean, most });
    assert_eq!(last(&one), [point(1.0, 2.0, 3.0), None, point(1.0, 1.0, 1.0)]);
    assert!(one.lines[0].points[..10_077].iter().all(Option::is_none));
    // Together: a mean, and no band; what only one knows is that of the one.
    assert_eq!(
        last(&draw("volume_bytes")),
        [point(2.0, 2.0, 2.0), point(20.0, 20.0, 20.0), point(1.0, 1.0, 1.0)]
    );
}

proptest! {
    #[test]
    fn names_of_series_are_read_as_they_are_written(values in proptest::collection::vec(any::<String>(), 4)) {
        for family in table::ALL {
            let labels: Vec<_> = family.labels.iter().zip(values.iter().cycle()).map(|(_, value)| value.as_str()).collect();
            let of: &[(&'static Family, &[&str])] = &[(family, &labels)];
            for name in series(of) {
                let read = Series::read(&name).unwrap();
                prop_assert_eq!(read.family, *family);
                prop_assert_eq!(&read.values, &labels);
            }
        }
    }

    #[test]
    fn no_name_is_read_as_what_it_is_not(name in "(fels_uptime_seconds|fels_volume_in_flight)?[{}a-z=\",\\\\:]{0,30}") {
        // It may be read, but never panics.
        let _ = Series::read(&name);
        prop_assert!(all(std::iter::once(name.as_str())).len() <= 2);
    }
}
