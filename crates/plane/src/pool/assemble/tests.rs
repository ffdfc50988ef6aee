//! What is made of the members that a configuration names, on a simulated machine.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use ring::sim::{Node, World};
use ring::{Buffer, Reactor};

use super::*;
use crate::disk::Disk;
use crate::pool::format::BLOCK;
use crate::pool::{Handle, MemberState, PoolCores, PoolDisk};
use crate::volume::{Backing, Limits};

const MEMBER: u64 = 4 << 20;

struct Machine {
    world: World,
    node: Node,
}

impl Machine {
    fn new() -> Machine {
        let world = World::new(5);
        let node = world.node("machine");
        Machine { world, node }
    }

    /// Assembles the pool, does `work` with it, and closes it in good order.
    fn with<T: 'static>(
        &self,
        plan: &PoolPlan,
        work: impl AsyncFnOnce(&Ring, &mut Assembled) -> T + 'static,
    ) -> Result<T, String> {
        let reactor: Reactor = self.node.reactor();
        let (ring, plan) = (reactor.ring().clone(), plan.clone());
        let done = self.world.block_on(&reactor, async move {
            let (mut assembled, _locks) =
                assemble(&ring, &plan, 1).await.map_err(|error| error.to_string())?;
            let result = work(&ring, &mut assembled).await;
            let core = assembled.pool().core(0, &ring).map_err(|error| error.to_string())?;
            assembled.pool().keep(&core);
            core.close().await?;
            Ok(result)
        });
        drop(reactor);
        self.node.kill();
        done.unwrap()
    }

    /// What is absent, by name and reason.
    fn absent(&self, plan: &PoolPlan) -> Result<Vec<String>, String> {
        self.with(plan, async |_, assembled| {
            assembled.absent.iter().map(|absent| format!("{} {}", absent.place, absent.why)).collect()
        })
    }

    fn copy(&self, from: usize, to: &Path) {
        self.node.copy_file(&path(from), to).unwrap();
    }
}

fn path(index: usize) -> PathBuf {
    PathBuf::from(format!("/m{index}"))
}

fn plan(name: &str, level: Level, members: impl IntoIterator<Item = usize>) -> PoolPlan {
    let member =
        |index| MemberPlan { place: Place::Path(path(index)), create_bytes: Some(MEMBER), spinning: None };
    let members = members.into_iter().map(member).collect();
    PoolPlan { name: name.into(), level, unit: 16 << 10, integrity: true, members, spares: Vec::new() }
}

fn options(name: &str, id: u8) -> VolumeOptions {
    VolumeOptions {
        name: name.into(),
        id: [id; 16],
        bytes: 1 << 20,
        block_size: 512,
        backing: Backing::Pool("tank".into()),
        limits: Limits::default(),
        may_grow: false,
        faults: None,
    }
}

/// Makes a pool `tank` of raid5 on `/m0` to `/m3` with a volume full of 7.
fn make(machine: &Machine) -> PoolPlan {
    let plan = plan("tank", Level::Raid5, 0..4);
    let made = machine.with(&plan, async |ring, assembled| {
        let entry = assembled.volume(ring, &options("demo", 1)).await.unwrap();
        let core = assembled.pool().core(0, ring).unwrap();
        let disk = PoolDisk::new(core, &entry);
        let write = Request::write(0, Buffer::copy_of(&vec![7; 1 << 20]));
        disk.submit(write).await.result.unwrap();
        assembled.is_new
    });
    assert_eq!(made, Ok(true));
    plan
}

/// Whether the volume has its bytes, and whether the pool was made anew for that.
fn read(machine: &Machine, plan: &PoolPlan) -> Result<(bool, bool), String> {
    machine.with(plan, async |ring, assembled| {
        let entry = assembled.volume(ring, &options("demo", 9)).await.unwrap();
        assert_eq!(entry.id, [1; 16], "a volume is on every node what it was made as");
        let core = assembled.pool().core(0, ring).unwrap();
        let read = PoolDisk::new(core, &entry).submit(Request::read(0, Buffer::new(1 << 20))).await;
        read.result.unwrap();
        (read.buffer.iter().all(|byte| *byte == 7), assembled.is_new)
    })
}

const ALL_THERE: Result<(bool, bool), String> = Ok((true, false));

