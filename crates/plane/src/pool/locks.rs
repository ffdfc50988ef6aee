//! Who changes a row. A row is changed by one task of one core at a time; the locks are shared by all cores.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ring::{Notify, Ring};

use crate::limits::POOL_ROW_LOCKS;

/// How often a row that another core holds is asked for: those do not tell us when they are done.
const AGAIN: Duration = Duration::from_micros(50);

/// How often at least, when it takes longer: whoever waits for a member that does not answer does not keep the core busy.
const AGAIN_AT_LEAST: Duration = Duration::from_millis(2);

/// Which parts of a row may change: a bit for each 64th of its bytes. None when nobody holds it.
type Parts = u64;

/// Locks of rows, shared by all cores. Rows that are many apart share one, so nobody may hold two.
pub struct RowLocks(Box<[AtomicU64]>);

/// The parts of a row of `row_bytes` in which `bytes` lie.
pub fn parts_of(bytes: &Range<usize>, row_bytes: usize) -> Parts {
    let part = row_bytes.div_ceil(64);
    let (first, last) = (bytes.start / part, bytes.end.saturating_sub(1) / part);
    (Parts::MAX << first) & (Parts::MAX >> (63 - last.clamp(first, 63)))
}

impl Default for RowLocks {
    fn default() -> RowLocks {
        RowLocks((0..POOL_ROW_LOCKS).map(|_| AtomicU64::new(0)).collect())
    }
}

/// `first` for the first attempts, then longer and longer, up to `longest`.
pub(super) fn moment(first: Duration, longest: Duration, attempts: u32) -> Duration {
    (first * 2u32.pow((attempts / 8).min(16))).min(longest)
}

/// What a core knows of its own waiting.
#[derive(Default)]
pub struct Waiting {
    released: Notify,
    waiters: Cell<u32>,
}

impl Waiting {
    /// Waits until a row was released on this core, or for a moment, which grows with each of `attempts`.
    pub(super) async fn wait(&self, ring: &Ring, attempts: u32) {
        self.waiters.set(self.waiters.get() + 1);
        ring.timeout(moment(AGAIN, AGAIN_AT_LEAST, attempts), self.released.wait()).await;
        self.waiters.set(self.waiters.get() - 1);
    }

    /// A row was released on this core.
    pub(super) fn released(&self) {
        if self.waiters.get() > 0 {
            self.released.notify();
        }
    }
}

impl RowLocks {
    fn of(&self, row: u64) -> &AtomicU64 {
        &self.0[(row % self.0.len() as u64) as usize]
    }

    /// Whether somebody holds the row who may change one of these parts.
    pub fn may_change(&self, row: u64, parts: Parts) -> bool {
        self.of(row).load(Ordering::Acquire) & parts != 0
    }

    /// Who holds the row changes these parts only. There is at least one.
    pub fn narrow(&self, row: u64, parts: Parts) {
        debug_assert!(parts != 0, "a row of which nothing changes is not held");
        self.of(row).store(parts, Ordering::Release);
    }

    /// Takes the row if nobody has it.
    pub fn try_lock(&self, row: u64) -> bool {
        self.of(row).compare_exchange(0, Parts::MAX, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the row back. Only who has it may.
    pub fn unlock(&self, row: u64) {
        self.of(row).store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_row_lies_in_a_part_of_its_own_neighbourhood() {
        for row_bytes in [4096, 3 * 4096, 65_536, 62 << 20] {
            assert_eq!(parts_of(&(0..1), row_bytes), 1);
            assert_eq!(parts_of(&(row_bytes - 1..row_bytes), row_bytes).leading_zeros() as usize, {
                let part = row_bytes.div_ceil(64);
                63 - (row_bytes - 1) / part
            });
            let middle = row_bytes / 2;
            let all = parts_of(&(0..row_bytes), row_bytes);
            assert_eq!(parts_of(&(0..middle), row_bytes) | parts_of(&(middle..row_bytes), row_bytes), all);
            assert_eq!(
                parts_of(&(0..row_bytes / 4), row_bytes) & parts_of(&(middle..row_bytes), row_bytes),
                0
            );
        }
    }

    #[test]
    fn what_does_not_change_may_be_read() {
        let locks = RowLocks::default();
        assert!(locks.try_lock(3) && !locks.try_lock(3));
        assert!(locks.may_change(3, 1) && !locks.may_change(4, 1));
        locks.narrow(3, 0b110);
        assert!(!locks.may_change(3, 1) && locks.may_change(3, 0b10));
        assert!(!locks.try_lock(3), "it is held all the same");
        locks.unlock(3);
        assert!(!locks.may_change(3, u64::MAX) && locks.try_lock(3));
    }
}
