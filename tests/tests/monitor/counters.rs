//! What real initiators did is what portals, pools and members have, no more and no less.

use super::node;
use beds::initiator::Initiator;
use beds::{Bed, Node, Pool, Tool, Volume, api, nvme, wait_until};
use std::collections::BTreeMap;
use std::time::Duration;

/// Blocks that each of the commands moves.
const BYTES: u64 = 4096;

/// A node with a volume on a mirror and one in memory, over every protocol.
fn start() -> Node {
    let volumes = [Volume::on_pool("mirrored", "4MiB", "tank"), Volume::memory("memory", "16MiB")];
    Bed::with(volumes)
        .pool(Pool::files("tank", "raid1", 2))
        .portals(2)
        .nvme()
        .nbd()
        .extra("http = { listen = \"127.0.0.1:0\" }\nmunin = { listen = \"127.0.0.1:0\" }")
        .start()
}

/// The metrics of a node at one moment.
struct Seen(String);

impl Seen {
    /// Those who ask within half a second get the same ones.
    fn of(node: &Node) -> Seen {
        std::thread::sleep(Duration::from_millis(600));
        Seen(node::get(node::http(node), "/metrics").1)
    }

    /// A counter: its name without `fels_` and `_total`, and its labels.
    #[expect(clippy::cast_sign_loss, reason = "counters are not negative")]
    fn count(&self, name: &str, labels: &str) -> u64 {
        node::counter(&self.0, &format!("fels_{name}_total{{{labels}}}")) as u64
    }

    /// The values of a metric that has these labels among others.
    fn all(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        let lines = self.0.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let its = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        its.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
    }
}

/// What happened to something: reads, writes, bytes read, bytes written, errors.
#[derive(Debug, PartialEq, Eq)]
struct Did(u64, u64, u64, u64, u64);

fn did(before: &Seen, after: &Seen, what: &str, labels: &str) -> Did {
    let grown = |metric: &str, verb: &str| {
        let labels = if verb.is_empty() { labels.to_owned() } else { format!("{labels},verb=\"{verb}\"") };
        let name = format!("{what}_{metric}");
        after.count(&name, &labels) - before.count(&name, &labels)
    };
    Did(
        grown("operations", "read"),
        grown("operations", "write"),
        grown("bytes", "read"),
        grown("bytes", "write"),
        grown("errors", ""),
    )
}

fn operations(reads: u64, writes: u64) -> Did {
    Did(reads, writes, reads * BYTES, writes * BYTES, 0)
}

fn portal(protocol: &str, port: u16) -> String {
    format!("protocol=\"{protocol}\",address=\"127.0.0.1:{port}\"")
}

/// So many writes, then so many reads of what was written.
fn qemu_io(url: &str, writes: u64, reads: u64) -> Tool {
    let tool = Tool::new("qemu-io").args(["-f", "raw"]);
    let commands = (0..writes)
        .map(|number| format!("write -P 7 {}k 4k", number * 64))
        .chain((0..reads).map(|number| format!("read {}k 4k", number * 64)));
    commands.fold(tool, |tool, command| tool.args(["-c", &command])).arg(url)
}

#[test]
fn what_initiators_did_is_what_portals_pools_and_members_have() {
    let node = start();
    let (first, second) = (portal("iscsi", node.port(0)), portal("iscsi", node.port(1)));
    let (nvme_port, nbd_port) = (node.nvme_ports().0, node.nbd_address().port());
    let before = Seen::of(&node);
    let _ = qemu_io(&node.url("mirrored"), 20, 11).run().expect_success();
    let after = Seen::of(&node);
    assert_eq!(did(&before, &after, "portal", &first), operations(11, 20));
    assert_eq!(did(&before, &after, "portal", &second), operations(0, 0));
    assert_eq!(did(&before, &after, "pool", "pool=\"tank\""), operations(11, 20));
    let members =
        [0, 1].map(|slot| did(&before, &after, "member", &format!("pool=\"tank\",slot=\"{slot}\"")));
    for Did(_, writes, _, written, errors) in &members {
        // A part of the journal and the block in its place; the bitmap and the labels now and then.
        assert!((40..=50).contains(writes) && *written >= 40 * BYTES && *errors == 0, "{members:?}");
    }
    assert!(members[0].1.abs_diff(members[1].1) <= 2, "{members:?}");
    assert_eq!(members[0].0 + members[1].0, 11, "{members:?}");

    // Over all of them at once; each has its own.
    let _ = qemu_io(&node.url_by(1, "memory"), 3, 2).run().expect_success();
    let _ = qemu_io(&node.nbd_url("memory"), 7, 5).run().expect_success();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], nvme_port));
    let (admin, controller) = nvme::Queue::admin(address, "memory").expect("a controller");
    let mut queue = nvme::Queue::io(address, "memory", controller, 1, 32).expect("a queue");
    for number in 0..4 {
        queue.write(number * 8, &[1; BYTES as usize]).expect("a write");
    }
    queue.read(0, BYTES as usize).expect("a read");
    // What is refused is no operation.
    assert!(queue.read(1 << 40, BYTES as usize).is_err());
    let mut stranger = Initiator::login(address_of(&node, 1), "memory").expect("a login");
    assert!(stranger.read(u32::MAX - 8, 8).is_err());
    let last = Seen::of(&node);
    assert_eq!(did(&after, &last, "portal", &first), operations(0, 0));
    assert_eq!(did(&after, &last, "portal", &second), operations(2, 3));
    assert_eq!(did(&after, &last, "portal", &portal("nbd", nbd_port)), operations(5, 7));
    assert_eq!(did(&after, &last, "portal", &portal("nvme", nvme_port)), operations(1, 4));
    assert_eq!(did(&after, &last, "volume", "volume=\"memory\"").1, 14);
    // NBD asks nobody who he is.
    let by_nbd =
        last.count("initiator_operations", "protocol=\"nbd\",initiator=\"127.0.0.1\",verb=\"write\"");
    assert_eq!(by_nbd, 7);
    let by_iscsi: f64 = last.all("fels_initiator_operations_total", &["\"iscsi\"", "\"write\""]).iter().sum();
    assert!((by_iscsi - 23.0).abs() < 1e-9, "{by_iscsi}");
    assert_eq!(last.all("fels_portal_connections", &["\"nvme\""]), [2.0], "an admin queue and one for I/O");
    sessions_and_members_are_shown(&node);
    drop((queue, admin, stranger));
    initiators_come_and_go(&node);
}

