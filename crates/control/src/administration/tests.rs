//! A change is made whole or not at all; only what failed late is told as left to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::config::{Backing, Volume};
use crate::live::{Answer, LiveError};
use crate::store::PENDING_FILE;
use crate::store::files::new_name;
use crate::store::pending::{Bytes, Place};
use ring::BusyPoll;
use serde_json::json;

/// A data plane that does at once what it is asked, unless it is to fail.
#[derive(Default)]
struct Fake {
    served: Mutex<BTreeMap<String, Volume>>,
    on_pools: Mutex<BTreeMap<(String, String), u64>>,
    /// `add b` fails the addition of `b`.
    fails: Mutex<Vec<&'static str>>,
    /// Even an alteration that fails has made the bytes on a pool more.
    grows: Mutex<bool>,
    /// What is destroyed on pools takes long.
    is_slow: Mutex<bool>,
    asked: Mutex<Vec<String>>,
}

impl Fake {
    fn ask(&self, what: &str, volume: &str) -> Result<(), LiveError> {
        let asked = format!("{what} {volume}");
        let fails = self.fails.lock().unwrap().iter().any(|fails| *fails == asked);
        self.asked.lock().unwrap().push(asked);
        let error = LiveError::new(format!("no {what} today"), "tomorrow");
        if fails { Err(error) } else { Ok(()) }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn served(&self) -> Vec<String> {
        self.served.lock().unwrap().keys().cloned().collect()
    }
}

impl Live for Fake {
    fn add<'a>(&'a self, _: &'a Config, volume: &'a Volume) -> Answer<'a> {
        Box::pin(async move {
            self.ask("add", &volume.name)?;
            match &volume.backing {
                Backing::File(path) => {
                    let file = std::fs::OpenOptions::new()
                        .write(true)
                        .create(true)
                        .truncate(false)
                        .open(path)
                        .unwrap();
                    if file.metadata().unwrap().len() == 0 {
                        file.set_len(volume.size_bytes).unwrap();
                    }
                }
                Backing::Pool(pool) => {
                    self.on_pools
                        .lock()
                        .unwrap()
                        .insert((pool.clone(), volume.name.clone()), volume.size_bytes);
                }
                _ => {}
            }
            assert!(self.served.lock().unwrap().insert(volume.name.clone(), volume.clone()).is_none());
            Ok(())
        })
    }

    fn alter<'a>(&'a self, _: &'a Config, volume: &'a Volume) -> Answer<'a> {
        Box::pin(async move {
            if let (Backing::Pool(pool), true) = (&volume.backing, *self.grows.lock().unwrap()) {
                self.on_pools.lock().unwrap().insert((pool.clone(), volume.name.clone()), volume.size_bytes);
            }
            self.ask("alter", &volume.name)?;
            assert!(self.served.lock().unwrap().insert(volume.name.clone(), volume.clone()).is_some());
            Ok(())
        })
    }

    fn remove<'a>(&'a self, volume: &'a Volume, destroy: bool) -> Answer<'a, bool> {
        Box::pin(async move {
            self.ask(if destroy { "destroy" } else { "remove" }, &volume.name)?;
            self.served.lock().unwrap().remove(&volume.name);
            match &volume.backing {
                Backing::File(path) if destroy => std::fs::remove_file(path).unwrap(),
                Backing::Pool(_) if destroy && *self.is_slow.lock().unwrap() => return Ok(false),
                Backing::Pool(pool) if destroy => {
                    self.on_pools.lock().unwrap().remove(&(pool.clone(), volume.name.clone()));
                }
                _ => {}
            }
            Ok(true)
        })
    }

    fn destroy<'a>(&'a self, pool: &'a str, volume: &'a str) -> Answer<'a, bool> {
        Box::pin(async move {
            self.ask("erase", volume)?;
            self.on_pools.lock().unwrap().remove(&(pool.to_owned(), volume.to_owned()));
            Ok(true)
        })
    }

    fn open_pool<'a>(&'a self, pool: &'a crate::config::Pool) -> Answer<'a> {
        Box::pin(async move { self.ask("open", &pool.name) })
    }

    fn close_pool<'a>(&'a self, pool: &'a str, in_vain: bool) -> Answer<'a> {
        Box::pin(async move { self.ask(if in_vain { "unmake" } else { "close" }, pool) })
    }

    fn listen<'a>(&'a self, wished: &'a Config) -> Answer<'a, Portals> {
        let open = crate::plan::portals(wished);
        Box::pin(async move {
            self.ask("listen", &format!("{:?}", open.iscsi))?;
            Ok(open)
        })
    }

    fn busy_poll(&self, busy_poll: BusyPoll) {
        self.ask("look for", &format!("{busy_poll:?}")).unwrap();
    }

    fn destroyed_on(&self, pool: &str) -> Vec<String> {
        let all = self.on_pools.lock().unwrap();
        let is_slow = *self.is_slow.lock().unwrap();
        let on_it = all.keys().filter(|(on, _)| is_slow && on == pool);
        on_it
            .map(|(_, name)| name.clone())
            .filter(|name| !self.served.lock().unwrap().contains_key(name))
            .collect()
    }

    fn bytes_on_pool(&self, pool: &str, volume: &str) -> Option<u64> {
        self.on_pools.lock().unwrap().get(&(pool.to_owned(), volume.to_owned())).copied()
    }
}

