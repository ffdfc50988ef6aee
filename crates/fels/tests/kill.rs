//! A node that is killed between any two steps of a change: after its next start there is the old state or the new one, whole.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use control::api::client::Client;
use control::api::model::{Change, Changed, Member, MemberState, Pools, VolumeState, Volumes};
use serde_json::{Value, json};

/// All places at which a change can be cut, in their order. From `saved` on the new state holds.
const POINTS: [&str; 9] =
    ["begun", "written", "noted", "made", "added", "saved", "altered", "removed", "settled"];
const SAVED: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"# Before everything.
shards = 1
[iscsi]
listen = ["127.0.0.1:0"]
[[pool]]
name = "tank"
raid = "raid1"
members = ["m0.img", "m1.img"]
member_size = "32MiB"
[[volume]]
name = "old-file"
size = "1MiB"
backing = { file = "old-file.img" }
[[volume]]
name = "old-pool"
size = "1MiB"
pool = "tank"
"#;

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already in a test that went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    /// A node in a directory that dies at a point.
    fn start(data: &Path, die_at: &str) -> Serving {
        let child = Command::new(env!("CARGO_BIN_EXE_fels"))
            .args(["serve", "--log", "warn", "--data"])
            .arg(data)
            .env("FELS_DIE_AT", die_at)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut serving = Serving(child);
        let mut line = String::new();
        BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "it does not start again: {line}");
        serving
    }

    fn ended(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.0.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

/// What is found of a volume: its size in the document, and the bytes that it has where it lives.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    wished: Option<u64>,
    bytes: Option<u64>,
}

fn find(client: &Client, data: &Path, name: &str, on_pool: bool) -> Found {
    let all: Volumes = client.get("/v1/volumes").unwrap();
    let volume = all.volumes.iter().find(|volume| volume.name == name);
    assert!(volume.is_none_or(|volume| volume.state == VolumeState::Serving), "{all:?}");
    let bytes = if on_pool {
        let pools: Pools = client.get("/v1/pools").unwrap();
        pools
            .pools
            .iter()
            .flat_map(|pool| &pool.volumes)
            .find(|volume| volume.name == name)
            .map(|volume| volume.size_bytes)
    } else {
        std::fs::metadata(data.join(format!("{name}.img"))).ok().map(|file| file.len())
    };
    Found { wished: volume.map(|volume| volume.size_bytes), bytes }
}

/// Makes a change on a node that dies at each point in turn; `name` is old before and new after it.
fn cut(name: &str, on_pool: bool, old: Option<u64>, new: Option<u64>, change: impl Fn(&Client) -> bool) {
    let mut deaths = 0;
    for (place, point) in POINTS.iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let data: PathBuf = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("fels.toml"), CONFIG).unwrap();
        let mut node = Serving::start(&data, point);
        let answered = change(&Client::new(&data).unwrap());
        let died = !answered;
        assert!(!died || node.ended(), "no answer, and it lives on");
        deaths += usize::from(died);
        drop(node);
        let _node = Serving::start(&data, "nowhere");
        let client = Client::new(&data).unwrap();
        let found = find(&client, &data, name, on_pool);
        let wished = if died && place < SAVED { old } else { new };
        assert_eq!(found, Found { wished, bytes: wished }, "{name} after a death at `{point}`");
        for (other, on_pool) in
            [("old-file", false), ("old-pool", true)].into_iter().filter(|other| other.0 != name)
        {
            let found = find(&client, &data, other, on_pool);
            assert_eq!(found, Found { wished: Some(1 << 20), bytes: Some(1 << 20) }, "{other}");
        }
        assert!(!data.join("pending.toml").exists(), "{point}");
        let text = std::fs::read_to_string(data.join("fels.toml")).unwrap();
        assert!(text.contains("# Before everything."), "{text}");
        // It goes on from there.
        let again =
            json!({ "volume": { "name": "next", "size": "1MiB", "backing": { "file": "next.img" } } });
        assert!(client.post::<Changed>("/v1/volumes", &again).unwrap().done);
    }
    assert!(deaths >= POINTS.len() - 1, "{deaths} deaths: the points are not where they were");
}

