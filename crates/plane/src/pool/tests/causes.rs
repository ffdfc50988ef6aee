//! What went wrong once, each by its cause: docs/concepts/simulation.md.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ring::Buffer;
use ring::sim::World;
use smallvec::smallvec;

use super::bed::Bed;
use crate::disk::Disk;
use crate::error::ErrorKind;
use crate::pool::format::{BLOCK, End, Label, TablePage, block_entry};
use crate::pool::journal::Change;
use crate::pool::segments::Tail;
use crate::pool::{Level, Member, MemberState, Place, Pool, PoolOptions};
use crate::request::{Extent, Request, Verb};

fn bytes(value: u8) -> Vec<u8> {
    vec![value; BLOCK]
}

fn is_rebuilding(bed: &Bed, slot: usize) -> bool {
    matches!(bed.state(slot), MemberState::Rebuilding { .. })
}

/// A member that is away has a transaction that was under way when it went. The next one on the others had the same number,
/// and when it was back its part was taken for one of that.
#[test]
fn numbers_that_a_member_that_is_away_may_have_are_not_given_again() {
    for seed in 0..40 {
        let mut bed = Bed::new(200 + seed, Level::Raid1, 2, 16 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.settle();
        // The part on member 1 is not there when the power goes; that on member 0 is.
        bed.machine.slow_down(&bed.path(1), 10_000);
        bed.begin_write(0, &bytes(2));
        bed.world.run_for(Duration::from_millis(2)).unwrap();
        bed.power_cut();
        bed.machine.slow_down(&bed.path(1), 1);
        bed.machine.detach(&bed.path(0));
        bed.start().unwrap();
        let old = bed.read(0, BLOCK).unwrap();
        assert!(old == bytes(1) || old == bytes(2));
        bed.write(0, &bytes(3)).unwrap();
        bed.power_cut();
        bed.machine.attach(&bed.path(0));
        bed.start().unwrap();
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(3)), "seed {seed}");
        bed.rebuild();
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(3)), "seed {seed}");
    }
}

/// A checkpoint had begun when a member's flush failed: rows changed before it were forgotten, and what was not durable there
/// was given as good when it was back.
#[test]
fn rows_changed_before_a_flush_that_failed_are_remembered() {
    for seed in 0..8 {
        let mut bed = Bed::new(300 + seed, Level::Raid1, 2, 16 << 10);
        for row in 0..12 {
            bed.write(row * (16 << 10), &bytes(7)).unwrap();
        }
        bed.settle();
        bed.machine.fail_flushes(&bed.path(1));
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        assert_eq!(bed.state(1), MemberState::Out);
        bed.power_cut();
        bed.machine.repair(&bed.path(1));
        bed.start().unwrap();
        bed.rebuild();
        bed.kill();
        bed.machine.detach(&bed.path(0));
        bed.start().unwrap();
        for row in 0..12 {
            assert_eq!(bed.read(row * (16 << 10), BLOCK), Ok(bytes(7)), "seed {seed}, row {row}");
        }
    }
}

/// The journal forgot what was in one place of its page of the table only: with that place lost, the blocks were zeroes.
#[test]
fn the_journal_keeps_what_is_in_one_place_of_a_page_only() {
    let mut bed = Bed::new(400, Level::Single, 1, 16 << 10);
    bed.write(0, &bytes(9)).unwrap();
    bed.settle();
    let places = bed.geometry().table_page_place(0, 0)..bed.geometry().table_page_place(1, 0);
    bed.machine.drop_writes(&bed.path(0), places, 1);
    // One checkpoint, of which that was the page.
    bed.world.run_for(Duration::from_secs(6)).unwrap();
    bed.kill();
    bed.start().unwrap();
    assert_eq!(bed.read(0, BLOCK), Ok(bytes(9)));
}

/// While the members that are left took in the state of the one that had failed, an older label of another one, which was
/// being rebuilt then, was taken for that of a half that went its own way.
#[test]
fn a_member_that_was_never_used_alone_is_no_half_of_its_own() {
    let mut bed = Bed::new(600, Level::Raid1, 3, 16 << 10);
    bed.write(0, &bytes(1)).unwrap();
    bed.settle();
    // 1 and 2 are out, and come back; 2 goes away with a label that says that 1 is not in sync.
    bed.kill();
    bed.machine.detach(&bed.path(1));
    bed.machine.detach(&bed.path(2));
    bed.start().unwrap();
    bed.write(0, &bytes(2)).unwrap();
    bed.kill();
    bed.machine.attach(&bed.path(2));
    bed.start().unwrap();
    bed.world.run_for(Duration::from_millis(1)).unwrap();
    bed.kill();
    bed.machine.detach(&bed.path(2));
    bed.machine.attach(&bed.path(1));
    bed.start().unwrap();
    bed.rebuild_of(1);
    // Then 0 fails, and all come together again.
    bed.kill();
    bed.machine.detach(&bed.path(0));
    bed.start().unwrap();
    bed.write(0, &bytes(3)).unwrap();
    bed.kill();
    bed.machine.attach(&bed.path(2));
    bed.start().unwrap();
    assert_eq!(bed.read(0, BLOCK), Ok(bytes(3)));
}

/// The label that was being written when a member went was one generation ahead of that of the others.
#[test]
fn a_label_that_was_being_written_is_no_half_of_its_own() {
    for seed in 0..60 {
        let mut bed = Bed::new(700 + seed, Level::Raid1, 2, 16 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.settle();
        bed.machine.slow_down(&bed.path(1), 2_000);
        // A checkpoint writes labels.
        bed.world.run_for(Duration::from_millis(5000 + 100 * seed)).unwrap();
        bed.power_cut();
        bed.machine.slow_down(&bed.path(1), 1);
        bed.machine.detach(&bed.path(0));
        bed.start().unwrap();
        bed.write(0, &bytes(2)).unwrap();
        bed.kill();
        bed.machine.attach(&bed.path(0));
        bed.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(2)), "seed {seed}");
    }
}

