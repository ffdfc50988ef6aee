//! The segments of the journal: which are free, which core fills which, and when one is free again. Shared by all cores;
//! asked when a segment is full, not for each request.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A segment, and what it has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tail {
    /// Which.
    pub segment: u32,
    /// For each slot, where its next part goes in the segment. What is not there is at its begin.
    pub places: Vec<u32>,
    /// How many members had been replaced when the segment was begun.
    pub replaced: u64,
    /// Its last transaction; 0 if it has none.
    pub last: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Free,
    /// A core appends to it.
    Open,
    /// Any core may go on with it.
    Left(Tail),
    /// Of no use once all transactions up to this number are retired.
    Full {
        last: u64,
    },
}

/// All segments of a pool.
pub struct Segments {
    all: Mutex<Vec<Segment>>,
    are_few: bool,
}

impl Segments {
    /// `count` free ones, for `cores`.
    pub fn new(count: u32, cores: usize) -> Segments {
        let all = vec![Segment::Free; count as usize];
        Segments { are_few: all.len() < 2 * cores, all: Mutex::new(all) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Segment>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that was left, or a free one, for the caller alone from now on.
    pub fn claim(&self) -> Option<Tail> {
        let mut segments = self.lock();
        let is_left = |segment: &Segment| matches!(segment, Segment::Left(_));
        let place = segments.iter().position(is_left);
        let place = place.or_else(|| segments.iter().position(|segment| *segment == Segment::Free))?;
        Some(match std::mem::replace(&mut segments[place], Segment::Open) {
            Segment::Left(tail) => tail,
            _ => Tail { segment: place as u32, ..Tail::default() },
        })
    }

    /// Whether there are so few that a core with nothing to write leaves its own to others.
    pub fn are_few(&self) -> bool {
        self.are_few
    }

    /// Nothing is being written to it any more, and it has room.
    pub fn leave(&self, tail: Tail) {
        let segment = tail.segment as usize;
        self.lock()[segment] = Segment::Left(tail);
    }

    /// It has no more room.
    pub fn fill(&self, tail: &Tail) {
        self.lock()[tail.segment as usize] = Segment::Full { last: tail.last };
    }

    /// Transactions below `retired` are of no use any more. Gives how many segments are free now.
    pub fn retire(&self, retired: u64) -> usize {
        let mut segments = self.lock();
        for segment in segments.iter_mut() {
            if matches!(segment, Segment::Full { last } if *last < retired) {
                *segment = Segment::Free;
            }
        }
        segments.iter().filter(|segment| **segment == Segment::Free).count()
    }

    /// Whether so few are to be had that a checkpoint should make more.
    pub fn is_short(&self) -> bool {
        let segments = self.lock();
        let is_there = |segment: &&Segment| matches!(segment, Segment::Free | Segment::Left(_));
        segments.iter().filter(is_there).count() * 2 < segments.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_free_again_when_its_last_transaction_is_retired() {
        let segments = Segments::new(2, 1);
        let (one, other) = (segments.claim().unwrap(), segments.claim().unwrap());
        assert_ne!(one, other);
        assert_eq!(segments.claim(), None);
        segments.fill(&Tail { last: 7, ..one.clone() });
        assert_eq!(segments.retire(7), 0, "7 itself is still needed");
        assert_eq!(segments.retire(8), 1);
        assert_eq!(segments.claim(), Some(one));
        assert_eq!(segments.retire(100), 0, "what a core appends to is not free");
    }

    #[test]
    fn what_one_core_leaves_another_one_goes_on_with() {
        let segments = Segments::new(2, 2);
        assert!(segments.are_few() && !Segments::new(2, 1).are_few());
        let (one, _other) = (segments.claim().unwrap(), segments.claim().unwrap());
        let left = Tail { places: vec![4096, 8192], replaced: 3, last: 7, ..one };
        assert!(segments.is_short());
        segments.leave(left.clone());
        assert!(!segments.is_short());
        assert_eq!(segments.retire(100), 0, "it has room, and is not free");
        assert_eq!(segments.claim(), Some(left));
        assert_eq!(segments.claim(), None);
    }
}
