//! What a node says of itself.

use std::time::Duration;

use monitor::metric::{BUCKETS, Family, Histogram, Snapshot, Value, table};
use plane::Verb;
use plane::layers::{Alike, Followed, Spent};
use plane::live::{CoreFigures, Crowd, Party};
use plane::meter::{self, Counts, GaugeFigures, Times, VerbFigures};
use plane::session::traffic::{Portal, PortalFigures, VerbCounts};
use plane::volume::Figures;
use ring::Activity;

use super::{Cores, portals, process, volumes};

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
        bytes: 1 << 20,
        verbs: [read, write, none(), none(), none()],
        in_flight: 2,
        busy: [(0, Duration::from_secs(1))].into(),
        layers: vec![("limit", spent(8)), ("disk", spent(6))],
        followed: Followed(vec![alike(7, 99, 0, 1000), alike(90, 1, 99_000, 0)]),
    };
    let party =
        |protocol, volumes, sessions| Party { protocol, initiator: "somebody".to_owned(), volumes, sessions };
    let parties = vec![
        party("iscsi", vec![4], 2),
        party("iscsi", vec![4], 3),
        party("nvme", vec![3, 4], 1),
        party("nvme", vec![3], 7),
        party("iscsi", vec![], 9),
    ];
    let mut snapshot = Snapshot::new(0, Duration::ZERO);
    let lately = [figures.followed.clone()];
    volumes::add(&mut snapshot, &cores(figures, parties), &lately);
    let number = |family, labels: &[&str]| number(&snapshot, family, labels);
    assert_eq!(number(&table::VOLUME_OPERATIONS, &["demo", "read"]), Some(3.0));
    assert_eq!(number(&table::VOLUME_BYTES, &["demo", "write"]), Some(2560.0));
    assert_eq!(number(&table::VOLUME_ERRORS, &["demo"]), Some(1.0));
    assert_eq!(number(&table::VOLUME_IN_FLIGHT, &["demo"]), Some(2.0));
    assert_eq!(number(&table::VOLUME_CAPACITY, &["demo"]), Some(1_048_576.0));
    assert_eq!(number(&table::LAYER_TIME, &["demo", "limit"]), Some(0.002));
    assert_eq!(number(&table::LAYER_TIME, &["demo", "disk"]), Some(0.006));
    assert_eq!(number(&table::LAYER_SHARE, &["demo", "disk", "mean"]), Some(0.5));
    assert_eq!(number(&table::LAYER_SHARE, &["demo", "disk", "p99"]), Some(0.0));
    assert_eq!(number(&table::VOLUME_SESSIONS, &["demo", "iscsi"]), Some(5.0));
    assert_eq!(number(&table::VOLUME_SESSIONS, &["demo", "nvme"]), Some(1.0));
    assert_eq!(number(&table::VOLUME_SESSIONS, &["demo", "nbd"]), Some(0.0));
    let latencies: Vec<_> = snapshot.of(&table::VOLUME_LATENCY).collect();
    let Value::Histogram(read) = &latencies[0].value else { panic!("a histogram") };
    assert_eq!((read.count(), read.mean_s()), (3, Some(0.002)));
    let Value::Histogram(write) = &latencies[1].value else { panic!("a histogram") };
    assert_eq!((write.count(), write.mean_s()), (5, Some(0.0)));
}

fn cores(figures: Figures, parties: Vec<Party>) -> Cores {
    let crowd = Crowd { parties, ..Crowd::default() };
    Cores { volumes: vec![figures], crowd, ..Cores::default() }
}

#[test]
fn a_portal_is_told_with_all_that_came_by_it_and_the_busiest_initiators_by_name() {
    let mut times = Box::<Times>::default();
    times.buckets[meter::bucket(3_000_000)] = 2;
    times.sum = 6_000_000;
    let mut verbs = meter::Figures::default();
    verbs[Verb::Write as usize] = VerbFigures { requests: 2, bytes: 1024, errors: 1, times: Some(times) };
    verbs[Verb::Flush as usize] = VerbFigures { requests: 7, errors: 2, ..VerbFigures::default() };
    let portal = Portal { protocol: "nbd", address: "[::1]:10809".to_owned() };
    let mut crowd = Crowd::default();
    crowd.ledger.portals = vec![PortalFigures { portal, connections: 3, in_flight: 4, verbs }];
    for number in 0..portals::MAX_INITIATORS + 5 {
        let mut counts = VerbCounts::default();
        let bytes = number as u64 * 512;
        counts[Verb::Read as usize] = Counts { requests: number as u64, bytes, errors: 1, nanoseconds: 0 };
        crowd.ledger.initiators.insert(("nbd", format!("10.0.0.{number}")), counts);
    }
    let busiest = portals::MAX_INITIATORS + 4;
    let party = |volume, sessions| Party {
        protocol: "nbd",
        initiator: format!("10.0.0.{busiest}"),
        volumes: vec![volume],
        sessions,
    };
    crowd.parties = vec![party(0, 1), party(1, 1)];
    let mut snapshot = Snapshot::new(0, Duration::ZERO);
    portals::add(&mut snapshot, &crowd);
    let number = |family, labels: &[&str]| number(&snapshot, family, labels);
    let labels = ["nbd", "[::1]:10809"];
    assert_eq!(number(&table::PORTAL_OPERATIONS, &[labels[0], labels[1], "flush"]), Some(7.0));
    assert_eq!(number(&table::PORTAL_BYTES, &[labels[0], labels[1], "write"]), Some(1024.0));
    assert_eq!(number(&table::PORTAL_ERRORS, &labels), Some(3.0));
    assert_eq!(number(&table::PORTAL_CONNECTIONS, &labels), Some(3.0));
    assert_eq!(number(&table::PORTAL_IN_FLIGHT, &labels), Some(4.0));
    let latencies: Vec<_> = snapshot.of(&table::PORTAL_LATENCY).collect();
    let Value::Histogram(write) = &latencies[1].value else { panic!("a histogram") };
    assert_eq!((write.count(), write.mean_s()), (2, Some(0.003)));
    let busiest = format!("10.0.0.{busiest}");
    assert_eq!(number(&table::INITIATOR_SESSIONS, &["nbd", &busiest]), Some(2.0));
    assert_eq!(number(&table::INITIATOR_ERRORS, &["nbd", &busiest]), Some(1.0));
    assert_eq!(number(&table::INITIATORS_LEFT_OUT, &[]), Some(5.0));
    assert_eq!(number(&table::INITIATOR_BYTES, &["nbd", "10.0.0.4", "read"]), None, "one of the idlest");
    let series = snapshot.samples().iter().filter(|sample| sample.label("initiator").is_some()).count();
    assert!(series <= 1000 && series == 6 * portals::MAX_INITIATORS, "{series}");
}

