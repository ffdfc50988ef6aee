//! A node sees what it does, as long as it runs, and remembers it.

use std::time::{Duration, Instant};

use control::start;
use control::store::Store;
use monitor::history::Archive;
use monitor::metric::table;

#[test]
fn a_node_sees_itself_from_its_start_and_remembers_it() {
    let directory = tempfile::tempdir().unwrap();
    let text = "shards = 2\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n\
         [[volume]]\nname = \"demo\"\nsize = \"1MiB\"\nbacking = { memory = true }\n";
    std::fs::write(directory.path().join("fels.toml"), text).unwrap();
    let read = || {
        let store = Store::of_directory(directory.path()).unwrap();
        let document = store.read().unwrap();
        (store, document)
    };
    let (store, document) = read();
    let node = start(store, document).unwrap();
    let observer = node.observer().clone();
    let end = Instant::now() + Duration::from_secs(20);
    while observer.latest().is_none() {
        assert!(Instant::now() < end, "nothing is seen");
        std::thread::sleep(Duration::from_millis(5));
    }
    let seen = observer.latest().unwrap();
    let volumes: Vec<_> =
        seen.of(&table::VOLUME_IN_FLIGHT).filter_map(|sample| sample.label("volume")).collect();
    assert_eq!(volumes, ["demo"]);
    // One for each shard: they have not gone on by the time that they are asked.
    assert_eq!(seen.of(&table::SHARD_CPU).count(), 2);
    let newest_s = observer.history().newest_s().unwrap();
    assert_eq!(newest_s, seen.unix_s / 10 * 10);
    node.shutdown().unwrap();

    let (store, document) = read();
    let node = start(store, document).unwrap();
    let observer = node.observer().clone();
    while observer.latest().is_none() {
        assert!(Instant::now() < end, "nothing is seen");
        std::thread::sleep(Duration::from_millis(5));
    }
    let queue = "fels_volume_in_flight{volume=\"demo\"}";
    let points = observer.history().read(queue, Archive::Day, newest_s..newest_s + 10).unwrap().unwrap();
    assert!(points.slots[0].is_known(), "what was measured before the restart");
    node.shutdown().unwrap();
}