#[test]
fn members_are_found_in_any_order_and_with_one_missing() {
    let machine = Machine::new();
    make(&machine);
    for order in [[0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]] {
        assert_eq!(read(&machine, &plan("tank", Level::Raid5, order)), ALL_THERE);
    }
    machine.node.remove_file(&path(2)).unwrap();
    let plan = plan("tank", Level::Raid5, [3, 2, 1, 0]);
    assert_eq!(machine.absent(&plan).unwrap(), ["/m2 is not there, or empty"]);
    assert_eq!(read(&machine, &plan), ALL_THERE);
    assert_eq!(
        machine.node.file_length(&path(2)),
        None,
        "a missing member of a pool that exists is not made"
    );
    machine.node.remove_file(&path(0)).unwrap();
    let said = read(&machine, &plan).unwrap_err();
    assert!(said.contains("2 of its 4 members are missing") && said.contains("hint:"), "{said}");
}

#[test]
fn nothing_is_written_to_a_member_that_is_not_the_pools() {
    let machine = Machine::new();
    let plan = make(&machine);
    let mut foreign = vec![0; MEMBER as usize];
    foreign[1080..1082].copy_from_slice(&[0x53, 0xef]);
    for (content, words) in [
        (vec![0; MEMBER as usize], "/m1 is blank: it has no label of a pool, and is not touched"),
        (foreign, "/m1 has no label of a pool, but something else on it"),
        (vec![0x5a; 100_000], "/m1 has no label of a pool, but something else on it"),
    ] {
        machine.node.put_file(&path(1), &content);
        assert_eq!(machine.absent(&plan).unwrap(), [words]);
        assert_eq!(read(&machine, &plan), ALL_THERE);
        let length = machine.node.file_length(&path(1)).unwrap() as usize;
        assert!(
            machine.node.file_bytes(&path(1), 0, length).unwrap() == content,
            "{words}: it was written to"
        );
    }
}

#[test]
fn a_member_that_was_cut_counts_as_missing() {
    let machine = Machine::new();
    let plan = make(&machine);
    let head = machine.node.file_bytes(&path(3), 0, 1 << 20).unwrap();
    machine.node.put_file(&path(3), &head);
    let words = "/m3 has 1048576 bytes, as a member of tank it had 4194304: its end is gone";
    assert_eq!(machine.absent(&plan).unwrap(), [words]);
    assert_eq!(read(&machine, &plan), ALL_THERE);
}

/// A disk that is there and does not answer, or cannot be read where its labels are, kept the whole pool from being opened.
#[test]
fn a_member_whose_labels_cannot_be_read_counts_as_missing() {
    let machine = Machine::new();
    let plan = make(&machine);
    machine.node.fail_reads(&path(1), 0..MEMBER);
    let absent = machine.absent(&plan).unwrap();
    assert!(absent.len() == 1 && absent[0].starts_with("/m1 cannot be used: "), "{absent:?}");
    assert_eq!(read(&machine, &plan), ALL_THERE);
    // One that does not answer at all.
    let machine = Machine::new();
    let plan = make(&machine);
    machine.node.stall(&path(2));
    assert_eq!(read(&machine, &plan), ALL_THERE);
    machine.node.release(&path(2));
}

/// Of a member that is larger than it has to be nobody looked for the label at its tail, which is not where it ends: with a head
/// that was torn by a cut it was none of the pool's any more.
#[test]
fn the_tail_of_a_larger_member_is_found_without_its_head() {
    let machine = Machine::new();
    for index in 1..4 {
        machine.node.put_file(&path(index), &vec![0; MEMBER as usize + index * 8192]);
    }
    let plan = make(&machine);
    // All heads are torn at once: each says where its tail is.
    for index in 0..4 {
        machine.node.flip_bit(&path(index), 3000, 1);
    }
    assert_eq!(machine.absent(&plan), Ok(Vec::new()));
    // Nothing is left of some: the others say it.
    for index in 2..4 {
        machine.node.corrupt(&path(index), 0..BLOCK as u64);
    }
    assert_eq!(machine.absent(&plan), Ok(Vec::new()));
    assert_eq!(read(&machine, &plan), ALL_THERE);
}

/// The beginning of a larger member was overwritten with zeroes, as by `dd`: it passed for blank, though the label at its tail is whole.
#[test]
fn a_larger_member_without_its_head_is_not_blank() {
    let machine = Machine::new();
    let tank = plan("tank", Level::Raid0, 0..2);
    machine.node.put_file(&path(1), &vec![0; 2 * MEMBER as usize]);
    assert_eq!(machine.absent(&tank), Ok(Vec::new()));
    let whole = machine.node.file_bytes(&path(1), 0, 2 * MEMBER as usize).unwrap();
    machine.node.put_file(&path(1), &[&vec![0; 1 << 20], &whole[1 << 20..]].concat());
    assert_eq!(machine.absent(&tank), Ok(Vec::new()));
}

