//! What members do to their bytes, and what a pool does about it.

use super::bed::Bed;
use super::pattern;
use crate::error::ErrorKind;
use crate::pool::format::BLOCK;
use crate::pool::{Level, MemberState, Refusal};

const REDUNDANT: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)];

#[test]
fn a_scrub_repairs_a_flipped_bit_at_every_place() {
    for (level, slots) in REDUNDANT {
        let bed = Bed::new(1, level, slots, 16 << 10);
        let bytes = pattern(bed.volume as usize, 3);
        bed.write(0, &bytes).unwrap();
        bed.settle();
        let geometry = bed.geometry();
        for slot in 0..slots {
            for row in 0..12 {
                let place = geometry.unit_place(row) + (row % 4) * BLOCK as u64 + 77;
                assert!(bed.machine.flip_bit(&bed.path(slot), place, 3));
            }
            let report = bed.scrub();
            assert_eq!((report.bad, report.repaired, report.lost), (12, 12, 0), "{level}, member {slot}");
            assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "{level}");
        }
        assert_eq!(bed.scrub().bad, 0, "{level}");
        assert_eq!(bed.handle().status().lost, 0, "{level}");
    }
}

#[test]
fn a_read_repairs_what_it_meets() {
    for (level, slots) in REDUNDANT {
        let bed = Bed::new(3, level, slots, 16 << 10);
        let bytes = pattern(bed.volume as usize, 4);
        bed.write(0, &bytes).unwrap();
        bed.settle();
        bed.machine.flip_bit(&bed.path(0), bed.geometry().unit_place(0) + 9, 1);
        bed.machine.flip_bit(&bed.path(0), bed.geometry().unit_place(2) + 9, 1);
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "{level}");
        assert!(bed.handle().status().repaired > 0, "{level}");
    }
}

#[test]
fn a_member_that_comes_back_gets_what_it_missed_and_no_more() {
    for (level, slots) in REDUNDANT {
        let mut bed = Bed::new(4, level, slots, 16 << 10);
        let mut bytes = pattern(bed.volume as usize, 6);
        bed.write(0, &bytes).unwrap();
        bed.settle();
        bed.kill();
        bed.machine.detach(&bed.path(1));
        bed.start().unwrap();
        let changed = bed.geometry().row_bytes() as usize * 3;
        bytes[changed..changed + 5000].fill(0x5a);
        bed.write(changed as u64, &bytes[changed..changed + 5000]).unwrap();
        bed.settle();
        bed.kill();
        bed.machine.attach(&bed.path(1));
        bed.start().unwrap();
        bed.rebuild();
        let report = bed.scrub();
        assert_eq!((report.bad, report.uneven), (0, 0), "{level}");
        // Without the others of its group.
        bed.kill();
        bed.machine.detach(&bed.path(0));
        bed.start().unwrap();
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "{level}");
    }
}

#[test]
fn what_cannot_be_repaired_is_an_error_for_exactly_those_blocks() {
    for level in [Level::Single, Level::Raid0] {
        let slots = if level == Level::Single { 1 } else { 3 };
        let bed = Bed::new(2, level, slots, 16 << 10);
        let bytes = pattern(bed.volume as usize, 5);
        bed.write(0, &bytes).unwrap();
        bed.settle();
        bed.machine.flip_bit(&bed.path(0), bed.geometry().unit_place(0) + BLOCK as u64, 0);
        for block in 0..bytes.len() / BLOCK {
            let read = bed.read((block * BLOCK) as u64, BLOCK);
            if block == 1 {
                assert_eq!(read, Err(ErrorKind::Medium));
            } else {
                assert_eq!(read.unwrap(), bytes[block * BLOCK..][..BLOCK]);
            }
        }
        assert_eq!(bed.write(BLOCK as u64, &[1; 512]).unwrap_err().kind(), ErrorKind::Medium, "a part of it");
        bed.write(BLOCK as u64, &[1; BLOCK]).unwrap();
        assert_eq!(bed.read(BLOCK as u64, BLOCK).unwrap(), [1; BLOCK]);
    }
}

#[test]
fn a_member_is_replaced_by_a_new_one_under_load() {
    for (level, slots) in REDUNDANT {
        let mut bed = Bed::new(5, level, slots, 16 << 10);
        let mut bytes = pattern(bed.volume as usize, 8);
        bed.write(0, &bytes).unwrap();
        bed.handle().offline(0).unwrap();
        bed.world.run_until(|| bed.handle().status().members[0].state == MemberState::Out).unwrap();
        assert!(
            matches!(bed.handle().offline(1), Err(Refusal::Needed { .. })) || level == Level::Raid6,
            "{level}"
        );
        bytes[..9000].fill(0x11);
        bed.write(0, &bytes[..9000]).unwrap();
        bed.erase(9 * 4096, 4096).unwrap();
        bytes[9 * 4096..][..4096].fill(0);
        let (member, _lock) = bed.member("/new".into());
        bed.handle().online(0, member).unwrap();
        for block in 0..20 {
            let place = block * 8192 % bytes.len();
            bytes[place..place + 700].fill(block as u8);
            bed.write(place as u64 / 512 * 512, &bytes[place / 512 * 512..][..1024]).unwrap();
        }
        bed.world.run_until(|| bed.handle().status().members[0].state == MemberState::InSync).unwrap();
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "{level}");
        let report = bed.scrub();
        assert_eq!((report.bad, report.uneven), (0, 0), "{level}");
        // The old one is foreign now.
        bed.kill();
        let refused = bed.start().unwrap_err().to_string();
        assert!(refused.contains("was replaced"), "{refused}");
    }
}

