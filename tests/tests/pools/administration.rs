//! Pools as administrators have them in hand: `fels pool` with a node that is under load, and without one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use beds::pool::{BLOCK, damage};
use beds::tool::{fels, pool};
use beds::{Bed, Node, Pool, Tool, Volume, wait_until};
use serde_json::Value;

use crate::qemu_io;

const MEMBER: &str = "64MiB";
const SPOILT: u8 = 0xa7;

fn bed(pool: Pool) -> Bed {
    Bed::with([Volume::on_pool("demo", "96MiB", "tank")]).pool(pool).nbd()
}

fn ask(node: &Node, subcommand: &str, words: &[&str]) -> Tool {
    pool(subcommand).args(words).arg("--data").arg(node.data())
}

fn json(tool: Tool) -> Value {
    let said = tool.arg("--json").run().expect_success();
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn status(node: &Node) -> Value {
    json(ask(node, "status", &["tank"]))["pools"][0].clone()
}

/// Refused with 1, a sentence with these words, and a hint.
fn refused(tool: Tool, words: &str) {
    let said = tool.run().expect_failure();
    assert_eq!(said.status.and_then(|status| status.code()), Some(1), "{said}");
    assert!(said.stderr.contains(words) && said.stderr.contains("hint:"), "{words} is not in {said}");
}

/// Twelve seconds of writes, verified.
fn load(url: &str) -> Tool {
    Tool::new("fio")
        .args(["--name=load", "--ioengine=nbd", "--iodepth=8", "--bs=4k", "--rw=randwrite", "--size=8m"])
        .args([
            "--time_based",
            "--runtime=12",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ])
        .arg(format!("--uri={url}"))
        .deadline(Duration::from_secs(90))
}

#[test]
fn members_go_come_back_and_are_replaced_under_load() {
    let node = bed(Pool::files("tank", "raid6", 5).member_size(MEMBER)).start();
    let url = node.nbd_url("demo");
    let _ = qemu_io(&url, &["write -P 0x61 8M 88M", "flush"]).run().expect_success();
    let mut running = load(&url).start();

    let said = ask(&node, "offline", &["tank", "m1.img"]).run().expect_success();
    assert!(said.stdout.contains("any one further member may fail"), "{said}");
    let now = status(&node);
    assert_eq!(now["state"], "degraded");
    let member = &now["members"][1];
    assert_eq!(
        (&member["state"], &member["cause"]),
        (&"out".into(), &"taken out by an administrator".into())
    );
    // So that it misses something.
    std::thread::sleep(Duration::from_millis(300));
    let said = ask(&node, "online", &["tank", "1", "--wait"]).run().expect_success();
    assert!(said.stdout.contains("all 5 members are in sync"), "{said}");
    assert_eq!(status(&node)["state"], "ok");

    let other = node.data().join("other.img");
    let other = other.to_str().expect("text");
    let planned = ask(&node, "replace", &["tank", "2", other, "--dry-run"]).run().expect_success();
    assert!(planned.stdout.contains("and was not") && !Path::new(other).exists(), "{planned}");
    let said = ask(&node, "replace", &["tank", "m2.img", other, "--wait"]).run().expect_success();
    assert!(said.stdout.contains("the configuration says so from now on"), "{said}");
    let text = node.configuration();
    assert!(
        text.contains(other) && !text.contains("m2.img\""),
        "the one that is gone is still in it: {text}"
    );
    let now = status(&node);
    assert_eq!((&now["state"], &now["members"][2]["place"]), (&"ok".into(), &other.into()));

    // Ctrl-C ends the waiting, not the scrub.
    let mut waiting = ask(&node, "scrub", &["tank", "--wait"]).start();
    assert!(wait_until(Duration::from_secs(10), || waiting.stderr_so_far().contains("scrub [")));
    if waiting.is_running() && status(&node)["scrub"]["runs"] == true {
        waiting.interrupt();
        let said = waiting.finish().expect_failure();
        assert!(said.stderr.contains("stopped waiting") && said.stderr.contains("goes on"), "{said}");
        assert_eq!(status(&node)["scrub"]["runs"], true);
    } else {
        panic!("the scrub was over before it could be left: make it longer");
    }
    let _ = ask(&node, "scrub", &["tank", "--stop"]).run().expect_success();
    assert_eq!(status(&node)["scrub"]["runs"], false);

    assert!(running.is_running(), "all of this was to be under load");
    let _ = running.finish().expect_success();
    let _ = qemu_io(&url, &["read -P 0x61 8M 88M"]).run().expect_success();
}

/// How often its threads of these names have gone to sleep by now.
fn sleeps(node: &Node, names: &[&str]) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", node.pid())).expect("its threads");
    let text = |file: PathBuf| std::fs::read_to_string(file).unwrap_or_default();
    let folders = threads.map(|thread| thread.expect("a thread").path());
    let ours = folders.filter(|folder| names.contains(&text(folder.join("comm")).trim()));
    let counts = ours.map(|folder| {
        let status = text(folder.join("status"));
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count")
    });
    counts.sum()
}