#[test]
fn members_that_do_not_belong_together_are_refused() {
    let machine = Machine::new();
    let tank = make(&machine);
    let other = plan("other", Level::Raid1, [4, 5]);
    machine.absent(&other).unwrap();
    let refused = |plan: &PoolPlan, words: &[&str]| {
        let said = machine.absent(plan).unwrap_err();
        assert!(words.iter().chain(&["hint: "]).all(|word| said.contains(word)), "{said}");
    };
    refused(&plan("tank", Level::Raid5, [0, 1, 2, 4]), &["a member of another pool"]);
    refused(&PoolPlan { name: "bank".into(), ..tank.clone() }, &["those of the pool tank"]);
    refused(&plan("tank", Level::Raid6, 0..4), &["it is raid5, not raid6", "raid = \"raid5\""]);
    refused(&PoolPlan { unit: 64 << 10, ..tank.clone() }, &["its unit has 16384 bytes, not 65536"]);
    refused(&PoolPlan { integrity: false, ..tank.clone() }, &["made with checksums, not without"]);
    refused(&plan("tank", Level::Raid5, 0..3), &["it has 4 members, not 3"]);
    machine.copy(2, &path(3));
    refused(&tank, &["/m2 and /m3 are the same member"]);
}

#[test]
fn a_pool_is_made_of_blank_members_only() {
    let machine = Machine::new();
    machine.node.put_file(&path(1), &vec![0; MEMBER as usize]);
    machine.node.put_file(&path(2), b"a letter to a friend");
    let tank = plan("tank", Level::Raid5, 0..3);
    let said = machine.absent(&tank).unwrap_err();
    assert!(said.contains("/m2 has no label") && said.contains("blank members only"), "{said}");
    assert_eq!(machine.node.file_length(&path(0)), None, "nothing was made");
    let mut without = plan("tank", Level::Raid1, [0, 1]);
    without.members.iter_mut().for_each(|member| member.create_bytes = None);
    let said = machine.absent(&without).unwrap_err();
    assert!(said.contains("/m0 is not there") && said.contains("member_size"), "{said}");
    assert!(machine.absent(&plan("tank", Level::Raid1, [0, 1])).unwrap().is_empty());
}

#[test]
fn a_volume_that_is_not_as_it_was_made_is_refused() {
    let machine = Machine::new();
    let plan = make(&machine);
    let refusal = |options: VolumeOptions| {
        let work = async move |ring: &Ring, assembled: &mut Assembled| {
            assembled.volume(ring, &options).await.unwrap_err().to_string()
        };
        machine.with(&plan, work).unwrap()
    };
    let said = refusal(VolumeOptions { bytes: 2 << 20, ..options("demo", 1) });
    assert!(said.contains("has 1048576 bytes there, not 2097152; hint: "), "{said}");
    let said = refusal(VolumeOptions { block_size: 4096, ..options("demo", 1) });
    assert!(said.contains("blocks have 512 bytes, not 4096; hint: "), "{said}");
    let said = refusal(VolumeOptions { bytes: 1 << 30, ..options("large", 2) });
    assert!(said.contains("are free; hint: "), "{said}");
}

#[test]
fn a_pool_that_was_closed_has_nothing_to_recover() {
    let machine = Machine::new();
    let plan = make(&machine);
    let work = async |_: &Ring, assembled: &mut Assembled| {
        let counters = &assembled.pool().shared().counters;
        (counters.replayed.load(Relaxed), counters.dropped.load(Relaxed))
    };
    assert_eq!(machine.with(&plan, work), Ok((0, 0)));
}

fn with_spares(plan: &PoolPlan, spares: impl IntoIterator<Item = usize>) -> PoolPlan {
    let spare =
        |index| MemberPlan { place: Place::Path(path(index)), create_bytes: Some(MEMBER), spinning: None };
    PoolPlan { spares: spares.into_iter().map(spare).collect(), ..plan.clone() }
}

/// Where the spares are.
fn spares(machine: &Machine, plan: &PoolPlan) -> Vec<String> {
    let work = async |_: &Ring, assembled: &mut Assembled| {
        let spares = Handle::new(assembled.pool().shared().clone()).status().spares;
        spares.into_iter().map(|spare| spare.place.unwrap_or_default()).collect()
    };
    machine.with(plan, work).unwrap()
}