struct Bed {
    directory: tempfile::TempDir,
    live: Arc<Fake>,
    administration: Administration,
    _data: DataDirectory,
}

const POOL: &str = "[[pool]]\nname = \"tank\"\nraid = \"raid1\"\nmembers = [\"m0.img\", \"m1.img\"] # two\n";

fn bed(text: &str) -> Bed {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fels.toml");
    let data = directory.path().join("data");
    std::fs::write(&path, format!("data = \"{}\"\n# The whole.\n{text}", data.display())).unwrap();
    let data = DataDirectory::open(&data).unwrap();
    let store = Store::of_file(&path).unwrap();
    let document = store.read().unwrap();
    let live = Arc::new(Fake::default());
    for volume in document.config.volumes.iter().filter(|volume| volume.enabled) {
        block(live.add(&document.config, volume)).unwrap();
    }
    live.asked();
    let administration = Administration::new(store, document, &data, live.clone(), Pending::default());
    Bed { directory, live, administration, _data: data }
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

impl Bed {
    fn change(&self, edit: Edit) -> Result<Outcome, ChangeError> {
        block(self.administration.change(Request { edit, version: None, dry_run: false }))
    }

    fn plan(&self, edit: Edit) -> Result<Vec<String>, ChangeError> {
        let outcome = block(self.administration.change(Request { edit, version: None, dry_run: true }))?;
        assert!(!outcome.done);
        Ok(outcome.steps)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("fels.toml")).unwrap()
    }

    fn is_there(&self, name: &str) -> bool {
        self.directory.path().join("data").join(name).exists()
    }

    fn pending(&self) -> Option<Pending> {
        Pending::read(&self.directory.path().join("data")).unwrap()
    }

    /// Nothing is left of a change, wherever it ended.
    fn assert_clean(&self) {
        assert_eq!(self.pending(), None);
        assert!(!new_name(&self.directory.path().join("fels.toml")).exists());
        assert_eq!(self.text(), self.administration.state().document.text);
    }
}

fn create(name: &str, more: &serde_json::Value) -> Edit {
    let mut settings = json!({ "name": name, "size": "1MiB", "backing": { "file": format!("{name}.img") } });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let serde_json::Value::Object(settings) = settings else { panic!() };
    Edit::Create { settings, existing: false }
}

fn set(name: &str, set: serde_json::Value) -> Edit {
    let serde_json::Value::Object(set) = set else { panic!() };
    Edit::Change { name: name.to_owned(), set, unset: Vec::new() }
}

fn delete(name: &str, keep_data: bool) -> Edit {
    Edit::Delete { name: name.to_owned(), keep_data }
}

