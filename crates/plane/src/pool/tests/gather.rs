//! Writes of one row that come together.

use super::bed::Bed;
use super::pattern;
use crate::error::ErrorKind;
use crate::pool::Level;
use crate::pool::format::BLOCK;

const LEVELS: [(Level, usize); 6] = [
    (Level::Single, 1),
    (Level::Raid0, 3),
    (Level::Raid1, 2),
    (Level::Raid10, 4),
    (Level::Raid5, 4),
    (Level::Raid6, 5),
];

fn blocks(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    bytes.chunks(BLOCK).enumerate().map(|(index, block)| ((index * BLOCK) as u64, block.to_vec())).collect()
}

#[test]
fn small_writes_of_a_row_gather_into_one_change() {
    for (level, slots) in LEVELS {
        let bed = Bed::new(31, level, slots, 16 << 10);
        let row = bed.geometry().row_bytes() as usize;
        for salt in [1, 2] {
            let bytes = pattern(row, salt);
            let before = bed.next();
            let results = bed.write_together(blocks(&bytes));
            assert!(results.iter().all(Result::is_ok), "{level}: {results:?}");
            assert_eq!(bed.next() - before, 2, "{level}: the first one, and all that came meanwhile");
            assert_eq!(bed.read(0, row).unwrap(), bytes, "{level}");
        }
        assert_eq!(bed.scrub().uneven, 0, "{level}");
    }
}

#[test]
fn a_whole_row_is_written_without_a_read() {
    for (level, slots) in LEVELS {
        let bed = Bed::new(32, level, slots, 16 << 10);
        let row = bed.geometry().row_bytes() as usize;
        bed.write(0, &pattern(row, 1)).unwrap();
        bed.settle();
        let unit = bed.geometry().unit_place(0);
        for slot in 0..slots {
            bed.machine.fail_reads_until_written(&bed.path(slot), unit..unit + (16 << 10));
        }
        let bytes = pattern(row, 2);
        bed.write(0, &bytes).unwrap();
        bed.settle();
        assert_eq!(bed.read(0, row).unwrap(), bytes, "{level}");
        assert_eq!(bed.handle().status().unreadable, 0, "{level}");
    }
}

#[test]
fn of_writes_that_come_together_those_alone_fail_which_need_what_cannot_be_read() {
    let bed = Bed::new(33, Level::Raid0, 3, 16 << 10);
    let mut bytes = pattern(12 * BLOCK, 1);
    bed.write(0, &bytes).unwrap();
    bed.settle();
    bed.machine.flip_bit(&bed.path(0), bed.geometry().unit_place(0) + BLOCK as u64, 0);
    let part = |at: usize, length: usize| (at as u64, vec![7; length]);
    let results = bed.write_together(vec![
        part(5 * BLOCK, BLOCK),
        part(0, BLOCK),
        part(BLOCK + 512, 1024),
        part(2 * BLOCK, 2 * BLOCK),
        part(4 * BLOCK + 512, 512),
    ]);
    assert_eq!(results, [Ok(()), Ok(()), Err(ErrorKind::Medium), Ok(()), Ok(())]);
    bytes[..BLOCK].fill(7);
    bytes[2 * BLOCK..4 * BLOCK].fill(7);
    bytes[4 * BLOCK + 512..][..512].fill(7);
    bytes[5 * BLOCK..6 * BLOCK].fill(7);
    assert_eq!(bed.read(0, BLOCK).unwrap(), bytes[..BLOCK]);
    assert_eq!(bed.read(BLOCK as u64, BLOCK), Err(ErrorKind::Medium));
    assert_eq!(bed.read(2 * BLOCK as u64, 10 * BLOCK).unwrap(), bytes[2 * BLOCK..]);
}

#[test]
fn later_writes_lie_over_earlier_ones_that_wait_with_them() {
    for (level, slots) in LEVELS {
        let bed = Bed::new(34, level, slots, 16 << 10);
        let first = pattern(4 * BLOCK, 1);
        let writes = vec![
            (0, first.clone()),
            (0, pattern(4 * BLOCK, 2)),
            (BLOCK as u64 + 512, vec![9; BLOCK]),
            (2 * BLOCK as u64, vec![8; 512]),
        ];
        assert!(bed.write_together(writes).iter().all(Result::is_ok), "{level}");
        let mut bytes = pattern(4 * BLOCK, 2);
        bytes[BLOCK + 512..2 * BLOCK + 512].fill(9);
        bytes[2 * BLOCK..2 * BLOCK + 512].fill(8);
        assert_eq!(bed.read(0, 4 * BLOCK).unwrap(), bytes, "{level}");
        assert_eq!(bed.scrub().uneven, 0, "{level}");
    }
}
