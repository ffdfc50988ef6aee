//! Volumes of a node that runs, over its control API: made, changed and deleted, by one and by a hundred at once.

use std::path::Path;

use control::api::client::{Client, ClientError};
use control::api::model::{
    Changed, ConfigurationText, Health, NodeStatus, Pools, PortalList, Volume, VolumeState, Volumes,
};
use control::{Config, Node, Store, api, start};
use serde_json::{Value, json};

const CONFIG: &str = r#"
# The node of the tests.
shards = 2
[iscsi]
listen = ["127.0.0.1:0"]
discovery_chap = [{ user = "finder", secret = "finder-finder-1" }]
[[pool]]
name = "tank"
raid = "raid1"
members = ["m0.img", "m1.img"]
member_size = "64MiB"
"#;

fn node(directory: &Path) -> Node {
    let path = directory.join("fels.toml");
    if !path.exists() {
        std::fs::write(&path, CONFIG).unwrap();
    }
    let store = Store::of_directory(directory).unwrap();
    let document = store.read().unwrap();
    start(store, document).unwrap()
}

fn problem<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> api::Problem {
    match answer.unwrap_err() {
        ClientError::Refused(problem) => *problem,
        other => panic!("{other}"),
    }
}

fn create(client: &Client, volume: &Value) -> Result<Changed, ClientError> {
    client.post("/v1/volumes", &json!({ "volume": volume }))
}

fn change(client: &Client, name: &str, wish: &Value) -> Result<Changed, ClientError> {
    client.patch(&format!("/v1/volumes/{name}"), wish)
}

fn volumes_on_pool(client: &Client) -> Vec<(String, u64)> {
    let pools: Pools = client.get("/v1/pools").unwrap();
    pools.pools[0].volumes.iter().map(|volume| (volume.name.clone(), volume.size_bytes)).collect()
}

#[test]
fn a_volume_lives_its_life_while_the_node_runs_and_a_restart_finds_it_so() {
    let directory = tempfile::tempdir().unwrap();
    let first = node(directory.path());
    let client = Client::new(directory.path()).unwrap();
    let planned: Changed = client
        .post("/v1/volumes", &json!({ "volume": { "name": "db", "size": "4MiB" }, "dry_run": true }))
        .unwrap();
    assert_eq!(
        (planned.done, &planned.steps[0][..]),
        (false, "serve volume db: 4MiB on the pool tank, made now")
    );
    assert_eq!(volumes_on_pool(&client), []);
    let made = create(&client, &json!({ "name": "db", "size": "4MiB", "alias": "data" })).unwrap();
    assert_eq!(made.volume.unwrap().state, VolumeState::Serving);
    assert_eq!(volumes_on_pool(&client), [("db".to_owned(), 4 << 20)]);
    create(&client, &json!({ "name": "logs", "size": "1MiB", "backing": { "file": "logs.img" } })).unwrap();
    let limited = json!({ "set": { "size": "6MiB", "limits": { "iops": 9000, "throughput": "50MB/s" } }, "unset": ["alias"] });
    let changed = change(&client, "db", &limited).unwrap().volume.unwrap();
    assert_eq!((changed.size_bytes, changed.limits.iops, changed.alias), (6 << 20, Some(9000), None));
    assert_eq!(volumes_on_pool(&client), [("db".to_owned(), 6 << 20)]);
    change(&client, "logs", &json!({ "set": { "enabled": false } })).unwrap();
    let all: Volumes = client.get("/v1/volumes").unwrap();
    let states: Vec<_> = all.volumes.iter().map(|volume| (volume.name.as_str(), volume.state)).collect();
    assert_eq!(states, [("db", VolumeState::Serving), ("logs", VolumeState::Disabled)]);
    first.shutdown().unwrap();

    let second = node(directory.path());
    let after: Volumes = client.get("/v1/volumes").unwrap();
    assert_eq!(after, all, "a restart changes nothing");
    change(&client, "logs", &json!({ "unset": ["enabled"] })).unwrap();
    let deleted: Changed = client.delete("/v1/volumes/db", &json!({})).unwrap();
    assert!(deleted.steps[0].contains("DESTROY") && deleted.volume.is_none(), "{deleted:?}");
    assert_eq!(volumes_on_pool(&client), []);
    let kept: Changed = client.delete("/v1/volumes/logs", &json!({ "keep_data": true })).unwrap();
    assert!(kept.steps[0].contains("its bytes stay") && directory.path().join("logs.img").exists());
    assert_eq!(std::fs::read_to_string(directory.path().join("fels.toml")).unwrap(), CONFIG);
    second.shutdown().unwrap();
}

