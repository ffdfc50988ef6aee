//! One volume by three protocols, and targets that go away.

use std::time::Duration;

use beds::tool::Running;
use beds::{Bed, Node, Tool, Volume, wait_until};

use super::{json, lab};

fn node() -> Node {
    Bed::with([Volume::memory("demo", "64MiB")]).nvme().nbd().start()
}

fn compare(targets: &[String]) -> Tool {
    let flags = ["--rw=randrw", "--rwmix=70", "--bs=8k", "--depth=16", "--warmup=100ms"];
    lab("compare").args(targets).args(flags)
}

/// All ways into the same volume; NBD twice.
fn ways(node: &Node) -> Vec<String> {
    let named = [("iscsi", node.url("demo")), ("nvme", node.nvme_url("demo")), ("nbd", node.nbd_url("demo"))];
    let named = named.iter().map(|(name, url)| format!("{name}={url}"));
    named.chain([format!("unix={}", node.nbd_unix_url("demo"))]).collect()
}

fn said(running: &Running, words: &str) {
    let heard = wait_until(Duration::from_secs(60), || running.stderr_so_far().contains(words));
    assert!(heard, "nothing of {words:?} in {}", running.stderr_so_far());
}

#[test]
fn one_volume_by_every_protocol() {
    let (node, folder) = (node(), tempfile::tempdir().unwrap());
    let path = folder.path().join("run.json");
    let outcome = compare(&ways(&node))
        .args(["--time=500ms", "--rounds=2", "--json"])
        .arg(&path)
        .run()
        .expect_success();
    let (reads, writes) = (", reads ", ", writes ");
    for part in
        ["factor (iscsi = 1)", "lab us per I/O", "lab itself", reads, writes, "unix: nbd+unix:///demo?"]
    {
        assert!(outcome.stdout.contains(part), "{part}: {outcome}");
    }
    assert!(outcome.stderr.contains("round 2 of 2, nvme, "), "{outcome}");

    let report = json(&path);
    let samples = report["samples"].as_array().unwrap();
    let turns: Vec<_> = samples.iter().map(|sample| sample["target"].as_str().unwrap()).collect();
    assert_eq!(turns, ["iscsi", "nvme", "nbd", "unix", "nvme", "nbd", "unix", "iscsi"]);
    assert!(
        samples.iter().all(|sample| sample["report"]["total"]["operations"].as_u64() > Some(0)),
        "{report}"
    );
    let rows = report["rows"].as_array().unwrap();
    let directions: Vec<_> = rows.iter().map(|row| row["direction"].as_str().unwrap()).collect();
    assert_eq!(directions, ["read", "write"]);
    for row in rows {
        let factor = |cell: &serde_json::Value| cell["factor"]["median"].as_f64().unwrap();
        let factors: Vec<f64> = row["cells"].as_array().unwrap().iter().map(factor).collect();
        assert!(
            factors[0].to_bits() == 1.0f64.to_bits() && factors.iter().all(|&factor| factor > 0.0),
            "{row}"
        );
    }
}

#[test]
fn a_profile_is_compared_test_by_test() {
    let node = node();
    let tool = lab("compare").args([node.nvme_url("demo"), node.nbd_url("demo")]);
    let flags = ["--profile=vmware", "--time=200ms", "--warmup=0", "--rounds=1", "--no-ceiling"];
    let outcome = tool.args(flags).run().expect_success();
    for row in
        ["Max Throughput-100%Read, reads", "RealLife-60%Rand-65%Read, writes", "Random-8k-70%Read, reads"]
    {
        assert!(outcome.stdout.contains(row), "{outcome}");
    }
    assert!(!outcome.stdout.contains("Max Throughput-100%Read, writes"), "{outcome}");
}

#[test]
fn verified_blocks_are_right_by_every_protocol() {
    let node = node();
    let outcome =
        compare(&ways(&node)).args(["--time=300ms", "--rounds=1", "--verify"]).run().expect_success();
    assert!(!outcome.stdout.contains("WRONG"), "{outcome}");
}

#[test]
fn a_target_that_dies_in_the_second_round_is_named_and_the_others_go_on() {
    let (staying, mut dying) = (node(), node());
    let targets = [
        format!("dying={}", dying.nbd_url("demo")),
        format!("one={}", staying.nbd_url("demo")),
        format!("two={}", staying.nvme_url("demo")),
    ];
    let running = compare(&targets).args(["--time=1", "--rounds=3"]).start();
    said(&running, "round 1 of 3, two");
    // It begins the first round and ends the second one.
    said(&running, "round 2 of 3, one");
    dying.kill9();
    let outcome = running.finish().expect_failure();
    assert!(outcome.stdout.contains("LOST dying in round 2 at random"), "{outcome}");
    assert!(outcome.stdout.contains("it has 1 of 3 rounds"), "{outcome}");
    assert!(outcome.stderr.contains("error: dying was lost in round 2"), "{outcome}");
    assert!(outcome.stderr.contains("round 3 of 3, two"), "{outcome}");
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let node = node();
    let running = compare(&ways(&node)[..2]).args(["--time=1", "--rounds=100"]).start();
    said(&running, "round 2 of 100, nvme");
    running.interrupt();
    let outcome = running.finish().expect_success();
    assert!(outcome.elapsed < Duration::from_secs(60), "{outcome}");
    assert!(outcome.stdout.contains("interrupted: this is what was measured up to then"), "{outcome}");
    assert!(outcome.stdout.contains("factor (iscsi = 1)"), "{outcome}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let node = node();
    let url = node.nbd_url("demo");
    let cases: [(&[&str], &str); 4] = [
        (&[&url], "hint: name another one behind it"),
        (&[&url, "ftp://host/demo"], "hint: use one of iscsi://"),
        (&[&url, "nbd://127.0.0.1:1/demo"], "hint: start the target with `fels serve`"),
        (&[&format!("a={url}"), &format!("a={url}")], "hint: write name=URL"),
    ];
    for (targets, hint) in cases {
        let outcome = lab("compare").args(targets).run().expect_failure();
        assert!(outcome.stderr.starts_with("error: ") && outcome.stderr.contains(hint), "{outcome}");
        assert!(outcome.elapsed < Duration::from_secs(10), "nothing was measured before: {outcome}");
    }
}