#[test]
fn two_halves_that_were_used_apart_are_refused() {
    let mut bed = Bed::new(800, Level::Raid1, 2, 16 << 10);
    bed.write(0, &bytes(1)).unwrap();
    for (away, value) in [(0, 2), (1, 3)] {
        bed.kill();
        bed.machine.attach(&bed.path(1 - away));
        bed.machine.detach(&bed.path(away));
        bed.start().unwrap();
        bed.write(0, &bytes(value)).unwrap();
    }
    bed.kill();
    bed.machine.attach(&bed.path(1));
    let refused = bed.start().unwrap_err().to_string();
    assert!(refused.contains("each used without the other"), "{refused}");
}

/// A member that answers nothing kept the opening waiting for ever.
#[test]
fn an_opening_does_not_wait_for_a_member_that_does_not_answer() {
    let mut bed = Bed::new(900, Level::Raid1, 2, 16 << 10);
    bed.write(0, &bytes(1)).unwrap();
    bed.settle();
    bed.kill();
    bed.machine.stall(&bed.path(1));
    let begin = bed.world.now();
    bed.start().unwrap();
    assert!(bed.world.now().since(begin) < Duration::from_secs(60));
    assert_eq!(bed.read(0, BLOCK), Ok(bytes(1)));
    bed.machine.release(&bed.path(1));
}

/// Whoever waited for a bit of the bitmap waited for ever once nothing was written any more.
#[test]
fn a_write_to_a_pool_that_has_failed_ends() {
    for seed in 0..20 {
        let bed = Bed::new(1000 + seed, Level::Raid1, 2, 16 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.settle();
        bed.take_out(1);
        bed.machine.fail_writes(&bed.path(0), bed.geometry().bitmap_place(0)..bed.geometry().bitmap_place(1));
        // In a row of another bit than the first one.
        let row = bed.geometry().row_bytes() * u64::from(bed.geometry().rows_per_bit);
        let result = bed.write(row * (1 + seed % 3), &bytes(2));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Failed, "seed {seed}");
    }
}

/// Parity was computed over zeroes in the place of what was lost, and gave them as good when that member was away.
#[test]
fn nothing_follows_from_what_is_lost() {
    for (level, slots) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
        let mut bed = Bed::new(1100, level, slots, 4 << 10);
        let row_bytes = bed.geometry().row_bytes();
        bed.write(0, &vec![5; row_bytes as usize]).unwrap();
        bed.settle();
        let redundancy = usize::from(bed.geometry().redundancy());
        // Row 0 has its data in slots 0 and on, or 1 and on, and parity in the last ones.
        let (first, lost) = (slots - redundancy, slots - redundancy - 1);
        bed.kill();
        for slot in first..slots {
            bed.machine.detach(&bed.path(slot));
        }
        bed.start().unwrap();
        bed.write(bed.volume - row_bytes, &bytes(6)).unwrap();
        let place = bed.geometry().unit_place(0);
        bed.machine.corrupt(&bed.path(lost), place..place + BLOCK as u64);
        bed.kill();
        for slot in first..slots {
            bed.machine.attach(&bed.path(slot));
            bed.machine.remove_file(&bed.path(slot)).unwrap();
        }
        bed.start().unwrap();
        for slot in first..slots {
            bed.renew(slot);
        }
        bed.rebuild();
        for away in 0..slots {
            for block in 0..row_bytes / BLOCK as u64 {
                let found = bed.read(block * BLOCK as u64, BLOCK);
                assert!(found.is_err() || found == Ok(vec![5; BLOCK]), "{level}, {away}, block {block}");
            }
            bed.kill();
            bed.machine.detach(&bed.path(away));
            bed.start().unwrap();
            for block in 0..row_bytes / BLOCK as u64 {
                let found = bed.read(block * BLOCK as u64, BLOCK);
                assert!(
                    found.is_err() || found == Ok(vec![5; BLOCK]),
                    "{level} without {away}, block {block}"
                );
            }
            bed.kill();
            bed.machine.attach(&bed.path(away));
            bed.start().unwrap();
            bed.rebuild();
        }
    }
}

/// An acknowledged transaction of which too few members still had their part was taken for one that never was complete.
#[test]
fn what_was_acknowledged_and_is_gone_is_lost_and_not_what_was_before() {
    for (level, slots) in [(Level::Single, 1), (Level::Raid1, 2), (Level::Raid5, 3)] {
        let mut bed = Bed::new(1200, level, slots, 4 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.settle();
        bed.kill();
        bed.start().unwrap();
        let geometry = bed.geometry();
        for slot in 0..slots {
            let place = geometry.unit_place(0);
            bed.machine.drop_writes(&bed.path(slot), place..place + BLOCK as u64, 1);
        }
        bed.write(0, &bytes(2)).unwrap();
        bed.write(bed.volume - BLOCK as u64, &bytes(3)).unwrap();
        bed.settle();
        bed.kill();
        // The first block behind the first header.
        let payload = geometry.segment_place(0) + BLOCK as u64;
        for slot in 0..slots {
            bed.machine.corrupt(&bed.path(slot), payload..payload + BLOCK as u64);
        }
        bed.start().unwrap();
        assert_eq!(bed.read(0, BLOCK), Err(ErrorKind::Medium), "{level}");
        assert_eq!(bed.read(bed.volume - BLOCK as u64, BLOCK), Ok(bytes(3)), "{level}");
        bed.write(0, &bytes(4)).unwrap();
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(4)), "{level}");
    }
}

/// A header that was damaged hid everything behind it, though another member had the same.
#[test]
fn a_header_that_is_damaged_hides_nothing_that_another_member_has() {
    let mut bed = Bed::new(1300, Level::Raid1, 2, 16 << 10);
    bed.write(0, &bytes(1)).unwrap();
    bed.write(16 << 10, &bytes(2)).unwrap();
    bed.settle();
    let geometry = bed.geometry();
    let first = geometry.segment_place(0);
    bed.kill();
    // The first header of one, the second one of the other: both have what the other one lacks.
    let second = first + 2 * BLOCK as u64;
    bed.machine.corrupt(&bed.path(0), first..first + BLOCK as u64);
    bed.machine.corrupt(&bed.path(1), second..second + 2 * BLOCK as u64);
    for row in 0..2 {
        let place = geometry.unit_place(row);
        for slot in 0..2 {
            bed.machine.corrupt(&bed.path(slot), place..place + BLOCK as u64);
        }
    }
    bed.start().unwrap();
    assert_eq!(bed.read(0, BLOCK), Ok(bytes(1)));
    assert_eq!(bed.read(16 << 10, BLOCK), Ok(bytes(2)));
}

