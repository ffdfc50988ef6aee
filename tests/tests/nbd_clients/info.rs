//! `nbdinfo`: what exports there are, what they can do, and which parts of them are holes.

use beds::{Bed, Tool, Volume};

use crate::qemu_io;

fn nbdinfo(arguments: &[&str], url: &str) -> String {
    Tool::new("nbdinfo").args(arguments).arg(url).run().expect_success().stdout
}

#[test]
fn exports_sizes_and_abilities_are_told() {
    let volumes = [Volume::memory("demo", "64MiB"), Volume::file("big", "1GiB").block_size(4096)];
    let node = Bed::with(volumes).nbd().start();
    let list = nbdinfo(&["--list"], &format!("nbd://{}/", node.nbd_address()));
    for line in ["export=\"demo\":", "export=\"big\":", "export-size: 67108864 (64M)", "base:allocation"] {
        assert!(list.contains(line), "{line}: {list}");
    }
    for url in [node.nbd_url("big"), node.nbd_unix_url("big")] {
        let info = nbdinfo(&[], &url);
        for line in [
            "export-size: 1073741824 (1G)",
            "is_read_only: false",
            "can_cache: true",
            "can_df: true",
            "can_fast_zero: true",
            "can_flush: true",
            "can_fua: true",
            "can_multi_conn: true",
            "can_trim: true",
            "can_zero: true",
            "block_size_minimum: 4096",
            "block_size_preferred: 4096",
            "block_size_maximum: 33554432",
        ] {
            assert!(info.contains(line), "{line}: {info}");
        }
    }
    let refused = Tool::new("nbdinfo").arg(node.nbd_url("nobody")).run().expect_failure();
    assert!(refused.stderr.contains("for export: nobody"), "{refused}");
}

#[test]
fn the_only_export_has_no_need_of_its_name() {
    let node = Bed::with([Volume::memory("demo", "64MiB")]).nbd().start();
    assert_eq!(nbdinfo(&["--size"], &node.nbd_url("")).trim(), "67108864");
    assert_eq!(nbdinfo(&["--size"], &node.nbd_unix_url("")).trim(), "67108864");
}

#[test]
fn volumes_that_ask_who_comes_are_not_there() {
    let chap = |name: &str| Volume::memory(name, "1MiB").chap("esx1", "0123456789abcdef");
    let volumes = [chap("closed"), chap("opened").nbd(true), Volume::memory("hidden", "1MiB").nbd(false)];
    let node = Bed::with(volumes).nbd().start();
    let list = nbdinfo(&["--list"], &format!("nbd://{}/", node.nbd_address()));
    assert!(list.contains("\"opened\"") && !list.contains("closed") && !list.contains("hidden"), "{list}");
    node.wait_for_log("not served over NBD");
}

#[test]
fn holes_are_told_as_they_are() {
    for volume in [Volume::memory("demo", "64MiB"), Volume::file("demo", "64MiB")] {
        let node = Bed::with([volume]).nbd().start();
        let url = node.nbd_url("demo");
        let _ = qemu_io(&url, &["write -P 1 1M 1M", "write -P 2 8M 64k", "flush"]).run().expect_success();
        let map = nbdinfo(&["--map"], &url);
        let runs: Vec<Vec<&str>> =
            map.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
        let expected = [
            ["0", "1048576", "3"],
            ["1048576", "1048576", "0"],
            ["2097152", "6291456", "3"],
            ["8388608", "65536", "0"],
            ["8454144", "58654720", "3"],
        ];
        assert_eq!(runs, expected, "{map}");
    }
}
