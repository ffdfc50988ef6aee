//! Pools that grow: all members replaced by larger ones, and the power goes at any moment.

use std::path::PathBuf;
use std::time::Duration;

use super::bed::Bed;
use super::pattern;
use crate::pool::format::{BLOCK, End, Label, TablePage, catalogue};
use crate::pool::segments::Tail;
use crate::pool::{Level, MemberState, Refusal};

/// Bytes of a member that is larger.
const LARGER: u64 = 9 << 20;

fn larger(slot: usize) -> String {
    format!("/l{slot}")
}

/// All members are replaced by larger ones, one by one.
fn replaced(seed: u64, level: Level, slots: usize) -> (Bed, Vec<u8>) {
    let mut bed = Bed::new(seed, level, slots, 16 << 10);
    let bytes = pattern(bed.volume as usize, seed as u8);
    bed.write(0, &bytes).unwrap();
    bed.settle();
    for slot in 0..slots {
        bed.handle().offline(slot).unwrap();
        bed.world.run_until(|| bed.handle().status().members[slot].state == MemberState::Out).unwrap();
        bed.machine.put_file(larger(slot).as_ref(), &vec![0; LARGER as usize]);
        bed.give(slot, &larger(slot));
        bed.world.run_until(|| bed.handle().status().members[slot].state == MemberState::InSync).unwrap();
        bed.leave(slot);
    }
    (bed, bytes)
}

const LEVELS: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)];

/// Everything that was written is there; a volume in the new rows holds what it is given, also without a member and after a cut.
fn holds(bed: &mut Bed, bytes: &[u8], rows: u64) {
    let geometry = bed.geometry();
    assert!(geometry.rows > rows && geometry.is_grown());
    assert_eq!(geometry.bytes, LARGER);
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    bed.kill();
    // As large as all that is left, which takes the old rows and the new ones.
    let more = (geometry.rows - 12) * geometry.row_bytes();
    bed.add_volume(more).unwrap();
    bed.start().unwrap();
    let last = pattern(300_000, 77);
    let place = more - last.len() as u64;
    bed.write_to(1, place, &last).unwrap();
    bed.power_cut();
    bed.start().unwrap();
    assert_eq!(bed.read_from(1, place, last.len()).unwrap(), last);
    let report = bed.scrub();
    assert_eq!((report.bad, report.uneven, report.rows), (0, 0, geometry.rows));
    bed.kill();
    bed.machine.detach(larger(0).as_ref());
    bed.start().unwrap();
    assert_eq!(bed.read_from(1, place, last.len()).unwrap(), last);
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    // What it misses in the new rows it gets.
    bed.write_to(1, place, &vec![9; last.len()]).unwrap();
    bed.kill();
    bed.machine.attach(larger(0).as_ref());
    bed.start().unwrap();
    bed.rebuild();
    assert_eq!(bed.scrub().bad, 0);
    bed.kill();
    bed.machine.detach(larger(1).as_ref());
    bed.start().unwrap();
    assert_eq!(bed.read_from(1, place, last.len()).unwrap(), vec![9; last.len()]);
}

#[test]
fn a_pool_of_larger_members_grows_while_it_is_used() {
    for (level, slots) in LEVELS {
        let (mut bed, mut bytes) = replaced(1, level, slots);
        let rows = bed.geometry().rows;
        bed.handle().grow().unwrap();
        for block in 0..40 {
            bytes[block * 4096..][..4096].fill(block as u8);
            bed.write(block as u64 * 4096, &bytes[block * 4096..][..4096]).unwrap();
        }
        bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
        assert_eq!(bed.handle().status().bytes, bed.geometry().pool_bytes());
        assert!(matches!(bed.handle().grow(), Err(Refusal::NoRoom { .. })), "{level}");
        holds(&mut bed, &bytes, rows);
    }
}