#[test]
fn a_node_without_pools_is_not_woken_each_second_and_watches_one_that_is_opened() {
    const WATCHING: &[&str] = &["watch", "control"];
    let node = Bed::with([Volume::memory("demo", "16MiB")]).nbd().start();
    std::thread::sleep(Duration::from_secs(2));
    let before = sleeps(&node, WATCHING);
    assert!(before > 0, "there are such threads");
    std::thread::sleep(Duration::from_secs(8));
    let count = sleeps(&node, WATCHING) - before;
    // It looks at itself each ten seconds, and each five whether a message waits: 6 times or so. Two who looked at pools each
    // second were 37.
    assert!(count < 20, "{count} times in 8 seconds");

    let open = ask(&node, "open", &["tank", "--raid=raid1", "--member-size", MEMBER]).arg("--members");
    let _ = open.args(members(node.data(), &["a.img", "b.img"])).run().expect_success();
    let _ = ask(&node, "scrub", &["tank", "--wait"]).run().expect_success();
    let ended = || {
        let events = fels("events", "--event").args(["scrub-ended", "--data"]).arg(node.data());
        events.run().expect_success().stdout.contains("tank")
    };
    assert!(wait_until(Duration::from_secs(10), ended), "nobody tells that the scrub has ended");
}

#[test]
fn a_scrub_finds_spoilt_blocks_and_says_so() {
    for (raid, count, words, code) in [
        ("raid5", 3, "1 bad blocks, 1 repaired, 0 lost", 0),
        ("single", 1, "1 bad blocks, 0 repaired, 1 lost", 1),
    ] {
        let node = bed(Pool::files("tank", raid, count).member_size("128MiB")).start();
        let place = format!("write -P {SPOILT:#x} 3M 4k");
        let _ =
            qemu_io(&node.nbd_url("demo"), &["write -P 0x11 2M 2M", &place, "flush"]).run().expect_success();
        let clean = ask(&node, "scrub", &["tank", "--wait"]).run().expect_success();
        assert!(clean.stdout.contains("done; nothing wrong"), "{clean}");
        let members = (0..count).map(|index| node.data().join(format!("m{index}.img")));
        let full = |block: &[u8]| block.iter().all(|byte| *byte == SPOILT);
        let mut with_block =
            members.filter(|member| std::fs::read(member).expect("a member").chunks_exact(BLOCK).any(full));
        damage(&with_block.next().expect("one has it"), SPOILT);
        let said = ask(&node, "scrub", &["tank", "--wait"]).run();
        assert_eq!(said.status.and_then(|status| status.code()), Some(code), "{said}");
        assert!(said.stdout.contains(words), "{said}");
        let blocks = &status(&node)["blocks"];
        assert_eq!(blocks["wrong"], 1, "{blocks}");
        assert_eq!((&blocks["repaired"], &blocks["lost"]), (&(1 - code).into(), &code.into()), "{blocks}");
    }
}

