//! What members do to their bytes, and what a pool does about it.

use std::sync::atomic::Ordering;

use super::bed::Bed;
use crate::error::ErrorKind;
use crate::pool::Level;
use crate::pool::format::BLOCK;

fn pattern(length: usize, salt: u8) -> Vec<u8> {
    (0..length).map(|index| (index / 7) as u8 ^ (index as u8).wrapping_mul(31) ^ salt).collect()
}

const REDUNDANT: [(Level, usize); 4] = [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)];

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
            bed.scrub();
            let report = &bed.core().shared().scrub;
            assert_eq!(report.bad.load(Ordering::Relaxed), 12, "{level}, member {slot}");
            assert_eq!(report.repaired.load(Ordering::Relaxed), 12, "{level}, member {slot}");
            assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes, "{level}");
        }
        bed.scrub();
        assert_eq!(bed.core().shared().scrub.bad.load(Ordering::Relaxed), 0, "{level}");
        assert_eq!(bed.core().shared().counters.lost.load(Ordering::Relaxed), 0, "{level}");
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
        assert!(bed.core().shared().counters.repaired.load(Ordering::Relaxed) > 0, "{level}");
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
        bed.scrub();
        assert_eq!(bed.core().shared().scrub.bad.load(Ordering::Relaxed), 0, "{level}");
        assert_eq!(bed.core().shared().scrub.uneven.load(Ordering::Relaxed), 0, "{level}");
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
