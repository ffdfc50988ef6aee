//! Where everything is on a member; the same on all members of a pool.

use std::ops::Range;

use super::label::End;
use super::sets::{Sets, row_of, set_of, within};
use super::transaction::{self, Kind, MAX_HEADER_BLOCKS};
use super::{BLOCK, bitmap_block, table_page};
use crate::pool::Level;

const BLOCK_BYTES: u64 = BLOCK as u64;

/// Most bytes of a member: a pool of 64 of them can still be counted.
pub const MAX_MEMBER_BYTES: u64 = 1 << 56;
/// Most slots of a pool.
pub const MAX_SLOTS: u16 = 64;
/// Bytes that a unit may have; powers of two.
pub const UNITS: std::ops::RangeInclusive<u32> = BLOCK as u32..=1 << 20;
/// Blocks that one copy of the catalogue may have.
pub const CATALOGUE_BLOCKS: std::ops::RangeInclusive<u32> = 1..=1024;
/// Segments that a journal may have.
pub const SEGMENTS: std::ops::RangeInclusive<u32> = 2..=4096;
/// Blocks that a bitmap may have.
pub const BITMAP_BLOCKS: std::ops::RangeInclusive<u32> = 1..=1024;

/// The arrangement of a pool and the places on each of its members, all in bytes. Equal on all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// How the slots are arranged.
    pub level: Level,
    /// Their number.
    pub slots: u16,
    /// Which of them rows lie on together.
    pub sets: Sets,
    /// Bytes of a unit.
    pub unit: u32,
    /// Number of rows of each set.
    pub rows: u64,
    /// Bytes of a member that are used.
    pub bytes: u64,
    /// Blocks of one copy of the catalogue.
    pub catalogue_blocks: u32,
    /// Where the journal begins.
    pub journal: u64,
    /// Bytes of one of its segments.
    pub segment_bytes: u32,
    /// Number of its segments.
    pub segments: u32,
    /// Where the bitmap begins.
    pub bitmap: u64,
    /// Blocks of the bitmap.
    pub bitmap_blocks: u32,
    /// Rows that one bit stands for.
    pub rows_per_bit: u32,
    /// Where the table begins.
    pub table: u64,
    /// Pages of the table; each has two places.
    pub table_pages: u64,
    /// Where the units begin.
    pub data: u64,
}

/// What is wrong with a geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GeometryError(pub &'static str);

impl Geometry {
    /// Units of a row of the first set that hold data.
    pub fn data_units(&self) -> u16 {
        self.data_units_of(0)
    }

    /// Units of a row that hold data.
    pub fn data_units_of(&self, row: u64) -> u16 {
        self.level.data_units(self.set_slots(set_of(row)).len() as u16)
    }

    /// The slots of a set.
    #[inline]
    pub fn set_slots(&self, set: usize) -> Range<usize> {
        self.sets.slots(set, self.slots)
    }

    /// The set that a slot belongs to.
    pub fn set_of_slot(&self, slot: usize) -> usize {
        (0..self.sets.count()).find(|set| self.set_slots(*set).contains(&slot)).unwrap_or(0)
    }

    /// The slots that a row lies on, a bit each.
    pub fn row_mask(&self, row: u64) -> u64 {
        self.set_slots(set_of(row)).fold(0, |mask, slot| mask | 1 << slot)
    }

    /// Slots of the set that has most.
    pub fn widest(&self) -> u16 {
        (0..self.sets.count()).map(|set| self.set_slots(set).len() as u16).max().unwrap_or(0)
    }

    /// Whether there is such a row.
    pub fn has_row(&self, row: u64) -> bool {
        set_of(row) < self.sets.count() && within(row) < self.rows
    }

    /// All rows, of all sets.
    pub const fn all_rows(&self) -> u64 {
        self.rows * self.sets.count() as u64
    }

    /// How many rows come before one.
    pub fn rows_before(&self, row: u64) -> u64 {
        set_of(row) as u64 * self.rows + within(row).min(self.rows)
    }

    /// The first row that there is from a number on.
    pub fn row_from(&self, row: u64) -> Option<u64> {
        [row, row_of(set_of(row) + 1, 0)].into_iter().find(|row| self.has_row(*row))
    }