#[test]
fn what_cannot_be_done_to_a_running_pool_is_refused_and_changes_nothing() {
    let node = bed(Pool::files("tank", "raid5", 4).member_size(MEMBER)).start();
    let path = |name: &str| node.data().join(name).to_str().expect("text").to_owned();
    let before = status(&node);
    std::fs::write(path("foreign.img"), vec![0x55; 64 << 20]).expect("a file");
    std::fs::write(path("small.img"), vec![0; 1 << 20]).expect("a file");
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let others: Vec<_> = ["o0", "o1"].map(|name| elsewhere.path().join(name)).to_vec();
    let _ = pool("create")
        .args(["other", "--raid=raid1", "--member-size", MEMBER, "--members"])
        .args(&others)
        .run()
        .expect_success();
    refused(ask(&node, "replace", &["tank", "2", &path("foreign.img")]), "something else on it");
    refused(ask(&node, "replace", &["tank", "2", &path("small.img")]), "members of this pool have");
    refused(ask(&node, "replace", &["tank", "2", &path("m3.img")]), "in use");
    refused(ask(&node, "replace", &["tank", "2", others[0].to_str().unwrap()]), "a member of the pool other");
    refused(ask(&node, "replace", &["tank", "9", &path("new.img")]), "has no member 9");
    refused(ask(&node, "replace", &["tank", "2", &path("no/new.img")]), "there is no directory");
    let _ = Tool::new("mkfifo").arg(path("pipe")).run().expect_success();
    refused(ask(&node, "replace", &["tank", "2", &path("pipe")]), "neither a file nor a block device");
    refused(pool("status").args(["--members", &path("pipe")]), "no member of a pool was found");
    refused(ask(&node, "status", &["tonk"]), "this node has no pool tonk");
    assert_eq!(status(&node)["members"], before["members"]);

    let _ = ask(&node, "offline", &["tank", "0"]).run().expect_success();
    refused(ask(&node, "offline", &["tank", "1"]), "would lose data");
    refused(ask(&node, "replace", &["tank", "1", &path("new.img")]), "would lose data");
    refused(ask(&node, "online", &["tank", "0", &path("foreign.img")]), "nothing was written to it");
    refused(
        ask(&node, "online", &["tank", "0", others[0].to_str().unwrap()]),
        "a member of another pool, other",
    );
    let _ = ask(&node, "online", &["tank", "0", "--wait"]).run().expect_success();

    // What a node uses, nobody else has.
    let members: Vec<_> = (0..4).map(|index| path(&format!("m{index}.img"))).collect();
    for subcommand in ["export", "destroy"] {
        refused(pool(subcommand).args(["tank", "--members"]).args(&members), "in use by another process");
    }
    refused(pool("import").args(&members), "no member of a pool was found");
    refused(
        pool("create").args(["new", "--raid=raid5", "--members"]).args(&members),
        "in use by another process",
    );
    assert_eq!(status(&node)["state"], "ok");
    assert!(!Path::new(&path("new.img")).exists());
    // A spare comes, is kept from others, and goes.
    let spare = path("spare.img");
    let planned = ask(&node, "spare", &["tank", &spare, "--dry-run"]).run().expect_success();
    assert!(planned.stdout.contains("and was not") && !Path::new(&spare).exists(), "{planned}");
    let said = ask(&node, "spare", &["tank", &spare]).run().expect_success();
    assert!(said.stdout.contains("the configuration says so from now on"), "{said}");
    assert!(node.configuration().contains(&format!("spares = [\"{spare}\"]")), "{}", node.configuration());
    assert_eq!(status(&node)["spares"][0]["place"], spare.as_str());
    refused(ask(&node, "spare", &["tank", &spare]), "in use");
    let _ = ask(&node, "spare", &["tank", &spare, "--remove"]).run().expect_success();
    assert_eq!(status(&node)["spares"].as_array().map(Vec::len), Some(0));
    refused(ask(&node, "spare", &["tank", &spare, "--remove"]), "is no spare");
    refused(ask(&node, "grow", &["tank"]), "no room to grow");
    let _ = ask(&node, "replace", &["tank", "2", &spare, "--wait"]).run().expect_success();
    let usage = pool("scrub").run().expect_failure();
    assert_eq!(usage.status.and_then(|status| status.code()), Some(2), "{usage}");
}

#[test]
fn only_who_runs_the_node_may_ask_it() {
    let mut node = bed(Pool::files("tank", "single", 1).member_size("128MiB")).start();
    let socket = node.data().join("fels.sock");
    let mode = || {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(&socket).map(|metadata| metadata.permissions().mode() & 0o777).ok()
    };
    assert_eq!(mode(), Some(0o600));
    // A node that was killed leaves its socket behind; the next one takes its place.
    node.kill9();
    assert_eq!(mode(), Some(0o600));
    refused(ask(&node, "status", &[]), "no node runs in");
    node.restart();
    let _ = ask(&node, "status", &[]).run().expect_success();
    node.terminate();
    assert_eq!(mode(), None, "an orderly end removes it");
    refused(ask(&node, "status", &[]), "no node runs in");
    std::fs::write(&socket, "dear friend").expect("a file");
    let Err(refusal) =
        bed(Pool::files("tank", "single", 1).member_size("128MiB")).data(node.data()).try_start()
    else {
        panic!("it started")
    };
    assert!(refusal.stderr.contains("is not a socket"), "{refusal:?}");
    assert_eq!(std::fs::read(&socket).expect("still there"), b"dear friend");
}

