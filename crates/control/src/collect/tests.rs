//! What a node says of itself.

use std::time::Duration;

use monitor::metric::{BUCKETS, Family, Histogram, Snapshot, Value, table};
use plane::layers::{Alike, Followed, Spent};
use plane::live::User;
use plane::volume::Figures;
use plane::volume::meter::{self, Times, VerbFigures};

use super::{Cores, process, volumes};

fn number(snapshot: &Snapshot, family: &'static Family, labels: &[&str]) -> Option<f64> {
    let is_it = |sample: &&monitor::metric::Sample| {
        sample.labels.iter().map(AsRef::as_ref).eq(labels.iter().copied())
    };
    snapshot.of(family).find(is_it).and_then(|sample| sample.value.number())
}

/// Both sides have to mean the same bucket by the same index, and neither may import the other.
#[test]
fn buckets_of_cores_are_those_of_the_monitor() {
    assert_eq!(meter::BUCKETS, BUCKETS);
    for power in 0..63 {
        for nanoseconds in [1u64 << power, (1 << power) + (1 << power) / 3, (1u64 << (power + 1)) - 1] {
            assert_eq!(meter::bucket(nanoseconds), Histogram::index(nanoseconds), "{nanoseconds} ns");
        }
    }
}

#[test]
fn a_volume_is_told_with_its_times_layers_and_users() {
    let mut times = Box::<Times>::default();
    times.buckets[meter::bucket(2_000_000)] = 3;
    times.sum = 6_000_000;
    let read = VerbFigures { requests: 3, bytes: 3 * 4096, errors: 1, times: Some(times) };
    let write = VerbFigures { requests: 5, bytes: 5 * 512, errors: 0, times: None };
    let alike = |bucket, requests, limit, disk| Alike { bucket, requests, own: vec![limit, disk * requests] };
    let spent = |millis| Spent { requests: 1, time: Duration::from_millis(millis) };
    let none = VerbFigures::default;
    let figures = Figures {
        place: 4,
        name: "demo".to_owned(),
        verbs: [read, write, none(), none(), none()],
        in_flight: 2,
        layers: vec![("limit", spent(8)), ("disk", spent(6))],
        followed: Followed(vec![alike(7, 99, 0, 1000), alike(90, 1, 99_000, 0)]),
    };
    let user = |protocol, volumes| User {
        protocol,
        id: "1".to_owned(),
        initiator: "somebody".to_owned(),
        volumes,
        connections: Vec::new(),
        shard: 0,
    };
    let users =
        vec![user("iscsi", vec![4]), user("nvme", vec![3, 4]), user("nvme", vec![3]), user("iscsi", vec![])];
    let mut snapshot = Snapshot::new(0, Duration::ZERO);
    let lately = [figures.followed.clone()];
    volumes::add(&mut snapshot, &Cores { volumes: vec![figures], users }, &lately);
    let number = |family, labels: &[&str]| number(&snapshot, family, labels);
    assert_eq!(number(&table::VOLUME_OPERATIONS, &["demo", "read"]), Some(3.0));
    assert_eq!(number(&table::VOLUME_BYTES, &["demo", "write"]), Some(2560.0));
    assert_eq!(number(&table::VOLUME_ERRORS, &["demo"]), Some(1.0));
    assert_eq!(number(&table::VOLUME_IN_FLIGHT, &["demo"]), Some(2.0));
    assert_eq!(number(&table::LAYER_TIME, &["demo", "limit"]), Some(0.002));
    assert_eq!(number(&table::LAYER_TIME, &["demo", "disk"]), Some(0.006));
    assert_eq!(number(&table::LAYER_SHARE, &["demo", "disk", "mean"]), Some(0.5));
    assert_eq!(number(&table::LAYER_SHARE, &["demo", "disk", "p99"]), Some(0.0));
    assert_eq!(number(&table::VOLUME_SESSIONS, &["demo", "iscsi"]), Some(1.0));
    assert_eq!(number(&table::VOLUME_SESSIONS, &["demo", "nvme"]), Some(1.0));
    assert_eq!(number(&table::VOLUME_SESSIONS, &["demo", "nbd"]), Some(0.0));
    let latencies: Vec<_> = snapshot.of(&table::VOLUME_LATENCY).collect();
    let Value::Histogram(read) = &latencies[0].value else { panic!("a histogram") };
    assert_eq!((read.count(), read.mean_s()), (3, Some(0.002)));
    let Value::Histogram(write) = &latencies[1].value else { panic!("a histogram") };
    assert_eq!((write.count(), write.mean_s()), (5, Some(0.0)));
}

#[test]
fn the_process_knows_what_it_costs() {
    let spin = std::thread::Builder::new().name("shard-7".to_owned()).spawn(|| {
        let end = std::time::Instant::now() + Duration::from_millis(30);
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        let mut snapshot = Snapshot::new(0, Duration::ZERO);
        process::add(&mut snapshot);
        snapshot
    });
    let snapshot = spin.unwrap().join().unwrap();
    let shard = number(&snapshot, &table::SHARD_CPU, &["7"]).unwrap();
    assert!(shard > 0.001, "{shard} s");
    assert!(number(&snapshot, &table::PROCESS_CPU, &[]).unwrap() >= shard);
    assert!(number(&snapshot, &table::PROCESS_MEMORY, &[]).unwrap() > 1e6);
    assert!(number(&snapshot, &table::PROCESS_FILES, &[]).unwrap() >= 3.0);
}