#[test]
fn a_volume_is_made_changed_switched_off_and_on_and_deleted() {
    let bed = bed("");
    let before = bed.text();
    let planned = bed.plan(create("a", &json!({}))).unwrap();
    assert!(
        planned[0].starts_with("serve volume a: 1MiB in ") && planned[0].ends_with("a.img, made now"),
        "{planned:?}"
    );
    assert!(bed.live.asked().is_empty() && bed.text() == before && !bed.is_there("a.img"));
    let made = bed.change(create("a", &json!({ "alias": "x" }))).unwrap();
    assert!(made.done && bed.is_there("a.img") && bed.live.served() == ["a"]);
    assert_eq!(made.version, Version::of(&bed.text()));
    assert!(bed.text().contains("# The whole.") && bed.text().contains("alias = \"x\""), "{}", bed.text());
    bed.assert_clean();
    bed.change(set("a", json!({ "size": "2MiB" }))).unwrap();
    assert_eq!(bed.live.served.lock().unwrap()["a"].size_bytes, 2 << 20);
    bed.change(set("a", json!({ "enabled": false }))).unwrap();
    assert!(bed.live.served().is_empty() && bed.is_there("a.img"));
    bed.change(set("a", json!({ "enabled": true }))).unwrap();
    assert_eq!(bed.live.asked(), ["add a", "alter a", "remove a", "add a"]);
    let twice = bed.change(set("a", json!({ "enabled": true }))).unwrap();
    assert_eq!(twice.steps, ["nothing to do: all is as wished"]);
    bed.change(delete("a", false)).unwrap();
    assert_eq!(
        (bed.live.asked(), bed.is_there("a.img"), bed.text()),
        (vec!["destroy a".to_owned()], false, before)
    );
    bed.assert_clean();
}

#[test]
fn what_is_there_is_taken_only_if_that_is_wished_and_is_never_destroyed_by_a_failure() {
    let bed = bed("");
    let path = bed.directory.path().join("data/a.img");
    std::fs::write(&path, "precious").unwrap();
    let error = bed.change(create("a", &json!({}))).unwrap_err();
    assert!(error.to_string().contains("there is something in") && error.hint().is_some(), "{error}");
    let existing = |edit| match edit {
        Edit::Create { settings, .. } => Edit::Create { settings, existing: true },
        other => other,
    };
    let error = bed.change(existing(create("b", &json!({})))).unwrap_err();
    assert!(error.to_string().contains("there is nothing in"), "{error}");
    bed.live.fails.lock().unwrap().push("add a");
    bed.change(existing(create("a", &json!({})))).unwrap_err();
    bed.assert_clean();
    bed.live.fails.lock().unwrap().clear();
    bed.change(existing(create("a", &json!({})))).unwrap();
    bed.change(delete("a", true)).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    bed.assert_clean();
}

#[test]
fn what_fails_before_it_is_saved_leaves_nothing() {
    let bed = bed("[[volume]]\nname = \"z\"\nsize = 512\nbacking = { null = true }\n");
    let before = bed.text();
    bed.live.fails.lock().unwrap().push("add b");
    let volume = |name: &str| {
        format!("[[volume]]\nname = \"{name}\"\nsize = \"1MiB\"\nbacking = {{ file = \"{name}.img\" }}\n")
    };
    let whole = Edit::Whole(format!("{before}{}{}", volume("a"), volume("b")));
    let error = bed.change(whole.clone()).unwrap_err();
    assert!(matches!(&error, ChangeError::Live(_)) && error.hint().unwrap() == "tomorrow", "{error}");
    assert_eq!(bed.live.asked(), ["add a", "add b", "destroy b", "destroy a"]);
    assert!(!bed.is_there("a.img") && !bed.is_there("b.img"));
    assert_eq!((bed.text(), bed.live.served()), (before, vec!["z".to_owned()]));
    bed.assert_clean();
    bed.live.fails.lock().unwrap().clear();
    bed.change(whole).unwrap();
    assert_eq!(bed.live.served(), ["a", "b", "z"]);
}

#[test]
fn a_resize_that_fails_leaves_the_old_size() {
    let bed = bed(POOL);
    bed.change(create("a", &json!({ "pool": "tank", "backing": null }))).unwrap();
    let before = bed.text();
    bed.live.fails.lock().unwrap().push("alter a");
    let error = bed.change(set("a", json!({ "size": "8MiB" }))).unwrap_err();
    assert_eq!(error.to_string(), "no alter today");
    assert_eq!(bed.text(), before);
    bed.assert_clean();
    assert_eq!(bed.administration.state().running.volumes[0].size_bytes, 1 << 20);
}

