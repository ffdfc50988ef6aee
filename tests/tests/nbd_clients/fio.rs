//! fio with its NBD engine: the shape of the profile `database`, every block verified.

use std::time::Duration;

use beds::{Bed, Node, Tool, Volume};

/// 8 KiB, random, 70 % reads, 4 jobs of 16: what `fels lab run database` does, with checksums in the blocks.
fn database(node: &Node, volume: &str, rw: &str) -> Tool {
    Tool::new("fio")
        .args(["--name=database", "--ioengine=nbd", "--bs=8k", "--iodepth=16", "--rwmixread=70"])
        .args(["--numjobs=4", "--size=8m", "--offset_increment=8m", "--thread", "--group_reporting"])
        .args(["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--randrepeat=1"])
        .arg(format!("--rw={rw}"))
        .arg(format!("--uri={}", node.nbd_url(volume)))
        .deadline(Duration::from_secs(120))
}

#[test]
fn the_database_profile_reads_what_it_wrote() {
    let node = Bed::with([Volume::file("demo", "64MiB"), Volume::memory("memory", "64MiB")]).nbd().start();
    for volume in ["demo", "memory"] {
        // Each job reads only what it has written, in a phase of its own at the end.
        let written = database(&node, volume, "randwrite").run().expect_success();
        assert!(written.stdout.contains("READ:") && written.stdout.contains("WRITE:"), "{written}");
        // Of a mixture fio verifies what it has written, and not what it reads meanwhile.
        let _ = database(&node, volume, "randrw").run().expect_success();

        // The verification itself must be able to fail.
        let spoil = Tool::new("qemu-io").args(["-f", "raw", "-c", "write -P 0x5a 9M 64k"]);
        let _ = spoil.arg(node.nbd_url(volume)).run().expect_success();
        let spoilt = database(&node, volume, "randread").run().expect_failure();
        assert!(spoilt.stderr.contains("verify"), "{spoilt}");
    }
}
