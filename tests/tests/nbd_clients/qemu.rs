//! QEMU's disk tools by `nbd://` and `nbd+unix://`.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use beds::{Bed, Tool, Volume};

use crate::copy::write_image;
use crate::qemu_io;

#[test]
fn patterns_zeroes_and_discards_read_back_as_written() {
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).nbd().start();
    let (tcp, unix) = (node.nbd_url("demo"), node.nbd_unix_url("demo"));
    let written = ["write -P 0x11 0 8M", "write -P 0x22 8M 1M", "write -f -P 0x33 9M 64k", "flush"];
    let _ = qemu_io(&tcp, &written).run().expect_success();
    let file = node.data().join("demo.img");
    let before = file.metadata().expect("the backing file").blocks();
    let _ = qemu_io(&unix, &["write -z -u 1M 2M", "write -z 4M 64k", "discard 6M 2M", "flush"])
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
    let _ = qemu_io(&tcp, &check).run().expect_success();
    let _ = qemu_io(&unix, &check).run().expect_success();
    let after = file.metadata().expect("the backing file").blocks();
    assert!(after < before, "discards punch no holes: {before} sectors before, {after} after");

    node.terminate();
    assert!(!node.nbd_socket().exists(), "the socket is left behind");
    node.restart();
    let _ = qemu_io(&node.nbd_unix_url("demo"), &check).run().expect_success();
    let wrong = qemu_io(&node.nbd_url("demo"), &["read -P 0x12 0 1M"]).run().expect_failure();
    assert!(wrong.stdout.contains("Pattern verification failed"), "{wrong}");
    // What a crash leaves of the socket does not keep the next node from its place.
    node.kill9();
    assert!(node.nbd_socket().exists());
    node.restart();
    let _ = qemu_io(&node.nbd_unix_url("demo"), &check).run().expect_success();
}

#[test]
fn an_image_is_converted_onto_the_volume_and_compares_equal() {
    for block_size in [512, 4096] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let image = folder.path().join("image.raw");
        write_image(&image);
        let node = Bed::with([Volume::file("demo", "96MiB").block_size(block_size)]).nbd().start();
        let url = node.nbd_url("demo");
        // What stood there before has to disappear in the holes too.
        let _ = qemu_io(&url, &["write -P 0xee 0 32M", "flush"]).run().expect_success();
        let convert = Tool::new("qemu-img").args(["convert", "-n", "-f", "raw", "-O", "raw"]);
        let _ = convert.deadline(Duration::from_secs(60)).arg(&image).arg(&url).run().expect_success();
        let compare =
            || Tool::new("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(&image).arg(&url);
        // Strict: the volume says itself, by block status, that it has holes where the image has.
        let _ = compare().arg("-s").run().expect_success();
        let map = Tool::new("qemu-img").args(["map", "-f", "raw", "--output=json"]).arg(&url);
        let map = map.run().expect_success().stdout;
        assert_eq!(map.matches("\"data\": true").count(), 32, "{map}");

        // The comparison itself must be able to fail.
        let _ = qemu_io(&url, &["write -P 0x5a 50M 4k"]).run().expect_success();
        let differs = compare().run().expect_failure();
        assert!(differs.stdout.contains("mismatch at offset 52428800!"), "{differs}");
    }
}

#[test]
fn what_one_protocol_writes_and_flushes_another_reads() {
    let node = Bed::with([Volume::file("demo", "64MiB"), Volume::memory("memory", "64MiB")]).nbd().start();
    for volume in ["demo", "memory"] {
        let (nbd, iscsi) = (node.nbd_url(volume), node.url(volume));
        let _ = qemu_io(&nbd, &["write -P 0x61 1M 3M", "flush"]).run().expect_success();
        let _ =
            qemu_io(&iscsi, &["read -P 0x61 1M 3M", "write -P 0x62 2M 1M", "flush"]).run().expect_success();
        let _ = qemu_io(&nbd, &["read -P 0x61 1M 1M", "read -P 0x62 2M 1M", "read -P 0x61 3M 1M"])
            .run()
            .expect_success();
    }
}