#[test]
fn a_resize_that_fails_when_the_pool_has_grown_already_keeps_the_new_size() {
    let bed = bed(POOL);
    bed.change(create("a", &json!({ "pool": "tank", "backing": null }))).unwrap();
    bed.live.fails.lock().unwrap().push("alter a");
    *bed.live.grows.lock().unwrap() = true;
    let error = bed.change(set("a", json!({ "size": "8MiB" }))).unwrap_err();
    assert!(matches!(error, ChangeError::Incomplete(_)), "{error}");
    // The node would not start with the old one.
    assert!(bed.text().contains("size = \"8MiB\""), "{}", bed.text());
    assert_eq!(bed.pending().unwrap().grown.len(), 1);
    bed.live.fails.lock().unwrap().clear();
    bed.change(set("a", json!({ "alias": "x" }))).unwrap();
    assert!(bed.administration.state().undone.is_empty());
    bed.assert_clean();
}

#[test]
fn what_fails_after_it_is_saved_is_told_and_stays_pending() {
    let bed = bed(POOL);
    bed.change(create("a", &json!({ "pool": "tank", "backing": null }))).unwrap();
    bed.live.fails.lock().unwrap().push("destroy a");
    let error = bed.change(delete("a", false)).unwrap_err();
    assert!(
        matches!(&error, ChangeError::Incomplete(_)) && error.to_string().contains("no destroy today"),
        "{error}"
    );
    let entry = Bytes { volume: "a".into(), place: Place::Pool("tank".into()) };
    assert_eq!(bed.pending().unwrap().bytes, std::slice::from_ref(&entry), "the next start destroys it");
    let state = bed.administration.state();
    assert_eq!((state.document.config.volumes.len(), state.running.volumes.len()), (0, 1));
    assert!(state.undone.contains_key("a"));
    // Another change does not forget it, and tries it again.
    let error = bed.change(create("b", &json!({}))).unwrap_err();
    assert!(error.to_string().contains("volume a: no destroy today"), "{error}");
    assert_eq!((bed.pending().unwrap().bytes, bed.is_there("b.img")), (vec![entry], true));
    bed.live.fails.lock().unwrap().clear();
    bed.change(create("c", &json!({}))).unwrap();
    assert!(bed.live.bytes_on_pool("tank", "a").is_none() && bed.administration.state().undone.is_empty());
    bed.assert_clean();
}

#[test]
fn bytes_that_a_volume_has_again_are_no_longer_to_be_destroyed() {
    let bed = bed("");
    bed.change(create("a", &json!({}))).unwrap();
    bed.live.fails.lock().unwrap().push("destroy a");
    bed.change(delete("a", false)).unwrap_err();
    let Edit::Create { settings, .. } = create("a", &json!({})) else { panic!() };
    bed.change(Edit::Create { settings, existing: true }).unwrap();
    bed.assert_clean();
    bed.change(delete("a", true)).unwrap();
    assert!(bed.is_there("a.img"));
}

#[test]
fn what_takes_longer_to_destroy_is_pending_until_it_is_done() {
    let bed = bed(POOL);
    let on_tank = || {
        let Edit::Create { mut settings, .. } = create("a", &json!({ "pool": "tank" })) else { panic!() };
        settings.remove("backing");
        Edit::Create { settings, existing: false }
    };
    bed.change(on_tank()).unwrap();
    *bed.live.is_slow.lock().unwrap() = true;
    let done = bed.change(delete("a", false)).unwrap();
    assert!(done.steps.last().unwrap().contains("being destroyed yet"), "{:?}", done.steps);
    assert_eq!(bed.pending().unwrap().bytes.len(), 1);
    for edit in [on_tank(), Edit::RemovePool { name: "tank".to_owned() }] {
        let error = bed.change(edit).unwrap_err();
        assert!(error.to_string().contains("still being destroyed") && error.hint().is_some(), "{error}");
    }
    // What has nothing to do with it goes on.
    bed.change(create("b", &json!({}))).unwrap();
    assert_eq!(bed.pending().unwrap().bytes.len(), 1, "it is not forgotten by another change");
    bed.live.on_pools.lock().unwrap().clear();
    bed.change(on_tank()).unwrap();
    assert_eq!(bed.pending(), None);
}

#[test]
fn what_a_node_that_died_left_on_a_pool_is_destroyed_as_soon_as_that_is_open() {
    let bed = bed(POOL);
    bed.live.on_pools.lock().unwrap().insert(("tank".into(), "a".into()), 512);
    let pending = Pending {
        bytes: vec![Bytes { volume: "a".into(), place: Place::Pool("tank".into()) }],
        grown: vec![],
        ..Pending::default()
    };
    pending.write(&bed.directory.path().join("data")).unwrap();
    let state = bed.administration.state();
    bed.administration.set_state(State { pending: pending.clone(), ..State::clone(&state) });
    bed.live.fails.lock().unwrap().push("erase a");
    block(bed.administration.settle_pools());
    assert_eq!(bed.pending(), Some(pending), "it is tried again at the next start");
    bed.live.fails.lock().unwrap().clear();
    block(bed.administration.settle_pools());
    assert!(bed.live.bytes_on_pool("tank", "a").is_none());
    bed.assert_clean();
}