    /// Whether everything can be had without the slots of `gone`.
    pub fn survives(&self, gone: u64) -> bool {
        // Sets of pairs are pairs, as all of them together are.
        self.level.survives(self.slots.into(), gone)
    }

    /// Slots that may be out without loss; of raid10 one of each pair.
    pub const fn redundancy(&self) -> u16 {
        self.level.redundancy(self.slots)
    }

    /// Blocks of a unit: the columns of a row.
    pub const fn blocks_per_unit(&self) -> u32 {
        self.unit / BLOCK as u32
    }

    /// The pool's bytes of a row of the first set.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes_of(0)
    }

    /// The pool's bytes of a row.
    pub fn row_bytes_of(&self, row: u64) -> u64 {
        u64::from(self.unit) * u64::from(self.data_units_of(row))
    }

    /// The pool's bytes.
    pub fn pool_bytes(&self) -> u64 {
        (0..self.sets.count()).map(|set| self.rows * self.row_bytes_of(row_of(set, 0))).sum()
    }

    /// A bit for each slot.
    pub const fn slot_mask(&self) -> u64 {
        slot_mask(self.slots)
    }

    /// Where the unit of a row is.
    pub const fn unit_place(&self, row: u64) -> u64 {
        self.data + within(row) * self.unit as u64
    }

    /// The page of the table that has the entry of a block, and which of its entries that is.
    pub const fn table_entry(&self, row: u64, position: u16) -> (u64, usize) {
        let block = within(row) * self.blocks_per_unit() as u64 + position as u64;
        (block / table_page::ENTRIES as u64, (block % table_page::ENTRIES as u64) as usize)
    }

    /// Where a page of the table is: copy 0 or 1.
    pub const fn table_page_place(&self, page: u64, copy: u8) -> u64 {
        self.table + (2 * page + copy as u64) * BLOCK_BYTES
    }

    /// Where a segment of the journal is.
    pub const fn segment_place(&self, index: u32) -> u64 {
        self.journal + index as u64 * self.segment_bytes as u64
    }

    /// The block of the bitmap that speaks of a row, and the number of the bit in it.
    pub const fn bitmap_bit(&self, row: u64) -> (u32, usize) {
        let bit = within(row) / self.rows_per_bit as u64;
        ((bit / bitmap_block::BITS as u64) as u32, (bit % bitmap_block::BITS as u64) as usize)
    }

    /// Where a block of the bitmap is.
    pub const fn bitmap_place(&self, block: u32) -> u64 {
        self.bitmap + block as u64 * BLOCK_BYTES
    }

    /// Where a copy of the catalogue, 0 or 1, is.
    pub const fn catalogue_place(&self, end: End, copy: u8) -> u64 {
        let first = match end {
            End::Head => BLOCK_BYTES,
            End::Tail => self.tail(),
        };
        first + copy as u64 * self.catalogue_blocks as u64 * BLOCK_BYTES
    }

    /// Where a label is.
    pub const fn label_place(&self, end: End) -> u64 {
        match end {
            End::Head => 0,
            End::Tail => self.bytes - BLOCK_BYTES,
        }
    }

    /// Where the tail, catalogues and label, begins.
    pub const fn tail(&self) -> u64 {
        self.bytes - end_bytes(self.catalogue_blocks)
    }

    /// Whether bitmap and table lie behind the units: the pool was grown.
    pub const fn is_grown(&self) -> bool {
        self.bitmap > self.data
    }

    /// Blocks of one part of a transaction that changes a whole row, or of the largest one when that does not fit a
    /// header. A segment has at least so many.
    pub fn row_transaction_blocks(&self) -> u32 {
        row_transaction_blocks(self.widest(), self.unit)
    }

    fn check_sets(&self) -> Result<(), GeometryError> {
        if self.sets.count() == 1 {
            return Ok(());
        }
        let is_set = |slots: Range<usize>| match self.level {
            Level::Raid0 => !slots.is_empty(),
            Level::Raid10 => !slots.is_empty() && slots.len().is_multiple_of(2),
            _ => false,
        };
        let all = (0..self.sets.count()).all(|set| is_set(self.set_slots(set)));
        let first = self.level.takes(self.set_slots(0).len() as u16);
        if all && first { Ok(()) } else { Err(GeometryError("the level cannot have such sets")) }
    }

    /// Whether all is in order, inside and large enough. What holds this cannot make the other functions overflow
    /// for rows, pages, segments and blocks that exist.
    pub fn check(&self) -> Result<(), GeometryError> {
        let hold = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(GeometryError(what)) };
        hold(self.level.takes(self.slots), "the level cannot have so many slots")?;
        self.check_sets()?;
        hold(
            UNITS.contains(&self.unit) && self.unit.is_power_of_two(),
            "the unit is not a power of two between 4 KiB and 1 MiB",
        )?;
        hold(
            CATALOGUE_BLOCKS.contains(&self.catalogue_blocks),
            "the catalogue has no valid number of blocks",
        )?;
        hold(SEGMENTS.contains(&self.segments), "the journal has no valid number of segments")?;
        hold(BITMAP_BLOCKS.contains(&self.bitmap_blocks), "the bitmap has no valid number of blocks")?;
        hold(self.rows_per_bit.is_power_of_two(), "the rows per bit are not a power of two")?;
        hold(self.rows > 0, "there is no row")?;
        hold(self.bytes <= MAX_MEMBER_BYTES, "the member is too large")?;
        let places =
            [self.bytes, self.journal, self.segment_bytes.into(), self.bitmap, self.table, self.data];
        hold(places.iter().all(|place| place.is_multiple_of(BLOCK_BYTES)), "a place is not on a block")?;
        let segment_blocks = self.segment_bytes / BLOCK as u32;
        hold(segment_blocks >= self.row_transaction_blocks(), "a segment is too small for a row")?;

        // In order: each region ends before the next begins. `None` is an overflow, and too large as well.
        let end = |start: u64, count: u64, each: u64| {
            count.checked_mul(each).and_then(|bytes| start.checked_add(bytes))
        };
        let before = |end: Option<u64>, next: u64| end.is_some_and(|end| end <= next);
        let ends = end_bytes(self.catalogue_blocks);
        hold(ends <= self.journal, "the journal lies in the head")?;
        let journal_end = end(self.journal, self.segments.into(), self.segment_bytes.into());
        let bitmap_end = end(self.bitmap, self.bitmap_blocks.into(), BLOCK_BYTES);
        hold(before(bitmap_end, self.table), "the table lies in the bitmap")?;
        let table_end = end(self.table, self.table_pages, 2 * BLOCK_BYTES);
        let data_end = end(self.data, self.rows, self.unit.into());
        let tail = |place: Option<u64>| place.and_then(|place| place.checked_add(ends));
        if self.is_grown() {
            hold(before(journal_end, self.data), "the units lie in the journal")?;
            hold(before(data_end, self.bitmap), "the bitmap lies in the units")?;
            hold(before(tail(table_end), self.bytes), "the table lies in the tail")?;
        } else {
            hold(before(journal_end, self.bitmap), "the bitmap lies in the journal")?;
            hold(before(table_end, self.data), "the units lie in the table")?;
            hold(before(tail(data_end), self.bytes), "the units lie in the tail")?;
        }

        // From here on rows * unit is known not to overflow.
        let blocks = self.rows * u64::from(self.blocks_per_unit());
        hold(self.table_pages >= blocks.div_ceil(table_page::ENTRIES as u64), "the table is too small")?;
        let bits = u64::from(self.bitmap_blocks) * bitmap_block::BITS as u64;
        hold(self.rows.div_ceil(self.rows_per_bit.into()) <= bits, "the bitmap is too small")
    }
}

/// Bytes of the label and the catalogues at each end.
pub(super) const fn end_bytes(catalogue_blocks: u32) -> u64 {
    BLOCK_BYTES * (1 + 2 * catalogue_blocks as u64)
}

/// A bit for each of so many slots.
pub(super) const fn slot_mask(slots: u16) -> u64 {
    if slots >= MAX_SLOTS { u64::MAX } else { (1 << slots) - 1 }
}

pub(super) const fn row_transaction_blocks(slots: u16, unit: u32) -> u32 {
    let columns = unit / BLOCK as u32;
    let header = transaction::HEAD + transaction::update_bytes(Kind::Write, slots as u32, columns as u16);
    let blocks = header.div_ceil(BLOCK);
    columns + if blocks > MAX_HEADER_BLOCKS { MAX_HEADER_BLOCKS } else { blocks } as u32
}

#[cfg(test)]
mod tests;