/// A cut at any moment leaves a pool of the old size, which can grow again, or one of the new size.
#[test]
fn a_cut_while_a_pool_grows_leaves_the_old_one_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..80 {
        let (level, slots) = LEVELS[seed as usize % 4];
        let (mut bed, mut bytes) = replaced(200 + seed, level, slots);
        let rows = bed.geometry().rows;
        bed.handle().grow().unwrap();
        bytes[..4096].fill(seed as u8);
        bed.write(0, &bytes[..4096]).unwrap();
        bed.world.run_for(Duration::from_micros(seed * 400)).unwrap();
        bed.power_cut();
        bed.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "seed {seed}");
        assert_eq!(bed.scrub().bad, 0, "seed {seed}");
        if bed.geometry().rows > rows {
            new += 1;
        } else {
            old += 1;
            bed.handle().grow().unwrap();
            bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
        }
        holds(&mut bed, &bytes, rows);
    }
    assert!(old > 5 && new > 5, "cuts before and after: {old} and {new}");
}

/// What any one of them is damaged for is in the other.
#[test]
fn a_pool_that_has_grown_has_both_places_of_each_page_and_both_catalogues() {
    let (bed, _) = replaced(4, Level::Raid5, 4);
    let rows = bed.geometry().rows;
    bed.handle().grow().unwrap();
    bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
    let (geometry, id) = (bed.geometry(), bed.core().shared().id);
    for slot in 0..4 {
        let path = PathBuf::from(larger(slot));
        let bytes = |place| bed.machine.file_bytes(&path, place, BLOCK).unwrap();
        let label = Label::decode(&bytes(0)).unwrap();
        assert_eq!(
            Label::decode(&bytes(geometry.label_place(End::Tail))).unwrap().generation,
            label.generation
        );
        for end in End::BOTH {
            let catalogue = bytes(geometry.catalogue_place(end, label.catalogue.copy));
            assert!(catalogue::decode(&catalogue, &label.catalogue, &geometry).is_ok(), "{end:?} of {slot}");
        }
        for (page, copy) in (0..geometry.table_pages).flat_map(|page| [(page, 0), (page, 1)]) {
            let bytes = bytes(geometry.table_page_place(page, copy));
            assert!(TablePage::decode(&bytes, &id, slot as u16, page).is_some(), "{page}, {copy} of {slot}");
        }
    }
}

/// The labels of some members have the new size already, and just those are missing at the next start.
#[test]
fn a_pool_that_some_labels_have_as_grown_opens_without_these_members() {
    let mut met = 0;
    for seed in 0..40 {
        let (mut bed, bytes) = replaced(300 + seed, Level::Raid5, 4);
        let rows = bed.geometry().rows;
        let grown = |bed: &Bed, slot: usize| {
            bed.label_rows(&PathBuf::from(larger(slot))).is_some_and(|other| other > rows)
        };
        bed.handle().grow().unwrap();
        bed.world.run_until(|| (0..4).any(|slot| grown(&bed, slot))).unwrap();
        bed.power_cut();
        let slots: Vec<usize> = (0..4).filter(|slot| grown(&bed, *slot)).collect();
        let [alone] = slots[..] else { continue };
        met += 1;
        bed.machine.detach(larger(alone).as_ref());
        bed.start().unwrap();
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "seed {seed}");
        bed.write(0, &vec![5; bytes.len()]).unwrap();
        bed.kill();
        bed.machine.attach(larger(alone).as_ref());
        bed.start().unwrap();
        bed.rebuild();
        assert_eq!(bed.read(0, bytes.len()).unwrap(), vec![5; bytes.len()], "seed {seed}");
        assert_eq!(bed.scrub().bad, 0, "seed {seed}");
        bed.handle().grow().unwrap();
        bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
        holds(&mut bed, &vec![5; bytes.len()], rows);
    }
    assert!(met > 0, "no cut fell between the labels of two members");
}

#[test]
fn what_cannot_grow_is_left_as_it_is() {
    let bed = Bed::new(2, Level::Raid1, 2, 16 << 10);
    assert!(matches!(bed.handle().grow(), Err(Refusal::NoRoom { used, .. }) if used == bed.geometry().bytes));
    bed.handle().offline(0).unwrap();
    bed.world.run_until(|| bed.handle().status().members[0].state == MemberState::Out).unwrap();
    assert!(matches!(bed.handle().grow(), Err(Refusal::NotInSync { .. })));
    // A spare that would be too small then.
    let (mut bed, _) = replaced(3, Level::Raid1, 2);
    let rows = bed.geometry().rows;
    bed.add_spare("/s0");
    bed.handle().grow().unwrap();
    bed.world.run_for(Duration::from_secs(5)).unwrap();
    assert_eq!(bed.geometry().rows, rows);
    let spare = bed.handle().status().spares[0].id;
    bed.handle().remove_spare(&spare).unwrap();
    bed.handle().grow().unwrap();
    bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
}