fn address_of(node: &Node, portal: usize) -> std::net::SocketAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], node.port(portal)))
}

/// The API, and what is made of it for people.
fn sessions_and_members_are_shown(node: &Node) {
    let get = |path: &str| api::ask(node.data(), "GET", path, &serde_json::Value::Null).1;
    let told = get("/v1/initiators");
    let nvme = told["initiators"].as_array().expect("a list").iter().find(|one| one["protocol"] == "nvme");
    let io = &nvme.expect("a host")["sessions"][0]["io"];
    assert_eq!(
        (io["writes"].as_u64(), io["reads"].as_u64(), io["errors"].as_u64()),
        (Some(4), Some(1), Some(0))
    );
    let pool = get("/v1/pools/tank");
    assert_eq!(pool["io"]["writes"], 20);
    assert!(pool["members"][1]["io"]["writes"].as_u64() >= Some(40), "{pool}");
    let data = node.data().display().to_string();
    let status = beds::tool::pool("status").args(["tank", "--data", &data]).run().expect_success().stdout;
    assert!(status.contains("20 writes (80KiB)") && status.contains("reads  writes  errors"), "{status}");
    let listed = beds::tool::fels("initiator", "list").args(["--data", &data]).run().expect_success().stdout;
    let line = listed.lines().find(|line| line.starts_with("nvme")).expect("a host");
    let cells: Vec<_> = line.split_whitespace().rev().take(5).collect();
    assert_eq!(cells, ["0", "16KiB", "4KiB", "4", "1"], "{listed}");
    // Of rates there is nothing before the second interval.
    let graphs = ["member_operations@tank,0", "member_latency_seconds@tank,1", "portal_bytes@nbd"];
    let drawn = || {
        let told = get("/v1/graphs").to_string();
        graphs.iter().all(|graph| told.contains(graph))
    };
    assert!(wait_until(Duration::from_secs(40), drawn), "{}", get("/v1/graphs"));
}

/// The events of initiators since then, by name, initiator and how.
fn initiators_come_and_go(node: &Node) {
    let _ = Tool::new("qemu-io")
        .args(["-f", "raw", "-c", "read 0 4k"])
        .arg(node.url("memory").replace(":memory/", ":nowhere/"))
        .run()
        .expect_failure();
    let told = || {
        let events = api::ask(node.data(), "GET", "/v1/events?limit=1000", &serde_json::Value::Null).1;
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for event in events["events"].as_array().expect("a list") {
            let field = |name: &str| event["fields"][name].as_str().unwrap_or_default().to_owned();
            let name = event["event"].as_str().expect("a name");
            if name.starts_with("initiator-") {
                *counts.entry(format!("{name} {} {}", field("protocol"), field("how"))).or_default() += 1;
            }
        }
        counts
    };
    let expected = [
        ("initiator-logged-in iscsi ", 3),
        ("initiator-logged-in nbd ", 1),
        ("initiator-logged-in nvme ", 1),
        // qemu says that it goes; the one of the bed just went.
        ("initiator-logged-out iscsi lost", 1),
        ("initiator-logged-out iscsi orderly", 2),
        ("initiator-logged-out nbd orderly", 1),
        ("initiator-logged-out nvme lost", 1),
        ("initiator-refused iscsi ", 1),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(name, count)| (name.to_owned(), count)).into();
    assert!(wait_until(Duration::from_secs(10), || told() == expected), "{:#?}", told());
}

#[test]
fn portals_that_are_used_unevenly_are_known() {
    let node = start();
    // A path is one that somebody has used.
    let _ = qemu_io(&node.url_by(1, "memory"), 1, 1).run().expect_success();
    let busy = || {
        let write = "write 0 8M";
        let tool = (0..20).fold(Tool::new("qemu-io").args(["-f", "raw"]), |tool, _| tool.args(["-c", write]));
        let _ = tool.arg(node.url("memory")).run().expect_success();
        let evenness = Seen::of(&node).all("fels_portal_evenness_ratio", &["\"iscsi\""]);
        evenness.first().is_some_and(|ratio| *ratio < 0.1)
    };
    assert!(wait_until(Duration::from_secs(40), busy), "{}", Seen::of(&node).0);
}
