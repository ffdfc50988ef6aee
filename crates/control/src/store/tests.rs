//! Where the document is, and what is kept of it.

use super::*;

#[test]
fn a_version_is_that_of_the_text() {
    let version = Version::of("abc");
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!((version.to_string().as_str(), text.parse()), (text, Ok(version)));
    assert_ne!(version, Version::of("abc "));
    for wrong in ["", "ba78", &text.replace('b', "x"), &format!("{text}00")] {
        assert_eq!(wrong.parse::<Version>(), Err(NoVersion));
    }
}

#[test]
fn a_data_directory_gets_a_document_that_serves_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("new/data");
    let store = Store::of_directory(&data).unwrap();
    let document = store.read().unwrap();
    assert_eq!(document.config.data, data);
    assert!(document.config.volumes.is_empty());
    assert!(document.config.iscsi.listen.iter().all(|portal| portal.ip().is_loopback()));
    // It is not made a second time.
    std::fs::write(store.path(), "shards = 1\n").unwrap();
    assert_eq!(Store::of_directory(&data).unwrap().read().unwrap().config.shards, 1);
    std::fs::write(store.path(), "data = \"/elsewhere\"\n").unwrap();
    let error = store.read().err().unwrap().to_string();
    assert!(error.contains("`data` is /elsewhere, and the node works in"), "{error}");
}

/// It was made with the mode that the umask leaves: everybody on the machine could look into it.
#[test]
fn a_data_directory_that_is_made_for_its_document_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("new/data");
    Store::of_directory(&data).unwrap();
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_link_to_the_document_stays_one() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("real.toml"), directory.path().join("fels.toml"));
    std::fs::write(&file, "shards = 1\n").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let store = Store::of_file(&link).unwrap();
    store.write("shards = 2\n").unwrap().commit(&System).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "shards = 2\n");
    assert_eq!(store.read().unwrap().config.shards, 2);
}