/// The parts of transactions on members that came in while a segment of the journal was being filled were behind a gap, where no
/// recovery looks: once all members had been replaced, what was acknowledged was nowhere.
#[test]
fn what_is_written_after_members_came_in_survives_a_cut() {
    for (level, slots) in REDUNDANT {
        let mut bed = Bed::new(13, level, slots, 16 << 10);
        let mut bytes = pattern(bed.volume as usize, 1);
        bed.write(0, &bytes).unwrap();
        bed.settle();
        for slot in 0..slots {
            let is = |state: MemberState| bed.handle().status().members[slot].state == state;
            bed.handle().offline(slot).unwrap();
            bed.world.run_until(|| is(MemberState::Out)).unwrap();
            bed.machine.remove_file(&bed.path(slot)).unwrap();
            let (member, _lock) = bed.member(bed.path(slot));
            bed.handle().online(slot, member).unwrap();
            bed.world.run_until(|| is(MemberState::InSync)).unwrap();
        }
        bytes[..40_000].fill(0xa5);
        bed.write(0, &bytes[..40_000]).unwrap();
        bed.power_cut();
        bed.start().unwrap();
        assert!(bed.read(0, bytes.len()).unwrap() == bytes, "{level}");
    }
}

#[test]
fn a_rebuilding_goes_on_after_a_power_cut() {
    let mut bed = Bed::new(6, Level::Raid5, 4, 16 << 10);
    let bytes = pattern(bed.volume as usize, 9);
    bed.write(0, &bytes).unwrap();
    bed.handle().offline(2).unwrap();
    bed.world.run_until(|| bed.handle().status().members[2].state == MemberState::Out).unwrap();
    bed.machine.remove_file(&bed.path(2)).unwrap();
    let (member, _lock) = bed.member(bed.path(2));
    bed.handle().online(2, member).unwrap();
    let rebuilds = || matches!(bed.handle().status().members[2].state, MemberState::Rebuilding { rows: 4.. });
    bed.world.run_until(rebuilds).unwrap();
    bed.power_cut();
    bed.start().unwrap();
    bed.rebuild();
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    assert_eq!(bed.scrub().bad, 0);
}

#[test]
fn a_member_that_went_out_before_it_had_everything_gets_everything() {
    for (level, slots) in REDUNDANT {
        let mut bed = Bed::new(7, level, slots, 16 << 10);
        let bytes = pattern(bed.volume as usize, 2);
        bed.write(0, &bytes).unwrap();
        // So long that the journal has forgotten it: what is recent is in the bitmap of whoever goes out.
        bed.world.run_for(std::time::Duration::from_secs(60)).unwrap();
        bed.handle().offline(1).unwrap();
        bed.world.run_until(|| bed.handle().status().members[1].state == MemberState::Out).unwrap();
        bed.machine.remove_file(&bed.path(1)).unwrap();
        let (member, _lock) = bed.member(bed.path(1));
        bed.handle().online(1, member).unwrap();
        let rebuilds =
            || matches!(bed.handle().status().members[1].state, MemberState::Rebuilding { rows: 2.. });
        bed.world.run_until(rebuilds).unwrap();
        bed.kill();
        bed.machine.detach(&bed.path(1));
        bed.start().unwrap();
        bed.kill();
        bed.machine.attach(&bed.path(1));
        bed.start().unwrap();
        bed.rebuild();
        bed.kill();
        bed.machine.detach(&bed.path(0));
        bed.start().unwrap();
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "{level}");
    }
}

#[test]
fn members_that_fail_together_are_all_out_in_the_labels() {
    for seed in 0..20 {
        let mut bed = Bed::new(100 + seed, Level::Raid6, 5, 16 << 10);
        let mut bytes = pattern(bed.volume as usize, 1);
        bed.write(0, &bytes).unwrap();
        bed.settle();
        for slot in [1, 3] {
            bed.machine.fail_writes(&bed.path(slot), 0..u64::MAX);
        }
        // A label takes longer than it takes to see that one was written.
        for slot in [0, 2, 4] {
            bed.machine.slow_down(&bed.path(slot), 200);
        }
        let end = bed.geometry().row_bytes() as usize * 3;
        bytes[..end].fill(0x77);
        bed.write(0, &bytes[..end]).unwrap();
        bed.power_cut();
        for slot in 0..5 {
            bed.machine.repair(&bed.path(slot));
            bed.machine.slow_down(&bed.path(slot), 1);
        }
        bed.start().unwrap();
        for slot in [1, 3] {
            let state = bed.state(slot);
            assert!(matches!(state, MemberState::Rebuilding { .. }), "seed {seed}, {slot}: {state:?}");
        }
        assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "seed {seed}");
        bed.rebuild();
        let report = bed.scrub();
        assert_eq!((report.bad, report.uneven), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_disk_with_something_on_it_is_not_brought_in() {
    let bed = Bed::new(8, Level::Raid1, 2, 16 << 10);
    bed.handle().offline(1).unwrap();
    bed.world.run_until(|| bed.handle().status().members[1].state == MemberState::Out).unwrap();
    let letter = vec![0x42; 5 << 20];
    bed.machine.put_file("/letter".as_ref(), &letter);
    let (member, _lock) = bed.member("/letter".into());
    bed.handle().online(1, member).unwrap();
    bed.world.run_for(std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(bed.handle().status().members[1].state, MemberState::Out);
    assert!(bed.machine.file_bytes("/letter".as_ref(), 0, letter.len()).unwrap() == letter);
}
