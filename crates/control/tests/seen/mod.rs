//! A node that has looked at itself.

use std::path::Path;
use std::time::{Duration, Instant};

use control::store::Store;
use control::{Node, start};

/// Starts the node whose configuration is in `directory`, and waits until it has looked at itself.
pub fn node_of(directory: &Path) -> Node {
    let store = Store::of_directory(directory).unwrap();
    let document = store.read().unwrap();
    let node = start(store, document).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while node.observer().latest().is_none() {
        assert!(Instant::now() < end, "nothing is seen");
        std::thread::sleep(Duration::from_millis(5));
    }
    node
}
