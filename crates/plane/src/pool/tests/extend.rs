//! Pools that get further members, and the power goes at any moment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bed::Bed;
use super::pattern;
use crate::pool::format::{BLOCK, Cause, End, ExtensionError, TablePage, bitmap_block, catalogue};
use crate::pool::{Level, MemberState, Refusal, VolumeWish};

fn further(index: usize) -> String {
    format!("/x{index}")
}

/// A pool that holds something.
fn made(seed: u64, level: Level, slots: usize) -> (Bed, Vec<u8>) {
    let bed = Bed::new(seed, level, slots, 16 << 10);
    let bytes = pattern(bed.volume as usize, seed as u8);
    bed.write(0, &bytes).unwrap();
    bed.settle();
    (bed, bytes)
}

/// How many slots the newest label of a member has.
fn slots(bed: &Bed, path: &Path) -> usize {
    bed.label_of(path).map_or(0, |label| label.slots.len())
}

/// All paths of a mirror with so many first members and further ones.
fn paths(bed: &Bed, further_ones: usize) -> Vec<PathBuf> {
    let first = (0..bed.slots).map(|slot| bed.path(slot));
    first.chain((0..further_ones).map(|index| further(index).into())).collect()
}

/// Whether each of the members has everything, alone.
fn each_has_all(bed: &mut Bed, bytes: &[u8], further_ones: usize) {
    bed.rebuild();
    let report = bed.scrub();
    assert_eq!((report.bad, report.uneven, report.rows), (0, 0, bed.geometry().rows));
    for alone in 0..bed.slots + further_ones {
        bed.close();
        let all = paths(bed, further_ones);
        let others: Vec<_> = all.iter().enumerate().filter(|(slot, _)| *slot != alone).collect();
        for (_, path) in &others {
            bed.machine.detach(path);
        }
        bed.start().unwrap();
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "only {alone}");
        bed.close();
        for (_, path) in &others {
            bed.machine.attach(path);
        }
        bed.start().unwrap();
        bed.rebuild();
    }
}

#[test]
fn a_mirror_gets_further_copies_while_it_is_used() {
    let (mut bed, mut bytes) = made(1, Level::Raid1, 2);
    for count in 1..=2 {
        bed.extend(&[&further(count - 1)]).unwrap();
        assert_eq!(bed.handle().status().members.len(), 2 + count);
        assert!(matches!(bed.state(1 + count), MemberState::Rebuilding { .. }));
        for block in 0..40 {
            bytes[block * 4096..][..4096].fill((block + count) as u8);
            bed.write(block as u64 * 4096, &bytes[block * 4096..][..4096]).unwrap();
            assert_eq!(bed.read(block as u64 * 4096, 4096).unwrap(), &bytes[block * 4096..][..4096]);
        }
        each_has_all(&mut bed, &bytes, count);
    }
    let why = ExtensionError::TooMany { level: Level::Raid1, most: 4, slots: 5 };
    assert_eq!(bed.handle().check_extension(1), Err(Refusal::NotExtended { pool: "tank".into(), why }));
}

/// Two copies at once are one change, and both are filled.
#[test]
fn a_mirror_gets_two_copies_at_once() {
    let (mut bed, bytes) = made(2, Level::Raid1, 2);
    bed.extend(&[&further(0), &further(1)]).unwrap();
    each_has_all(&mut bed, &bytes, 2);
}

/// A cut at any moment leaves a mirror without the new copy, which can be given again, or one with it.
#[test]
fn a_cut_while_a_mirror_is_extended_leaves_the_old_one_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..80 {
        let (mut bed, mut bytes) = made(100 + seed, Level::Raid1, 2);
        bed.begin_extending(&[&further(0)]);
        bytes[..4096].fill(seed as u8);
        bed.world.run_for(Duration::from_micros(seed * 300)).unwrap();
        bed.begin_write(0, &bytes[..4096]);
        bed.world.run_for(Duration::from_micros(seed % 7 * 100)).unwrap();
        bed.power_cut();
        let had_label = labelled(&mut bed, 1);
        bed.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        bed.write(0, &bytes[..4096]).unwrap();
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "seed {seed}");
        if bed.handle().status().members.len() == 3 {
            assert!(had_label, "seed {seed}");
            assert_ne!(bed.state(2), MemberState::Out, "seed {seed}: it has labels before it is a member");
            new += 1;
        } else {
            old += 1;
            again(&mut bed, 1);
        }
        each_has_all(&mut bed, &bytes, 1);
    }
    assert!(old > 5 && new > 5, "cuts before and after: {old} and {new}");
}

