//! The segments of the journal: which are free, which core fills which, and when one is free again. Shared by all cores;
//! asked when a segment is full, not for each request.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segment {
    Free,
    /// A core appends to it.
    Open,
    /// Of no use once all transactions up to this number are retired.
    Full {
        last: u64,
    },
}

/// All segments of a pool.
pub struct Segments(Mutex<Vec<Segment>>);

impl Segments {
    /// `count` free ones.
    pub fn new(count: u32) -> Segments {
        Segments(Mutex::new(vec![Segment::Free; count as usize]))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Segment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free one, for the caller alone from now on.
    pub fn claim(&self) -> Option<u32> {
        let mut segments = self.lock();
        let free = segments.iter().position(|segment| *segment == Segment::Free)?;
        segments[free] = Segment::Open;
        Some(free as u32)
    }

    /// The caller has filled it; its last transaction is `last`.
    pub fn fill(&self, segment: u32, last: u64) {
        self.lock()[segment as usize] = Segment::Full { last };
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

    /// Whether so few are free that a checkpoint should make more.
    pub fn is_short(&self) -> bool {
        let segments = self.lock();
        let free = segments.iter().filter(|segment| **segment == Segment::Free).count();
        free * 2 < segments.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_free_again_when_its_last_transaction_is_retired() {
        let segments = Segments::new(2);
        let (one, other) = (segments.claim().unwrap(), segments.claim().unwrap());
        assert_ne!(one, other);
        assert_eq!(segments.claim(), None);
        segments.fill(one, 7);
        assert_eq!(segments.retire(7), 0, "7 itself is still needed");
        assert_eq!(segments.retire(8), 1);
        assert_eq!(segments.claim(), Some(one));
        assert_eq!(segments.retire(100), 0, "what a core appends to is not free");
    }
}
