//! fio over NBD and qemu-io over iSCSI on pools of every level, everything verified; the node has two shards.

use std::time::Duration;

use beds::{Bed, Pool, Tool, Volume};

use crate::qemu_io;

const LEVELS: [(&str, usize); 6] =
    [("single", 1), ("raid0", 2), ("raid1", 2), ("raid10", 4), ("raid5", 3), ("raid6", 5)];

fn fio(url: &str, rw: &str, size: &str) -> Tool {
    Tool::new("fio")
        .args([
            "--name=load",
            "--ioengine=nbd",
            "--iodepth=16",
            "--numjobs=2",
            "--thread",
            "--group_reporting",
        ])
        .args([&format!("--bs={size}"), "--size=8m", "--offset_increment=8m", "--randrepeat=1"])
        .args(["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"])
        .arg(format!("--rw={rw}"))
        .arg(format!("--uri={url}"))
        .deadline(Duration::from_secs(120))
}

#[test]
fn fio_reads_what_it_wrote() {
    for (raid, count) in LEVELS {
        let volume = Volume::on_pool("demo", "24MiB", "tank");
        let mut node = Bed::with([volume]).pool(Pool::files("tank", raid, count)).nbd().start();
        for (rw, size) in [("randwrite", "4k"), ("write", "256k"), ("randwrite", "1536")] {
            let _ = fio(&node.nbd_url("demo"), rw, size).run().expect_success();
        }
        // What it wrote last is there after a restart too.
        node.terminate();
        node.restart();
        let _ = fio(&node.nbd_url("demo"), "randread", "1536").run().expect_success();
        // And with a member less, where that can be.
        if !matches!(raid, "single" | "raid0") {
            node.terminate();
            std::fs::remove_file(node.data().join("m1.img")).expect("a member");
            node.restart();
            let _ = fio(&node.nbd_url("demo"), "randread", "1536").run().expect_success();
            let _ = fio(&node.nbd_url("demo"), "randwrite", "1536").run().expect_success();
        }
        // The verification itself must be able to fail.
        let _ = qemu_io(&node.nbd_url("demo"), &["write -P 0x5a 9M 64k"]).run().expect_success();
        let spoilt = fio(&node.nbd_url("demo"), "randread", "1536").run().expect_failure();
        assert!(spoilt.stderr.contains("verify"), "{spoilt}");
    }
}

#[test]
fn patterns_over_iscsi_read_back_over_nbd() {
    for (raid, count) in LEVELS {
        for block_size in [512, 4096] {
            let volume = Volume::on_pool("demo", "24MiB", "tank").block_size(block_size);
            let mut node = Bed::with([volume]).pool(Pool::files("tank", raid, count)).nbd().start();
            let write = [
                "write -P 0x11 0 8M",
                "write -P 0x22 8M 1M",
                "write -f -P 0x33 9M 64k",
                "write -z -u 1M 2M",
                "discard 6M 1M",
                "flush",
            ];
            let _ = qemu_io(&node.url("demo"), &write).run().expect_success();
            let read = [
                "read -P 0x11 0 1M",
                "read -P 0 1M 2M",
                "read -P 0x11 3M 3M",
                "read -P 0 6M 1M",
                "read -P 0x11 7M 1M",
                "read -P 0x22 8M 1M",
                "read -P 0x33 9M 64k",
                "read -P 0 10M 1M",
            ];
            // QEMU's iSCSI asks 4096-byte volumes for holes in pieces that it then refuses itself (its own assertion, on any
            // kind of volume): those are read over NBD alone.
            let url = if block_size == 512 { node.url("demo") } else { node.nbd_url("demo") };
            let _ = qemu_io(&url, &read).run().expect_success();
            node.terminate();
            node.restart();
            let _ = qemu_io(&node.nbd_url("demo"), &read).run().expect_success();
            let wrong = qemu_io(&node.nbd_url("demo"), &["read -P 0x12 0 1M"]).run().expect_failure();
            assert!(wrong.stdout.contains("Pattern verification failed"), "{wrong}");
        }
    }
}

#[test]
fn the_last_block_of_a_full_pool_can_be_written() {
    // raid0 of two members of 8 MiB: what `free` says, to the last row.
    let pool = Pool::files("tank", "raid0", 2).member_size("8MiB");
    let bed = |size: &str| Bed::with([Volume::on_pool("demo", size, "tank")]).pool(pool.clone()).nbd();
    let Err(refusal) = bed("16MiB").try_start() else {
        panic!("16 MiB do not fit beside labels and journal")
    };
    assert!(refusal.stderr.contains("the volumes of the pool `tank`"), "{}", refusal.stderr);
    let node = bed("12MiB").start();
    let commands = [
        "write -P 0x77 0 12M",
        "flush",
        "read -P 0x77 0 12M",
        "write -P 0x78 12284k 4k",
        "read -P 0x78 12284k 4k",
    ];
    let _ = qemu_io(&node.nbd_url("demo"), &commands).run().expect_success();
}
