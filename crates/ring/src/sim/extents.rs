//! A set of numbers kept as runs: which chunks of a file have space.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Default)]
pub(super) struct Extents {
    /// Start to end; no two touch or overlap.
    runs: BTreeMap<u64, u64>,
    total: u64,
}

impl Extents {
    /// How many numbers are in the set.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn contains(&self, at: u64) -> bool {
        self.runs.range(..=at).next_back().is_some_and(|(_, &end)| at < end)
    }

    fn give(&mut self, start: u64, end: u64) {
        self.runs.insert(start, end);
        self.total += end - start;
    }

    fn take(&mut self, start: u64) {
        self.total -= self.runs.remove(&start).map_or(0, |end| end - start);
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        let touched = self.runs.range(..=end).rev().take_while(|(_, run)| **run >= start);
        let touched: Vec<_> = touched.map(|(&start, &end)| (start, end)).collect();
        for (run_start, run_end) in touched {
            start = start.min(run_start);
            end = end.max(run_end);
            self.take(run_start);
        }
        self.give(start, end);
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let touched = self.runs.range(..range.end).rev().take_while(|(_, run)| **run > range.start);
        let touched: Vec<_> = touched.map(|(&start, &end)| (start, end)).collect();
        for (start, end) in touched {
            self.take(start);
            if start < range.start {
                self.give(start, range.start);
            }
            if end > range.end {
                self.give(range.end, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn runs_are_the_same_as_a_set_of_numbers() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut runs, mut plain) = (Extents::default(), BTreeSet::new());
        for _ in 0..if cfg!(miri) { 50 } else { 2000 } {
            let start = random.u64(0..60);
            let range = start..start + random.u64(0..8);
            if random.bool() {
                runs.insert(range.clone());
                plain.extend(range);
            } else {
                runs.remove(range.clone());
                plain.retain(|at| !range.contains(at));
            }
            assert_eq!(runs.total(), plain.len() as u64);
            assert!((0..70).all(|at| runs.contains(at) == plain.contains(&at)));
            assert!(runs.runs.iter().zip(runs.runs.iter().skip(1)).all(|(one, next)| one.1 < next.0));
        }
    }
}
