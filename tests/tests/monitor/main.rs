//! What a node shows of itself, read by those who read it: Prometheus' promtool, and a Munin master.

mod counters;
mod munin;
mod node;
mod prometheus;

use monitor::metric::{Family, Histogram, Kind, Recent, Snapshot, Value, View, table};
use std::time::{Duration, SystemTime};

/// Two values of a label that look like real ones.
fn label(name: &str, number: usize) -> String {
    match name {
        "verb" => ["read", "write"][number].to_owned(),
        "protocol" => ["iscsi", "nvme"][number].to_owned(),
        "address" => ["127.0.0.1:3260", "[::1]:4420"][number].to_owned(),
        "initiator" => format!("iqn.2026-11.org.example:host-{number}"),
        "of" => ["mean", "p99"][number].to_owned(),
        other => format!("{other}-{number} \"\\"),
    }
}

fn value(family: &Family, seconds: u64) -> Value {
    match family.kind {
        Kind::Histogram => {
            let mut histogram = Histogram::default();
            for time in 0..=seconds {
                histogram.record(time * 7_919_000);
            }
            histogram.into()
        }
        Kind::Counter => Value::Integer(seconds * 1000),
        Kind::Gauge => Value::Number(0.5),
    }
}

/// A node with a sample of everything that can be measured, for each value of each label.
fn node() -> View {
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock of this century").as_secs();
    let mut recent = Recent::new();
    let mut view = View::default();
    for seconds in [0, 10] {
        let mut snapshot = Snapshot::new(now - 10 + seconds, Duration::from_secs(seconds));
        for family in table::ALL.iter().filter(|family| family.name != table::PORTAL_EVENNESS.name) {
            let combinations = 1usize << family.labels.len();
            for combination in 0..combinations {
                let labels = family.labels.iter().enumerate();
                let labels: Vec<String> =
                    labels.map(|(at, name)| label(name, (combination >> at) & 1)).collect();
                let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
                snapshot.push(family, &labels, value(family, seconds));
            }
        }
        view = recent.push(snapshot);
    }
    view
}
