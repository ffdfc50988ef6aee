//! The text exposition format of Prometheus, version 0.0.4.

#[cfg(test)]
mod tests;

use crate::metric::{Kind, Sample, Snapshot, Value, table};
use std::fmt::Write as _;

/// What `Content-Type` says of it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All that was measured, families in the order of the registry, each with its help and type once.
pub fn render(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(snapshot.samples().len() * 96);
    for family in table::ALL {
        let mut samples = snapshot.of(family).peekable();
        if samples.peek().is_none() {
            continue;
        }
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a String does not fail, here and below.
        let _ = writeln!(out, "# HELP {} {}", family.name, escape_help(family.help));
        let _ = writeln!(out, "# TYPE {} {kind}", family.name);
        for sample in samples {
            write_sample(&mut out, sample);
        }
    }
    out
}

fn escape_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn write_sample(out: &mut String, sample: &Sample) {
    let mut line = |suffix: &str, bound: Option<&str>, value: &dyn std::fmt::Display| {
        out.push_str(sample.family.name);
        out.push_str(suffix);
        sample.write_labels(out, bound.map(|bound| ("le", bound)));
        let _ = writeln!(out, " {value}");
    };
    match &sample.value {
        Value::Integer(value) => line("", None, value),
        Value::Number(value) => line("", None, &number(*value)),
        Value::Histogram(histogram) => {
            for (bound_s, count) in histogram.cumulative() {
                line("_bucket", Some(&number(bound_s)), &count);
            }
            let count = histogram.count();
            line("_bucket", Some("+Inf"), &count);
            line("_sum", None, &number(histogram.sum_s()));
            line("_count", None, &count);
        }
    }
}

/// As Go reads it.
fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned()
    } else {
        value.to_string()
    }
}