/// The table in memory stayed as long as the pool was to become: a member that came afterwards got pages of it that no table has
/// room for, over units that had been rebuilt.
#[test]
fn a_member_that_comes_after_a_growth_in_vain_gets_no_pages_behind_its_table() {
    let (mut bed, bytes) = replaced(5, Level::Raid5, 4);
    let rows = bed.geometry().rows;
    let path = PathBuf::from(larger(2));
    bed.machine.fail_writes(&path, bed.geometry().bytes..u64::MAX);
    bed.handle().grow().unwrap();
    bed.world.run_for(Duration::from_secs(5)).unwrap();
    assert_eq!(bed.geometry().rows, rows);
    bed.take_out(2);
    bed.machine.put_file("/other".as_ref(), &vec![0; LARGER as usize]);
    bed.give(2, "/other");
    bed.rebuild();
    assert_eq!(bed.scrub().bad, 0);
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
}

/// A pool that has hardly anything on it, and has members now that are this large.
fn replaced_by_large(seed: u64, bytes: u64) -> Bed {
    let mut bed = Bed::new(seed, Level::Raid1, 2, 16 << 10);
    bed.write(0, &pattern(BLOCK, 1)).unwrap();
    bed.settle();
    for slot in 0..2 {
        bed.take_out(slot);
        bed.make_file(&larger(slot), bytes);
        bed.give(slot, &larger(slot));
        bed.rebuild();
        bed.leave(slot);
    }
    bed
}

/// Each write takes a second from now on.
fn write_slowly(bed: &Bed) {
    let second = Duration::from_secs(1);
    bed.world.configure(|settings| settings.write = second..second + Duration::from_micros(1));
}

/// A member failed while the pool grew: the labels had that only when the tables of all members had been written, and until then
/// nothing was acknowledged.
#[test]
fn a_member_that_fails_while_a_pool_grows_is_waited_for_no_longer_than_else() {
    let bed = replaced_by_large(6, 16 << 30);
    let (rows, geometry) = (bed.geometry().rows, bed.geometry());
    write_slowly(&bed);
    bed.machine.fail_writes(larger(1).as_ref(), geometry.journal..geometry.segment_place(geometry.segments));
    bed.handle().grow().unwrap();
    let begun = bed.world.now();
    bed.write(0, &pattern(BLOCK, 2)).unwrap();
    let took = bed.world.now().since(begun);
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!((bed.state(1), bed.geometry().rows), (MemberState::Out, rows));
    assert_eq!(bed.read(0, BLOCK).unwrap(), pattern(BLOCK, 2));
}

/// All pages of its table were written to a member before any change could be acknowledged beside it: minutes, of a large one.
#[test]
fn a_member_that_comes_holds_up_no_writes_until_it_has_its_table() {
    let mut bed = replaced_by_large(7, 8 << 30);
    let rows = bed.geometry().rows;
    bed.handle().grow().unwrap();
    bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
    bed.take_out(1);
    bed.make_file("/other", 8 << 30);
    write_slowly(&bed);
    bed.give(1, "/other");
    bed.world.run_until(|| bed.state(1) != MemberState::Out).unwrap();
    let begun = bed.world.now();
    bed.write(0, &pattern(BLOCK, 2)).unwrap();
    let took = bed.world.now().since(begun);
    assert!(took < Duration::from_secs(15), "{took:?}");
}

/// A member stopped answering while its table was written: each part of that was waited for, 15 seconds for 32 pages, and until then
/// nothing was acknowledged.
#[test]
fn a_member_that_stops_answering_while_its_table_is_written_is_waited_for_once() {
    let bed = replaced_by_large(8, 8 << 30);
    let rows = bed.geometry().rows;
    bed.handle().grow().unwrap();
    bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
    bed.world.run_for(Duration::from_secs(30)).unwrap();
    // As after random writes all over it.
    let shared = bed.core().shared().clone();
    (0..bed.geometry().table_pages).for_each(|page| shared.table.mark(1, page));
    bed.write(0, &pattern(BLOCK, 2)).unwrap();
    bed.settle();
    bed.machine.stall(larger(1).as_ref());
    bed.world.run_for(Duration::from_secs(6)).unwrap();
    let begun = bed.world.now();
    bed.write(0, &pattern(BLOCK, 3)).unwrap();
    let took = bed.world.now().since(begun);
    assert!(took < Duration::from_secs(40), "{took:?}");
    assert_eq!((bed.state(1), bed.read(0, BLOCK).unwrap()), (MemberState::Out, pattern(BLOCK, 3)));
}