#[test]
fn blank_spares_are_taken_in_and_found_again() {
    let machine = Machine::new();
    let plan = plan("tank", Level::Raid5, 0..3);
    let mut small = with_spares(&plan, [4]);
    small.spares[0].create_bytes = Some(MEMBER / 2);
    let said = machine.absent(&small).unwrap_err();
    assert!(said.contains("the spare /m4 has 2097152 bytes") && said.contains("hint: "), "{said}");
    for index in [0, 1, 2, 4] {
        machine.node.remove_file(&path(index)).unwrap();
    }
    assert_eq!(spares(&machine, &with_spares(&plan, [4])), ["/m4"]);
    assert_eq!(spares(&machine, &with_spares(&plan, [4, 5])), ["/m4", "/m5"], "one that is named later");
    assert_eq!(spares(&machine, &with_spares(&plan, [5, 4])), ["/m4", "/m5"]);
    // What is somebody else's is left alone, and the pool goes on.
    machine.node.put_file(&path(6), &vec![0x5a; MEMBER as usize]);
    let absent = machine.absent(&with_spares(&plan, [4, 5, 6])).unwrap();
    assert_eq!(absent, ["/m6 has no label of a pool, but something else on it"]);
}

/// A disk failed, a spare took its place, and at the next start the disk was there again: the pool was refused as a whole.
#[test]
fn a_member_that_a_spare_replaced_counts_as_missing() {
    let machine = Machine::new();
    let plan = with_spares(&make(&machine), [4]);
    assert_eq!(spares(&machine, &plan), ["/m4"]);
    machine.node.fail_writes(&path(1), 0..u64::MAX);
    let work = async |ring: &Ring, assembled: &mut Assembled| {
        let core = assembled.pool().core(0, ring).unwrap();
        assembled.pool().keep(&core);
        let handle = Handle::new(core.shared().clone());
        let is_done = || {
            let member = &handle.status().members[1];
            member.place.as_deref() == Some("/m4") && member.state == MemberState::InSync
        };
        while !is_done() {
            ring.sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    machine.with(&plan, work).unwrap();
    machine.node.repair(&path(1));
    assert_eq!(machine.absent(&plan).unwrap(), ["/m1 was a member once and was replaced"]);
    assert_eq!(read(&machine, &plan), ALL_THERE);
    machine.node.remove_file(&path(0)).unwrap();
    assert_eq!(read(&machine, &plan), ALL_THERE);
}

/// The labels of a pool that was made and never closed said that it was stopped in good order, and nobody looked into its
/// journal.
#[test]
fn a_pool_whose_first_process_is_killed_is_recovered() {
    let machine = Machine::new();
    let plan = plan("tank", Level::Single, [0]);
    let reactor: Reactor = machine.node.reactor();
    let (ring, first) = (reactor.ring().clone(), plan.clone());
    let written = machine.world.block_on(&reactor, async move {
        let (assembled, locks) = assemble(&ring, &first, 1).await.unwrap();
        let entry = assembled.volume(&ring, &options("demo", 1)).await.unwrap();
        let core = assembled.pool().core(0, &ring).unwrap();
        assembled.pool().keep(&core);
        let disk = PoolDisk::new(core, &entry);
        let write = disk.submit(Request::write(0, Buffer::copy_of(&vec![7; 1 << 20]))).await;
        (write.result.is_ok(), assembled, locks)
    });
    assert!(written.as_ref().unwrap().0);
    drop(written);
    drop(reactor);
    machine.node.power_cut();
    assert_eq!(read(&machine, &plan), ALL_THERE);
}

/// A pool that did not come to its end kept those behind it in the list from theirs: they were left as if the power had gone.
#[test]
fn a_pool_that_does_not_end_keeps_no_other_one_from_its_end() {
    let machine = Machine::new();
    let plans = [plan("tank", Level::Single, [0]), plan("bank", Level::Single, [1])];
    let reactor: Reactor = machine.node.reactor();
    let (ring, stalls) = (reactor.ring().clone(), machine.node.clone());
    let closed = machine.world.block_on(&reactor, async move {
        let (cores, mut held) = (PoolCores::default(), Vec::new());
        for plan in &plans {
            let (assembled, locks) = assemble(&ring, plan, 1).await.unwrap();
            let core = assembled.pool().core(0, &ring).unwrap();
            assembled.pool().keep(&core);
            cores.enter(core);
            held.push((assembled, locks));
        }
        stalls.stall(&path(0));
        cores.close().await
    });
    let said = closed.unwrap().unwrap_err();
    assert!(said.contains("pool tank was not closed") && !said.contains("bank"), "{said}");
    let label = machine.node.file_bytes(&path(1), 0, BLOCK).unwrap();
    assert!(Label::decode(&label).unwrap().clean);
}
