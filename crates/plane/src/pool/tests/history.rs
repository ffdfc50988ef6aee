//! Histories: several lanes write, read and discard at once, the power goes at any moment, and what is there afterwards
//! is what was acknowledged, or what was under way.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ring::Buffer;

use super::bed::Bed;
use crate::disk::Disk;
use crate::pool::Level;
use crate::request::{Extent, Request, Verb};

const SECTOR: usize = 512;
const LANES: u64 = 4;

/// What a sector may hold: stamps of writes, 0 for zeroes.
#[derive(Clone, Default, Debug)]
struct Sector {
    acknowledged: u64,
    under_way: Option<u64>,
}

#[derive(Default)]
struct Model {
    sectors: Vec<Sector>,
    stamp: u64,
    stop: bool,
    failures: Vec<String>,
}

fn content(sector: u64, stamp: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if stamp != 0 {
        let mut random = fastrand::Rng::with_seed(stamp << 20 ^ sector);
        bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.u64(..).to_le_bytes()));
        bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    }
    bytes
}

fn stamp_of(sector: u64, bytes: &[u8]) -> Option<u64> {
    let stamp = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    (content(sector, stamp) == bytes).then_some(stamp)
}

/// Sectors of a lane are strewn over rows and blocks, in runs, so that lanes meet everywhere and never overlap.
fn owner(sector: u64) -> u64 {
    sector / 5 % LANES
}

/// One lane: reads are checked, writes are noted before and after.
async fn lane(
    number: u64,
    disk: Rc<crate::pool::PoolDisk>,
    model: Rc<RefCell<Model>>,
    mut random: fastrand::Rng,
) {
    let sectors = model.borrow().sectors.len() as u64;
    while !model.borrow().stop {
        // A run of our own sectors, or for a lane's rare large ones everything that it finds until somebody else's.
        let first = random.u64(0..sectors);
        let count = (first..sectors).take_while(|sector| owner(*sector) == number).count() as u64;
        if count == 0 {
            continue;
        }
        let count = random.u64(1..=count);
        let (offset, length) = (first * SECTOR as u64, count as usize * SECTOR);
        match random.u8(0..10) {
            0..3 => {
                let completion = disk.submit(Request::read(offset, Buffer::new(length))).await;
                let mut model = model.borrow_mut();
                if let Err(error) = completion.result {
                    model.failures.push(format!("read of {first}: {error}"));
                    model.stop = true;
                }
                for (index, bytes) in completion.buffer.chunks_exact(SECTOR).enumerate() {
                    let sector = first + index as u64;
                    let wanted = model.sectors[sector as usize].acknowledged;
                    if stamp_of(sector, bytes) != Some(wanted) {
                        model
                            .failures
                            .push(format!("sector {sector} is {:?}, not {wanted}", stamp_of(sector, bytes)));
                        model.stop = true;
                    }
                }
            }
            kind => {
                let erases = kind == 9;
                let stamp = {
                    let mut model = model.borrow_mut();
                    model.stamp += 1;
                    let stamp = if erases { 0 } else { model.stamp };
                    model.sectors[first as usize..][..count as usize]
                        .iter_mut()
                        .for_each(|sector| sector.under_way = Some(stamp));
                    stamp
                };
                let request = if erases {
                    Request::plain(Verb::Discard, Extent::new(offset, length as u64))
                } else {
                    let mut buffer = Buffer::new(length);
                    for (index, bytes) in buffer.chunks_exact_mut(SECTOR).enumerate() {
                        bytes.copy_from_slice(&content(first + index as u64, stamp));
                    }
                    Request::write(offset, buffer)
                };
                let completion = disk.submit(request).await;
                let mut model = model.borrow_mut();
                if let Err(error) = completion.result {
                    model.failures.push(format!("write of {first}: {error}"));
                    model.stop = true;
                }
                for sector in &mut model.sectors[first as usize..][..count as usize] {
                    *sector = Sector { acknowledged: stamp, under_way: None };
                }
            }
        }
    }
}

/// Holds all of the volume against the model, which then believes what it saw.
fn check(bed: &Bed, model: &Rc<RefCell<Model>>, what: &str) {
    let mut model = model.borrow_mut();
    assert!(model.failures.is_empty(), "seed {}, {what}: {:?}", bed.world.seed(), model.failures);
    let bytes = bed
        .read(0, bed.volume as usize)
        .unwrap_or_else(|kind| panic!("seed {}, {what}: {kind}", bed.world.seed()));
    for (index, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
        let sector = &mut model.sectors[index];
        let found = stamp_of(index as u64, bytes);
        let allowed = found == Some(sector.acknowledged) || found.is_some() && found == sector.under_way;
        assert!(allowed, "seed {}, {what}: sector {index} is {found:?}, but {sector:?}", bed.world.seed());
        *sector = Sector { acknowledged: found.unwrap(), under_way: None };
    }
}