/// No checkpoint was made while a pool grew: whoever wrote when the journal was full waited until the tables of all members had been
/// written.
#[test]
fn a_journal_that_is_full_while_a_pool_grows_is_not_waited_for_until_it_has_grown() {
    let bed = replaced_by_large(9, 16 << 30);
    let rows = bed.geometry().rows;
    bed.write(0, &pattern(BLOCK, 2)).unwrap();
    bed.settle();
    write_slowly(&bed);
    bed.handle().grow().unwrap();
    bed.world.run_for(Duration::from_secs(3)).unwrap();
    // What others wrote until now.
    let (shared, last) = (bed.core().shared().clone(), bed.next() - 1);
    for tail in std::iter::from_fn(|| shared.segments.claim()) {
        shared.segments.fill(&Tail { last, ..tail });
    }
    for row in 0..8 {
        let begun = bed.world.now();
        bed.write(row * (16 << 10), &pattern(16 << 10, row as u8)).unwrap();
        let took = bed.world.now().since(begun);
        assert!(took < Duration::from_secs(25), "row {row}: {took:?}");
    }
    assert_eq!(bed.geometry().rows, rows, "it grows still");
    bed.world.run_until(|| bed.geometry().rows > rows).unwrap();
}

/// What checkpoints write while a pool grows is in the new table, too: the journal has forgotten it.
#[test]
fn a_pool_that_grew_has_what_checkpoints_wrote_meanwhile() {
    for (seed, (level, slots)) in (500..).zip(LEVELS) {
        let (mut bed, _) = replaced(seed, level, slots);
        let rows = bed.geometry().rows;
        let millisecond = Duration::from_millis(1);
        bed.world.configure(|settings| settings.write = 100 * millisecond..101 * millisecond);
        bed.handle().grow().unwrap();
        let (shared, last) = (bed.core().shared().clone(), bed.next() - 1);
        let bytes = pattern(bed.geometry().row_bytes() as usize, seed as u8);
        for _ in 0..20 {
            // Few are free, so that there are checkpoints.
            let taken: Vec<_> = std::iter::from_fn(|| shared.segments.claim()).collect();
            for (index, tail) in taken.into_iter().enumerate() {
                match index {
                    0..2 => shared.segments.leave(tail),
                    _ => shared.segments.fill(&Tail { last, ..tail }),
                }
            }
            bed.begin_write(0, &bytes);
            bed.world.run_for(20 * millisecond).unwrap();
        }
        bed.world.run_until(|| bed.geometry().rows > rows).unwrap();
        bed.power_cut();
        bed.start().unwrap();
        assert!(bed.read(0, bytes.len()).unwrap() == bytes, "{level}");
        assert_eq!(bed.scrub().bad, 0, "{level}");
    }
}

/// A member that came back lacked one row of half a million, and its core did nothing else until all of them had been passed.
#[test]
fn a_member_that_lacks_hardly_anything_does_not_keep_its_core_from_others() {
    let mut bed = replaced_by_large(10, 8 << 30);
    let rows = bed.geometry().rows;
    bed.handle().grow().unwrap();
    bed.world.run_until(|| bed.handle().status().rows > rows).unwrap();
    bed.close();
    bed.machine.detach(larger(1).as_ref());
    bed.start().unwrap();
    bed.write(0, &pattern(BLOCK, 2)).unwrap();
    bed.close();
    bed.machine.attach(larger(1).as_ref());
    bed.start().unwrap();
    let (mut before, mut most) = (0, 0);
    bed.world
        .run_until(|| {
            // Asked after each turn of the core.
            let MemberState::Rebuilding { rows } = bed.state(1) else { return true };
            most = most.max(rows - before);
            before = rows;
            false
        })
        .unwrap();
    assert_eq!(bed.state(1), MemberState::InSync);
    assert!(before > 400_000 && most < 10_000, "{most} at once of {before}");
}
