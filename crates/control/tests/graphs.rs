//! What a node remembers is drawn, at addresses that stay.

use std::time::{SystemTime, UNIX_EPOCH};

use control::api::client::{Client, ClientError};
use control::api::model::{GraphData, GraphUnit, Graphs};
use control::start;
use control::store::Store;
use monitor::history::History;
use monitor::metric::Reading;

const CONFIG: &str = "shards = 1\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n\
     [[volume]]\nname = \"demo\"\nsize = \"1MiB\"\nbacking = { memory = true }\n";

/// The history of a node that did 100 to 159 reads a second, ten minutes ago for five minutes.
fn remember(directory: &std::path::Path, now_s: u64) {
    let mut history = History::open(&directory.join("history")).unwrap();
    let series = "fels_volume_operations_total{volume=\"demo\",verb=\"read\"}";
    for row in 0..60u32 {
        let reading = Reading { series: series.to_owned(), value: f64::from(100 + row) };
        history.record(now_s - 600 + u64::from(row) * 5, &[reading]).unwrap();
    }
}

#[test]
fn what_was_measured_is_drawn_at_addresses_that_stay() {
    let directory = tempfile::tempdir().unwrap();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 10 * 10;
    remember(directory.path(), now_s);
    std::fs::write(directory.path().join("fels.toml"), CONFIG).unwrap();
    let store = Store::of_directory(directory.path()).unwrap();
    let document = store.read().unwrap();
    let node = start(store, document).unwrap();
    let client = Client::new(directory.path()).unwrap();

    // The history is opened with the first readings.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let graphs = loop {
        let graphs: Graphs = client.get("/v1/graphs").unwrap();
        if !graphs.graphs.is_empty() {
            break graphs.graphs;
        }
        assert!(std::time::Instant::now() < end, "there are no graphs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let of_demo = graphs.iter().find(|graph| graph.name == "volume_operations@demo").unwrap();
    assert_eq!(of_demo.subject["volume"], "demo");
    assert_eq!((of_demo.unit, &of_demo.lines[0]), (GraphUnit::Iops, &"read".to_owned()));

    let data: GraphData = client.get("/v1/graphs/volume_operations@demo/day").unwrap();
    assert!(
        data.slots <= 721 && data.step_s * data.slots as u64 >= 86_400,
        "{} x {}",
        data.slots,
        data.step_s
    );
    // The node measures on, and is asked for nothing.
    let known: Vec<_> = data.lines[0].points.iter().flatten().filter(|point| point[2] > 0.0).collect();
    let least = known.iter().map(|point| point[0]).fold(f64::INFINITY, f64::min);
    let most = known.iter().map(|point| point[2]).fold(0.0, f64::max);
    // A second reading in the same 10 s replaces the first.
    assert_eq!((least, most), (101.0, 159.0));
    // 5 minutes of 24 hours, in slots of two minutes.
    assert!((3..=5).contains(&known.len()), "{known:?}");

    for span in ["day", "week", "month", "year"] {
        let svg = client.get_text(&format!("/graphs/volume_operations@demo/{span}.svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.contains("<title>Operations of volumes</title>"), "{svg}");
        assert!(svg.contains("prefers-color-scheme"), "{svg}");
    }
    let svg = client.get_text("/graphs/volume_operations@demo/day.svg?theme=dark&width=400").unwrap();
    assert!(svg.contains("width=\"400\"") && !svg.contains("prefers-color-scheme"), "{svg}");
    assert!(svg.contains("most 159 IO/s"), "{svg}");

    for (path, status) in [
        ("/graphs/volume_operations@none/day.svg", 404),
        ("/graphs/volume_operations@demo/hour.svg", 404),
        ("/graphs/volume_operations@demo/day", 404),
        ("/v1/graphs/%2e%2e%2fnames/day", 404),
        ("/graphs/volume_operations@demo/day.svg?theme=pink", 400),
    ] {
        match client.get_text(path) {
            Err(ClientError::Refused(problem)) => {
                assert_eq!(problem.status, status, "{path}");
                assert!(problem.hint.is_some(), "{path}");
            }
            other => panic!("{path}: {other:?}"),
        }
    }
    node.shutdown().unwrap();
}