#[test]
fn what_is_wrong_is_answered_at_its_field() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let client = Client::new(directory.path()).unwrap();
    for (volume, field) in [
        (json!({ "name": "a", "size": "1G" }), "size"),
        (json!({ "name": "a" }), "volume.a"),
        (json!({ "name": "a", "size": "1MiB", "pool": "none" }), "pool"),
        (json!({ "name": "a", "size": "1MiB", "limits": { "iops": 0 } }), "limits.iops"),
        (
            json!({ "name": "a", "size": "1MiB", "chap": [{ "user": "u", "secret": "short" }] }),
            "chap.0.secret",
        ),
    ] {
        let said = problem(create(&client, &volume));
        assert_eq!((said.status, said.fields[0].field.as_deref()), (400, Some(field)), "{said:?}");
        assert!(!said.detail.contains("short\""), "{said:?}");
    }
    let unknown = problem(create(&client, &json!({ "name": "a", "colour": "red" })));
    assert!(unknown.status == 400 && unknown.detail.contains("colour"), "{unknown:?}");
    // More than the pool has.
    let full = problem(create(&client, &json!({ "name": "a", "size": "1TiB" })));
    assert!(full.hint.is_some() && !full.detail.is_empty(), "{full:?}");
    create(&client, &json!({ "name": "a", "size": "1MiB" })).unwrap();
    let smaller = problem(change(&client, "a", &json!({ "set": { "size": 512 } })));
    assert!(smaller.status == 409 && smaller.detail.contains("cannot be made smaller"), "{smaller:?}");
    assert_eq!(problem(create(&client, &json!({ "name": "a", "size": "1MiB" }))).status, 409);
    assert_eq!(problem(change(&client, "b", &json!({}))).status, 404);
    assert_eq!(problem(client.get::<Volume>("/v1/volumes/b")).status, 404);
    node.shutdown().unwrap();
}

#[test]
fn the_configuration_is_told_without_secrets_replaced_and_guarded_by_its_version() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let client = Client::new(directory.path()).unwrap();
    create(&client, &json!({ "name": "a", "size": "1MiB" })).unwrap();
    let hidden: ConfigurationText = client.get("/v1/configuration").unwrap();
    assert!(hidden.text.contains("secret = \"***\"") && !hidden.text.contains("finder-finder"));
    let refused = problem(client.put::<Changed>("/v1/configuration", &json!({ "text": hidden.text })));
    assert!(refused.detail.contains("hidden") && refused.fields[0].line.is_some(), "{refused:?}");
    let whole: ConfigurationText = client.get("/v1/configuration?secrets=true").unwrap();
    assert!(whole.text.contains("finder-finder-1") && whole.version == hidden.version);
    let one: ConfigurationText = client.get("/v1/configuration/volumes/a").unwrap();
    assert_eq!(one.text, "[[volume]]\nname = \"a\"\nsize = \"1MiB\"\npool = \"tank\"\n");
    let same: Changed = client.put("/v1/configuration", &json!({ "text": whole.text })).unwrap();
    assert_eq!(same.steps, ["nothing to do: all is as wished"]);
    let more = format!("{}\n[[volume]]\nname = \"b\"\nsize = 512\nbacking = {{ null = true }}\n", whole.text);
    let wish = json!({ "text": more.replace("shards = 2", "shards = 1"), "version": whole.version });
    let applied: Changed = client.put("/v1/configuration", &wish).unwrap();
    assert!(applied.steps.len() == 2 && applied.steps[1].starts_with("from the next start"), "{applied:?}");
    let stale = problem(client.put::<Changed>("/v1/configuration", &wish));
    assert_eq!((stale.status, &stale.kind[..]), (412, "urn:fels:stale"));
    let status: NodeStatus = client.get("/v1/status").unwrap();
    assert_eq!((status.state, status.volumes, status.pools), (Health::Warning, 2, 1));
    assert!(status.findings[0].sentence.contains("1 shards instead of 2"), "{status:?}");
    std::fs::write(directory.path().join("fels.toml"), "# by hand\n").unwrap();
    let status: NodeStatus = client.get("/v1/status").unwrap();
    assert!(status.findings.iter().any(|finding| finding.hint.contains("fels apply -f")), "{status:?}");
    let refused = problem(create(&client, &json!({ "name": "c", "size": "1MiB" })));
    assert!(refused.hint.unwrap().contains("fels apply -f"));
    let portals: PortalList = client.get("/v1/portals").unwrap();
    assert_eq!(portals.portals.len(), 1);
    node.shutdown().unwrap();
}

