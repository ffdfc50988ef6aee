//! Pools on block devices: loop devices, which need root. Where there are none the bed fails and says so; who knows that sets
//! `FELS_NO_LOOP_DEVICES`.

use std::path::{Path, PathBuf};

use beds::{Bed, Pool, Tool, Volume};

use crate::qemu_io;

/// A block device on a file; it goes when this is dropped.
struct Loop(PathBuf);

impl Loop {
    fn new(file: &Path) -> Loop {
        std::fs::File::create(file).and_then(|file| file.set_len(64 << 20)).expect("a file");
        let made = Tool::new("losetup").args(["--find", "--show"]).arg(file).run();
        assert!(
            made.succeeded(),
            "no loop device can be had: {made}\nhint: run as root, or set FELS_NO_LOOP_DEVICES=1 to do without this bed"
        );
        Loop(made.stdout.trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Tool::new("losetup").arg("--detach").arg(&self.0).run();
    }
}

#[test]
fn a_pool_lives_on_block_devices() {
    if std::env::var_os("FELS_NO_LOOP_DEVICES").is_some() {
        println!("NOT RUN: FELS_NO_LOOP_DEVICES is set");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut devices: Vec<Loop> =
        (0..4).map(|index| Loop::new(&folder.path().join(format!("disk{index}")))).collect();
    let pool =
        |devices: &[Loop]| Pool::on("tank", "raid6", devices.iter().map(|device| device.0.to_str().unwrap()));
    let bed = |devices: &[Loop]| {
        let volume = Volume::on_pool("demo", "64MiB", "tank");
        Bed::with([volume]).pool(pool(devices)).data(&folder.path().join("data")).nbd()
    };
    let write = ["write -P 0x41 0 64M", "discard 4M 1M", "flush"];
    let read = ["read -P 0x41 0 4M", "read -P 0 4M 1M", "read -P 0x41 5M 59M"];
    let mut node = bed(&devices).start();
    let _ = qemu_io(&node.url("demo"), &write).run().expect_success();
    let _ = qemu_io(&node.nbd_url("demo"), &read).run().expect_success();
    node.kill9();
    node.restart();
    let _ = qemu_io(&node.nbd_url("demo"), &read).run().expect_success();
    node.terminate();
    drop(node);
    // Other names for the disks, in another order.
    devices.swap(0, 3);
    let mut node = bed(&devices).start();
    assert!(node.announcement().contains("all members in sync"), "{}", node.announcement());
    let _ = qemu_io(&node.nbd_url("demo"), &read).run().expect_success();
    node.terminate();
    drop(node);
    // A disk that is somebody else's is left alone.
    let foreign = devices[1].0.clone();
    let wipe = Tool::new("dd").args(["if=/dev/urandom", "bs=1M", "count=64", "conv=fsync"]);
    let _ = wipe.arg(format!("of={}", foreign.display())).run().expect_success();
    let sum = || Tool::new("sha256sum").arg(&foreign).run().expect_success().stdout;
    let before = sum();
    let mut node = bed(&devices).start();
    let said = node.announcement();
    assert!(said.contains("degraded: 1 of 4") && said.contains("something else on it"), "{said}");
    let _ = qemu_io(&node.nbd_url("demo"), &read).run().expect_success();
    node.terminate();
    assert_eq!(sum(), before, "it was written to");
}
