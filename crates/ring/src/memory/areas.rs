//! Which parts of a memory the system has made ready. It gives memory in huge pages, to who touches one first, and he waits
//! while all of it is filled with zeroes: a tenth of a millisecond, and ten of them in a virtual machine whose host has to find
//! it first. A core that serves many has nobody wait for that but who wants to write there ([`Memory::make_ready`]).
//!
//! [`Memory::make_ready`]: super::Memory::make_ready

use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::HUGE_PAGE;

/// Of a memory with fewer huge pages all counts as ready: it is soon over.
pub(super) const FEW: usize = 16;

/// The huge pages of a memory, by number.
pub(super) struct Areas {
    length: usize,
    /// A bit for each that is ready; none where all count as ready.
    ready: Box<[AtomicU64]>,
}

impl Areas {
    /// Of `length` bytes, the first one that of a huge page, of which none have been touched.
    pub(super) fn new(length: usize, has_huge_pages: bool) -> Areas {
        let count = length.div_ceil(HUGE_PAGE);
        let is_tracked = count >= FEW && has_huge_pages;
        let words = if is_tracked { count.div_ceil(64) } else { 0 };
        // Those behind the last one are ready.
        let beyond = |word: usize| u64::MAX.checked_shl((count - word * 64) as u32).unwrap_or(0);
        Areas { length, ready: (0..words).map(|word| AtomicU64::new(beyond(word))).collect() }
    }

    /// The area of a byte.
    #[inline]
    pub(super) fn of(at: usize) -> usize {
        at / HUGE_PAGE
    }

    /// The bytes of an area, of those of the memory.
    pub(super) fn bytes(&self, area: usize) -> Range<usize> {
        let begin = area * HUGE_PAGE;
        begin..(begin + HUGE_PAGE).min(self.length)
    }

    #[inline]
    fn has(&self, area: usize) -> bool {
        let word = self.ready.get(area / 64);
        word.is_none_or(|word| word.load(Ordering::Relaxed) & 1 << (area % 64) != 0)
    }

    /// Whether all of `first..=last` is ready. What lies outside is.
    #[inline]
    pub(super) fn is_ready(&self, first: usize, last: usize) -> bool {
        let (area, last) = (Areas::of(first), Areas::of(last));
        self.has(area) && (area == last || self.first_unready(area + 1, last).is_none())
    }

    /// The first of `area..=last` that is not ready.
    pub(super) fn first_unready(&self, area: usize, last: usize) -> Option<usize> {
        (area..=last).find(|area| !self.has(*area))
    }

    /// Notes whether an area is ready. Who is told a moment too late waits for the system, and no more.
    pub(super) fn set(&self, area: usize, ready: bool) {
        let Some(word) = self.ready.get(area / 64) else { return };
        let bit = 1 << (area % 64);
        if ready {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// Whether the system gives huge pages to who asks for them. Small ones are ready in a moment, and to touch all around one
/// would take memory that nobody wants.
pub(super) fn has_huge_pages() -> bool {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|modes| !modes.contains("[never]"))
}
