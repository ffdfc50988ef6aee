//! A node sees what it does, as long as it runs, and remembers it.

mod seen;

use monitor::history::Archive;
use monitor::metric::table;

#[test]
fn a_node_sees_itself_from_its_start_and_remembers_it() {
    let directory = tempfile::tempdir().unwrap();
    let text = "shards = 2\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n\
         [[volume]]\nname = \"demo\"\nsize = \"1MiB\"\nbacking = { memory = true }\n";
    std::fs::write(directory.path().join("fels.toml"), text).unwrap();
    let node = seen::node_of(directory.path());
    let observer = node.observer().clone();
    let seen = observer.latest().unwrap();
    let volumes: Vec<_> =
        seen.of(&table::VOLUME_IN_FLIGHT).filter_map(|sample| sample.label("volume")).collect();
    assert_eq!(volumes, ["demo"]);
    // One for each shard: they have not gone on by the time that they are asked.
    assert_eq!(seen.of(&table::SHARD_CPU).count(), 2);
    let newest_s = observer.history().newest_s().unwrap();
    assert_eq!(newest_s, seen.unix_s / 10 * 10);
    node.shutdown().unwrap();

    let node = seen::node_of(directory.path());
    let observer = node.observer().clone();
    let queue = "fels_volume_in_flight{volume=\"demo\"}";
    let points = observer.history().read(queue, Archive::Day, newest_s..newest_s + 10).unwrap().unwrap();
    assert!(points.slots[0].is_known(), "what was measured before the restart");
    node.shutdown().unwrap();
}
