//! Members that are moved, missing, cut and overwritten while the node is stopped; a pool on another node.

use std::fs::File;
use std::path::Path;

use beds::{Bed, Node, Pool, Volume};

use crate::qemu_io;

const READ: [&str; 2] = ["read -P 0x61 0 8M", "read -P 0 8M 1M"];

fn volume() -> Volume {
    Volume::on_pool("demo", "32MiB", "tank")
}

fn bed(data: &Path, pool: Pool) -> Bed {
    Bed::with([volume()]).pool(pool).data(data).nbd()
}

/// A pool in `data` that has been written to, stopped in good order.
fn make(data: &Path, raid: &str, count: usize) {
    let mut node = bed(data, Pool::files("tank", raid, count)).start();
    let said = node.announcement();
    assert!(said.contains(&format!("pool tank: {raid} of {count} members, ")), "{said}");
    assert!(said.contains("free; made now\n"), "{said}");
    let _ = qemu_io(&node.nbd_url("demo"), &["write -P 0x61 0 8M", "flush"]).run().expect_success();
    node.terminate();
}

/// Starts it, reads everything over both protocols, and gives what the node said.
fn read(bed: Bed) -> String {
    let mut node: Node = bed.start();
    for url in [node.nbd_url("demo"), node.url("demo")] {
        let _ = qemu_io(&url, &READ).run().expect_success();
    }
    let said = node.announcement();
    node.terminate();
    said
}

#[test]
fn a_pool_is_found_on_another_node_in_any_order_and_with_one_missing() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(here.path(), "raid5", 4);
    let members = |order: [usize; 4]| {
        let name = |index| here.path().join(format!("m{index}.img")).to_str().unwrap().to_owned();
        Pool::on("tank", "raid5", order.map(name))
    };
    for order in [[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]] {
        let said = read(bed(there.path(), members(order)));
        assert!(said.contains("free; all members in sync\n"), "{said}");
    }
    let away = there.path().join("away.img");
    std::fs::rename(here.path().join("m2.img"), &away).unwrap();
    let said = read(bed(there.path(), members([1, 2, 3, 0])));
    assert!(
        said.contains("degraded: 1 of 4 members out\n") && said.contains("m2.img is not there"),
        "{said}"
    );
    std::fs::rename(&away, here.path().join("m2.img")).unwrap();
    let said = read(bed(there.path(), members([1, 2, 3, 0])));
    assert!(!said.contains("degraded"), "{said}");
}

#[test]
fn members_that_were_spoiled_while_the_node_was_stopped() {
    type Spoil = fn(&Path);
    let spoils: [(&str, Spoil); 4] = [
        ("is not there, or empty", |path| std::fs::remove_file(path).unwrap()),
        ("is not there, or empty", |path| drop(File::create(path).unwrap())),
        ("its end is gone", |path| {
            File::options().write(true).open(path).unwrap().set_len(20 << 20).unwrap();
        }),
        ("has no label of a pool, but something else on it", |path| {
            let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(64 << 20).collect();
            std::fs::write(path, bytes).unwrap();
        }),
    ];
    for (words, spoil) in spoils {
        for (raid, count) in [("raid1", 2), ("raid5", 3), ("raid6", 5)] {
            let data = tempfile::tempdir().unwrap();
            make(data.path(), raid, count);
            let member = data.path().join("m1.img");
            spoil(&member);
            let before = std::fs::read(&member).ok();
            let said = read(bed(data.path(), Pool::files("tank", raid, count)));
            assert!(said.contains("degraded: 1 of") && said.contains(words), "{raid}: {said}");
            assert!(std::fs::read(&member).ok() == before, "{raid}, {words}: it was written to");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let data = tempfile::tempdir().unwrap();
    make(data.path(), "raid5", 3);
    let refused = |pool: Pool, words: &str| {
        let Err(refusal) = bed(data.path(), pool).try_start() else { panic!("it started: {words}") };
        assert_eq!(refusal.status.code(), Some(1), "{refusal:?}");
        assert!(refusal.stderr.contains(words) && refusal.stderr.contains("hint:"), "{}", refusal.stderr);
        assert!(!refusal.stderr.contains("panicked"), "{}", refusal.stderr);
    };
    refused(Pool::on("tank", "raid6", ["m0.img", "m1.img", "m2.img", "m3.img"]), "it is raid5, not raid6");
    refused(Pool::on("tank", "raid5", ["m0.img", "n1.img", "n2.img"]), "2 of its 3 members are missing");
    refused(Pool::on("tank", "raid5", ["n0.img", "n1.img", "n2.img"]), "n0.img is not there");
    std::fs::copy(data.path().join("m0.img"), data.path().join("copy.img")).unwrap();
    refused(Pool::on("tank", "raid5", ["m0.img", "m1.img", "copy.img"]), "are the same member");
    std::fs::write(data.path().join("letter"), "dear friend").unwrap();
    refused(Pool::on("tank", "raid1", ["letter", "blank.img"]).member_size("64MiB"), "something else on it");
    assert!(!data.path().join("blank.img").exists(), "nothing is made when something is wrong");
    let _running = bed(data.path(), Pool::files("tank", "raid5", 3)).start();
    let elsewhere = tempfile::tempdir().unwrap();
    let members =
        ["m0.img", "m1.img", "m2.img"].map(|name| data.path().join(name).to_str().unwrap().to_owned());
    let other = Bed::with([volume()]).pool(Pool::on("tank", "raid5", members)).data(elsewhere.path());
    let Err(refusal) = other.try_start() else { panic!("two nodes have one pool") };
    assert!(refusal.stderr.contains("in use by another process"), "{}", refusal.stderr);
}