fn create(backing: &'static str, place: &Value) -> impl Fn(&Client) -> bool {
    let mut volume = json!({ "name": "new", "size": "2MiB" });
    volume[backing] = place.clone();
    let wish = json!({ "volume": volume });
    move |client| client.post::<Changed>("/v1/volumes", &wish).is_ok()
}

#[test]
fn making_a_volume_in_a_file_is_whole_or_nothing() {
    cut("new", false, None, Some(2 << 20), create("backing", &json!({ "file": "new.img" })));
}

#[test]
fn making_a_volume_on_a_pool_is_whole_or_nothing() {
    cut("new", true, None, Some(2 << 20), create("pool", &json!("tank")));
}

#[test]
fn deleting_a_volume_in_a_file_is_whole_or_nothing() {
    let delete = |client: &Client| client.delete::<Changed>("/v1/volumes/old-file", &json!({})).is_ok();
    cut("old-file", false, Some(1 << 20), None, delete);
}

#[test]
fn deleting_a_volume_on_a_pool_is_whole_or_nothing() {
    let delete = |client: &Client| client.delete::<Changed>("/v1/volumes/old-pool", &json!({})).is_ok();
    cut("old-pool", true, Some(1 << 20), None, delete);
}

#[test]
fn resizing_a_volume_in_a_file_is_whole_or_nothing() {
    let resize = |client: &Client| {
        client.patch::<Changed>("/v1/volumes/old-file", &json!({ "set": { "size": "3MiB" } })).is_ok()
    };
    cut("old-file", false, Some(1 << 20), Some(3 << 20), resize);
}

#[test]
fn resizing_a_volume_on_a_pool_is_whole_or_nothing() {
    let resize = |client: &Client| {
        client.patch::<Changed>("/v1/volumes/old-pool", &json!({ "set": { "size": "3MiB" } })).is_ok()
    };
    cut("old-pool", true, Some(1 << 20), Some(3 << 20), resize);
}

#[test]
fn applying_a_document_is_whole_or_nothing() {
    let more = "[[volume]]\nname = \"new\"\nsize = \"2MiB\"\nbacking = { file = \"new.img\" }\n";
    let wish = json!({ "text": format!("{CONFIG}{more}") });
    cut("new", false, None, Some(2 << 20), move |client| {
        client.put::<Changed>("/v1/configuration", &wish).is_ok()
    });
}

/// Points of a change that opens a pool and a portal, in their order.
const POOL_POINTS: [&str; 10] =
    ["begun", "written", "noted", "opened", "listening", "added", "saved", "altered", "removed", "settled"];
const POOL_SAVED: usize = 6;
/// A pool that is made anew, and a volume on it.
const POND: &str = r#"[[pool]]
name = "pond"
raid = "raid1"
members = ["p0.img", "p1.img"]
member_size = "32MiB"
[[volume]]
name = "fish"
size = "2MiB"
pool = "pond"
"#;

/// Names of the pools that are open.
fn pools(client: &Client) -> Vec<String> {
    client.get::<Pools>("/v1/pools").unwrap().pools.into_iter().map(|pool| pool.name).collect()
}

/// A node with a document, and what asks it.
fn served(data: &Path, text: &str, die_at: &str) -> (Serving, Client) {
    if !data.exists() {
        std::fs::create_dir(data).unwrap();
        std::fs::write(data.join("fels.toml"), text).unwrap();
    }
    (Serving::start(data, die_at), Client::new(data).unwrap())
}

/// Makes a change of pools on a node that dies at each of `points`, and looks at which pools there are after its next start. The change
/// is made again then, so that nothing of the one that was cut may be in its way.
fn cut_pools(
    points: &[&str],
    text: &str,
    old: &[&str],
    new: &[&str],
    change: impl Fn(&Client) -> Result<Changed, control::api::client::ClientError>,
) {
    for point in points {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let (mut node, client) = served(&data, text, point);
        assert!(change(&client).is_err(), "it does not come by `{point}`");
        assert!(node.ended(), "no answer, and it lives on");
        let (_node, client) = served(&data, text, "nowhere");
        let is_saved = POOL_POINTS.iter().position(|other| other == point).unwrap() >= POOL_SAVED;
        assert_eq!(pools(&client), if is_saved { new } else { old }, "after a death at `{point}`");
        assert!(!data.join("pending.toml").exists(), "{point}");
        let found = find(&client, &data, "old-pool", true);
        assert_eq!(found, Found { wished: Some(1 << 20), bytes: Some(1 << 20) }, "{point}");
        if !is_saved {
            assert!(change(&client).unwrap_or_else(|error| panic!("{point}: {error}")).done);
            assert_eq!(pools(&client), new, "{point}");
        }
    }
}

