use super::*;
use crate::metric::Histogram;

#[test]
fn a_family_says_once_what_it_is() {
    let mut snapshot = Snapshot::default();
    snapshot.push(&table::VOLUME_ERRORS, &["a"], 1u64);
    snapshot.push(&table::UPTIME, &[], 1.5);
    snapshot.push(&table::VOLUME_ERRORS, &["b\\\"\n"], u64::MAX);
    let expected = "\
# HELP fels_volume_errors_total Operations that ended with an error.
# TYPE fels_volume_errors_total counter
fels_volume_errors_total{volume=\"a\"} 1
fels_volume_errors_total{volume=\"b\\\\\\\"\\n\"} 18446744073709551615
# HELP fels_uptime_seconds Time since the node was started.
# TYPE fels_uptime_seconds gauge
fels_uptime_seconds 1.5
";
    assert_eq!(render(&snapshot), expected);
    assert_eq!(render(&Snapshot::default()), "");
}

#[test]
fn a_histogram_has_cumulative_buckets_a_sum_and_a_count() {
    let mut histogram = Histogram::default();
    for time in [500, 1_500, 3_000_000, u64::MAX / 2] {
        histogram.record(time);
    }
    let mut snapshot = Snapshot::default();
    snapshot.push(&table::POOL_LATENCY, &["tank", "read"], histogram);
    let text = render(&snapshot);
    let lines: Vec<&str> = text.lines().skip(2).collect();
    let labels = "pool=\"tank\",verb=\"read\"";
    assert_eq!(lines[0], format!("fels_pool_latency_seconds_bucket{{{labels},le=\"0.000001024\"}} 1"));
    assert_eq!(lines[1], format!("fels_pool_latency_seconds_bucket{{{labels},le=\"0.000002048\"}} 2"));
    let end = lines.len();
    assert_eq!(lines[end - 4], format!("fels_pool_latency_seconds_bucket{{{labels},le=\"68.719476736\"}} 3"));
    assert_eq!(lines[end - 3], format!("fels_pool_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 4"));
    assert!(lines[end - 2].starts_with(&format!("fels_pool_latency_seconds_sum{{{labels}}} 9223372036.8")));
    assert_eq!(lines[end - 1], format!("fels_pool_latency_seconds_count{{{labels}}} 4"));
}

#[test]
fn numbers_are_as_go_reads_them() {
    let texts = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e21, -0.25].map(number);
    assert_eq!(texts, ["NaN", "+Inf", "-Inf", "1000000000000000000000", "-0.25"]);
}

#[test]
fn a_help_text_stays_on_its_line() {
    assert_eq!(escape_help("one\\two\nthree"), "one\\\\two\\nthree");
}
