//! What holds for a whole extent, not for each sector by itself: nobody sees half of a comparison with its write.
//!
//! Every value is written once, so what a comparison found is gone for good once its write was carried out. A command
//! that sees both, the one in one sector and the other in another, has seen the middle of it.

use super::{Operation, Value, VolumeHistory, Wish};
use crate::Failure;
use crate::checker::{Event, Kind, Sector};

impl Operation {
    /// What it saw in a sector, if it saw all of its sectors at one time.
    fn saw(&self, sector: u64) -> Option<Value> {
        let at = sector.checked_sub(self.place.first)? as usize;
        match &self.wish {
            Wish::CompareAndWrite(old) if self.done && !self.differed => old.get(at).copied(),
            _ => match self.seen.get(at)? {
                Kind::Is(value) => Some(*value),
                _ => None,
            },
        }
    }

    fn covers(&self, sector: u64) -> bool {
        (self.place.first..self.end_sector()).contains(&sector)
    }

    fn end_sector(&self) -> u64 {
        self.place.first + self.place.count
    }
}

impl VolumeHistory {
    /// Judges comparisons over all of their sectors.
    pub(super) fn check_atomicity(&self, index: usize) -> Result<(), Failure> {
        for operation in self.operations.iter().filter(|operation| operation.done) {
            match &operation.wish {
                Wish::CompareAndWrite(old) if !operation.differed => {
                    self.check_whole(index, operation, old)?;
                }
                Wish::Compare(old) | Wish::CompareAndWrite(old)
                    if operation.differed && operation.seen.is_empty() =>
                {
                    self.check_difference(index, operation, old)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Nobody saw the new value in one sector and what was there before in another.
    fn check_whole(&self, index: usize, operation: &Operation, old: &[Value]) -> Result<(), Failure> {
        let overlaps = |other: &&Operation| {
            other.place.first < operation.end_sector() && operation.place.first < other.end_sector()
        };
        for other in self.operations.iter().filter(overlaps) {
            let (mut new_in, mut old_in) = (None, None);
            for (sector, before) in (operation.place.first..).zip(old) {
                match other.saw(sector) {
                    Some(value) if value == operation.value => new_in = Some(sector),
                    // Zeroes come back, values do not.
                    Some(value) if value == *before && value != 0 => old_in = Some(sector),
                    _ => {}
                }
            }
            if let (Some(first), Wish::CompareAndWrite(_)) = (new_in, &other.wish)
                && other.done
                && (operation.place.first..)
                    .zip(old)
                    .any(|(sector, before)| other.covers(sector) && *before == other.value)
            {
                let what = format!("{:?} and {:?} each came before the other", operation.wish, other.wish);
                return Err(Failure(self.describe(index, first as usize, &what)));
            }
            if let (Some(new), Some(old)) = (new_in, old_in) {
                let what = format!(
                    "{}..{} {:?} saw half of {}..{} {:?}: sector {old} before it, sector {new} after it",
                    other.begin,
                    other.end.unwrap_or_default(),
                    other.wish,
                    operation.begin,
                    operation.end.unwrap_or_default(),
                    operation.wish
                );
                return Err(Failure(self.describe(index, new as usize, &what)));
            }
        }
        Ok(())
    }

    /// A difference was told, but not where: there is a sector where it can have been.
    fn check_difference(&self, index: usize, operation: &Operation, old: &[Value]) -> Result<(), Failure> {
        let (begin, end) = (operation.begin, operation.end.unwrap_or(u64::MAX));
        let possible = |(sector, value): (usize, &Value)| {
            let mut events = self.events(sector);
            let at = events.partition_point(|event| event.begin < begin);
            events.insert(at, Event { kind: Kind::Not(*value), begin, end, done: true, durable: false });
            Sector { events: &events, flushes: &self.flushes, left: None }.check(self.start[sector]).is_ok()
        };
        let first = operation.place.first as usize;
        if (first..).zip(old).any(possible) {
            return Ok(());
        }
        let what = format!("{begin}..{end} {:?} differed, and nothing was different", operation.wish);
        Err(Failure(self.describe(index, first, &what)))
    }
}

#[cfg(test)]
#[path = "atomic_tests.rs"]
mod tests;
