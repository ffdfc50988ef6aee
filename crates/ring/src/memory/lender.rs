//! What one core does with a [`Memory`] beside other things: bytes lent to be sent, without a copy, and writes that are on
//! their way.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::Arc;

use super::{LENDERS, LENT_PAGES, Locked, Memory, PAGE, ahead};
use crate::buffer::Shared;

/// One core's right to lend bytes of a memory, and to do something else while what it writes is on its way.
pub struct Lender(Rc<Ledger>);

/// A write whose bytes are on their way to memory, past the cache. Its last pages stay locked until this is dropped, which
/// waits for them: until then the core does other things, and nothing with this memory.
#[must_use = "what is dropped at once is waited for"]
pub struct Writing(Option<Rc<Ledger>>);

struct Ledger {
    memory: Arc<Memory>,
    /// Pins in all.
    pinned: Cell<usize>,
    /// Pages of the write that is on its way: the first, and how many.
    writing: Cell<(usize, usize)>,
}

impl Memory {
    /// A right to lend; `None` when as many have it as can.
    pub fn lender(self: &Arc<Memory>) -> Option<Lender> {
        let mut spares = self.spares();
        if spares.lenders == LENDERS {
            return None;
        }
        spares.lenders += 1;
        let pages = self.length.div_ceil(PAGE) + spares.lenders * LENT_PAGES;
        spares.end = spares.end.max(pages as u32);
        drop(spares);
        Some(Lender(Rc::new(Ledger { memory: self.clone(), pinned: Cell::new(0), writing: Cell::default() })))
    }
}

impl Lender {
    /// The bytes as they are now, each page as a whole. They stay so, whatever is written meanwhile. `None` when they do
    /// not lie in one piece, lie outside, or when this core has lent much already: then they have to be copied.
    pub fn lend(&self, offset: u64, length: usize) -> Option<Shared> {
        ahead::step();
        let ledger = &self.0;
        ledger.settle();
        let (start, end) = ledger.memory.range(offset, length).filter(|(start, end)| start < end)?;
        let pages = start / PAGE..end.div_ceil(PAGE);
        // Never more frames than are spare: whatever of it is written, the page finds another frame.
        if ledger.pinned.get() + pages.len() > LENT_PAGES {
            return None;
        }
        let first = ledger.pin(pages.start, |_| true)?;
        for (place, page) in pages.skip(1).enumerate() {
            let next = first + 1 + place;
            if ledger.pin(page, |frame| frame == next).is_none() {
                ledger.unpin(first..next);
                return None;
            }
        }
        Some(Shared::lent(Lent { ledger: ledger.clone(), start: first * PAGE + start % PAGE, length }))
    }

    /// Copies pieces in, one behind the other, as [`Memory::write`] does. Panics when the range lies outside.
    pub fn write(&self, offset: u64, from: &[&[u8]]) -> Writing {
        let ledger = &self.0;
        ledger.settle();
        let Some(locked) = ledger.memory.put(offset, from).filter(|locked| locked.unsettled) else {
            return Writing(None);
        };
        let length: usize = from.iter().map(|piece| piece.len()).sum();
        ledger.leave((offset as usize + length).div_ceil(PAGE), locked);
        Writing(Some(ledger.clone()))
    }

    /// As [`Lender::write`] where it goes past the cache, on whatever processor.
    #[cfg(test)]
    pub(super) fn write_past_cache(&self, offset: u64, from: &[u8]) -> Writing {
        self.0.settle();
        let mut locked = self.0.memory.put(offset, &[from]).expect("some bytes");
        locked.unsettled = true;
        self.0.leave((offset as usize + from.len()).div_ceil(PAGE), locked);
        Writing(Some(self.0.clone()))
    }

    #[cfg(test)]
    pub(super) fn pinned(&self) -> usize {
        self.0.pinned.get()
    }
}

/// The right is given back with the last that was lent by it: a core that has its stack anew gets another one.
impl Drop for Ledger {
    fn drop(&mut self) {
        self.memory.spares().lenders -= 1;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(ledger) = &self.0 {
            ledger.settle();
        }
    }
}

impl Ledger {
    /// Leaves pages locked, of which the last one ends where page `end` begins, until [`Ledger::settle`].
    fn leave(&self, end: usize, locked: Locked<'_>) {
        let pages = ManuallyDrop::new(locked).entries.len();
        self.writing.set((end - pages, pages));
    }

    /// Waits for the write that is on its way, and unlocks its pages.
    fn settle(&self) {
        let (first, pages) = self.writing.take();
        if pages > 0 {
            drop(Locked { entries: &self.memory.entries[first..first + pages], unsettled: true });
        }
    }

    /// Pins the frame of a page if it is `right`, and gives it.
    fn pin(&self, page: usize, right: impl Fn(usize) -> bool) -> Option<usize> {
        let _locked = self.memory.lock(page);
        let frame = self.memory.frame_of(page);
        if !right(frame) {
            return None;
        }
        self.memory.pin(frame);
        self.pinned.set(self.pinned.get() + 1);
        Some(frame)
    }

    fn unpin(&self, frames: Range<usize>) {
        let count = frames.len();
        frames.for_each(|frame| self.memory.unpin(frame));
        // After the frames are spare again.
        self.pinned.set(self.pinned.get() - count);
    }
}

/// Bytes of pinned frames.
pub(crate) struct Lent {
    ledger: Rc<Ledger>,
    /// The first byte's place among all frames.
    start: usize,
    /// More than none.
    length: usize,
}

impl Lent {
    pub(crate) fn is_better_copied(&self) -> bool {
        self.ledger.memory.ways.copies_before_send(self.length)
    }

    fn frames(&self) -> Range<usize> {
        self.start / PAGE..(self.start + self.length).div_ceil(PAGE)
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> Lent {
        assert!(range.start < range.end && range.end <= self.length);
        let part = Lent {
            ledger: self.ledger.clone(),
            start: self.start + range.start,
            length: range.end - range.start,
        };
        // They are pinned already, so that no lock is needed and their pages need no further spare frames.
        part.frames().for_each(|frame| self.ledger.memory.pin(frame));
        self.ledger.pinned.set(self.ledger.pinned.get() + part.frames().len());
        part
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.ledger.unpin(self.frames());
    }
}

impl Deref for Lent {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let memory = &self.ledger.memory;
        // SAFETY: frames lie one behind the other; these are pinned, so that nobody writes them.
        unsafe { std::slice::from_raw_parts(memory.frame(0).add(self.start), self.length) }
    }
}
