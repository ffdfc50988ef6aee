//! Bad backings and bad configuration: one clear sentence with a hint, and an exit code that is not 0.

use std::fs::File;

use beds::initiator::Initiator;
use beds::{Bed, Volume};

/// The node refuses to start, as one sentence that has all of `words` in it, and a hint.
fn expect_refusal(bed: Bed, words: &[&str]) {
    let Err(refusal) = bed.try_start() else { panic!("the node started; it should have said {words:?}") };
    let said = &refusal.stderr;
    println!("{said}");
    assert!(matches!(refusal.status.code(), Some(1..=125)), "the node ended with {}: {said}", refusal.status);
    assert!(!said.contains("panicked"), "that is no sentence: {said}");
    let sentence =
        said.lines().any(|line| words.iter().all(|word| line.to_lowercase().contains(&word.to_lowercase())));
    assert!(sentence, "no line has all of {words:?}: {said}");
    assert!(said.contains("hint:"), "there is no hint: {said}");
    assert!(said.lines().count() <= 10, "that is more than a sentence and a hint: {said}");
}

fn volume(backing: &str) -> Volume {
    Volume::new("demo", "64MiB", backing)
}

#[test]
fn a_missing_directory() {
    expect_refusal(Bed::with([volume("{ file = \"no/such/folder/demo.img\" }")]), &["no/such/folder"]);
}

#[test]
fn a_missing_device() {
    expect_refusal(Bed::with([volume("{ device = \"/dev/no-such-disk\" }")]), &["/dev/no-such-disk"]);
}

#[test]
fn a_directory_in_place_of_a_file() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("demo.img");
    std::fs::create_dir(&path).expect("a directory");
    expect_refusal(Bed::with([volume(&format!("{{ file = {path:?} }}"))]), &["demo.img", "directory"]);
}

#[test]
fn a_file_that_is_too_short() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("demo.img");
    File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a file of 1 MiB");
    expect_refusal(
        Bed::with([volume(&format!("{{ file = {path:?} }}"))]),
        &["demo.img", "has 1048576 bytes"],
    );
    assert_eq!(path.metadata().expect("the file").len(), 1 << 20, "the file has been changed");
}

#[test]
fn a_file_that_another_node_serves() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let backing = format!("{{ file = {:?} }}", folder.path().join("demo.img"));
    let mut first = Bed::with([volume(&backing)]).start();
    expect_refusal(Bed::with([volume(&backing)]), &["demo.img", "another process"]);
    assert!(first.is_serving());
    // A crashed node leaves no lock behind.
    first.kill9();
    let _second = Bed::with([volume(&backing)]).start();
}

#[test]
fn a_data_directory_that_another_node_uses() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let bed = Bed::with([Volume::memory("demo", "1MiB")]).data(folder.path());
    let mut first = bed.clone().start();
    expect_refusal(bed, &["in use", &first.pid().to_string()]);
    assert!(first.is_serving());
}

#[test]
fn a_disk_that_is_full_from_the_start() {
    for files in [2, 3] {
        let bed =
            Bed::with([Volume::file("demo", "64MiB")]).small_disk(&format!("size=16m,nr_inodes={files}"));
        expect_refusal(bed, &["no space left"]);
    }
}

#[test]
fn an_unknown_key() {
    let bed = Bed::with([Volume::memory("demo", "1MiB")]).extra("shard = 2\n");
    expect_refusal(bed, &["`shard`"]);
}

#[test]
fn a_disk_that_gets_full_while_writing() {
    const BLOCKS: u32 = 128;
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).small_disk("size=24m").start();
    let mut session = Initiator::login(node.address(), "demo").expect("a login");
    let data = vec![0x42; BLOCKS as usize * 512];
    let mut answers =
        (0..1024).map(|index| (index, session.write(index * BLOCKS, &data).expect("an answer")));
    let (full_at, refused) =
        answers.find(|(_, answer)| answer.status != 0).expect("24 MiB do not hold 64 MiB");
    assert!(full_at * BLOCKS * 512 > 16 << 20, "full too early, at write {full_at}: {refused:?}");
    // CHECK CONDITION, DATA PROTECT, SPACE ALLOCATION FAILED WRITE PROTECT (SBC-4 section 4.7.3.6)
    assert_eq!((refused.status, refused.sense), (2, (0x07, 0x27, 0x07)));
    node.wait_for_log("no space left");

    // The node lives on, and so does what was written.
    for index in 0..full_at {
        assert_eq!(session.read(index * BLOCKS, BLOCKS as u16).expect("a read"), data, "write {index}");
    }
    assert_eq!(session.unmap(0, full_at / 2 * BLOCKS).expect("an answer").status, 0);
    assert_eq!(
        session.write(full_at * BLOCKS, &data).expect("an answer").status,
        0,
        "discards free no space"
    );
    assert!(node.is_serving());
}