#[test]
fn a_member_has_what_it_was_asked_for() {
    let mut figures = GaugeFigures { in_flight: 2, ..GaugeFigures::default() };
    figures.verbs[Verb::Read as usize] = VerbFigures { requests: 4, bytes: 4096, ..VerbFigures::default() };
    figures.verbs[Verb::Write as usize] = VerbFigures { requests: 9, bytes: 99, errors: 1, times: None };
    let mut snapshot = Snapshot::new(0, Duration::ZERO);
    super::pools::OF_MEMBER.add(&mut snapshot, &["tank", "1"], &figures);
    let number = |family, labels: &[&str]| number(&snapshot, family, labels);
    assert_eq!(number(&table::MEMBER_OPERATIONS, &["tank", "1", "read"]), Some(4.0));
    assert_eq!(number(&table::MEMBER_OPERATIONS, &["tank", "1", "write"]), Some(9.0));
    assert_eq!(number(&table::MEMBER_BYTES, &["tank", "1", "write"]), Some(99.0));
    assert_eq!(number(&table::MEMBER_ERRORS, &["tank", "1"]), Some(1.0));
    assert_eq!(number(&table::MEMBER_IN_FLIGHT, &["tank", "1"]), Some(2.0));
    assert_eq!(snapshot.of(&table::MEMBER_LATENCY).count(), 3);
}

#[test]
fn a_shard_tells_how_it_waits() {
    let activity = Activity {
        submissions: 5,
        completions: 4,
        enters: 3,
        sleeps: 2,
        direct: 6,
        steps_broken: 7,
        moved: 8,
        looked: Duration::from_millis(1500),
        looked_in_vain: Duration::from_millis(250),
    };
    let mut snapshot = Snapshot::new(0, Duration::ZERO);
    let shard = CoreFigures { index: 1, activity, buffer_bytes: 4096, busy_poll: Duration::from_micros(500) };
    super::shards::add(&mut snapshot, &[shard]);
    let number = |family, labels: &[&str]| number(&snapshot, family, labels);
    assert_eq!(number(&table::RING_SUBMISSIONS, &["1"]), Some(5.0));
    assert_eq!(number(&table::RING_COMPLETIONS, &["1"]), Some(4.0));
    assert_eq!(number(&table::RING_ENTERS, &["1"]), Some(3.0));
    assert_eq!(number(&table::RING_SLEEPS, &["1"]), Some(2.0));
    assert_eq!(number(&table::RING_DIRECT, &["1"]), Some(6.0));
    assert_eq!(number(&table::RING_STEPS_BROKEN, &["1"]), Some(7.0));
    assert_eq!(number(&table::BUSY_POLL, &["1", "found"]), Some(1.5));
    assert_eq!(number(&table::BUSY_POLL, &["1", "vain"]), Some(0.25));
    assert_eq!(number(&table::BUSY_POLL_MOST, &["1"]), Some(0.0005));
    assert_eq!(number(&table::SHARD_BUFFERS, &["1"]), Some(4096.0));
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

#[test]
fn cpu_time_of_a_thread_that_has_ended_does_not_go_back() {
    let whole = || {
        let mut snapshot = Snapshot::new(0, Duration::ZERO);
        process::add(&mut snapshot);
        number(&snapshot, &table::PROCESS_CPU, &[]).unwrap()
    };
    let before = whole();
    let spin = std::thread::spawn(move || {
        while whole() < before + 0.2 {
            std::hint::spin_loop();
        }
        whole()
    });
    let then = spin.join().unwrap();
    let mut snapshot = Snapshot::new(0, Duration::ZERO);
    process::add(&mut snapshot);
    let now = number(&snapshot, &table::PROCESS_CPU, &[]).unwrap();
    assert!(now >= then, "{now} s after a thread has ended, {then} s while it ran");
}
