//! Extents of two sectors, each of which by itself is in order.

use crate::history::{Fate, History, Id, Place, Wish};
use crate::{Failure, SECTOR};

const BOTH: Place = Place { volume: 0, first: 0, count: 2 };

fn history() -> History {
    History::new(1, &[2 * SECTOR as u64])
}

fn write(history: &mut History, place: Place) -> u64 {
    let id = history.begin(1, place, Wish::Write, false);
    history.done(id, &[]).unwrap();
    history.guess(place)[0]
}

fn read(history: &mut History, id: Id, values: [u64; 2]) -> Result<(), Failure> {
    let mut bytes = vec![0; 2 * SECTOR];
    for (sector, value) in values.into_iter().enumerate() {
        history.fill(&mut bytes[sector * SECTOR..][..SECTOR], value, sector as u64);
    }
    history.done(id, &bytes)
}

fn settle(history: &mut History, left: [u64; 2]) -> Result<(), Failure> {
    history.settle(0, &left, Fate::None)
}

/// A write of 1, then a comparison with it and a write of 2, beside a read that sees `values`.
fn seen_beside(values: [u64; 2]) -> Result<(), Failure> {
    let mut history = history();
    let one = write(&mut history, BOTH);
    assert_eq!(one, 1);
    let compare = history.begin(1, BOTH, Wish::CompareAndWrite(vec![1, 1]), false);
    let beside = history.begin(2, BOTH, Wish::Read, false);
    read(&mut history, beside, values)?;
    history.done(compare, &[])?;
    settle(&mut history, [2, 2])
}

#[test]
fn nobody_sees_half_of_a_comparison_with_its_write() {
    assert_eq!(seen_beside([1, 1]), Ok(()));
    assert_eq!(seen_beside([2, 2]), Ok(()));
    for half in [[1, 2], [2, 1]] {
        let failure = seen_beside(half).unwrap_err().to_string();
        assert!(failure.contains("saw half of"), "{failure}");
    }
}

#[test]
fn two_comparisons_do_not_each_come_before_the_other() {
    let mut history = history();
    let wishes = [vec![0, 2], vec![1, 0]].map(Wish::CompareAndWrite);
    let ids = wishes.map(|wish| history.begin(1, BOTH, wish, false));
    // The first writes 1 and met what the second writes, 2; and the other way round.
    for id in ids {
        history.done(id, &[]).unwrap();
    }
    let failure = settle(&mut history, [2, 1]).unwrap_err().to_string();
    assert!(failure.contains("each came before the other"), "{failure}");
}

#[test]
fn a_difference_that_nobody_could_find_is_none() {
    let differs = |old: [u64; 2], changed: bool| {
        let mut history = history();
        write(&mut history, BOTH);
        let compare = history.begin(1, BOTH, Wish::Compare(old.to_vec()), false);
        let place = Place { count: 1, ..BOTH };
        let now = if changed { write(&mut history, place) } else { 1 };
        history.differed(compare, None).unwrap();
        settle(&mut history, [now, 1])
    };
    assert_eq!(differs([1, 0], false), Ok(()));
    assert_eq!(differs([1, 1], true), Ok(()), "the write came before");
    let failure = differs([1, 1], false).unwrap_err().to_string();
    assert!(failure.contains("nothing was different"), "{failure}");
}

#[test]
fn fresh_memory_holds_nothing() {
    let mut history = history();
    write(&mut history, BOTH);
    assert!(history.settle(0, &[1, 1], Fate::Emptied).is_err());
    assert_eq!(history.settle(0, &[0, 0], Fate::Emptied), Ok(()));
}

#[test]
fn what_was_lost_with_a_session_comes_until_the_session_is_over() {
    for over in [false, true] {
        let mut history = history();
        history.begin(7, BOTH, Wish::Write, false);
        if over {
            history.over(7);
        }
        for values in [[0, 0], [1, 1]] {
            let id = history.begin(8, BOTH, Wish::Read, false);
            read(&mut history, id, values).unwrap();
        }
        assert_eq!(settle(&mut history, [1, 1]).is_err(), over);
    }
}
