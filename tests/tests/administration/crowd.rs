//! A hundred callers make and delete volumes at once, while another volume is used.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

use beds::api::ask;
use beds::tool::lab;
use beds::{Bed, Node, Pool, Volume, wait_until};
use serde_json::{Value, json};

const CALLERS: usize = 100;
/// Each caller makes and deletes a volume so many times; every second one keeps its last.
const ROUNDS: usize = 2;

/// Whoever is refused because the node was busy too long asks again; nothing else may be refused.
fn insist(node: &Node, method: &str, path: &str, body: &Value, done: impl Fn(u16) -> bool) {
    for _ in 0..20 {
        let (status, said) = ask(node.data(), method, path, body);
        if done(status) {
            return;
        }
        assert_eq!(status, 503, "{method} {path}: {said}");
    }
    panic!("{method} {path} was never done");
}

fn live(node: &Node, number: usize) {
    let name = format!("v{number}");
    // Half of them on the pool, half of them in files.
    let backing =
        if number.is_multiple_of(4) { json!({ "file": format!("{name}.img") }) } else { Value::Null };
    let path = format!("/v1/volumes/{name}");
    for round in 0..ROUNDS {
        let mut volume = json!({ "name": name, "size": "1MiB" });
        if backing.is_null() {
            volume["pool"] = json!("tank");
        } else {
            volume["backing"] = backing.clone();
        }
        // It may have been made although the answer came too late.
        insist(node, "POST", "/v1/volumes", &json!({ "volume": volume }), |status| {
            status < 300 || (status == 409 && ask(node.data(), "GET", &path, &Value::Null).0 == 200)
        });
        let (status, said) = ask(node.data(), "GET", &path, &Value::Null);
        assert_eq!((status, said["state"].as_str()), (200, Some("serving")), "{said}");
        if round + 1 < ROUNDS || number.is_multiple_of(2) {
            insist(node, "DELETE", &path, &json!({}), |status| status < 300 || status == 404);
        }
    }
}

fn names(node: &Node) -> BTreeSet<String> {
    let (_, all) = ask(node.data(), "GET", "/v1/volumes", &Value::Null);
    let all = all["volumes"].as_array().expect("a list of volumes").clone();
    all.iter().map(|volume| volume["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_hundred_callers_lose_nothing_and_nothing_is_stuck() {
    let pool = Pool::files("tank", "raid1", 2).member_size("192MiB");
    let mut node = Bed::with([Volume::on_pool("busy", "8MiB", "tank")]).pool(pool).start();
    let load = lab("run").args(["--target", &node.url("busy"), "--verify", "--rw", "randrw", "--bs", "4k"]);
    let load = load.args(["--depth", "4", "--time", "12s", "--warmup", "0s", "--no-ceiling"]).start();
    let all_at_once = Barrier::new(CALLERS);
    std::thread::scope(|scope| {
        for number in 0..CALLERS {
            let (node, all_at_once) = (&node, &all_at_once);
            scope.spawn(move || {
                all_at_once.wait();
                live(node, number);
            });
        }
    });
    // The volume that was used meanwhile has what was written, and nothing of it failed.
    let _ = load.finish().expect_success();
    let kept = (0..CALLERS).filter(|number| !number.is_multiple_of(2)).map(|number| format!("v{number}"));
    let expected: BTreeSet<String> = kept.chain(["busy".to_owned()]).collect();
    assert_eq!(names(&node), expected);
    let over = wait_until(Duration::from_secs(30), || {
        ask(node.data(), "GET", "/v1/jobs", &Value::Null).1["jobs"].as_array().is_some_and(Vec::is_empty)
    });
    let (_, jobs) = ask(node.data(), "GET", "/v1/jobs?ended=true", &Value::Null);
    assert!(over, "some job does not end: {jobs}");
    let (_, status) = ask(node.data(), "GET", "/v1/status", &Value::Null);
    assert_eq!(status["state"], "ok", "{status}");
    // What is there is what the file says, also for the next node.
    for name in &expected {
        assert!(node.configuration().contains(&format!("\"{name}\"")), "{name} is not in the configuration");
    }
    node.terminate();
    node.restart_as_it_is();
    assert_eq!(names(&node), expected);
}