/// A row of a member that was being rebuilt was good in memory only, and a write acknowledged by that alone.
#[test]
fn a_write_that_only_a_member_being_rebuilt_took_is_not_acknowledged() {
    let mut bed = Bed::new(1400, Level::Raid1, 2, 16 << 10);
    bed.write(0, &vec![1; bed.volume as usize]).unwrap();
    bed.settle();
    bed.take_out(1);
    bed.renew(1);
    bed.world.run_until(|| matches!(bed.state(1), MemberState::Rebuilding { rows: 3.. })).unwrap();
    let journal = bed.geometry().journal..bed.geometry().bitmap;
    bed.machine.fail_writes(&bed.path(0), journal);
    assert_eq!(bed.write(0, &bytes(2)).unwrap_err().kind(), ErrorKind::Failed);
    assert!(is_rebuilding(&bed, 1));
}

/// What a failed pool had rebuilt was noted as good, though it was not durable.
#[test]
fn no_member_is_in_sync_that_a_failed_pool_rebuilt() {
    let mut bed = Bed::new(1500, Level::Raid1, 2, 16 << 10);
    bed.write(0, &vec![1; bed.volume as usize]).unwrap();
    bed.settle();
    bed.take_out(1);
    bed.renew(1);
    bed.world.run_until(|| is_rebuilding(&bed, 1)).unwrap();
    bed.machine.fail_flushes(&bed.path(0));
    bed.world.run_for(Duration::from_secs(60)).unwrap();
    bed.power_cut();
    bed.machine.repair(&bed.path(0));
    bed.start().unwrap();
    assert!(is_rebuilding(&bed, 1), "{:?}", bed.state(1));
    bed.rebuild();
    bed.kill();
    bed.machine.detach(&bed.path(0));
    bed.start().unwrap();
    assert_eq!(bed.read(0, bed.volume as usize), Ok(vec![1; bed.volume as usize]));
}

/// Head and tail were both being written when the power went: a member that cannot be spared was not waited for.
#[test]
fn the_tail_of_a_label_is_not_written_before_its_head_is_durable() {
    for seed in 0..100 {
        let mut bed = Bed::new(1600 + seed, Level::Raid0, 2, 16 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.settle();
        bed.machine.slow_down(&bed.path(1), 2_000);
        // In the middle of a checkpoint: for some seeds while it writes the head.
        bed.world.run_for(Duration::from_millis(5000 + 100 * seed)).unwrap();
        bed.machine.stall(&bed.path(1));
        bed.world.run_for(Duration::from_secs(200)).unwrap();
        let places = End::BOTH.map(|end| bed.geometry().label_place(end));
        let labels = |bed: &Bed| {
            places
                .map(|place| Label::decode(&bed.machine.file_bytes(&bed.path(1), place, BLOCK).unwrap()).ok())
        };
        let [_, before] = labels(&bed);
        bed.power_cut();
        bed.machine.release(&bed.path(1));
        bed.machine.slow_down(&bed.path(1), 1);
        let [head, tail] = labels(&bed);
        let is_newer = head.is_some_and(|head| head.generation > before.as_ref().unwrap().generation);
        assert!(tail == before || is_newer, "seed {seed}");
        bed.start().unwrap();
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(1)), "seed {seed}");
    }
}

/// What a recovery asks for by the labels is not written over.
#[test]
fn a_segment_is_used_again_when_the_labels_say_that_it_is_of_no_use() {
    let bed = Bed::new(1700, Level::Single, 1, 16 << 10);
    let shared = bed.core().shared().clone();
    let places = End::BOTH.map(|end| bed.geometry().label_place(end));
    let retired = || {
        let label = |place| Label::decode(&bed.machine.file_bytes(&bed.path(0), place, BLOCK)?).ok();
        places.into_iter().filter_map(label).map(|label| label.retired).max().unwrap()
    };
    let free = || shared.segments.retire(0);
    let (disk, done) = (bed.disk(), Rc::new(Cell::new(false)));
    let ends = done.clone();
    bed.ring().spawn_later(async move {
        for row in 0..400 {
            let bytes = Buffer::zeroed(16 << 10);
            disk.submit(Request::write(row % 12 * (16 << 10), bytes)).await.result.unwrap();
        }
        ends.set(true);
    });
    let (mut before, mut said, mut times) = (free(), retired(), 0);
    bed.world
        .run_until(|| {
            let now = free();
            if now > before {
                assert!(retired() > said, "{times}");
                (said, times) = (retired(), times + 1);
            }
            before = now;
            done.get()
        })
        .unwrap();
    assert!(times > 10, "{times}");
}

/// A recovery put blocks in place on a member whose own journal had no part of them: after another cut, without the member that
/// had the part, they had their new content and their old entries.
#[test]
fn a_recovery_that_is_cut_leaves_nothing_in_its_place_that_the_journal_beside_it_has_not() {
    for (level, slots) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)] {
        for moment in 0..100 {
            let mut bed = Bed::new(600 + moment, level, slots, 16 << 10);
            bed.write(0, &bytes(1)).unwrap();
            bed.settle();
            // The journal forgets it.
            bed.world.run_for(Duration::from_secs(30)).unwrap();
            bed.machine.slow_down(&bed.path(slots - 1), 10_000);
            bed.begin_write(0, &bytes(2));
            bed.world.run_for(Duration::from_millis(2)).unwrap();
            bed.power_cut();
            bed.machine.slow_down(&bed.path(slots - 1), 1);
            bed.cut_opening(Duration::from_micros(moment * 250));
            bed.machine.detach(&bed.path(0));
            bed.start().unwrap();
            let read = bed.read(0, BLOCK);
            assert!(
                read == Ok(bytes(1)) || read == Ok(bytes(2)),
                "{level}, moment {moment}: {:?}",
                read.map(|_| ())
            );
        }
    }
}