fn members(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.join(name)).collect()
}

/// A node on the members that `fels pool import` found, in the order that it prints.
fn on_found(folder: &Path) -> Bed {
    let found = json(pool("import").arg("--dir").arg(folder));
    let pool = &found["pools"][0];
    assert_eq!((&pool["name"], &pool["can_be_opened"]), (&"tank".into(), &true.into()), "{found}");
    let places = pool["members"].as_array().expect("a list").iter().map(|member| member["place"].as_str());
    let places = places.map(|place| place.unwrap_or("missing-member").to_owned());
    bed(Pool::on("tank", "raid5", places))
}

#[test]
fn a_pool_moves_to_another_place_and_is_given_up_there() {
    let here = tempfile::tempdir().expect("a temporary directory");
    let made = members(here.path(), &["a", "b", "c", "d"]);
    let create = |dry: &[&str]| {
        let create = pool("create").args(["tank", "--raid=raid5", "--member-size", MEMBER]).args(dry);
        create.arg("--members").args(&made)
    };
    let planned = create(&["--dry-run"]).run().expect_success();
    assert!(planned.stdout.contains("row 3") && planned.stdout.contains("nothing was made"), "{planned}");
    assert!(!made[0].exists());
    let said = create(&[]).run().expect_success();
    assert!(said.stdout.contains("[[pool]]\nname = \"tank\"\nraid = \"raid5\"\n"), "{said}");

    let mut node = on_found(here.path()).start();
    let _ = qemu_io(&node.nbd_url("demo"), &["write -P 0x61 0 64M", "flush"]).run().expect_success();
    node.kill9();
    let left = json(pool("status").arg("--members").args(&made));
    assert_eq!(left["pools"][0]["closed_in_good_order"], false);
    let said = pool("export").args(["tank", "--members"]).args(&made).run().expect_success();
    assert!(said.stdout.contains("closed in good order"), "{said}");
    let left = json(pool("status").arg("--members").args(&made));
    assert_eq!(left["pools"][0]["closed_in_good_order"], true);

    // Other names in another directory, so another order, and one is left behind.
    let there = tempfile::tempdir().expect("a temporary directory");
    for (from, to) in made.iter().zip(["z", "y", "x"]) {
        std::fs::copy(from, there.path().join(to)).expect("a copy");
    }
    std::fs::write(there.path().join("letter"), "dear friend").expect("a file");
    let said = pool("import").arg("--dir").arg(there.path()).run().expect_success();
    assert!(said.stdout.contains("missing-member-3") && said.stdout.contains("letter"), "{said}");
    let mut node = on_found(there.path()).start();
    let _ =
        qemu_io(&node.nbd_url("demo"), &["read -P 0x61 0 64M", "write -P 0x62 0 1M"]).run().expect_success();
    node.terminate();
    std::fs::copy(&made[3], there.path().join("w")).expect("a copy");
    let said = pool("import").arg("--dir").arg(there.path()).run().expect_success();
    assert!(said.stdout.contains("stale: went out (missing)"), "{said}");

    let dir = there.path().to_str().expect("text").to_owned();
    let destroy = |more: &[&str]| pool("destroy").args(["tank", "--dir", &dir]).args(more);
    refused(destroy(&["--yes"]), "has 1 volume");
    refused(destroy(&["--force"]).input("tonk\n"), "that is not the name of the pool");
    let planned = destroy(&["--dry-run"]).run().expect_success();
    assert!(planned.stdout.contains("4 members would be made blank"), "{planned}");
    let _ = pool("import").arg("--dir").arg(there.path()).run().expect_success();
    let said = destroy(&["--force"]).input("tank\n").run().expect_success();
    assert!(said.stdout.contains("pool tank is no more: 4 members are blank again"), "{said}");
    refused(pool("import").arg("--dir").arg(there.path()), "no member of a pool was found");
    assert_eq!(std::fs::read(there.path().join("letter")).expect("still there"), b"dear friend");
    let again = members(there.path(), &["w", "x", "y", "z"]);
    let _ = pool("create").args(["next", "--raid=raid6", "--members"]).args(&again).run().expect_success();
}
