//! The real fio on a node, by `fels lab fio`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use beds::{Bed, Node, Tool, Volume, wait_until};

use super::{json, lab};

/// The profile `database`, as somebody else's job file has it: other engine, other target, every block verified.
const DATABASE: &str = "\
[global]
ioengine=libaio
filename=/dev/nothing-here
direct=1
bs=8k
iodepth=16
size=2m
offset_increment=2m
refill_buffers
randrepeat=0
verify=crc32c
verify_state_save=0
group_reporting
[database]
rw=RW
rwmixread=70
numjobs=16
";
const PACED: &str = "\
[paced]
rw=randread
bs=4k
time_based
runtime=60
rate_iops=500
";

fn node(volume: Volume) -> Node {
    Bed::with([volume]).nbd().start()
}

fn job(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("database.fio");
    std::fs::write(&path, text).unwrap();
    path
}

fn fio(job: &Path, url: &str) -> Tool {
    lab("fio").arg(job).args(["--target", url])
}

#[test]
fn the_database_profile_is_measured_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(Volume::file("demo", "32MiB"));
    let path = folder.path().join("run.json");
    let job_file = job(folder.path(), &DATABASE.replace("RW", "randrw"));
    for url in [node.nbd_url("demo"), node.nbd_unix_url("demo")] {
        let outcome = fio(&job_file, &url).arg("--json").arg(&path).run().expect_success();
        for part in
            ["measured by fio-3", "database ", "16 jobs x 16 in flight", "verified by fio (crc32c): 0 wrong"]
        {
            assert!(outcome.stdout.contains(part), "{part}: {outcome}");
        }
        let report = json(&path);
        let test = &report["tests"][0];
        let operations = |kind: &str| test[kind]["operations"].as_u64().unwrap();
        // The mixture is the whole area; in the end every block that was written is read again.
        assert!(operations("writes") > 0 && operations("reads") == 32 * 1024 / 8, "{test}");
        assert!(test["reads"]["latency_us"]["p99"].as_f64() > Some(0.0), "{test}");
        assert_eq!(
            (test["load"]["block_size"].as_u64(), test["target_size"].as_u64()),
            (Some(8192), Some(32 << 20))
        );
    }
    assert_eq!(
        std::fs::read_to_string(&job_file).unwrap(),
        DATABASE.replace("RW", "randrw"),
        "it is only read"
    );
}

#[test]
fn a_wrong_block_is_reported_as_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = node(Volume::file("demo", "32MiB"));
    let (write, read) = (DATABASE.replace("RW", "randwrite"), DATABASE.replace("RW", "randread"));
    let _ = fio(&job(folder.path(), &write), &node.nbd_url("demo")).run().expect_success();
    let right = fio(&job(folder.path(), &read), &node.nbd_url("demo")).run().expect_success();
    assert!(right.stdout.contains("verified by fio (crc32c): 0 wrong"), "{right}");

    // One byte, below the node.
    node.terminate();
    beds::spoil(&node.data().join("demo.img"));
    node.restart();
    let wrong = fio(&job(folder.path(), &read), &node.nbd_url("demo")).run().expect_failure();
    assert!(wrong.stdout.contains("  WRONG ") && wrong.stdout.contains("verify failed at"), "{wrong}");
    assert!(wrong.stdout.contains("verified by fio (crc32c): 1 wrong"), "{wrong}");
    assert!(wrong.stderr.contains("error: 1 blocks are wrong\nhint: "), "{wrong}");
    // fio itself is content with such a job.
    let content = read.replace("[database]", "continue_on_error=verify\n[database]");
    let wrong = fio(&job(folder.path(), &content), &node.nbd_url("demo")).run().expect_failure();
    assert!(wrong.stderr.contains("error: 1 blocks are wrong"), "{wrong}");
}

#[test]
fn ctrl_c_ends_fio_and_prints_what_it_measured() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(Volume::memory("demo", "16MiB"));
    let running = fio(&job(folder.path(), PACED), &node.nbd_url("demo")).start();
    std::thread::sleep(Duration::from_millis(2500));
    running.interrupt();
    let outcome = running.finish().expect_success();
    assert!(outcome.elapsed < Duration::from_secs(30), "{outcome}");
    assert!(outcome.stdout.contains("interrupted: ") && outcome.stdout.contains("\npaced "), "{outcome}");
    assert!(!outcome.stdout.contains("operations failed"), "{outcome}");
    // fio is not left behind: its connections are gone, so the node ends at once.
    let mut node = node;
    node.terminate();
}

#[test]
fn a_node_that_dies_under_fio_is_a_failure_in_fios_words() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = node(Volume::memory("demo", "16MiB"));
    let mut running = fio(&job(folder.path(), PACED), &node.nbd_url("demo")).start();
    std::thread::sleep(Duration::from_millis(2500));
    node.kill9();
    assert!(wait_until(Duration::from_secs(60), || !running.is_running()), "fio goes on without a server");
    let outcome = running.finish().expect_failure();
    assert!(outcome.stdout.contains("operations failed:"), "{outcome}");
    assert!(outcome.stdout.contains("error="), "fio's own words: {outcome}");
}

#[test]
fn what_fio_cannot_do_is_said_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(Volume::memory("demo", "16MiB"));
    let good = job(folder.path(), PACED);
    let refused = |tool: Tool, parts: [&str; 2]| {
        let outcome = tool.run().expect_failure();
        assert!(outcome.stderr.starts_with("error: "), "{outcome}");
        assert!(parts.iter().all(|part| outcome.stderr.contains(part)), "{parts:?}: {outcome}");
    };
    refused(
        fio(&good, &node.url("demo")),
        ["no initiator for iSCSI", "hint: give the NBD export of the same volume"],
    );
    let nvme = "nvme://127.0.0.1/nqn.2026-11.internal.fels:demo/1";
    refused(fio(&good, nvme), ["no initiator for NVMe/TCP", "hint: give the NBD export"]);
    let url = node.nbd_url("demo");
    refused(fio(&good, &url).args(["--fio", "/nowhere/fio"]), ["no program /nowhere/fio", "apt install fio"]);
    refused(fio(&good, &node.nbd_url("none")), ["error: ", "hint: "]);
    let wrong = job(folder.path(), "[a]\nrw=read\nnonsense=1\n");
    refused(fio(&wrong, &url), ["Bad option <nonsense=1>", "hint: look at "]);
}
