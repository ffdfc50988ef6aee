//! `qemu-io` writes, zeroes, discards and reads back.

use std::os::unix::fs::MetadataExt as _;

use beds::{Bed, Volume};

use crate::qemu_io;

#[test]
fn patterns_zeroes_and_discards_read_back_as_written() {
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).start();
    let _ =
        qemu_io(&node, &["write -P 0x11 0 8M", "write -P 0x22 8M 1M", "write -f -P 0x33 9M 64k", "flush"])
            .run()
            .expect_success();
    let file = node.data().join("demo.img");
    let before = file.metadata().expect("the backing file").blocks();
    let _ = qemu_io(&node, &["write -z -u 1M 2M", "write -z 4M 64k", "discard 6M 2M", "flush"])
        .run()
        .expect_success();
    let check = [
        "read -P 0x11 0 1M",
        "read -P 0 1M 2M",
        "read -P 0x11 3M 1M",
        "read -P 0 4M 64k",
        "read -P 0x22 8M 1M",
        "read -P 0x33 9M 64k",
        "read -P 0 10M 1M",
    ];
    let _ = qemu_io(&node, &check).run().expect_success();
    let after = file.metadata().expect("the backing file").blocks();
    assert!(after < before, "discards punch no holes: {before} sectors before, {after} after");

    node.terminate();
    node.restart();
    let _ = qemu_io(&node, &check).run().expect_success();
    let wrong = qemu_io(&node, &["read -P 0x12 0 1M"]).run().expect_failure();
    assert!(wrong.stdout.contains("Pattern verification failed"), "{wrong}");
}