#[test]
fn a_volume_that_is_switched_off_is_destroyed_too() {
    let bed = bed(POOL);
    bed.change(create("a", &json!({ "pool": "tank", "backing": null }))).unwrap();
    bed.change(create("b", &json!({}))).unwrap();
    for name in ["a", "b"] {
        bed.change(set(name, json!({ "enabled": false }))).unwrap();
        let steps = bed.plan(delete(name, false)).unwrap();
        assert!(
            steps.last().unwrap().starts_with(&format!("DESTROY the bytes of volume {name} ")),
            "{steps:?}"
        );
        bed.change(delete(name, false)).unwrap();
    }
    assert!(bed.live.bytes_on_pool("tank", "a").is_none() && !bed.is_there("b.img"));
    bed.assert_clean();
}

#[test]
fn a_document_that_lacks_a_volume_keeps_its_bytes() {
    let bed = bed("");
    let empty = bed.text();
    bed.change(create("a", &json!({}))).unwrap();
    let with_a = bed.text();
    let steps = bed.plan(Edit::Whole(empty.clone())).unwrap();
    assert!(steps[0].starts_with("take volume a out of service; its bytes stay in "), "{steps:?}");
    bed.change(Edit::Whole(empty)).unwrap();
    assert!(bed.is_there("a.img") && bed.live.served().is_empty());
    let steps = bed.plan(Edit::Whole(with_a.clone())).unwrap();
    assert!(steps[0].ends_with("a.img, with what is in it"), "{steps:?}");
    bed.change(Edit::Whole(with_a)).unwrap();
    bed.assert_clean();
}

#[test]
fn a_change_that_is_meant_for_another_version_is_refused() {
    let bed = bed("");
    let version = Some(bed.administration.state().document.version);
    let change = |edit, version| block(bed.administration.change(Request { edit, version, dry_run: false }));
    change(create("a", &json!({})), version).unwrap();
    let stale = change(create("b", &json!({})), version).unwrap_err();
    assert!(matches!(stale, ChangeError::Stale { now } if now == Version::of(&bed.text())), "{stale}");
    assert!(!bed.is_there("b.img"));
}

#[test]
fn what_somebody_wrote_by_hand_is_not_overwritten() {
    let bed = bed("");
    let by_hand = format!("{}# by hand\nshards = 7\n", bed.text().replace("# The whole.\n", ""));
    let path = bed.directory.path().join("fels.toml");
    std::fs::write(&path, &by_hand).unwrap();
    assert!(bed.administration.is_changed_elsewhere());
    for edit in [create("a", &json!({})), Edit::Whole("shards = 1\n".into())] {
        let error = bed.change(edit).unwrap_err();
        assert!(
            matches!(&error, ChangeError::Elsewhere { .. })
                && error.hint().unwrap().contains("fels apply -f"),
            "{error}"
        );
    }
    assert_eq!((bed.text(), bed.live.asked()), (by_hand.clone(), vec![]));
    let told = bed.change(Edit::Whole(by_hand)).unwrap();
    assert!(
        told.steps.iter().any(|step| step.contains("next start") && step.contains("7 shards")),
        "{told:?}"
    );
    assert!(!bed.administration.is_changed_elsewhere());
    bed.change(create("a", &json!({}))).unwrap();
    assert!(bed.text().contains("# by hand"));
}

#[test]
fn a_document_that_cannot_be_written_is_found_out_before_anything_is_done() {
    let bed = bed("");
    std::fs::create_dir(new_name(&bed.directory.path().join("fels.toml"))).unwrap();
    let error = bed.change(create("a", &json!({}))).unwrap_err();
    assert!(matches!(&error, ChangeError::Unwritable { .. }) && error.hint().is_some(), "{error}");
    assert!(bed.live.asked().is_empty() && !bed.is_there("a.img") && bed.pending().is_none());
    std::fs::remove_dir(new_name(&bed.directory.path().join("fels.toml"))).unwrap();
    std::fs::create_dir(bed.directory.path().join("data").join(PENDING_FILE)).unwrap();
    assert!(matches!(bed.change(create("a", &json!({}))), Err(ChangeError::Unwritable { .. })));
    assert!(bed.live.asked().is_empty() && !bed.is_there("a.img"));
}

