//! What is told of members, and that only what belongs to the pool is made blank, on a simulated machine.

use std::path::{Path, PathBuf};

use ring::Reactor;
use ring::sim::{Node, World};

use super::*;
use crate::pool::{Level, MemberPlan, PoolPlan, assemble};

const MEMBER: u64 = 4 << 20;

struct Machine {
    world: World,
    node: Node,
}

impl Machine {
    fn new() -> Machine {
        let world = World::new(7);
        let node = world.node("machine");
        Machine { world, node }
    }

    fn run<T: 'static>(&self, work: impl AsyncFnOnce(&Ring) -> T + 'static) -> T {
        let reactor: Reactor = self.node.reactor();
        let ring = reactor.ring().clone();
        let done = self.world.block_on(&reactor, async move { work(&ring).await });
        drop(reactor);
        self.node.kill();
        done.unwrap()
    }

    /// Makes `tank` of three files and closes it in good order.
    fn make(&self, name: &str, members: [&str; 3]) {
        let member =
            |path: &str| MemberPlan { place: place(path), create_bytes: Some(MEMBER), spinning: None };
        let plan = PoolPlan {
            name: name.to_owned(),
            level: Level::Raid5,
            unit: 16 << 10,
            integrity: true,
            members: members.map(member).to_vec(),
            spares: Vec::new(),
        };
        self.run(async move |ring| {
            let (assembled, _locks) = assemble(ring, &plan, 1).await.unwrap();
            let core = assembled.pool().core(0, ring).unwrap();
            assembled.pool().keep(&core);
            core.close().await.unwrap();
        });
    }

    fn see(&self, path: &'static str) -> Seen {
        self.run(async move |ring| inspect(ring, &place(path)).await)
    }

    fn label(&self, path: &'static str) -> Label {
        match self.see(path) {
            Seen::Member(seen) => seen.label,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn wipe(&self, path: &'static str, pool: [u8; 16]) -> Result<(), String> {
        self.run(async move |ring| wipe(ring, &place(path), &pool).await).map_err(|error| error.to_string())
    }
}

fn place(path: &str) -> Place {
    Place::Path(PathBuf::from(path))
}

#[test]
fn members_tell_of_their_pool_and_others_of_what_they_are() {
    let machine = Machine::new();
    machine.make("tank", ["/a", "/b", "/c"]);
    let Seen::Member(seen) = machine.see("/b") else { panic!("it is a member") };
    assert_eq!((seen.label.name.as_str(), seen.label.slot_of(&seen.label.member)), ("tank", Some(1)));
    assert!(seen.label.clean && seen.bytes == MEMBER && seen.volumes == Some(Vec::new()));
    assert!(matches!(machine.see("/none"), Seen::Missing));
    machine.run(async |ring| drop(Member::open(ring, place("/new"), Some(MEMBER), None).await.unwrap()));
    assert!(matches!(machine.see("/new"), Seen::Blank { bytes: MEMBER }));
    let in_use = machine.run(async |ring| {
        let _held = Member::open(ring, place("/a"), None, None).await.unwrap();
        inspect(ring, &place("/a")).await
    });
    assert!(matches!(in_use, Seen::InUse), "{in_use:?}");
    assert!(matches!(machine.see("/a"), Seen::Member(_)), "nothing stays locked");
}

#[test]
fn a_wiped_member_is_blank_and_can_be_a_member_again() {
    let machine = Machine::new();
    machine.make("tank", ["/a", "/b", "/c"]);
    machine.make("other", ["/x", "/y", "/z"]);
    let (tank, other) = (machine.label("/a").pool, machine.label("/x").pool);
    let said = machine.wipe("/x", tank).unwrap_err();
    assert!(said.contains("a member of another pool now, other"), "{said}");
    assert_eq!(machine.label("/x").pool, other, "it was left alone");
    assert!(machine.wipe("/none", tank).unwrap_err().contains("no member of a pool any more"));
    for path in ["/a", "/b", "/c"] {
        machine.wipe(path, tank).unwrap();
        assert!(matches!(machine.see(path), Seen::Blank { bytes: MEMBER }), "{path}");
    }
    assert!(machine.wipe("/a", tank).is_err(), "once is enough");
    machine.make("next", ["/c", "/a", "/b"]);
    assert_eq!(machine.label("/a").name, "next");
    assert_ne!(machine.label("/a").pool, tank);
}

#[test]
fn what_has_one_label_left_is_told_and_wiped_too() {
    let machine = Machine::new();
    machine.make("tank", ["/a", "/b", "/c"]);
    let tank = machine.label("/a").pool;
    machine.run(async |ring| {
        let (member, _lock) = Member::open(ring, place("/a"), None, None).await.unwrap();
        let stack = member.stack(ring).unwrap();
        stack.submit(Request::write(0, Buffer::zeroed(BLOCK))).await.result.unwrap();
    });
    assert_eq!(machine.label("/a").name, "tank", "the other end has it yet");
    machine.wipe("/a", tank).unwrap();
    assert!(matches!(machine.see("/a"), Seen::Blank { .. }));
    assert!(machine.node.file_length(Path::new("/a")).is_some());
}