/// What a recovery makes was in the table, on the medium, while the blocks were not yet durable.
#[test]
fn what_a_recovery_makes_is_durable_before_the_table_says_so() {
    let mut seen = 0;
    for moment in 0..400 {
        let mut bed = Bed::new(1900 + moment, Level::Raid1, 2, 4 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.settle();
        // Both places of the page have that.
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        for block in 0..4 {
            bed.begin_write(block * BLOCK as u64, &bytes(2));
        }
        bed.world.run_for(Duration::from_micros(3000 + 20 * (moment % 40))).unwrap();
        bed.power_cut();
        let geometry = bed.geometry_of(0);
        let id = bed.first_label(0).pool;
        let table = |bed: &Bed, slot: usize, block: usize| {
            let pages = (0..2).filter_map(|copy| {
                let place = geometry.table_page_place(0, copy);
                let page = bed.machine.file_bytes(&bed.path(slot), place, BLOCK)?;
                let (generation, mut entries) = TablePage::decode(&page, &id, slot as u16, 0)?;
                Some((generation, entries.nth(block)?))
            });
            pages.max_by_key(|(generation, _)| *generation).map(|(_, entry)| entry)
        };
        let before: Vec<_> = (0..4).map(|block| table(&bed, 0, block)).collect();
        bed.cut_opening(Duration::from_micros(moment * 100));
        for (slot, block) in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)] {
            if table(&bed, slot, block) == Some(block_entry(&bytes(2)))
                && before[block] != Some(block_entry(&bytes(2)))
            {
                seen += 1;
                let place = geometry.unit_place(block as u64);
                let lies = bed.machine.file_bytes(&bed.path(slot), place, BLOCK);
                assert!(lies == Some(bytes(2)), "moment {moment}: block {block} of member {slot}");
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// A read was under way when another member came in the place of the one that it was of. It was judged by the table of that one,
/// which had nothing yet: zeroes were given as good, and parity was computed over them.
#[test]
fn what_is_read_while_its_member_is_replaced_is_not_judged_by_the_new_one() {
    for (level, slots) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for slot in 0..slots {
            let mut bed = Bed::new(2000 + slot as u64, level, slots, 16 << 10);
            let mut content: Vec<u8> = (0..bed.volume).map(|index| (index / 512) as u8 | 1).collect();
            bed.write(0, &content).unwrap();
            bed.settle();
            bed.machine.slow_down(&bed.path(slot), 3000);
            let unit = 16 << 10;
            let reads: Vec<_> =
                (0..bed.volume).step_by(unit).map(|at| (at, bed.begin_read(at, unit))).collect();
            // One block of each row, so that what is beside it is read.
            let row_bytes = bed.geometry().row_bytes();
            for row in 4..8 {
                let at = (row * row_bytes) as usize;
                content[at..at + BLOCK].fill(0x77);
                bed.begin_write(at as u64, &bytes(0x77));
            }
            bed.world.run_for(Duration::from_millis(5)).unwrap();
            bed.take_out(slot);
            bed.renew(slot);
            bed.rebuild();
            for (at, read) in reads {
                bed.world.run_until(|| read.borrow().is_some()).unwrap();
                let found = read.take().unwrap();
                let whole = content[at as usize..][..unit].to_vec();
                let is_right = found.chunks(BLOCK).zip(whole.chunks(BLOCK)).all(|(found, whole)| {
                    // It was under way when some of it was written.
                    found == whole || whole == bytes(0x77) && found[..512] != [0; 512]
                });
                assert!(is_right, "{level}, member {slot}: {at}");
            }
            bed.world.run_for(Duration::from_secs(20)).unwrap();
            assert_eq!(bed.read(0, content.len()).unwrap(), content, "{level}, member {slot}");
            let report = bed.scrub();
            assert_eq!((report.bad, report.uneven), (0, 0), "{level}, member {slot}");
        }
    }
}

/// Which members a recovery would know nothing of was asked before a change was noted in the bitmap: one that came in meanwhile
/// was taken for unknown when the other one failed, and the pool stopped writing though nothing was lost.
#[test]
fn a_member_that_comes_in_while_a_change_is_noted_is_known() {
    for seed in 0..200 {
        let mut bed = Bed::new(2400 + seed, Level::Raid1, 2, 16 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.take_out(1);
        let results = Rc::new(RefCell::new(Vec::new()));
        let (handle, rows) = (bed.handle(), bed.geometry().rows);
        // Rows that are changed for the first time, around the moment in which the rebuilding ends.
        for row in 8..rows.min(48) {
            let (disk, ring, results, handle) = (bed.disk(), bed.ring(), results.clone(), handle.clone());
            bed.ring().spawn_later(async move {
                let is_near = || match handle.status().members[1].state {
                    MemberState::Rebuilding { rows: done } => done + 1 >= rows,
                    _ => false,
                };
                while !is_near() {
                    ring.sleep(Duration::from_micros(20)).await;
                }
                ring.sleep(Duration::from_micros((row * 37 + seed * 11) % 2000)).await;
                let write = Request::write(row * (16 << 10), Buffer::copy_of(&bytes(row as u8)));
                let result = disk.submit(write).await.result;
                results.borrow_mut().push(result);
            });
        }
        bed.renew(1);
        bed.rebuild_of(1);
        bed.machine.detach(&bed.path(0));
        bed.world.run_for(Duration::from_secs(1)).unwrap();
        let results = results.borrow();
        let failed = results.iter().find_map(|result| result.as_ref().err());
        assert!(failed.is_none(), "seed {seed}, of {} writes: {}", results.len(), failed.unwrap());
    }
}

/// A transaction took its number, found no free segment, and waited. Another core filled the whole journal meanwhile: nothing of that
/// could be forgotten before the one that waited, and that waited for ever.
#[test]
fn a_core_that_waits_for_a_segment_does_not_keep_those_that_others_filled_since() {
    let bed = Bed::new(900, Level::Raid1, 2, 16 << 10);
    let core = bed.core().clone();
    let shared = core.shared();
    let taken: Vec<_> = std::iter::from_fn(|| shared.segments.claim()).collect();
    bed.begin_write(0, &bytes(1));
    bed.world.run_for(Duration::from_secs(1)).unwrap();
    assert_eq!(core.figures().in_flight, 1, "there is no segment for it");
    // What the other core wrote.
    let last = shared.next.fetch_add(10, Ordering::SeqCst) + 9;
    for tail in taken {
        shared.segments.fill(&Tail { last, ..tail });
    }
    bed.world.run_for(Duration::from_secs(60)).unwrap();
    assert_eq!(core.figures().in_flight, 0);
    assert_eq!(bed.read(0, BLOCK), Ok(bytes(1)));
}

/// Each core kept a segment for itself, also one that wrote no more: with more cores than segments the last ones waited for ever.
#[test]
fn a_core_that_writes_no_more_leaves_its_segment_to_others_where_they_are_few() {
    for cores in [1, 64] {
        let bed = Bed::of_cores(901, Level::Raid1, 2, 16 << 10, cores);
        let core = bed.core().clone();
        let shared = core.shared();
        bed.write(0, &bytes(1)).unwrap();
        let free = shared.segments.retire(0);
        let others = std::iter::from_fn(|| shared.segments.claim()).count();
        assert_eq!(others, free + usize::from(cores > 1), "{cores} cores");
    }
}

/// A member took longer over a discard than it may. Nobody asked what came of it, so the row was given to the next write, and the
/// discard took that when it was done at last.
#[test]
fn a_discard_that_does_not_end_takes_no_write_that_comes_after_it() {
    for (level, slots, slow) in [(Level::Single, 1, 1), (Level::Raid1, 2, 2), (Level::Raid1, 2, 1)] {
        let bed = Bed::new(902, level, slots, 16 << 10);
        bed.write(0, &[1; 16 << 10]).unwrap();
        bed.settle();
        let pace = |factor| (0..slow).for_each(|slot| bed.machine.slow_down(&bed.path(slot), factor));
        let microseconds = Duration::from_micros;
        bed.world.configure(|settings| settings.write = microseconds(100)..microseconds(101));
        let (disk, next, core) = (bed.disk(), bed.next(), bed.core().clone());
        bed.ring().spawn_later(async move {
            drop(disk.submit(Request::plain(Verb::Discard, Extent::new(0, 16 << 10))).await);
        });
        // The discard itself takes 20 seconds, its journal and all that comes after do not.
        bed.world.run_until(|| bed.next() > next).unwrap();
        pace(200_000);
        bed.world.run_until(|| core.under_way.get() > 0).unwrap();
        pace(1);
        bed.world.run_for(Duration::from_secs(17)).unwrap();
        let written = bed.write(0, &[2; 16 << 10]);
        bed.world.run_for(Duration::from_secs(10)).unwrap();
        assert!(written.is_ok() || slow == slots, "{level} can do without one");
        if written.is_ok() {
            assert!(bed.read(0, 16 << 10) == Ok(vec![2; 16 << 10]), "{level}, {slow} slow");
            assert_eq!(bed.scrub().bad, 0, "{level}, {slow} slow");
        }
    }
}

/// A scrub corrected what one member had, which went out while that waited for its transaction. Nothing of it was left to be
/// written: that passed for a journal that cannot be written, and the pool stopped though it could do without the member.
#[test]
fn a_change_of_nothing_but_what_a_member_had_that_is_out_stops_no_pool() {
    let bed = Bed::new(903, Level::Raid5, 4, 16 << 10);
    let row_bytes = bed.geometry().row_bytes();
    bed.write(0, &vec![1; 2 * row_bytes as usize]).unwrap();
    bed.settle();
    // Parity of row 0 that fits its checksum, and no data.
    let core = bed.core().clone();
    bed.ring().spawn_later(async move {
        let locked = core.lock(0).await;
        let change = Change::write(0, 0..1, smallvec![(3, Buffer::copy_of(&bytes(9)))]);
        let (committed, result) = core.commit(smallvec![change]).await;
        result.unwrap();
        core.put_in_place(committed, locked);
    });
    bed.world.run_for(Duration::from_secs(1)).unwrap();
    // A write of which the member fails its part, after a while.
    let (path, next) = (bed.path(3), bed.next());
    bed.machine.fail_writes(&path, 0..u64::MAX);
    bed.machine.slow_down(&path, 2000);
    bed.begin_write(row_bytes, &bytes(2));
    bed.world.run_until(|| bed.next() > next).unwrap();
    bed.world.run_for(Duration::from_micros(10)).unwrap();
    bed.machine.slow_down(&path, 1);
    assert_eq!(bed.scrub().uneven, 1);
    assert_eq!(bed.state(3), MemberState::Out);
    assert!(!bed.handle().status().has_failed);
    assert_eq!(bed.write(0, &bytes(3)).map_err(|error| error.kind()), Ok(()));
    assert_eq!(bed.read(0, BLOCK), Ok(bytes(3)));
    assert_eq!(bed.read(row_bytes, BLOCK), Ok(bytes(2)));
}

/// A block that follows from a member that is away was counted as lost whenever somebody tried to rebuild it.
#[test]
fn what_a_member_that_is_away_may_still_have_is_not_counted_as_lost() {
    let mut bed = Bed::new(904, Level::Raid6, 5, 16 << 10);
    bed.write(0, &vec![1; bed.geometry().row_bytes() as usize]).unwrap();
    bed.close();
    // Data of row 0 lie in slots 1 to 3.
    bed.machine.detach(&bed.path(1));
    bed.machine.detach(&bed.path(2));
    bed.start().unwrap();
    bed.write(2 * (16 << 10), &bytes(2)).unwrap();
    bed.close();
    bed.machine.attach(&bed.path(1));
    let place = bed.geometry_of(3).unit_place(0);
    bed.machine.corrupt(&bed.path(3), place..place + BLOCK as u64);
    bed.start().unwrap();
    bed.world.run_for(Duration::from_secs(60)).unwrap();
    assert!(is_rebuilding(&bed, 1));
    assert_eq!(bed.handle().status().lost, 0);
}

/// No label of a new pool could be written, and it was said to be made.
#[test]
fn a_pool_whose_labels_cannot_be_written_is_not_made() {
    let world = World::new(905);
    let machine = world.node("machine");
    machine.fail_writes("/m0".as_ref(), 0..BLOCK as u64);
    let reactor = machine.reactor();
    let ring = reactor.ring().clone();
    let options = PoolOptions {
        name: "tank".into(),
        level: Level::Single,
        unit: 16 << 10,
        integrity: true,
        catalogue_blocks: 1,
        journal_bytes: Some(256 << 10),
    };
    let made = world.block_on(&reactor, async move {
        let place = Place::Path("/m0".into());
        let (member, _lock) = Member::open(&ring, place, Some(4 << 20), None).await.unwrap();
        Pool::make(&ring, &options, vec![member], 1).await.map(drop).map_err(|error| error.to_string())
    });
    let refused = made.unwrap().unwrap_err();
    assert!(refused.contains("hint: "), "{refused}");
}

/// A member that its pool cannot spare did not answer for a moment while the pool was opened. What its journal and its table have
/// passed for gone then: acknowledged writes were dropped.
#[test]
fn what_a_member_has_that_cannot_be_spared_is_not_dropped_when_it_does_not_answer() {
    let mut refused = 0;
    for (level, slots) in [(Level::Single, 1), (Level::Raid0, 2)] {
        for moment in 0..60 {
            let mut bed = Bed::new(2600 + moment, level, slots, 16 << 10);
            let (row_bytes, whole) = (bed.geometry().row_bytes(), bed.geometry().row_bytes() as usize);
            bed.write(0, &vec![1; whole]).unwrap();
            bed.write(row_bytes, &vec![2; whole]).unwrap();
            bed.settle();
            bed.power_cut();
            let path = bed.path(slots - 1);
            let opened = bed.start_while(|bed| {
                bed.world.run_for(Duration::from_micros(moment * 200)).unwrap();
                bed.machine.stall(&path);
                bed.world.run_for(Duration::from_secs(20)).unwrap();
                bed.machine.release(&path);
            });
            if let Err(error) = opened {
                assert!(error.to_string().contains("hint: "), "{error}");
                refused += 1;
                bed.kill();
                bed.start().unwrap();
            }
            assert!(bed.read(0, whole) == Ok(vec![1; whole]), "{level}, moment {moment}");
            assert!(bed.read(row_bytes, whole) == Ok(vec![2; whole]), "{level}, moment {moment}");
        }
    }
    assert!(refused > 10, "{refused}");
}

/// A member that came back did not answer while its table was read, which passed for damaged as a whole then: what it had never been
/// written was given as it lay there, and all of its checksums were gone.
#[test]
fn a_member_whose_table_is_not_known_does_not_come_in() {
    let mut refused = 0;
    for moment in 0..30 {
        let mut bed = Bed::new(2700 + moment, Level::Raid1, 2, 16 << 10);
        let row = 16 << 10;
        bed.write(0, &vec![7; 2 * row]).unwrap();
        bed.settle();
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        // What was discarded is still there on a disk that cannot do that.
        let place = bed.geometry().unit_place(0);
        bed.machine.fail_writes(&bed.path(1), place..place + row as u64);
        bed.erase(0, row as u64).unwrap();
        bed.settle();
        bed.machine.repair(&bed.path(1));
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        bed.kill();
        bed.machine.detach(&bed.path(1));
        bed.start().unwrap();
        bed.write(8 * row as u64, &bytes(9)).unwrap();
        bed.machine.attach(&bed.path(1));
        let (member, lock) = bed.member(bed.path(1));
        bed.handle().online(1, member).unwrap();
        bed.world.run_for(Duration::from_micros(moment * 100)).unwrap();
        bed.machine.stall(&bed.path(1));
        bed.world.run_for(Duration::from_secs(20)).unwrap();
        bed.machine.release(&bed.path(1));
        bed.world.run_for(Duration::from_secs(20)).unwrap();
        if bed.state(1) == MemberState::Out {
            refused += 1;
            drop(lock);
            let (member, _lock) = bed.member(bed.path(1));
            bed.handle().online(1, member).unwrap();
        }
        bed.rebuild();
        bed.close();
        bed.machine.detach(&bed.path(0));
        bed.start().unwrap();
        assert!(bed.read(0, row) == Ok(vec![0; row]), "moment {moment}");
        assert!(bed.read(row as u64, row) == Ok(vec![7; row]), "moment {moment}");
        assert_eq!(bed.read(8 * row as u64, BLOCK), Ok(bytes(9)));
    }
    assert!(refused > 3, "{refused}");
}

/// A member stopped answering while the journal was read. It was asked again for every transaction that another one has, 15 seconds each.
#[test]
fn a_member_that_does_not_answer_is_not_asked_for_each_transaction() {
    for moment in 0..30 {
        let mut bed = Bed::new(2800 + moment, Level::Raid1, 2, 16 << 10);
        // Of each of the first ones a transaction, of the others together one.
        for block in 0..40 {
            bed.write(block * BLOCK as u64, &bytes(block as u8)).unwrap();
        }
        let together = (40..48).map(|block| (block * BLOCK as u64, bytes(block as u8))).collect();
        assert!(bed.write_together(together).iter().all(Result::is_ok));
        bed.settle();
        bed.power_cut();
        let begun = bed.world.now();
        bed.start_while(|bed| {
            bed.world.run_for(Duration::from_micros(moment * 400)).unwrap();
            bed.machine.stall(&bed.path(1));
        })
        .unwrap();
        let took = bed.world.now().since(begun);
        assert!(took < Duration::from_secs(80), "moment {moment}: {took:?}");
        for block in 0..48 {
            assert_eq!(bed.read(block * BLOCK as u64, BLOCK), Ok(bytes(block as u8)), "moment {moment}");
        }
        bed.machine.release(&bed.path(1));
    }
}

/// The labels said that a scrub was over while what it had repaired last was not durable.
#[test]
fn what_a_scrub_repaired_last_is_durable_before_the_labels_say_that_it_is_over() {
    for seed in 0..30 {
        let mut bed = Bed::new(2900 + seed, Level::Raid1, 2, 16 << 10);
        bed.write(0, &vec![1; bed.volume as usize]).unwrap();
        bed.settle();
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        let place = bed.geometry().unit_place(11);
        bed.machine.corrupt(&bed.path(1), place..place + BLOCK as u64);
        bed.handle().scrub();
        bed.world.run_until(|| bed.first_label(0).scrub.is_some()).unwrap();
        bed.world.run_until(|| bed.first_label(0).scrub.is_none()).unwrap();
        assert_eq!(bed.handle().status().scrub.repaired, 1);
        bed.power_cut();
        assert!(bed.machine.file_bytes(&bed.path(1), place, BLOCK) == Some(bytes(1)), "seed {seed}");
    }
}

/// A bit was flipped once on the way from a member, where redundancy was used up already: what it had was lost for ever, though its medium
/// was right.
#[test]
fn what_was_read_wrongly_once_is_read_again_before_it_is_lost() {
    for (level, slots) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        let mut bed = Bed::new(2920, level, slots, 16 << 10);
        bed.write(0, &vec![1; bed.geometry().row_bytes() as usize]).unwrap();
        bed.settle();
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        // Of row 0 the last slot has parity, or the other copy.
        bed.take_out(slots - 1);
        let place = bed.geometry().unit_place(0);
        let block = place..place + BLOCK as u64;
        // A read asks twice by itself: as usual, and by columns.
        bed.machine.misread(&bed.path(0), block.clone(), 2);
        assert!(bed.read(0, BLOCK) == Ok(bytes(1)), "{level}: read");
        bed.machine.misread(&bed.path(0), block.clone(), 1);
        let (beside, length) = if level == Level::Raid5 { (16 << 10, BLOCK) } else { (512, 512) };
        bed.write(beside, &bytes(2)[..length]).unwrap();
        assert!(bed.read(0, 512) == Ok(vec![1; 512]), "{level}: write beside it");
        bed.renew(slots - 1);
        bed.machine.misread(&bed.path(0), block, 1);
        bed.rebuild();
        assert!(bed.read(0, 512) == Ok(vec![1; 512]), "{level}: rebuild");
        assert_eq!(bed.handle().status().lost, 0, "{level}");
        assert_eq!(bed.scrub().bad, 0, "{level}");
    }
}

/// A write was cut before all of its parts were in the journal, in a row of which more was bad, known or not. What lacked was taken to follow
/// from the others: the table had the new entry, and the block, which could be read until then, was wrong by it.
#[test]
fn what_does_not_follow_from_a_row_that_is_bad_is_as_it_was_before_a_write_that_is_cut() {
    // Damaged slots of row 0, more than redundancy replaces together with the one of its third unit; with parity they are known.
    for (level, slots, damaged, written) in [
        (Level::Raid5, 4, &[0, 1][..], 2),
        (Level::Raid5, 4, &[0, 1, 3], 2),
        (Level::Raid6, 6, &[1, 2, 4], 3),
        (Level::Raid6, 5, &[1, 2, 4], 3),
    ] {
        let mut bed = Bed::new(2930, level, slots, 16 << 10);
        let (place, third) = (bed.geometry().unit_place(0), 2 * (16 << 10));
        bed.write(0, &vec![1; bed.geometry().row_bytes() as usize]).unwrap();
        bed.settle();
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        for slot in damaged {
            bed.machine.corrupt(&bed.path(*slot), place..place + BLOCK as u64);
        }
        bed.write(third, &bytes(2)).unwrap();
        bed.settle();
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        let next = bed.next();
        bed.machine.slow_down(&bed.path(written), 2000);
        bed.begin_write(third, &bytes(3));
        bed.world.run_until(|| bed.next() > next).unwrap();
        bed.world.run_for(Duration::from_millis(100)).unwrap();
        bed.power_cut();
        bed.start().unwrap();
        assert_eq!(bed.read(third, BLOCK), Ok(bytes(2)), "{level} {damaged:?}");
        // The next one is made.
        bed.write(third, &bytes(4)).unwrap();
        bed.power_cut();
        bed.start().unwrap();
        assert_eq!(bed.read(third, BLOCK), Ok(bytes(4)), "{level} {damaged:?}");
    }
}

/// The member on which a write was lost its part of the journal, and what the write changed was in its place: nothing else says that it was
/// complete, where something else of its columns was lost before.
#[test]
fn what_lies_in_its_place_beside_something_lost_is_known_without_its_journal() {
    let mut bed = Bed::new(2931, Level::Raid5, 4, 16 << 10);
    let (place, third) = (bed.geometry().unit_place(0), 2 * (16 << 10));
    bed.write(0, &vec![1; bed.geometry().row_bytes() as usize]).unwrap();
    bed.settle();
    bed.world.run_for(Duration::from_secs(30)).unwrap();
    for slot in [0, 1] {
        bed.machine.corrupt(&bed.path(slot), place..place + BLOCK as u64);
    }
    bed.write(third, &bytes(2)).unwrap();
    bed.settle();
    bed.world.run_for(Duration::from_secs(30)).unwrap();
    bed.write(third, &bytes(3)).unwrap();
    bed.settle();
    let (journal, data) = (bed.geometry().journal, bed.geometry().data);
    bed.power_cut();
    bed.machine.corrupt(&bed.path(2), journal..data.min(journal + (256 << 10)));
    bed.start().unwrap();
    assert_eq!(bed.read(third, BLOCK), Ok(bytes(3)));
}

/// Zeroes stood for a block that could not be read, and were taken for those that a write was to bring there: it passed for complete, and what
/// it lacked for lost.
#[test]
fn zeroes_in_place_of_what_cannot_be_read_are_no_sign_of_a_write() {
    let (mut bed, unit) = (Bed::new(2932, Level::Raid5, 4, 16 << 10), 16 << 10);
    bed.write(0, &vec![1; bed.geometry().row_bytes() as usize]).unwrap();
    bed.close();
    // Of row 0 parity lies in slot 3.
    bed.machine.detach(&bed.path(3));
    bed.start().unwrap();
    let (place, next) = (bed.geometry().unit_place(0), bed.next());
    bed.machine.fail_reads_until_written(&bed.path(0), place..place + BLOCK as u64);
    bed.machine.slow_down(&bed.path(1), 2000);
    bed.begin_write(0, &[vec![0; unit], vec![2; unit]].concat());
    bed.world.run_until(|| bed.next() > next).unwrap();
    bed.world.run_for(Duration::from_millis(20)).unwrap();
    bed.power_cut();
    bed.start().unwrap();
    assert!(bed.read(unit as u64, unit) == Ok(vec![1; unit]));
}

/// A member that could not be spared took longer than it may over a block that had been made whole again. The row was given to the next
/// write, and the block took that when it was written at last.
#[test]
fn a_block_that_is_made_whole_too_late_takes_no_write_that_comes_after_it() {
    let mut bed = Bed::new(906, Level::Raid5, 3, 16 << 10);
    let microseconds = Duration::from_micros;
    bed.write(0, &vec![1; bed.volume as usize]).unwrap();
    bed.settle();
    bed.world.run_for(Duration::from_secs(30)).unwrap();
    // Of row 0 the data lie in slots 0 and 1; slot 2, which is being rebuilt, has it already.
    bed.take_out(2);
    bed.renew(2);
    let (core, held) = (bed.core().clone(), Rc::new(RefCell::new(None)));
    let hold = held.clone();
    bed.ring().spawn_later(async move { drop(hold.replace(Some(core.lock(8).await))) });
    bed.world.run_until(|| bed.state(2) == MemberState::Rebuilding { rows: 8 }).unwrap();
    let place = bed.geometry().unit_place(0);
    bed.machine.corrupt(&bed.path(0), place..place + BLOCK as u64);
    bed.world.configure(|settings| {
        settings.read = microseconds(100)..microseconds(101);
        settings.write = microseconds(1000)..microseconds(1001);
        settings.nap_chance = 0.0;
    });
    let read = bed.begin_read(0, BLOCK);
    // Read twice, as a column, and from the others; then it is written, which takes 20 seconds.
    bed.world.run_for(microseconds(350)).unwrap();
    bed.machine.slow_down(&bed.path(0), 20_000);
    bed.world.run_for(microseconds(100)).unwrap();
    bed.machine.slow_down(&bed.path(0), 1);
    bed.world.run_for(Duration::from_secs(17)).unwrap();
    assert_eq!(read.take(), Some(bytes(1)));
    let written = bed.write(0, &bytes(2));
    bed.world.run_for(Duration::from_secs(10)).unwrap();
    let status = bed.handle().status();
    assert_eq!(bed.state(2), MemberState::Rebuilding { rows: 8 });
    assert!(written.is_ok() != status.has_failed, "{:?}", written.map_err(|error| error.kind()));
    if !status.has_failed {
        bed.handle().offline(2).ok();
        bed.world.run_for(Duration::from_secs(1)).unwrap();
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(2)));
    }
}

