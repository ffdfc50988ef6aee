//! `fels pool add` while real initiators use the pool: new room and further copies, what becomes of them in a crash, and that the
//! new members can do without the old ones as far as the level goes.

use std::time::Duration;

use beds::tool::{fels, pool};
use beds::{Bed, Node, Pool, Tool, Volume};
use serde_json::Value;

use crate::qemu_io;

const MEMBER: &str = "64MiB";

/// A level, its members before, those that are added, the sets afterwards, and which members may go then.
type Case = (&'static str, usize, usize, u64, &'static [usize]);

const CASES: [Case; 3] =
    [("raid10", 4, 2, 2, &[0, 3, 4]), ("raid0", 2, 1, 2, &[]), ("raid1", 2, 2, 1, &[0, 1, 2])];

fn ask(node: &Node, command: &str, words: &[&str]) -> Tool {
    pool(command).args(words).arg("--data").arg(node.data())
}

fn members(node: &Node) -> Vec<Value> {
    let said = ask(node, "status", &["tank", "--json"]).run().expect_success();
    let status: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    status["pools"][0]["members"].as_array().expect("members").clone()
}

/// Writes that are verified, for as long as members come in.
fn load(url: &str) -> Tool {
    Tool::new("fio")
        .args(["--name=load", "--ioengine=nbd", "--iodepth=8", "--bs=4k", "--rw=randwrite", "--size=8m"])
        .args(["--time_based", "--runtime=8", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"])
        .arg(format!("--uri={url}"))
        .deadline(Duration::from_secs(90))
}

#[test]
fn a_pool_gets_further_members_under_load() {
    for (raid, before, more, sets, spared) in CASES {
        let volume = Volume::on_pool("demo", "24MiB", "tank");
        let pool = Pool::files("tank", raid, before).member_size(MEMBER);
        let mut node = Bed::with([volume]).pool(pool).nbd().start();
        let url = node.nbd_url("demo");
        let _ = qemu_io(&url, &["write -P 0x61 8M 16M", "flush"]).run().expect_success();
        let mut running = load(&url).start();

        let places: Vec<_> = (0..more).map(|one| node.data().join(format!("new{one}.img"))).collect();
        let mut words = vec!["tank"];
        words.extend(places.iter().map(|place| place.to_str().expect("text")));
        let planned = ask(&node, "add", &words).arg("--dry-run").run().expect_success();
        assert!(places.iter().all(|place| !place.exists()), "{raid}: a plan makes nothing: {planned}");
        let _ = ask(&node, "add", &words).arg("--wait").run().expect_success();
        let now = members(&node);
        let all_in_sync = now.iter().all(|member| member["state"] == "in-sync");
        assert!(now.len() == before + more && all_in_sync, "{raid}: {now:?}");
        let last = now.iter().filter_map(|member| member["set"].as_u64()).max();
        assert_eq!(last, Some(sets - 1), "{raid}");
        let said = ask(&node, "status", &["tank"]).run().expect_success();
        assert_eq!(said.stdout.contains("set  slot"), sets > 1, "{raid}: {said}");
        assert!(running.is_running(), "{raid}: all of this was to be under load");
        let _ = running.finish().expect_success();

        // A volume in the new room, or in what was there where there is none.
        let size = if sets > 1 { "40MiB" } else { "8MiB" };
        let create = fels("volume", "create").args(["more", "--pool", "tank", "--size", size]);
        let _ = create.arg("--data").arg(node.data()).run().expect_success();
        let further = node.nbd_url("more");
        let (fill, check) = (format!("write -P 0x62 0 {size}"), format!("read -P 0x62 0 {size}"));
        let (fill, check) = (fill.replace("iB", ""), check.replace("iB", ""));
        let _ = qemu_io(&further, &[&fill, "flush"]).run().expect_success();

        node.kill9();
        for slot in spared {
            let place = now[*slot]["place"].as_str().expect("a place");
            std::fs::remove_file(place).unwrap_or_else(|error| panic!("{raid}, {place}: {error}"));
        }
        node.restart_as_it_is();
        let _ = qemu_io(&node.nbd_url("demo"), &["read -P 0x61 8M 16M"]).run().expect_success();
        let _ = qemu_io(&node.nbd_url("more"), &[&check]).run().expect_success();
        // The check itself has to be able to fail.
        let _ = qemu_io(&node.nbd_url("more"), &["write -P 0x63 1M 4k"]).run().expect_success();
        let _ = qemu_io(&node.nbd_url("more"), &[&check]).run().expect_failure();
    }
}