/// Whether so many further members have labels; those that have none are not given to the pool at the next start.
fn labelled(bed: &mut Bed, count: usize) -> bool {
    let is_bare = |bed: &Bed, index: &usize| bed.label_of(further(*index).as_ref()).is_none();
    let bare: Vec<usize> = (0..count).filter(|index| is_bare(bed, index)).collect();
    for index in &bare {
        bed.forget(&further(*index));
    }
    bare.is_empty()
}

/// Members that never came in are given once more; wiped if the power went before they had a whole label.
fn again(bed: &mut Bed, count: usize) {
    let paths: Vec<String> = (0..count).map(further).collect();
    for path in &paths {
        if bed.label_of(path.as_ref()).is_none() {
            bed.machine.remove_file(path.as_ref()).ok();
        }
        bed.forget(path);
    }
    bed.close();
    bed.start().unwrap();
    bed.extend(&paths.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
}

/// Some labels say already that the pool has a further member, and just those are missing at the next start.
#[test]
fn a_mirror_that_some_labels_have_as_extended_opens_without_these_members() {
    let mut met = 0;
    for seed in 0..40 {
        let (mut bed, _) = made(300 + seed, Level::Raid1, 2);
        let told = bed.begin_extending(&[&further(0)]);
        let is_wider = |bed: &Bed, slot: usize| slots(bed, &bed.path(slot)) == 3;
        bed.world.run_until(|| (0..2).any(|slot| is_wider(&bed, slot))).unwrap();
        assert!(told.lock().unwrap().is_none());
        bed.power_cut();
        let wider: Vec<usize> = (0..2).filter(|slot| is_wider(&bed, *slot)).collect();
        let [alone] = wider[..] else { continue };
        met += 1;
        bed.machine.detach(&bed.path(alone));
        bed.start().unwrap();
        assert_eq!(bed.handle().status().members.len(), 2, "the new one never came in");
        let bytes = vec![5; bed.volume as usize];
        bed.write(0, &bytes).unwrap();
        bed.kill();
        bed.machine.attach(&bed.path(alone));
        bed.start().unwrap();
        bed.rebuild();
        assert_eq!(bed.handle().status().members.len(), 2, "seed {seed}");
        again(&mut bed, 1);
        each_has_all(&mut bed, &bytes, 1);
    }
    assert!(met > 0, "no cut fell between the labels of two members");
}

/// The only member that has everything is missing, and what came in has nothing yet.
#[test]
fn a_copy_that_has_nothing_yet_is_not_read() {
    let (mut bed, bytes) = made(5, Level::Raid1, 2);
    bed.machine.slow_down(further(0).as_ref(), 1000);
    bed.extend(&[&further(0)]).unwrap();
    bed.power_cut();
    (0..2).for_each(|slot| bed.machine.detach(&bed.path(slot)));
    assert!(bed.start().is_err(), "it has none of the rows");
    bed.machine.attach(&bed.path(1));
    bed.machine.slow_down(further(0).as_ref(), 1);
    bed.start().unwrap();
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    bed.world.run_until(|| bed.state(2) == MemberState::InSync).unwrap();
    bed.close();
    bed.machine.detach(&bed.path(1));
    bed.start().unwrap();
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
}

#[test]
fn a_new_member_has_both_places_of_each_page_its_bitmap_and_both_catalogues_before_it_is_one() {
    for seed in 0..8 {
        let (mut bed, _) = made(20 + seed, Level::Raid1, 2);
        // What is blank need not be so in the middle.
        let mut used = vec![0xA5; 6 << 20];
        used[..1 << 20].fill(0);
        used[5 << 20..].fill(0);
        bed.machine.put_file(further(0).as_ref(), &used);
        bed.begin_extending(&[&further(0)]);
        bed.world.run_until(|| (0..2).any(|slot| slots(&bed, &bed.path(slot)) == 3)).unwrap();
        let (geometry, id) = (bed.geometry(), bed.core().shared().id);
        bed.power_cut();
        let path = PathBuf::from(further(0));
        let bytes = |place| bed.machine.file_bytes(&path, place, BLOCK).unwrap();
        let label = bed.label_of(&path).unwrap();
        for end in End::BOTH {
            let catalogue = bytes(geometry.catalogue_place(end, label.catalogue.copy));
            assert!(catalogue::decode(&catalogue, &label.catalogue, &geometry).is_ok(), "{end:?}");
        }
        for (page, copy) in (0..geometry.table_pages).flat_map(|page| [(page, 0), (page, 1)]) {
            let bytes = bytes(geometry.table_page_place(page, copy));
            assert!(TablePage::decode(&bytes, &id, 2, page).is_some(), "{page}, {copy}");
        }
        for number in 0..geometry.bitmap_blocks {
            assert!(bitmap_block::decode(&bytes(geometry.bitmap_place(number)), &id, number).is_some());
        }
    }
}

/// A new member that fails is none; the pool goes on as before, and takes another one.
#[test]
fn a_new_member_that_cannot_be_written_is_left_out() {
    let (mut bed, bytes) = made(6, Level::Raid1, 2);
    for bad in [0..4096, 0..u64::MAX, 4096..1 << 20] {
        bed.machine.put_file("/bad".as_ref(), &vec![0; 4 << 20]);
        bed.machine.fail_writes("/bad".as_ref(), bad);
        let why = bed.extend(&["/bad"]).unwrap_err();
        assert!(why.starts_with("/bad: "), "{why}");
        assert_eq!(bed.handle().status().members.len(), 2);
        bed.write(0, &bytes).unwrap();
        bed.machine.remove_file("/bad".as_ref()).unwrap();
    }
    bed.power_cut();
    bed.start().unwrap();
    bed.extend(&[&further(0)]).unwrap();
    each_has_all(&mut bed, &bytes, 1);
}

/// A member that fails while another one comes in: either that does not come in, or the pool goes on without the first.
#[test]
fn a_member_may_fail_while_another_one_comes_in() {
    for seed in 0..20 {
        let (mut bed, bytes) = made(400 + seed, Level::Raid1, 2);
        let told = bed.begin_extending(&[&further(0)]);
        bed.world.run_for(Duration::from_micros(seed * 1000)).unwrap();
        bed.machine.fail_writes(&bed.path(0), 0..u64::MAX);
        bed.world.run_until(|| told.lock().unwrap().is_some()).unwrap();
        bed.write(0, &bytes).unwrap();
        let came_in = told.lock().unwrap().take().unwrap().is_ok();
        assert_eq!(bed.handle().status().members.len(), if came_in { 3 } else { 2 }, "seed {seed}");
        bed.world.run_until(|| bed.state(0) == MemberState::Out).unwrap();
        if came_in {
            bed.world.run_until(|| bed.state(2) == MemberState::InSync).unwrap();
            bed.power_cut();
            bed.machine.detach(&bed.path(1));
            bed.machine.detach(&bed.path(0));
            bed.start().unwrap();
        }
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "seed {seed}");
    }
}

