//! The checksums of every block, in memory, shared by all cores; and which pages of them have changed since they were
//! last written to their member.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::format::table_page::ENTRIES;
use super::format::{BLOCK, Geometry, within};
use super::grown::Grown;

/// One slot's checksums. 4 bytes for each block: 1 MiB for each GiB of a member.
struct SlotTable {
    entries: Grown<AtomicU32>,
    /// One bit a page.
    changed: Grown<AtomicU64>,
    /// Those of which the other place is still older than the last change that was written.
    behind: Grown<AtomicU64>,
    /// Of each page, as it was last written.
    generations: Grown<AtomicU64>,
}

/// The checksums of all members.
pub struct Table {
    /// For each slot that there may ever be; those that there are not have nothing.
    slots: Box<[SlotTable]>,
    blocks_per_unit: u64,
}

impl Table {
    /// Nothing was ever written.
    pub fn new(geometry: &Geometry) -> Table {
        let blocks_per_unit = u64::from(geometry.unit) / BLOCK as u64;
        let slot = |_| SlotTable {
            entries: Grown::new(0),
            changed: Grown::new(0),
            behind: Grown::new(0),
            generations: Grown::new(0),
        };
        let table = Table { slots: (0..geometry.level.most_slots()).map(slot).collect(), blocks_per_unit };
        table.grow(geometry);
        table
    }

    /// There are as many slots and blocks as `geometry` has, at least; new ones were never written.
    pub fn grow(&self, geometry: &Geometry) {
        let blocks = (geometry.rows * self.blocks_per_unit) as usize;
        let pages = geometry.table_pages as usize;
        for slot in self.slots.iter().take(usize::from(geometry.slots)) {
            slot.entries.extend_to(blocks);
            slot.changed.extend_to(pages.div_ceil(64));
            slot.behind.extend_to(pages.div_ceil(64));
            slot.generations.extend_to(pages);
        }
    }

    /// The entry of a block: see docs/formats/pool.md, "Table".
    pub fn entry(&self, slot: usize, row: u64, position: usize) -> u32 {
        self.slots[slot].entries.at(self.block(row, position)).load(Ordering::Acquire)
    }

    /// Changes an entry. Only who holds the row may.
    pub fn set(&self, slot: usize, row: u64, position: usize, entry: u32) {
        let block = self.block(row, position);
        let slot = &self.slots[slot];
        slot.entries.at(block).store(entry, Ordering::Release);
        let page = block / ENTRIES;
        let bit = 1 << (page % 64);
        // Looked at first: setting it again would take the line from other cores.
        if slot.changed.at(page / 64).load(Ordering::Relaxed) & bit == 0 {
            slot.changed.at(page / 64).fetch_or(bit, Ordering::AcqRel);
        }
    }

    fn block(&self, row: u64, position: usize) -> usize {
        (within(row) * self.blocks_per_unit) as usize + position
    }

    /// The pages of a slot that have changed since the last call or between that and the one before, which are written by
    /// the caller now: so each change comes to both places of its page.
    pub fn take_changed(&self, slot: usize) -> Vec<u64> {
        let mut pages = Vec::new();
        let slot = &self.slots[slot];
        for (index, (word, behind)) in slot.changed.from(0).zip(slot.behind.from(0)).enumerate() {
            let changed = if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::AcqRel) };
            let mut bits = changed | behind.load(Ordering::Relaxed);
            behind.store(changed, Ordering::Relaxed);
            while bits != 0 {
                pages.push(index as u64 * 64 + u64::from(bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        pages
    }

    /// Says that a page is to be written again.
    pub fn mark(&self, slot: usize, page: u64) {
        self.slots[slot].changed.at(page as usize / 64).fetch_or(1 << (page % 64), Ordering::AcqRel);
    }

    /// The entries of a page; those behind the last block are 0.
    pub fn page(&self, slot: usize, page: u64) -> impl Iterator<Item = u32> + '_ {
        let entries = &self.slots[slot].entries;
        let first = page as usize * ENTRIES;
        let there = entries.from(first).map(|entry| entry.load(Ordering::Acquire));
        there.chain(std::iter::repeat(0)).take(ENTRIES)
    }

    /// Takes in a page as it was found on its member, with its generation.
    pub fn load(&self, slot: usize, page: u64, generation: u64, entries: impl Iterator<Item = u32>) {
        let slot = &self.slots[slot];
        for (place, entry) in slot.entries.from(page as usize * ENTRIES).zip(entries) {
            place.store(entry, Ordering::Relaxed);
        }
        slot.generations.at(page as usize).store(generation, Ordering::Relaxed);
    }

    /// The generation with which a page was last written; 0 before the first time.
    pub fn generation(&self, slot: usize, page: u64) -> u64 {
        self.slots[slot].generations.at(page as usize).load(Ordering::Relaxed)
    }

    /// Notes that a page was written with `generation`.
    pub fn written(&self, slot: usize, page: u64, generation: u64) {
        self.slots[slot].generations.at(page as usize).store(generation, Ordering::Relaxed);
    }

    /// All blocks of a slot are as if never written: a new member takes the place. Its pages are written as its rows are
    /// rebuilt: nobody asks what lies on it for those behind its cursor.
    pub fn renew(&self, slot: usize) {
        for entry in self.slots[slot].entries.from(0) {
            entry.store(0, Ordering::Release);
        }
    }
}
