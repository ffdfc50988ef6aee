//! The steps lead from what runs to what is wished, and no further.

use super::*;
use crate::config::Machine;
use proptest::prelude::*;

fn read(text: &str) -> Config {
    let machine = Machine { cores: 2, memory_bytes: 8 << 30 };
    Config::parse_for(text, "fels.toml", machine).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

const POOLS: &str = "\
[[pool]]
name = \"tank\"
raid = \"raid1\"
members = [\"m0.img\", \"m1.img\"]
";

fn volume(name: &str, more: &str) -> String {
    format!("[[volume]]\nname = \"{name}\"\n{more}\n")
}

fn sentences(running: &str, wished: &str) -> Vec<String> {
    diff(&read(running), &read(wished)).unwrap().iter().map(Step::sentence).collect()
}

#[test]
fn each_step_has_its_sentence() {
    let file = volume("a", "size = \"1MiB\"\nbacking = { file = \"a.img\" }");
    let larger = file.replace("1MiB", "2MiB")
        + "alias = \"x\"\nlimits = { iops = 9, throughput = \"1MiB/s\" }\nallow = [\"iqn.2004-10.com.example:h\"]\n";
    let off = file.clone() + "enabled = false\n";
    assert_eq!(sentences("", &file), ["serve volume a: 1MiB in fels-data/a.img"]);
    assert_eq!(
        sentences(&file, &larger),
        [
            "change volume a in use: 2MiB instead of 1MiB, the alias `x`, at most 9 requests a second and 1MiB/s, for 1 initiator, not offered over NBD, not offered over NVMe"
        ]
    );
    assert_eq!(sentences(&file, ""), ["take volume a out of service; its bytes stay in fels-data/a.img"]);
    assert_eq!(sentences(&file, &off), ["switch volume a off; its bytes stay in fels-data/a.img"]);
    assert_eq!(sentences("", &off), ["enter volume a, switched off: nothing is made"]);
    assert_eq!(
        sentences(&off, ""),
        ["forget volume a, which is switched off; its bytes stay in fels-data/a.img"]
    );
    let moved = file.replace("a.img", "b.img");
    assert_eq!(
        sentences(&file, &moved),
        ["from the next start of the node on: volume a in fels-data/b.img instead of in fels-data/a.img"]
    );
    let pooled = volume("p", "size = \"1MiB\"\npool = \"tank\"");
    let with_pool = format!("{POOLS}{pooled}");
    assert_eq!(
        sentences("", &with_pool),
        [
            "serve volume p: 1MiB on the pool tank",
            "open pool tank: raid1 of 2 members, made now if they are blank"
        ]
    );
    assert_eq!(
        sentences(&with_pool, ""),
        [
            "take volume p out of service; its bytes stay on the pool tank",
            "close pool tank; what is on it stays"
        ]
    );
    let elsewhere = volume("p", "size = \"1MiB\"\nbacking = { file = \"p.img\" }");
    assert_eq!(
        sentences(&with_pool, &elsewhere),
        [
            "from the next start of the node on: volume p in fels-data/p.img instead of on the pool tank",
            "from the next start of the node on: pool tank is left alone; what is on it stays"
        ],
        "a volume that goes with the next start has its pool until then"
    );
    let listen = |at: &str| format!("[iscsi]\nlisten = [\"{at}\"]\n");
    assert_eq!(
        sentences(&listen("127.0.0.1:1"), &format!("{}[nbd]\n", listen("127.0.0.1:2"))),
        [
            "listen on iSCSI 127.0.0.1:2, NBD 127.0.0.1:10809, and no more on iSCSI 127.0.0.1:1; who came in there stays"
        ]
    );
    assert_eq!(sentences(POOLS, &with_pool), ["serve volume p: 1MiB on the pool tank"]);
    let later = "from the next start of the node on: ";
    assert_eq!(
        sentences("shards = 2\n", "shards = 3\ndata = \"x\"\n[iscsi]\nnop_interval = 1\n[nvme]\n"),
        [
            format!("{later}the data directory x, with other identities of volumes"),
            format!("{later}3 shards instead of 2"),
            format!("{later}the timers of [iscsi] as they are written then"),
            format!("{later}[nvme] as it is written then"),
        ]
    );
    assert_eq!(
        sentences("", "busy_poll = \"1ms\"\n"),
        ["shards without work look for some for 1000 us at most"]
    );
    assert_eq!(sentences("", "busy_poll = 0\n"), ["shards without work sleep at once"]);
    assert_eq!(sentences("busy_poll = 0\n", ""), ["shards without work look for some as long as it pays"]);
    let gone = Step::Remove { volume: Box::new(read(&file).volumes.remove(0)), fate: Fate::Destroyed };
    assert_eq!(gone.sentence(), "take volume a out of service, and DESTROY its bytes in fels-data/a.img");
    let device = volume("d", "size = \"1MiB\"\nbacking = { device = \"/dev/sdb\" }");
    let device = Step::Remove { volume: Box::new(read(&device).volumes.remove(0)), fate: Fate::Destroyed };
    assert_eq!(device.sentence(), "take volume d out of service; its bytes stay on /dev/sdb");
}

#[test]
fn hosts_that_will_see_other_disks_are_thought_of() {
    let volume = |name: &str| volume(name, "size = 512\nbacking = { null = true }\nsubsystem = \"pair\"");
    let (a, b) = (volume("a"), volume("b"));
    let said = sentences(&format!("[nvme]\n{a}{b}"), &format!("[nvme]\n{b}"));
    assert_eq!(said[0], "take volume a out of service; it has no bytes");
    let words = "from the next start of the node on: b is another namespace of nqn.2026-11.internal.fels:pair than 2; `nsid = 2` on it keeps it that";
    assert!(said.len() == 2 && said[1] == words, "{said:?}");
    assert_eq!(sentences(&format!("[nvme]\n{a}{b}"), &format!("[nvme]\n{b}nsid = 2\n")).len(), 1);
    assert_eq!(sentences(&format!("[nvme]\n{a}"), &format!("[nvme]\n{a}{b}")).len(), 1);
    assert_eq!(sentences(&format!("{a}{b}"), &b).len(), 1, "there is no NVMe");
}

/// Found by a property: it was said of a volume that had not been in the subsystem that it would be another namespace of it.
#[test]
fn a_volume_that_moves_with_the_next_start_has_no_number_to_lose() {
    let a = volume("a", "size = 512\nbacking = { null = true }\nsubsystem = \"pair\"");
    let (before, after) = (
        volume("c", "size = 512\nbacking = { memory = true }"),
        volume("c", "size = 512\nbacking = { file = \"c.img\" }\nsubsystem = \"pair\""),
    );
    let said = sentences(&format!("[nvme]\n{a}{before}"), &format!("[nvme]\n{after}"));
    assert!(said.len() == 2 && said.iter().all(|sentence| !sentence.contains("namespace")), "{said:?}");
}

/// Found by a property: a volume that moves into a subsystem with the next start made it be said of the others there that they would
/// be other namespaces, which they would not.
#[test]
fn a_volume_that_comes_with_the_next_start_takes_no_number_away() {
    let a = |backing: &str| volume("a", &format!("size = 512\nbacking = {backing}"));
    let (memory, file) = (a("{ memory = true }"), a("{ file = \"a.img\" }") + "subsystem = \"pair\"\n");
    let b = volume("b", "size = 512\nbacking = { null = true }\nsubsystem = \"pair\"\nnsid = 2");
    let running = format!("[nvme]\n{memory}{b}");
    let said = sentences(&running, &format!("[nvme]\n{file}{}", b.replace("nsid = 2", "")));
    assert_eq!(
        said,
        ["from the next start of the node on: volume a in fels-data/a.img instead of in memory"]
    );
}

#[test]
fn what_would_lose_data_or_keep_the_node_from_starting_is_refused() {
    let file = volume("a", "size = \"2MiB\"\nbacking = { file = \"a.img\" }");
    let off = |size: &str| file.replace("2MiB", size) + "enabled = false\n";
    let pooled = format!("{POOLS}{}", volume("p", "size = \"1MiB\"\npool = \"tank\""));
    for (running, wished, words) in [
        (file.clone(), file.replace("2MiB", "1MiB"), "cannot be made smaller"),
        (off("2MiB"), off("1MiB"), "cannot be made smaller"),
        (off("2MiB"), off("4MiB"), "is resized only while it is served"),
        (off("2MiB"), file.replace("2MiB", "4MiB"), "is resized only while it is served"),
        (pooled.clone(), format!("{pooled}block_size = 4096\n"), "which cannot be changed on a pool"),
        (POOLS.to_owned(), POOLS.replace("raid1", "raid0"), "which cannot be changed"),
        (POOLS.to_owned(), format!("{POOLS}unit = \"4KiB\"\n"), "which cannot be changed"),
    ] {
        let error = diff(&read(&running), &read(&wished)).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("; hint: "), "{error}");
    }
    let memory = POOLS.replace("\"m0.img\", \"m1.img\"", "{ memory = \"64MiB\" }, { memory = \"64MiB\" }");
    assert_eq!(sentences(&memory, &memory.replace("raid1", "raid0")).len(), 1);
}

fn any_volume(name: char) -> impl Strategy<Value = String> {
    let backing = prop_oneof![
        3 => Just(format!("backing = {{ file = \"{name}.img\" }}")),
        1 => Just("backing = { memory = true }".to_owned()),
        2 => Just("pool = \"tank\"".to_owned()),
    ];
    let more = prop::sample::subsequence(
        vec![
            "alias = \"x\"",
            "enabled = false",
            "nbd = false",
            "limits = { iops = 5 }",
            "nvme = false",
            "subsystem = \"pair\"",
            "hosts = [\"nqn.2014-08.com.example:host\"]",
            "chap = [{ user = \"alice\", secret = \"alice-alice-1\" }]\nnbd = true\nnvme = false",
        ],
        0..3,
    );
    (backing, 1..4_u64, more).prop_filter_map("a key once", move |(backing, size, more)| {
        let text = more.join("\n");
        let once = |key: &str| text.matches(key).count() < 2;
        let whole = format!("[[volume]]\nname = \"{name}\"\nsize = \"{size}MiB\"\n{backing}\n{text}\n");
        (once("nbd =") && once("nvme =")).then_some(whole)
    })
}

fn any_config() -> impl Strategy<Value = Config> {
    let volumes = ['a', 'b', 'c', 'd'].map(|name| prop::option::of(any_volume(name)).boxed()).to_vec();
    let more = vec!["busy_poll = 0", "[nbd]", "[nvme]", "[iscsi]\nnop_interval = 9"];
    let more = prop::sample::subsequence(more, 0..4);
    (volumes, any::<bool>(), 1..3_u8, more).prop_map(|(volumes, has_pool, shards, more)| {
        let volumes: Vec<_> = volumes.into_iter().flatten().collect();
        let pool = if has_pool || volumes.iter().any(|text| text.contains("tank")) { POOLS } else { "" };
        read(&format!("shards = {shards}\n{}\n{pool}{}", more.join("\n"), volumes.concat()))
    })
}

/// As it is while it runs.
fn numbered(mut running: Config) -> Config {
    number(None, &mut running);
    running
}

/// A document with all numbers.
fn wanted(running: &Config, document: &Config) -> Config {
    let mut wanted = document.clone();
    number(Some(running), &mut wanted);
    wanted
}

proptest! {
    #[test]
    fn nothing_is_to_be_done_where_all_is_as_wished(config in any_config()) {
        prop_assert_eq!(diff(&config, &config), Ok(Vec::new()));
    }

    #[test]
    fn what_was_done_once_is_not_done_again(running in any_config(), wished in any_config()) {
        let running = numbered(running);
        let Ok(steps) = diff(&running, &wished) else { return Ok(()) };
        let wanted = wanted(&running, &wished);
        let after = settled(&running, &wanted, &steps, |_| false);
        let left = diff(&after, &wished).unwrap();
        let later: Vec<_> = steps.iter().filter(|step| step.is_later()).cloned().collect();
        prop_assert_eq!(&left, &later, "only what waits is left");
        if later.is_empty() {
            prop_assert_eq!(&after, &wanted);
        }
        prop_assert_eq!(after.shards, running.shards, "that takes a start");
    }

    #[test]
    fn what_was_not_done_is_still_to_be_done(running in any_config(), wished in any_config()) {
        let running = numbered(running);
        let Ok(steps) = diff(&running, &wished) else { return Ok(()) };
        let after = settled(&running, &wanted(&running, &wished), &steps, |_| true);
        let mut again = diff(&after, &wished).unwrap();
        // Without these nothing is done at all, and the third cannot fail.
        let comes_first = |step: &Step| {
            matches!(step, Step::OpenPool(_) | Step::Listen(_)) || step.sentence().starts_with("shards without work")
        };
        let mut steps: Vec<_> = steps.into_iter().filter(|step| !comes_first(step)).collect();
        let key = |step: &Step| step.sentence();
        again.sort_by_key(key);
        steps.sort_by_key(key);
        prop_assert_eq!(again, steps);
    }

    #[test]
    fn every_volume_that_differs_has_one_step_and_every_other_one_none(running in any_config(), wished in any_config()) {
        let Ok(steps) = diff(&running, &wished) else { return Ok(()) };
        for name in ["a", "b", "c", "d"] {
            let of = |config: &Config| config.volumes.iter().find(|volume| volume.name == name).cloned();
            let about = format!("volume {name}");
            let count = steps.iter().filter(|step| {
                let sentence = step.sentence();
                sentence.contains(&format!("{about} ")) || sentence.contains(&format!("{about}:")) || sentence.contains(&format!("{about},"))
                    || sentence.contains(&format!("{about};"))
            }).count();
            prop_assert_eq!(count, usize::from(of(&running) != of(&wished)), "{} {:?}", name, steps);
        }
    }
}