#[test]
fn what_cannot_be_extended_is_left_as_it_is() {
    for (level, slots) in [(Level::Single, 1), (Level::Raid5, 3), (Level::Raid6, 4)] {
        let bed = Bed::new(7, level, slots, 16 << 10);
        let why = ExtensionError::Level { level };
        let refused = Refusal::NotExtended { pool: "tank".into(), why };
        assert!(refused.to_string().contains("hint: "), "{refused}");
        assert_eq!(bed.handle().check_extension(1), Err(refused));
    }
    let (mut bed, _) = made(8, Level::Raid1, 2);
    bed.machine.put_file("/small".as_ref(), &vec![0; 3 << 20]);
    let (small, _lock) = bed.member("/small".into());
    assert!(matches!(bed.handle().extend(vec![small]), Err(Refusal::TooSmall { .. })));
    bed.machine.put_file("/foreign".as_ref(), &vec![7; 4 << 20]);
    let why = bed.extend(&["/foreign"]).unwrap_err();
    assert!(why.contains("no label of a pool"), "{why}");
    // One that was replaced.
    bed.take_out(1);
    bed.world.run_until(|| bed.handle().status().members[1].cause.is_some()).unwrap();
    assert_eq!(bed.handle().status().members[1].cause, Some(Cause::Administrator));
    assert!(matches!(bed.handle().check_extension(1), Err(Refusal::NotInSync { .. })));
    bed.give(1, &further(5));
    bed.rebuild_of(1);
    let replaced = bed.path(1);
    bed.leave(1);
    bed.close();
    bed.start().unwrap();
    let why = bed.extend(&[replaced.to_str().unwrap()]).unwrap_err();
    assert!(why.contains("was one"), "{why}");
    assert_eq!(bed.handle().status().members.len(), 2);
}

