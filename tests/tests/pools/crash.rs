//! `kill -9` under the lab's verifying load: what was durable is there afterwards, whole and on every level, also with a
//! member missing.

use std::time::Duration;

use beds::tool::lab;
use beds::{Bed, Pool, Tool, Volume, wait_until};

const ROUNDS: usize = 6;

fn load(url: &str, journal: &str) -> Tool {
    lab("run").args(["--target", url, "--rw=randrw", "--bs=8k", "--depth=8", "--jobs=2", "--rwmix=30"]).args(
        [
            "--warmup=0",
            "--time=60s",
            "--size=16m",
            "--flush-every=8",
            "--verify",
            "--timeout=2s",
            "--journal",
            journal,
        ],
    )
}

#[test]
fn what_was_durable_is_there_after_kill_9() {
    for (raid, count) in [("single", 1), ("raid10", 4), ("raid5", 3), ("raid6", 5)] {
        let volume = Volume::on_pool("demo", "24MiB", "tank");
        let mut node = Bed::with([volume]).pool(Pool::files("tank", raid, count)).nbd().start();
        let folder = tempfile::tempdir().expect("a temporary directory");
        for round in 0..ROUNDS {
            let journal = folder.path().join(format!("journal{round}"));
            let journal = journal.to_str().expect("text");
            let url = if round % 2 == 0 { node.url("demo") } else { node.nbd_url("demo") };
            let mut running = load(&url, journal).start();
            let began = || std::fs::metadata(journal).is_ok_and(|journal| journal.len() > 4096);
            assert!(
                wait_until(Duration::from_secs(20), began),
                "{raid}, round {round}: the load does not begin"
            );
            std::thread::sleep(Duration::from_millis(300 + fastrand::u64(..400)));
            assert!(running.is_running(), "{raid}, round {round}: {}", running.stderr_so_far());
            node.kill9();
            let ended = running.finish();
            assert!(!ended.stdout.contains("WRONG"), "{raid}, round {round}: {ended}");
            // In the last rounds a member is gone as well, as far as the level goes.
            if round == ROUNDS - 2 && raid != "single" {
                std::fs::remove_file(node.data().join("m1.img")).expect("a member");
            }
            node.restart();
            let verify = lab("verify").args(["--target", &node.url("demo"), "--journal", journal]);
            let verified = verify.run().expect_success();
            assert!(
                !verified.stdout.contains(" 0 blocks had to be durable"),
                "{raid}, round {round}: {verified}"
            );
            println!("{raid}, round {round}: {}", verified.stdout.trim());
        }
    }
}