/// A member gave an error, and then no answer any more: it was asked for each block of the unit, and each was waited for.
#[test]
fn a_member_that_stops_answering_behind_an_error_is_not_asked_for_each_block() {
    for level in [Level::Raid1, Level::Raid5] {
        let bed = Bed::new(907, level, if level == Level::Raid1 { 2 } else { 3 }, 64 << 10);
        let unit = 64 << 10;
        bed.write(0, &vec![1; unit]).unwrap();
        bed.settle();
        bed.world.run_for(Duration::from_secs(30)).unwrap();
        let (place, microseconds) = (bed.geometry().unit_place(0), Duration::from_micros);
        bed.machine.fail_reads(&bed.path(0), place..place + unit as u64);
        bed.world.configure(|settings| {
            settings.read = microseconds(100)..microseconds(101);
            settings.nap_chance = 0.0;
        });
        let read = bed.begin_read(0, unit);
        // It fails three times, at last as a part of the columns.
        bed.world.run_for(microseconds(250)).unwrap();
        bed.machine.slow_down(&bed.path(0), 1_000_000);
        bed.world.run_for(Duration::from_secs(17)).unwrap();
        assert!(read.take() == Some(vec![1; unit]), "{level}");
        assert_eq!(bed.state(0), MemberState::Out, "{level}");
    }
}