/// Levels that are extended by sets: how many members they have first, and how many come.
const SETS: [(Level, usize, usize); 3] = [(Level::Raid0, 2, 1), (Level::Raid10, 4, 2), (Level::Raid0, 3, 2)];

/// Another volume, as large as all that is left, which takes rows of all sets. Gives its size.
fn fill(bed: &mut Bed) -> u64 {
    let geometry = bed.geometry();
    bed.close();
    let more = geometry.pool_bytes() - geometry.row_bytes() * 12;
    bed.add_volume(more).unwrap();
    bed.start().unwrap();
    more
}

/// Places of that volume in each of its parts, and over their edges: every 100,000 bytes some.
fn places(more: u64) -> impl Iterator<Item = u64> {
    (0..more - 70_000).step_by(100_000).chain([more - 70_000])
}

/// Everything that was written is there; a volume in rows of all sets holds what it is given, also after a cut, in another order,
/// and without what the level can do without.
fn holds_sets(bed: &mut Bed, bytes: &[u8]) {
    let geometry = bed.geometry();
    assert!(geometry.sets.count() > 1);
    assert_eq!(bed.handle().status().bytes, geometry.pool_bytes());
    let more = fill(bed);
    for place in places(more) {
        bed.write_to(1, place, &pattern(70_000, place as u8)).unwrap();
    }
    bed.power_cut();
    bed.backwards = !bed.backwards;
    bed.start().unwrap();
    let is_there = |bed: &Bed| {
        for place in places(more) {
            let end = places(more).find(|next| *next > place).unwrap_or(more);
            let length = (end - place).min(70_000) as usize;
            let read = bed.read_from(1, place, length).unwrap();
            assert!(read == pattern(70_000, place as u8)[..length], "at {place} of {more}");
        }
        assert!(bed.read(0, bytes.len()).unwrap() == bytes);
    };
    is_there(bed);
    let report = bed.scrub();
    assert_eq!((report.bad, report.uneven, report.rows), (0, 0, geometry.all_rows()));
    if bed.level == Level::Raid10 {
        let gone = [bed.path(0), further(1).into()];
        bed.close();
        for path in &gone {
            bed.machine.detach(path);
        }
        bed.start().unwrap();
        is_there(bed);
        for place in places(more) {
            bed.write_to(1, place, &pattern(70_000, place as u8)).unwrap();
        }
        bed.power_cut();
        for path in &gone {
            bed.machine.attach(path);
        }
        bed.start().unwrap();
        bed.rebuild();
        assert_eq!(bed.scrub().bad, 0);
        // Now the others of both pairs.
        let gone = [bed.path(1), further(0).into()];
        bed.close();
        for path in &gone {
            bed.machine.detach(path);
        }
        bed.start().unwrap();
        is_there(bed);
        bed.close();
        for path in &gone {
            bed.machine.attach(path);
        }
        bed.start().unwrap();
        bed.rebuild();
    }
}

