//! What members are asked for is counted, as what it was.

use super::bed::Bed;
use super::pattern;
use crate::meter::{GaugeFigures, VerbFigures};
use crate::pool::Level;
use crate::pool::format::BLOCK;
use crate::request::Verb;

fn of(figures: &GaugeFigures, verb: Verb) -> &VerbFigures {
    &figures.verbs[verb as usize]
}

/// What each slot was asked for since then: requests and bytes.
fn since(bed: &Bed, before: &[GaugeFigures], verb: Verb) -> Vec<(u64, u64)> {
    let change = |(now, then): (GaugeFigures, &GaugeFigures)| {
        let (now, then) = (of(&now, verb), of(then, verb));
        (now.requests - then.requests, now.bytes - then.bytes)
    };
    bed.core().asked().into_iter().zip(before).map(change).collect()
}

#[test]
fn a_write_to_a_mirror_is_two_to_each_member_and_a_read_is_of_one() {
    const WRITES: usize = 10;
    let bed = Bed::new(71, Level::Raid1, 2, 16 << 10);
    bed.write(0, &pattern(BLOCK, 1)).unwrap();
    bed.settle();
    let (before, pool) = (bed.core().asked(), bed.core().figures());
    for number in 0..WRITES {
        bed.write((number * 2 * BLOCK) as u64, &pattern(BLOCK, 2)).unwrap();
        bed.settle();
    }
    let (writes, bytes) = (since(&bed, &before, Verb::Write), (WRITES * BLOCK) as u64);
    // Its part of the journal, and the block in its place. What the journal takes is at least a block.
    assert_eq!(writes.iter().map(|(requests, _)| *requests).collect::<Vec<_>>(), [2 * WRITES as u64; 2]);
    assert!(writes[0].1 == writes[1].1 && writes[0].1 >= 2 * bytes, "{writes:?}");
    assert_eq!(since(&bed, &before, Verb::Read), [(0, 0); 2]);
    for number in 0..WRITES {
        bed.read((number * 2 * BLOCK) as u64, BLOCK).unwrap();
    }
    let reads = since(&bed, &before, Verb::Read);
    let sum = reads.iter().fold((0, 0), |sum, (requests, bytes)| (sum.0 + requests, sum.1 + bytes));
    assert_eq!(sum, (WRITES as u64, bytes), "{reads:?}");
    let now = bed.core().figures();
    for verb in [Verb::Read, Verb::Write] {
        let (now, then) = (of(&now, verb), of(&pool, verb));
        assert_eq!(
            (now.requests - then.requests, now.bytes - then.bytes),
            (WRITES as u64, bytes),
            "{verb:?}"
        );
    }
    let slow = of(&bed.core().asked()[0], Verb::Write).times.as_ref().map_or(0, |times| times.sum);
    assert!(slow > 0, "a disk takes time");
    assert!(bed.core().asked().iter().all(|figures| figures.in_flight == 0));
}

#[test]
fn what_a_member_fails_is_an_error_of_that_member() {
    let bed = Bed::new(72, Level::Raid1, 2, 16 << 10);
    bed.write(0, &pattern(BLOCK, 1)).unwrap();
    bed.settle();
    let unit = bed.geometry().unit_place(0);
    for slot in 0..2 {
        bed.machine.fail_reads_until_written(&bed.path(slot), unit..unit + BLOCK as u64);
    }
    assert!(bed.read(0, BLOCK).is_err());
    let asked = bed.core().asked();
    let errors: Vec<_> = asked.iter().map(|figures| of(figures, Verb::Read).errors).collect();
    assert!(errors.iter().all(|errors| *errors > 0), "{errors:?}");
    assert!(asked.iter().all(|figures| of(figures, Verb::Write).errors == 0));
    assert_eq!(of(&bed.core().figures(), Verb::Read).errors, 1);
}
