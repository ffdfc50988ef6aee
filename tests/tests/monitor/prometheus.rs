use super::node;
use beds::{Tool, wait_until};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

fn check(text: &str) -> beds::tool::Outcome {
    Tool::new("promtool").args(["check", "metrics"]).input(text.as_bytes()).run()
}

#[test]
fn promtool_has_nothing_to_say_about_any_metric() {
    let text = monitor::prometheus::render(&super::node().snapshot);
    assert!(text.lines().count() > 1000, "something of everything");
    let outcome = check(&text).expect_success();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""), "{outcome}");
    // It would say something.
    let _ = check(&text.replace("_total", "_sum_total_count")).expect_failure();
    let _ = check(&text.replacen("# HELP", "# NOHELP", 1)).expect_failure();
}

const WRITES: &str = "fels_volume_operations_total{volume=\"watched\",verb=\"write\"}";

#[test]
fn promtool_has_nothing_to_say_about_what_a_node_answers() {
    let node = node::start();
    let writes = node::work(&node, Duration::from_millis(500));
    let (head, text) = node::get(node::http(&node), "/metrics");
    assert!(head.starts_with("http/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    let outcome = check(&text).expect_success();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""), "{outcome}");
    let counted = node::counter(&text, WRITES);
    assert!((counted - writes).abs() < 1e-9, "{counted} of {writes}: what was written is counted at once");
    assert!(node::counter(&text, "fels_pool_state{pool=\"tank\"}").abs() < 1e-9);
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The value of an expression; `None` while nothing is known of it.
fn query(prometheus: SocketAddr, expression: &str) -> Option<f64> {
    let encoded: String = expression.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"));
    let (_, body) = node::get(prometheus, &format!("/api/v1/query?query={encoded}"));
    // Before it is ready it answers with a word.
    let answer: serde_json::Value = serde_json::from_str(&body).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

#[test]
fn a_real_prometheus_sees_what_a_node_does_while_it_does_it() {
    let node = node::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let config = folder.path().join("prometheus.yml");
    let text = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n- job_name: fels\n  static_configs: [{{ targets: [\"{}\"] }}]\n",
        node::http(&node)
    );
    std::fs::write(&config, text).expect("a configuration");
    let prometheus = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut running = Tool::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={prometheus}"))
        .deadline(Duration::from_secs(120))
        .start();
    let up = || std::net::TcpStream::connect(prometheus).is_ok();
    assert!(wait_until(Duration::from_secs(60), up), "it listens: {}", running.stderr_so_far());
    let scraped = || query(prometheus, "up{job=\"fels\"}") == Some(1.0);
    assert!(wait_until(Duration::from_secs(30), scraped), "it is scraped: {}", running.stderr_so_far());
    let begun = Instant::now();
    let writes = node::work(&node, Duration::from_secs(6));
    let mean = writes / begun.elapsed().as_secs_f64();
    let rate = query(prometheus, &format!("max_over_time(rate({WRITES}[3s])[1m:1s])")).unwrap_or(0.0);
    assert!(rate > mean / 2.0, "{rate} writes a second, at most, of {mean} in the mean");
    let slow =
        "histogram_quantile(0.99, sum by (le) (fels_volume_latency_seconds_bucket{volume=\"watched\"}))";
    let slow = query(prometheus, slow).expect("a latency");
    assert!(slow > 0.0 && slow < 60.0, "{slow} s");
    // Nothing is lost on the way.
    let (_, text) = node::get(node::http(&node), "/metrics");
    let counted = node::counter(&text, WRITES);
    let same = || query(prometheus, WRITES) == Some(counted);
    assert!(wait_until(Duration::from_secs(20), same), "{:?} of {counted}", query(prometheus, WRITES));
    assert!(running.is_running());
}
