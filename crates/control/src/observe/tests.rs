//! What is seen, kept and told.

use std::path::Path;
use std::time::Duration;

use monitor::history::{Archive, Slot};
use monitor::metric::{Recent, Snapshot, table};
use plane::shard::Peers;

use super::thread::until_next;
use super::{HISTORY_DIRECTORY, Observer, Observing};
use crate::collect::Collector;

/// Of a node without shards.
fn observer(data: &Path) -> Observer {
    Observer::new(Collector::new(Peers::new(0).0, plane::pool::Pools::default()), data)
}

/// A volume that has read so often.
fn snapshot(unix_s: u64, reads: u64) -> Snapshot {
    let mut snapshot = Snapshot::new(unix_s, Duration::from_secs(unix_s));
    snapshot.push(&table::VOLUME_OPERATIONS, &["demo", "read"], reads);
    snapshot
}

const READS: &str = "fels_volume_operations_total{volume=\"demo\",verb=\"read\"}";
const BEGIN_S: u64 = 1_800_000_000;

#[test]
fn what_is_seen_is_told_and_kept() {
    let data = tempfile::tempdir().unwrap();
    let observer = observer(data.path());
    let mut waiting = observer.subscribe();
    assert!(observer.latest().is_none() && observer.view().is_none());
    let mut recent = Recent::new();
    observer.publish(&mut recent, snapshot(BEGIN_S, 100));
    assert!(waiting.has_changed().unwrap());
    observer.publish(&mut recent, snapshot(BEGIN_S + 10, 350));
    assert_eq!(waiting.borrow_and_update().as_ref().unwrap().unix_s, BEGIN_S + 10);
    assert_eq!(observer.latest().unwrap(), observer.view().unwrap().snapshot);
    assert_eq!(observer.view().unwrap().reading(READS), Some(25.0));
    let history = observer.history();
    assert_eq!((history.series(), history.newest_s()), (vec![READS.to_owned()], Some(BEGIN_S + 10)));
    let points = history.read(READS, Archive::Day, BEGIN_S..BEGIN_S + 20).unwrap().unwrap();
    assert_eq!(points.slots[1], Slot::of(25.0));
    assert!(history.read("nothing", Archive::Day, 0..u64::MAX).unwrap().is_none());
    // It is there after a restart.
    let again = self::observer(data.path());
    again.publish(&mut Recent::new(), snapshot(BEGIN_S + 20, 1));
    let points = again.history().read(READS, Archive::Day, BEGIN_S..BEGIN_S + 20).unwrap().unwrap();
    assert_eq!(points.slots[1], Slot::of(25.0));
}

#[test]
fn without_a_history_everything_else_goes_on_until_it_can_be_had() {
    let data = tempfile::tempdir().unwrap();
    let in_the_way = data.path().join(HISTORY_DIRECTORY);
    std::fs::write(&in_the_way, "a file where a directory should be").unwrap();
    let observer = observer(data.path());
    let mut recent = Recent::new();
    observer.publish(&mut recent, snapshot(BEGIN_S, 100));
    assert!(observer.history().series().is_empty());
    assert!(observer.history().read(READS, Archive::Day, 0..u64::MAX).unwrap().is_none());
    assert_eq!(observer.latest().unwrap().unix_s, BEGIN_S);
    std::fs::remove_file(&in_the_way).unwrap();
    observer.publish(&mut recent, snapshot(BEGIN_S + 10, 200));
    assert_eq!(observer.history().series().len(), 1);
}

#[test]
fn snapshots_are_taken_when_the_clock_is_round_and_never_twice() {
    let interval = Duration::from_secs(10);
    for (now_ms, next_ms) in
        [(3, 10_020), (9_999, 10_020), (10_000, 20_020), (10_020, 20_020), (10_007, 20_020)]
    {
        let now = Duration::from_millis(now_ms);
        assert_eq!(now + until_next(now, interval), Duration::from_millis(next_ms));
    }
}

/// A shard that never answers does not keep the node from its end.
#[test]
fn who_observes_ends_when_told_to() {
    let data = tempfile::tempdir().unwrap();
    let (peers, _mail) = Peers::new(1);
    let observer = Observer::new(Collector::new(peers, plane::pool::Pools::default()), data.path());
    let mut observing = Observing::start(observer, Duration::from_millis(20)).unwrap();
    observing.stop();
    observing.stop();
    assert!(!data.path().join(HISTORY_DIRECTORY).exists());
}