#[test]
fn a_pool_with_a_volume_and_a_portal_comes_whole_or_not_at_all() {
    let text = CONFIG.replace("listen = [\"127.0.0.1:0\"]", "listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]");
    let wish = json!({ "text": format!("{text}{POND}") });
    let apply = |client: &Client| client.put::<Changed>("/v1/configuration", &wish);
    cut_pools(&POOL_POINTS, CONFIG, &["tank"], &["tank", "pond"], apply);
}

/// The members of `tank`, in the order of their slots: the names of their files, and whether they are in use.
fn members(client: &Client) -> Vec<(String, bool)> {
    let all: Pools = client.get("/v1/pools").unwrap();
    let tank = all.pools.into_iter().find(|pool| pool.name == "tank").unwrap();
    let named = |member: Member| {
        let place = PathBuf::from(member.place.unwrap_or_default());
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, member.state != MemberState::Out)
    };
    tank.members.into_iter().map(named).collect()
}

/// Gives `tank` a member on a node that dies at each of `points` in turn. From `joined` on it is one, and before all is as it was; the
/// configuration names the members in either case.
fn cut_joining(points: &[&str], old: &[&str], new: &[&str], change: impl Fn(&Client, &Path) -> bool) {
    for point in points {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let (mut node, client) = served(&data, CONFIG, point);
        assert!(!change(&client, &data), "it does not come by `{point}`");
        assert!(node.ended(), "no answer, and it lives on");
        let (_node, client) = served(&data, CONFIG, "nowhere");
        let expected = if ["joined", "followed"].contains(point) { new } else { old };
        let expected: Vec<_> = expected.iter().map(|name| ((*name).to_owned(), true)).collect();
        assert_eq!(members(&client), expected, "after a death at `{point}`");
        assert!(!data.join("pending.toml").exists(), "{point}");
        let text = std::fs::read_to_string(data.join("fels.toml")).unwrap();
        for (name, _) in &expected {
            assert!(text.contains(name), "{point}: {name} is missing in\n{text}");
        }
        let found = find(&client, &data, "old-pool", true);
        assert_eq!(found, Found { wished: Some(1 << 20), bytes: Some(1 << 20) }, "{point}");
    }
}

#[test]
fn a_member_is_replaced_whole_or_not_at_all() {
    let replace = |client: &Client, data: &Path| {
        let wish = json!({ "place": data.join("other.img") });
        client.post::<Change>("/v1/pools/tank/members/1/replace", &wish).is_ok()
    };
    let points = ["joining", "out", "joined", "followed"];
    cut_joining(&points, &["m0.img", "m1.img"], &["m0.img", "other.img"], replace);
}

#[test]
fn a_further_member_comes_whole_or_not_at_all() {
    let extend = |client: &Client, data: &Path| {
        let wish = json!({ "places": [data.join("other.img")] });
        client.post::<Change>("/v1/pools/tank/members", &wish).is_ok()
    };
    let points = ["joining", "joined", "followed"];
    cut_joining(&points, &["m0.img", "m1.img"], &["m0.img", "m1.img", "other.img"], extend);
}

#[test]
fn a_pool_goes_whole_or_not_at_all() {
    let (pond, _) = POND.split_once("[[volume]]").unwrap();
    let text = format!("{CONFIG}{pond}");
    let points = ["begun", "written", "added", "saved", "altered", "removed", "settled"];
    let close = |client: &Client| client.delete::<Changed>("/v1/pools/pond", &json!({}));
    cut_pools(&points, &text, &["tank", "pond"], &["tank"], close);
}