#[test]
fn what_is_wrong_is_refused_with_its_field() {
    let bed = bed("");
    let wrong = |edit| match bed.change(edit).unwrap_err() {
        ChangeError::Wrong { fields, .. } => fields[0].clone().unwrap(),
        other => panic!("{other}"),
    };
    assert_eq!(wrong(create("a", &json!({ "size": "1G" }))), "volume.a.size");
    assert_eq!(wrong(create("a", &json!({ "pool": "none", "backing": null }))), "volume.a.pool");
    assert_eq!(wrong(create("a", &json!({ "limits": { "iops": 0 } }))), "volume.a.limits.iops");
    assert_eq!(wrong(create("A", &json!({}))), "volume.A.name");
    assert_eq!(wrong(create("a", &json!({ "allow": ["me"] }))), "volume.a.allow.0");
    let file = bed.directory.path().join("fels.toml").display().to_string();
    let error = bed.change(create("a", &json!({ "backing": { "file": file } }))).unwrap_err().to_string();
    assert!(error.contains("is this configuration"), "{error}");
    bed.change(create("a", &json!({}))).unwrap();
    assert!(matches!(bed.change(create("a", &json!({}))), Err(ChangeError::Edit(_))));
    assert!(matches!(bed.change(delete("b", false)), Err(ChangeError::Edit(_))));
    assert!(matches!(bed.change(set("a", json!({ "size": 512 }))), Err(ChangeError::Impossible(_))));
}

#[test]
fn shards_are_told_at_once_how_long_to_look_for_work() {
    let bed = bed("busy_poll = \"60us\"\n");
    let longer = bed.text().replace("60us", "250us");
    bed.change(Edit::Whole(longer.clone())).unwrap();
    assert_eq!(bed.live.asked(), ["look for Most(250µs)"]);
    let state = bed.administration.state();
    assert_eq!(state.running, state.document.config, "nothing waits for a start");
    bed.change(Edit::Whole(format!("{longer}monitoring = false\n"))).unwrap();
    assert!(bed.live.asked().is_empty());
}

#[test]
fn the_document_follows_a_pool_whose_members_change() {
    let bed = bed(POOL);
    let data = bed.directory.path().join("data");
    let edit = PoolEdit {
        name: "tank".into(),
        members: vec![data.join("m0.img"), "/srv/new.img".into()],
        added: Some("/srv/spare.img".into()),
        ..PoolEdit::default()
    };
    block(bed.administration.follow(&edit)).unwrap();
    assert!(bed.text().contains("members = [\"m0.img\", \"/srv/new.img\"] # two"), "{}", bed.text());
    let state = bed.administration.state();
    assert_eq!(state.running, state.document.config, "nothing waits for a start");
    assert!(bed.plan(Edit::Whole(bed.text())).unwrap() == ["nothing to do: all is as wished"]);
    let removed = PoolEdit { removed: Some("/srv/spare.img".into()), added: None, ..edit };
    block(bed.administration.follow(&removed)).unwrap();
    assert!(!bed.text().contains("spare"), "{}", bed.text());
    let unknown = PoolEdit { name: "other".into(), ..PoolEdit::default() };
    block(bed.administration.follow(&unknown)).unwrap();
    assert!(Path::new(&data).is_dir());
    bed.assert_clean();
}

#[test]
fn pools_and_portals_come_before_volumes_and_go_after_them() {
    let bed = bed("");
    let volume = "[[volume]]\nname = \"p\"\nsize = 4096\npool = \"tank\"\n";
    let listen = "[iscsi]\nlisten = [\"127.0.0.1:1\"]\n";
    let before = bed.text();
    let text = format!("{before}{listen}{POOL}{volume}");
    bed.change(Edit::Whole(text.clone())).unwrap();
    assert_eq!(bed.live.asked(), ["open tank", "listen [127.0.0.1:1]", "add p"]);
    assert_eq!(bed.administration.state().portals.iscsi, ["127.0.0.1:1".parse().unwrap()]);
    assert!(bed.pending().is_none());
    assert_eq!(bed.change(Edit::Whole(text)).unwrap().steps, ["nothing to do: all is as wished"]);
    bed.change(Edit::Whole(before)).unwrap();
    assert_eq!(bed.live.asked(), ["listen [127.0.0.1:3260]", "remove p", "close tank"]);
    assert!(bed.administration.state().running.pools.is_empty());
}

