//! No metric is promised that nobody measures.

mod seen;

use monitor::metric::table;

/// What a node without initiators, requests and disks cannot know.
const WITHOUT_CAUSE: [&str; 8] = [
    "fels_layer_share_ratio",
    "fels_portal_evenness_ratio",
    "fels_initiator_operations_total",
    "fels_initiator_bytes_total",
    "fels_initiator_errors_total",
    "fels_initiator_sessions",
    "fels_member_temperature_celsius",
    "fels_member_smart_state",
];

#[test]
fn every_metric_is_measured_by_somebody() {
    let directory = tempfile::tempdir().unwrap();
    let text = "shards = 1\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n\
         [[pool]]\nname = \"tank\"\nraid = \"raid1\"\nmembers = [{ memory = \"64MiB\" }, { memory = \"64MiB\" }]\n\
         [[volume]]\nname = \"demo\"\nsize = \"1MiB\"\npool = \"tank\"\n";
    std::fs::write(directory.path().join("fels.toml"), text).unwrap();
    let node = seen::node_of(directory.path());
    let seen = node.observer().latest().unwrap();
    let missing: Vec<_> = table::ALL
        .iter()
        .filter(|family| seen.of(family).next().is_none())
        .map(|family| family.name)
        .collect();
    assert_eq!(missing, WITHOUT_CAUSE);
    node.shutdown().unwrap();
}