#[test]
fn a_pool_gets_a_further_set_while_it_is_used() {
    for (seed, (level, slots, count)) in (30..).zip(SETS) {
        let (mut bed, mut bytes) = made(seed, level, slots);
        let before = bed.geometry();
        let paths: Vec<String> = (0..count).map(further).collect();
        let told = bed.begin_extending(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        for block in 0..40 {
            bytes[block * 4096..][..4096].fill(block as u8);
            bed.write(block as u64 * 4096, &bytes[block * 4096..][..4096]).unwrap();
        }
        bed.world.run_until(|| told.lock().unwrap().is_some()).unwrap();
        assert_eq!(*told.lock().unwrap(), Some(Ok(())));
        let after = bed.geometry();
        assert_eq!((after.sets.count(), after.set_slots(1)), (2, slots..slots + count));
        assert!(after.pool_bytes() > before.pool_bytes());
        assert!(bed.core().shared().states.all_in_sync());
        holds_sets(&mut bed, &bytes);
    }
}

#[test]
fn a_pool_gets_one_set_after_another() {
    let (mut bed, bytes) = made(40, Level::Raid0, 2);
    bed.extend(&[&further(0)]).unwrap();
    bed.extend(&[&further(1), &further(2), &further(3)]).unwrap();
    bed.close();
    bed.start().unwrap();
    bed.extend(&[&further(4)]).unwrap();
    assert_eq!(bed.geometry().sets.count(), 4);
    holds_sets(&mut bed, &bytes);
}

#[test]
fn a_cut_while_a_set_is_added_leaves_the_old_pool_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..60 {
        let (level, slots, count) = SETS[seed as usize % 3];
        let (mut bed, mut bytes) = made(500 + seed, level, slots);
        let paths: Vec<String> = (0..count).map(further).collect();
        bed.begin_extending(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        bytes[..4096].fill(seed as u8);
        bed.world.run_for(Duration::from_micros(seed * 600)).unwrap();
        bed.begin_write(0, &bytes[..4096]);
        bed.world.run_for(Duration::from_micros(seed % 7 * 100)).unwrap();
        bed.power_cut();
        let had_labels = labelled(&mut bed, count);
        bed.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        bed.write(0, &bytes[..4096]).unwrap();
        if bed.geometry().sets.count() == 2 {
            assert!(had_labels && bed.core().shared().states.all_in_sync(), "seed {seed}");
            new += 1;
        } else {
            old += 1;
            again(&mut bed, count);
        }
        holds_sets(&mut bed, &bytes);
    }
    assert!(old > 5 && new > 5, "cuts before and after: {old} and {new}");
}

/// What is under way in rows of a new set when the power goes is made or not, and whole; also when a member goes with it.
#[test]
fn what_is_under_way_in_a_new_set_is_recovered() {
    for seed in 0..40 {
        let (level, slots, count) = SETS[seed as usize % 2];
        let (mut bed, bytes) = made(600 + seed, level, slots);
        let paths: Vec<String> = (0..count).map(further).collect();
        bed.extend(&paths.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        let more = fill(&mut bed);
        let place = more - 64 * 4096;
        bed.write_to(1, place, &vec![1; 64 * 4096]).unwrap();
        bed.settle();
        bed.begin_write_to(1, place, &vec![2; 64 * 4096]);
        bed.world.run_for(Duration::from_micros(seed * 40)).unwrap();
        bed.power_cut();
        if level == Level::Raid10 {
            bed.machine.detach(further(seed as usize / 2 % 2).as_ref());
        }
        bed.start().unwrap();
        let read = bed.read_from(1, place, 64 * 4096).unwrap();
        for block in read.chunks_exact(4096) {
            assert!(block.iter().all(|byte| *byte == block[0]) && [1, 2].contains(&block[0]), "seed {seed}");
        }
        assert_eq!(bed.scrub().bad, 0, "seed {seed}");
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    }
}

/// Some labels say already that there is a further set, and just those are missing at the next start.
#[test]
fn a_pool_that_some_labels_have_with_a_set_opens_without_these_members() {
    let mut met = 0;
    for seed in 0..40 {
        let (mut bed, _) = made(700 + seed, Level::Raid10, 4);
        bed.begin_extending(&[&further(0), &further(1)]);
        let is_wider = |bed: &Bed, slot: usize| slots(bed, &bed.path(slot)) == 6;
        bed.world.run_until(|| (0..4).any(|slot| is_wider(&bed, slot))).unwrap();
        bed.power_cut();
        let wider: Vec<usize> = (0..4).filter(|slot| is_wider(&bed, *slot)).collect();
        if [[0, 1], [2, 3]].iter().any(|pair| pair.iter().all(|slot| wider.contains(slot))) {
            continue;
        }
        met += 1;
        for slot in &wider {
            bed.machine.detach(&bed.path(*slot));
        }
        bed.start().unwrap();
        assert_eq!(bed.geometry().sets.count(), 1);
        let bytes = vec![5; bed.volume as usize];
        bed.write(0, &bytes).unwrap();
        bed.kill();
        for slot in &wider {
            bed.machine.attach(&bed.path(*slot));
        }
        bed.start().unwrap();
        bed.rebuild();
        assert_eq!(bed.geometry().sets.count(), 1, "seed {seed}");
        again(&mut bed, 2);
        holds_sets(&mut bed, &bytes);
    }
    assert!(met > 0, "no cut fell between the labels of the members");
}

/// Sets and larger members know nothing of each other.
#[test]
fn an_extended_pool_grows_and_a_grown_one_is_extended() {
    const LARGER: u64 = 9 << 20;
    let (mut bed, bytes) = made(50, Level::Raid10, 4);
    bed.extend(&[&further(0), &further(1)]).unwrap();
    let more = fill(&mut bed);
    let last = pattern(70_000, 3);
    bed.write_to(1, more - 70_000, &last).unwrap();
    for slot in 0..6 {
        bed.take_out(slot);
        bed.machine.put_file(format!("/l{slot}").as_ref(), &vec![0; LARGER as usize]);
        bed.give(slot, &format!("/l{slot}"));
        bed.rebuild_of(slot);
        match slot {
            0..4 => bed.leave(slot),
            _ => bed.forget(&further(slot - 4)),
        }
    }
    let before = bed.geometry();
    bed.handle().grow().unwrap();
    bed.world.run_until(|| bed.geometry().rows > before.rows).unwrap();
    assert_eq!(bed.geometry().sets.count(), 2);
    for path in ["/l6", "/l7"] {
        bed.machine.put_file(path.as_ref(), &vec![0; LARGER as usize]);
    }
    bed.extend(&["/l6", "/l7"]).unwrap();
    bed.power_cut();
    bed.backwards = true;
    bed.start().unwrap();
    assert_eq!((bed.geometry().sets.count(), bed.geometry().bytes), (3, LARGER));
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    assert_eq!(bed.read_from(1, more - 70_000, 70_000).unwrap(), last, "no row has another number");
    let report = bed.scrub();
    assert_eq!((report.bad, report.rows), (0, bed.geometry().all_rows()));
    assert_eq!(
        bed.handle().check_extension(1),
        Err(Refusal::NotExtended { pool: "tank".into(), why: ExtensionError::Pairs })
    );
}

#[test]
fn a_scrub_that_runs_goes_on_into_the_new_set() {
    let (mut bed, bytes) = made(51, Level::Raid10, 4);
    let more = fill(&mut bed);
    bed.write_to(1, 0, &pattern(more as usize, 1)).unwrap();
    bed.settle();
    bed.handle().scrub();
    bed.world.run_until(|| bed.handle().status().scrub.rows >= 2).unwrap();
    bed.extend(&[&further(0), &further(1)]).unwrap();
    assert!(bed.handle().status().scrub.runs, "it was to be there while the pool is extended");
    bed.world.run_until(|| !bed.handle().status().scrub.runs).unwrap();
    assert_eq!(bed.handle().status().scrub.rows, bed.geometry().all_rows());
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
}

#[test]
fn a_wrong_block_of_a_new_set_is_found_and_made_good() {
    let (mut bed, bytes) = made(52, Level::Raid10, 4);
    bed.extend(&[&further(0), &further(1)]).unwrap();
    let more = fill(&mut bed);
    bed.write_to(1, more - 4096, &[7; 4096]).unwrap();
    bed.settle();
    let geometry = bed.geometry();
    let place = geometry.unit_place(geometry.rows - 1) + u64::from(geometry.unit) - 4096;
    bed.machine.corrupt(further(1).as_ref(), place..place + 4096);
    let report = bed.scrub();
    assert_eq!((report.bad, report.repaired), (1, 1));
    assert_eq!(bed.read_from(1, more - 4096, 4096).unwrap(), vec![7; 4096]);
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
}

#[test]
fn a_volume_takes_the_room_of_a_new_set_while_the_pool_is_used() {
    let (mut bed, bytes) = made(53, Level::Raid0, 2);
    bed.extend(&[&further(0)]).unwrap();
    let all = bed.geometry().pool_bytes();
    bed.change_volumes(VolumeWish::Resize { name: "demo".into(), bytes: all }).unwrap();
    let last = pattern(70_000, 9);
    bed.write(all - 70_000, &last).unwrap();
    bed.power_cut();
    bed.start().unwrap();
    assert_eq!(bed.read(all - 70_000, 70_000).unwrap(), last);
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    assert_eq!(bed.scrub().bad, 0);
}