#[test]
fn a_hundred_at_once_are_served_one_after_the_other_and_none_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let callers: Vec<_> = (0..100)
        .map(|number| {
            let directory = directory.path().to_owned();
            std::thread::spawn(move || {
                let client = Client::new(&directory).unwrap();
                let name = format!("v{number}");
                let backing = match number % 3 {
                    0 => json!({ "name": name, "size": "128KiB", "pool": "tank" }),
                    1 => json!({ "name": name, "size": "128KiB", "backing": { "file": format!("{name}.img") } }),
                    _ => json!({ "name": name, "size": "128KiB", "backing": { "memory": true } }),
                };
                create(&client, &backing).unwrap();
                if number % 2 == 0 {
                    client.delete::<Changed>(&format!("/v1/volumes/{name}"), &json!({})).unwrap();
                } else {
                    change(&client, &name, &json!({ "set": { "size": "256KiB" } })).unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    let client = Client::new(directory.path()).unwrap();
    let all: Volumes = client.get("/v1/volumes").unwrap();
    let mut names: Vec<_> = all.volumes.iter().map(|volume| volume.name.clone()).collect();
    let mut expected: Vec<_> =
        (0..100).filter(|number| number % 2 == 1).map(|number| format!("v{number}")).collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    let is_so = |volume: &Volume| volume.state == VolumeState::Serving && volume.size_bytes == 256 << 10;
    assert!(all.volumes.iter().all(is_so), "{all:?}");
    let on_pool = (0..100).filter(|number| number % 2 == 1 && number % 3 == 0).count();
    assert_eq!(volumes_on_pool(&client).len(), on_pool);
    let text = std::fs::read_to_string(directory.path().join("fels.toml")).unwrap();
    assert!(text.starts_with(CONFIG) && !directory.path().join("pending.toml").exists());
    assert_eq!(Config::parse_in(&text, "fels.toml", directory.path()).unwrap().volumes.len(), 50);
    node.shutdown().unwrap();
}

#[test]
fn members_and_spares_that_come_and_go_are_in_the_configuration_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let first = node(directory.path());
    let client = Client::new(directory.path()).unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let text = || std::fs::read_to_string(directory.path().join("fels.toml")).unwrap();
    create(&client, &json!({ "name": "db", "size": "1MiB" })).unwrap();
    let ask = |path: &str, wish: Value| -> api::model::Change { client.post(path, &wish).unwrap() };
    let planned =
        ask("/v1/pools/tank/members/0/replace", json!({ "place": place("new.img"), "dry_run": true }));
    assert!(!planned.written && !text().contains("new.img"));
    let replaced = ask("/v1/pools/tank/members/0/replace", json!({ "place": place("new.img") }));
    assert!(
        replaced.written && text().contains(&format!("members = [\"{}\", \"m1.img\"]", place("new.img"))),
        "{}",
        text()
    );
    let spare = ask("/v1/pools/tank/spares", json!({ "place": place("spare.img") }));
    assert!(
        spare.written && text().contains(&format!("spares = [\"{}\"]", place("spare.img"))),
        "{}",
        text()
    );
    let status: NodeStatus = client.get("/v1/status").unwrap();
    assert!(status.findings.iter().all(|finding| !finding.sentence.contains("waits")), "{status:?}");
    first.shutdown().unwrap();

    let second = node(directory.path());
    let pools: Pools = client.get("/v1/pools").unwrap();
    let places: Vec<_> = pools.pools[0].members.iter().map(|member| member.place.clone()).collect();
    assert_eq!(places, [Some(place("new.img")), Some(place("m1.img"))]);
    let id = &pools.pools[0].spares[0].id;
    let gone: api::model::Change = client.delete(&format!("/v1/pools/tank/spares/{id}"), &json!({})).unwrap();
    assert!(gone.written && !text().contains("spares"), "{}", text());
    assert!(text().contains("# The node of the tests."));
    second.shutdown().unwrap();
}

/// What a node that died was destroying is known by its place: a volume may have had its name since, elsewhere.
#[test]
fn bytes_left_on_a_pool_are_destroyed_and_not_those_of_a_volume_of_that_name_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let first = node(directory.path());
    let client = Client::new(directory.path()).unwrap();
    create(&client, &json!({ "name": "db", "size": "4MiB" })).unwrap();
    first.shutdown().unwrap();
    let elsewhere = "[[volume]]\nname = \"db\"\nsize = \"1MiB\"\nbacking = { file = \"db.img\" }\n";
    std::fs::write(directory.path().join("fels.toml"), format!("{CONFIG}{elsewhere}")).unwrap();
    std::fs::write(directory.path().join("db.img"), vec![7; 1 << 20]).unwrap();
    let pending = "version = 1\n[[bytes]]\nvolume = \"db\"\npool = \"tank\"\n";
    std::fs::write(directory.path().join("pending.toml"), pending).unwrap();
    let second = node(directory.path());
    assert_eq!(volumes_on_pool(&client), []);
    let all: Volumes = client.get("/v1/volumes").unwrap();
    assert_eq!(all.volumes[0].state, VolumeState::Serving);
    second.shutdown().unwrap();
    assert_eq!(std::fs::read(directory.path().join("db.img")).unwrap(), vec![7; 1 << 20]);
}