/// While a pool was opened, its only member was too slow to take the tail of its label. Who kept the pool from then on did not know that,
/// and wrote the head while the tail was still on its way: cut then, both were torn.
#[test]
fn a_head_is_left_as_it_is_while_a_tail_of_the_opening_is_on_its_way() {
    for seed in 0..60 {
        let mut bed = Bed::new(3000 + seed, Level::Single, 1, 16 << 10);
        bed.world.configure(|settings| settings.torn_sectors = true);
        bed.write(0, &bytes(1)).unwrap();
        bed.close();
        let (path, before, microseconds) = (bed.path(0), bed.first_label(0), Duration::from_micros);
        bed.start_while(|bed| {
            bed.world.run_until(|| bed.first_label(0).generation > before.generation).unwrap();
            bed.machine.slow_down(&path, 500_000);
            bed.world.run_for(microseconds(1)).unwrap();
            bed.machine.slow_down(&path, 1);
        })
        .unwrap();
        assert!(bed.handle().status().has_failed, "the tail was waited for");
        let (shared, ring) = (bed.core().shared().clone(), bed.ring());
        bed.ring().spawn_later(async move { Pool::close(&shared, &ring).await });
        bed.world.run_for(microseconds(seed * 40)).unwrap();
        bed.power_cut();
        bed.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(1)), "seed {seed}");
    }
}

/// A process was killed while it wrote the tail of a label, which was there and not durable yet. The next one wrote the head: cut then,
/// both were torn.
#[test]
fn what_a_process_that_was_killed_had_on_its_way_is_durable_before_a_head_is_written() {
    for seed in 0..400 {
        let mut bed = Bed::new(3100 + seed, Level::Single, 1, 16 << 10);
        bed.write(0, &bytes(1)).unwrap();
        bed.settle();
        let (before, shared, ring) = (bed.first_label(0), bed.core().shared().clone(), bed.ring());
        bed.ring().spawn_later(async move { Pool::close(&shared, &ring).await });
        bed.world.run_until(|| bed.first_label(0).generation > before.generation).unwrap();
        bed.world.run_for(Duration::from_micros(1)).unwrap();
        bed.kill();
        // For many seeds while it writes the head.
        bed.cut_opening(Duration::from_micros(2000 + seed % 100 * 40));
        bed.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(bed.read(0, BLOCK), Ok(bytes(1)), "seed {seed}");
    }
}
