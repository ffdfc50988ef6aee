use super::*;
use std::os::unix::fs::PermissionsExt;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("deep/data");
    let directory = DataDirectory::open(&path).unwrap();
    assert_eq!(directory.path(), path);
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join(NODE_FILE)), 0o600);
    assert!(!path.join(NEW_NODE_FILE).exists());
}

#[test]
fn the_identity_is_made_once() {
    let temporary = tempfile::tempdir().unwrap();
    let first = DataDirectory::open(temporary.path()).unwrap().node_id();
    let second = DataDirectory::open(temporary.path()).unwrap().node_id();
    assert_eq!(first, second);
    let elsewhere = tempfile::tempdir().unwrap();
    assert_ne!(first, DataDirectory::open(elsewhere.path()).unwrap().node_id());
}

#[test]
fn a_write_cut_short_leaves_no_half_identity() {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join(NEW_NODE_FILE), "version = 1\nnode_i").unwrap();
    let made = DataDirectory::open(temporary.path()).unwrap().node_id();
    assert_eq!(made, DataDirectory::open(temporary.path()).unwrap().node_id());
}

#[test]
fn a_directory_is_never_shared() {
    let temporary = tempfile::tempdir().unwrap();
    let first = DataDirectory::open(temporary.path()).unwrap();
    let error = DataDirectory::open(temporary.path()).unwrap_err();
    let (path, pid) = (temporary.path().display(), std::process::id());
    assert_eq!(
        error.to_string(),
        format!("the data directory {path} is in use by another node, process {pid}")
    );
    assert_eq!(
        error.hint().unwrap(),
        format!("stop it with: kill {pid}   (it drains and ends), or set another `data`")
    );
    drop(first);
    DataDirectory::open(temporary.path()).unwrap();
}

#[test]
fn a_holder_without_a_process_id_is_another_process() {
    let temporary = tempfile::tempdir().unwrap();
    let file = File::create(temporary.path().join(LOCK_FILE)).unwrap();
    file.lock().unwrap();
    let error = DataDirectory::open(temporary.path()).unwrap_err();
    let path = temporary.path().display();
    assert_eq!(error.to_string(), format!("the data directory {path} is in use by another process"));
}

#[test]
fn the_process_id_of_an_earlier_longer_holder_does_not_remain() {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join(LOCK_FILE), "99999999999999\n").unwrap();
    let _directory = DataDirectory::open(temporary.path()).unwrap();
    let text = std::fs::read_to_string(temporary.path().join(LOCK_FILE)).unwrap();
    assert_eq!(text, format!("{}\n", std::process::id()));
}

#[test]
fn damaged_and_foreign_node_files_are_refused() {
    let id = "0123456789abcdef0123456789abcdef";
    for (text, sentence) in [
        ("version = ", "is damaged: it is not TOML".to_owned()),
        ("", "is damaged: it has no `version`".to_owned()),
        ("version = 1", "is damaged: missing field `node_id`".to_owned()),
        ("version = 1\nnode_id = \"xyz\"", "is damaged: `node_id` is not 32 hexadecimal digits".to_owned()),
        (
            "version = 1\nnode_id = \"+123456789abcdef0123456789abcdef\"",
            "is damaged: `node_id` is not 32 hexadecimal digits".to_owned(),
        ),
        ("version = 2\nmore = true", "has version 2, this Fels knows version 1 only".to_owned()),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join(NODE_FILE);
        std::fs::write(&path, text).unwrap();
        let error = DataDirectory::open(temporary.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("{} {sentence}", path.display()));
        assert!(error.hint().is_some(), "{text}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "it is left as it was");
    }
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join(NODE_FILE), format!("version = 1\nnode_id = \"{id}\"")).unwrap();
    assert_eq!(DataDirectory::open(temporary.path()).unwrap().node_id().to_string(), id);
}

#[test]
fn a_file_where_the_directory_should_be_is_a_clear_error() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("data");
    std::fs::write(&path, "").unwrap();
    let error = DataDirectory::open(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("making the data directory {} failed: ", path.display())), "{error}");
}

#[test]
fn volume_identities_are_stable_and_apart() {
    // Held for ever: initiators know their disks by these bytes.
    let node = NodeId::parse("000102030405060708090a0b0c0d0e0f").unwrap();
    let demo = node.volume_id("demo");
    assert_eq!(demo.to_string(), "4677416f-58ef-81fa-8d7a-ef8a733ec9d1");
    assert_eq!((demo.as_bytes()[6] >> 4, demo.as_bytes()[8] >> 6), (8, 2), "version and variant");
    assert_ne!(demo, node.volume_id("demo2"));
    assert_ne!(demo, NodeId::parse("ff0102030405060708090a0b0c0d0e0f").unwrap().volume_id("demo"));
}