#[test]
fn what_cannot_be_made_after_a_pool_was_opened_takes_the_pool_back() {
    for fails in ["open tank", "listen [127.0.0.1:1]", "add p"] {
        let bed = bed("");
        let before = bed.text();
        let volume = "[[volume]]\nname = \"p\"\nsize = 4096\npool = \"tank\"\n";
        let listen = "[iscsi]\nlisten = [\"127.0.0.1:1\"]\n";
        bed.live.fails.lock().unwrap().push(fails);
        let error = bed.change(Edit::Whole(format!("{before}{listen}{POOL}{volume}"))).unwrap_err();
        assert!(matches!(error, ChangeError::Live(_)), "{fails}: {error}");
        let asked = bed.live.asked();
        assert!(asked.contains(&"unmake tank".to_owned()), "{fails}: {asked:?}");
        let returns = asked.iter().any(|what| what == "listen [127.0.0.1:3260]");
        assert_eq!(returns, fails == "add p", "{fails}: {asked:?}");
        assert!(!asked.contains(&"destroy p".to_owned()), "nobody knows whether the pool had it before");
        assert_eq!((bed.text(), bed.pending()), (before, None), "{fails}");
        assert!(bed.administration.state().running.pools.is_empty(), "{fails}");
    }
}

#[test]
fn a_pool_that_cannot_be_closed_is_told_of_and_tried_again() {
    let bed = bed(POOL);
    bed.live.fails.lock().unwrap().push("close tank");
    let without = bed.text().replace(POOL, "");
    let error = bed.change(Edit::Whole(without.clone())).unwrap_err();
    assert!(error.to_string().contains("pool tank"), "{error}");
    assert_eq!(bed.administration.state().running.pools.len(), 1);
    bed.live.fails.lock().unwrap().clear();
    bed.change(Edit::Whole(format!("{without}# again\n"))).unwrap();
    assert!(bed.administration.state().running.pools.is_empty());
}

#[test]
fn numbers_of_namespaces_are_written_down_when_the_order_does_not_say_them_any_more() {
    let volume = |name: &str| {
        format!(
            "[[volume]]\nname = \"{name}\"\nsize = 512\nbacking = {{ null = true }}\nsubsystem = \"s\"\n\n"
        )
    };
    let bed = bed(&format!("[nvme]\n{}{}{}", volume("a"), volume("b"), volume("c")));
    bed.change(Edit::Delete { name: "a".into(), keep_data: true }).unwrap();
    let text = bed.text();
    assert!(text.contains("nsid = 2") && text.contains("nsid = 3"), "{text}");
    bed.change(create("d", &json!({ "size": 512, "backing": { "null": true }, "subsystem": "s" }))).unwrap();
    let state = bed.administration.state();
    let numbers: Vec<_> = state.running.volumes.iter().map(|volume| volume.nvme.nsid).collect();
    assert_eq!(numbers, [Some(2), Some(3), Some(4)]);
}

/// Of secrets that were switched off only the stars were left, when what had been printed without secrets was applied again.
#[test]
fn a_comment_whose_secret_was_hidden_is_not_taken_for_it() {
    let bed = bed("# webhook = \"https://example.org/old-one\"\n# user = \"***\" stands for nobody\n");
    let before = bed.text();
    let printed = crate::config::without_secrets(&before);
    assert!(printed.contains("# webhook =\"***\""), "{printed}");
    let error = bed.change(Edit::Whole(printed.clone())).unwrap_err();
    assert!(error.to_string().starts_with("line 3: a secret in this comment was hidden"), "{error}");
    assert!(error.hint().unwrap().contains("fels dump --secrets"));
    assert_eq!(bed.text(), before);
    bed.assert_clean();
    // Without it, and with everything: both are what is wished.
    let without: String = printed.split_inclusive('\n').filter(|line| !line.contains("webhook")).collect();
    for good in [before, without] {
        bed.change(Edit::Whole(good)).unwrap();
    }
}
