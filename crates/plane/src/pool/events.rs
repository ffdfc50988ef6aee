//! What a pool has noticed, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one pool, shared by its cores. None of them is on the path of a request without trouble.
#[derive(Default)]
pub struct Counters {
    /// Blocks whose checksum did not fit.
    pub wrong: AtomicU64,
    /// Blocks that a member could not read.
    pub unreadable: AtomicU64,
    /// Blocks that were rebuilt and written again.
    pub repaired: AtomicU64,
    /// Entries of the table that were wrong while the block was right.
    pub corrected: AtomicU64,
    /// Blocks that nothing could rebuild.
    pub lost: AtomicU64,
    /// Updates that were made again after a power cut.
    pub replayed: AtomicU64,
    /// Updates of which too little was on stable media.
    pub dropped: AtomicU64,
}

impl Counters {
    /// So many more.
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// One more.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
