//! What a node that died leaves, and what the next start makes of it.

use super::*;

fn config(data: &Path, volumes: &str) -> Config {
    Config::parse_in(volumes, "fels.toml", data).unwrap()
}

fn volume(name: &str, size: &str) -> String {
    format!("[[volume]]\nname = \"{name}\"\nsize = \"{size}\"\nbacking = {{ file = \"{name}.img\" }}\n")
}

fn bytes(data: &Path, volume: &str) -> Bytes {
    Bytes { volume: volume.to_owned(), place: Place::File(data.join(format!("{volume}.img"))) }
}

#[test]
fn what_is_written_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    assert_eq!(Pending::read(data).unwrap(), None);
    let quoted = Bytes { volume: "q".into(), place: Place::File("/srv/\"quoted\".img".into()) };
    let pending = Pending {
        bytes: vec![
            bytes(data, "a"),
            Bytes { volume: "b".into(), place: Place::Pool("tank".into()) },
            quoted,
        ],
        grown: vec![Grown { volume: "g".into(), to_bytes: 2 }],
        opened: vec![Opened { pool: "tank".into(), members: vec!["/m0".into(), "/m1".into()] }],
        joining: vec![
            Joining { pool: "tank".into(), place: "/m2".into(), instead_of: Some(1) },
            Joining { pool: "tank".into(), place: "/m3".into(), instead_of: None },
        ],
    };
    pending.write(data).unwrap();
    assert_eq!(Pending::read(data).unwrap(), Some(pending));
    Pending::clear(data).unwrap();
    assert_eq!(Pending::read(data).unwrap(), None);
}

#[test]
fn bytes_that_no_volume_has_are_removed_and_all_others_stay() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    for name in ["named", "unnamed", "stranger", "other"] {
        std::fs::write(data.join(format!("{name}.img")), name).unwrap();
    }
    std::fs::create_dir(data.join("directory.img")).unwrap();
    std::os::unix::fs::symlink(data.join("stranger.img"), data.join("link.img")).unwrap();
    let names = ["named", "unnamed", "other", "missing", "directory", "link"];
    let pending = Pending { bytes: names.map(|name| bytes(data, name)).to_vec(), ..Pending::default() };
    pending.write(data).unwrap();
    // The file `other.img` is that of a volume with another name by now.
    let text = volume("named", "1MiB") + &volume("x", "1MiB").replace("x.img", "other.img");
    let left = settle_files(data, &config(data, &text)).unwrap();
    assert_eq!((left, Pending::read(data).unwrap()), (Pending::default(), None));
    let is_there = |name: &str| data.join(format!("{name}.img")).symlink_metadata().is_ok();
    assert!(!is_there("unnamed"));
    assert!(["named", "stranger", "other", "directory", "link"].iter().all(|name| is_there(name)));
}

#[test]
fn what_needs_open_pools_and_volumes_is_left_for_later() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let pool = "[[pool]]
name = \"tank\"
raid = \"raid1\"
members = [\"m0\", \"m1\"]
";
    let named = "[[volume]]
name = \"named\"
size = \"2MiB\"
pool = \"tank\"
";
    let on_tank = |volume: &str| Bytes { volume: volume.into(), place: Place::Pool("tank".into()) };
    let grown = |to_bytes| Grown { volume: "named".into(), to_bytes };
    let pending = Pending {
        bytes: vec![on_tank("named"), on_tank("gone")],
        grown: vec![grown(1), grown(2 << 20)],
        ..Pending::default()
    };
    pending.write(data).unwrap();
    let left = settle_files(data, &config(data, &format!("{pool}{named}"))).unwrap();
    assert_eq!(
        left,
        Pending { bytes: vec![on_tank("gone")], grown: vec![grown(2 << 20)], ..Pending::default() }
    );
    assert_eq!(Pending::read(data).unwrap(), Some(pending), "it is still there: that is not done yet");
}

#[test]
fn what_is_damaged_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    for text in
        ["", "version = 2\n", "version = 1\n[[bytes]]\nvolume = \"a\"\n", "version = 1\nmore = 1\n\u{0}"]
    {
        std::fs::write(data.join(PENDING_FILE), text).unwrap();
        let error = settle_files(data, &config(data, "")).unwrap_err().to_string();
        assert!(error.contains("is damaged: ") && error.contains("; hint: "), "{error}");
        assert_eq!(std::fs::read_to_string(data.join(PENDING_FILE)).unwrap(), text);
    }
}

/// Members of a pool that was made in vain are blank again; those of a pool with volumes, or of another one, are as they were.
#[test]
fn members_of_a_pool_that_is_not_named_and_has_nothing_are_blank_again() {
    use crate::offline;
    use plane::pool::{Level, MemberPlan, PoolPlan};
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    let at = |name: &str| data.join(name);
    let make = |pool: &str, members: [&str; 2]| {
        let member = |name: &str| MemberPlan {
            place: plane::pool::Place::Path(at(name)),
            create_bytes: Some(16 << 20),
            spinning: None,
        };
        let members = members.map(member).to_vec();
        let (name, level, unit) = (pool.to_owned(), Level::Raid1, 64 << 10);
        offline::create(PoolPlan { name, level, unit, integrity: true, members, spares: Vec::new() })
            .unwrap();
    };
    make("vain", ["v0", "v1"]);
    make("other", ["o0", "o1"]);
    make("named", ["n0", "n1"]);
    let opened =
        |pool: &str, members: [&str; 2]| Opened { pool: pool.into(), members: members.map(at).to_vec() };
    let opened =
        vec![opened("vain", ["v0", "v1"]), opened("vain", ["o0", "o1"]), opened("named", ["n0", "n1"])];
    Pending { opened, ..Pending::default() }.write(data).unwrap();
    let named = "[[pool]]\nname = \"named\"\nraid = \"raid1\"\nmembers = [\"n0\", \"n1\"]\n";
    let config = Config::parse(named, "a test").unwrap();
    assert_eq!(settle_files(data, &config).unwrap(), Pending::default());
    let seen = offline::look(&["v0", "v1", "o0", "o1", "n0", "n1"].map(at)).unwrap();
    let blank: Vec<bool> = seen.iter().map(|(_, seen)| matches!(seen, Seen::Blank { .. })).collect();
    assert_eq!(blank, [true, true, false, false, false, false]);
}
