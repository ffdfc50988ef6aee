//! Who changes a row. A row is changed by one task of one core at a time; the locks are shared by all cores.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ring::{Notify, Ring};

use crate::limits::POOL_ROW_LOCKS;

/// How often a row that another core holds is asked for: those do not tell us when they are done.
const AGAIN: Duration = Duration::from_micros(50);

/// How often at least, when it takes longer: whoever waits for a member that does not answer does not keep the core busy.
const AGAIN_AT_LEAST: Duration = Duration::from_millis(2);

/// Locks of rows, shared by all cores. Rows that are many apart share one, so nobody may hold two.
pub struct RowLocks(Box<[AtomicBool]>);

impl Default for RowLocks {
    fn default() -> RowLocks {
        RowLocks((0..POOL_ROW_LOCKS).map(|_| AtomicBool::new(false)).collect())
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
    fn of(&self, row: u64) -> &AtomicBool {
        &self.0[(row % self.0.len() as u64) as usize]
    }

    /// Whether somebody holds the row.
    pub fn is_held(&self, row: u64) -> bool {
        self.of(row).load(Ordering::Acquire)
    }

    /// Takes the row if nobody has it.
    pub fn try_lock(&self, row: u64) -> bool {
        !self.of(row).swap(true, Ordering::Acquire)
    }

    /// Gives the row back. Only who has it may.
    pub fn unlock(&self, row: u64) {
        self.of(row).store(false, Ordering::Release);
    }
}