/// Rounds of work, each ended by a power cut or a kill; `between` happens to the members while the machine is off; it
/// is told whether all of them were in sync before.
pub fn rounds(bed: &mut Bed, rounds: usize, mut between: impl FnMut(&mut Bed, bool)) {
    let model = Rc::new(RefCell::new(Model::default()));
    model.borrow_mut().sectors = vec![Sector::default(); bed.volume as usize / SECTOR];
    let mut random = bed.world.random("history");
    for round in 0..rounds {
        model.borrow_mut().stop = false;
        for number in 0..LANES {
            let lane = lane(number, bed.disk(), model.clone(), random.fork());
            bed.ring().spawn_later(lane);
        }
        bed.world.run_for(Duration::from_micros(random.u64(500..60_000))).unwrap();
        let before = model.borrow().failures.clone();
        assert!(before.is_empty(), "seed {}, round {round}: {before:?}", bed.world.seed());
        let in_sync = bed.core().shared().states.all_in_sync();
        if random.u8(0..4) == 0 {
            bed.kill();
        } else {
            bed.power_cut();
        }
        between(bed, in_sync);
        bed.start().unwrap_or_else(|error| panic!("seed {}, round {round}: {error}", bed.world.seed()));
        check(bed, &model, &format!("round {round}"));
    }
}

const ARRANGEMENTS: [(Level, usize, u32); 8] = [
    (Level::Single, 1, 16 << 10),
    (Level::Raid0, 3, 8 << 10),
    (Level::Raid1, 2, 16 << 10),
    (Level::Raid1, 3, 4 << 10),
    (Level::Raid10, 4, 16 << 10),
    (Level::Raid5, 3, 16 << 10),
    (Level::Raid6, 5, 8 << 10),
    (Level::Raid6, 4, 4 << 10),
];

fn seeds(purpose: u64, count: u64) -> impl Iterator<Item = (u64, (Level, usize, u32))> {
    (0..count).map(move |seed| (purpose << 32 | seed, ARRANGEMENTS[seed as usize % ARRANGEMENTS.len()]))
}

#[test]
fn nothing_acknowledged_is_lost_by_power_cuts() {
    for (seed, (level, slots, unit)) in seeds(1, 64) {
        let mut bed = Bed::new(seed, level, slots, unit);
        rounds(&mut bed, 4, |_, _| {});
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_members_go_with_the_power() {
    for (seed, (level, slots, unit)) in seeds(2, 64) {
        let mut bed = Bed::new(seed, level, slots, unit);
        let redundancy = usize::from(bed.geometry().redundancy());
        let mut random = bed.world.random("members");
        let mut away = Vec::new();
        rounds(&mut bed, 4, |bed, _| {
            if away.len() < redundancy && random.bool() {
                let slot = random.usize(0..slots);
                if !away.contains(&slot) {
                    bed.machine.remove_file(&bed.path(slot)).unwrap();
                    away.push(slot);
                }
            }
        });
    }
}

#[test]
fn members_that_go_and_come_back_are_made_good_again() {
    for (seed, (level, slots, unit)) in seeds(3, 64) {
        let mut bed = Bed::new(seed, level, slots, unit);
        let redundancy = usize::from(bed.geometry().redundancy());
        let mut random = bed.world.random("members");
        let mut away = None;
        rounds(&mut bed, 6, |bed, in_sync| {
            if let Some(slot) = away.take() {
                bed.machine.attach(&bed.path(slot));
            } else if redundancy > 0 && in_sync && random.bool() {
                let slot = random.usize(0..slots);
                bed.machine.detach(&bed.path(slot));
                away = Some(slot);
            }
        });
        if let Some(slot) = away {
            bed.kill();
            bed.machine.attach(&bed.path(slot));
            bed.start().unwrap();
        }
        bed.rebuild();
        let report = bed.scrub();
        assert_eq!((report.bad, report.uneven), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_member_that_fails_under_load_is_taken_out_and_the_pool_goes_on() {
    for (seed, (level, slots, unit)) in seeds(4, 64) {
        let mut bed = Bed::new(seed, level, slots, unit);
        if bed.geometry().redundancy() == 0 {
            continue;
        }
        let mut random = bed.world.random("members");
        let slot = random.usize(0..slots);
        let path = bed.path(slot);
        bed.machine.fail_writes(&path, bed.geometry().unit_place(5)..bed.geometry().unit_place(7));
        rounds(&mut bed, 3, |bed, _| bed.machine.repair(&path));
    }
}
