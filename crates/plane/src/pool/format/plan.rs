//! How a member is divided: the largest layout that fits.

use super::geometry::{
    CATALOGUE_BLOCKS, MAX_MEMBER_BYTES, SEGMENTS, UNITS, end_bytes, row_transaction_blocks,
};
use super::{BLOCK, Geometry, Sets, bitmap_block, table_page};
use crate::pool::Level;

/// Bytes of a unit when nobody says.
pub const DEFAULT_UNIT: u32 = 64 << 10;
/// Blocks of a copy of the catalogue when nobody says: 128 volumes.
pub const DEFAULT_CATALOGUE_BLOCKS: u32 = 16;

/// Most blocks of the bitmap that is planned: it is read as a whole, and a bit may well stand for several rows.
const BITMAP_BLOCKS: u64 = 16;
/// Fewest segments: every core fills one while others are read back and retired.
const LEAST_SEGMENTS: u64 = 16;
/// Segments that a larger journal is divided into.
const WANTED_SEGMENTS: u64 = 64;
/// Fewest bytes of a segment.
const LEAST_SEGMENT_BYTES: u64 = 64 << 10;
/// Most bytes of a segment: a larger one is no faster, and is read as a whole after a power cut.
const MOST_SEGMENT_BYTES: u64 = 64 << 20;
/// From here on units begin at a multiple of 1 MiB, as partitions do.
const LARGE_MEMBER_BYTES: u64 = 64 << 20;

/// Why no layout was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The level wants another number of members.
    #[error("{level} cannot have {slots} members; hint: {}", wanted(*.level))]
    Members {
        /// The level.
        level: Level,
        /// What it was to have.
        slots: u16,
    },
    /// The unit cannot be so.
    #[error(
        "a stripe unit of {0} bytes is not possible; hint: give a power of two from 4KiB to 1MiB, 64KiB suits most"
    )]
    Unit(u32),
    /// The catalogue cannot be so.
    #[error("a catalogue of {0} blocks is not possible; hint: give 1 to 1024, each holds 8 volumes")]
    Catalogue(u32),
    /// No row fits.
    #[error(
        "a member of {bytes} bytes is too small, {needed} are needed; hint: give larger members or a smaller unit"
    )]
    TooSmall {
        /// Of the smallest member.
        bytes: u64,
        /// That hold one row.
        needed: u64,
    },
}

fn wanted(level: Level) -> &'static str {
    match level {
        Level::Single => "it has one",
        Level::Raid0 => "give 2 to 64",
        Level::Raid1 => "give 2 to 4",
        Level::Raid10 => "give an even number from 4 to 64",
        Level::Raid5 => "give 3 to 64",
        Level::Raid6 => "give 4 to 64",
    }
}

/// Bytes of journal for members of a size when nobody says: a 64th, 1 to 64 MiB.
pub fn default_journal_bytes(member_bytes: u64) -> u64 {
    (member_bytes / 64).clamp(1 << 20, 64 << 20)
}

/// What the place of the units is a multiple of.
fn alignment(member_bytes: u64, unit: u32) -> u64 {
    let large = if member_bytes > LARGE_MEMBER_BYTES { 1 << 20 } else { 0 };
    u64::from(unit).max(large)
}

/// What is decided before the number of rows is.
struct Frame {
    /// Bytes of a member.
    bytes: u64,
    unit: u64,
    /// Of the label and the catalogues at each end.
    end: u64,
    segment_bytes: u64,
    segments: u64,
    /// What the place of the units is a multiple of.
    alignment: u64,
}

/// The variable regions for a number of rows.
struct Regions {
    bitmap: u64,
    bitmap_blocks: u64,
    table: u64,
    table_pages: u64,
    data: u64,
    /// Bytes of a member that has all this.
    needed: u64,
}

impl Frame {
    fn regions(&self, rows: u64, rows_per_bit: u64) -> Regions {
        let block = BLOCK as u64;
        let bitmap = self.end + self.segments * self.segment_bytes;
        let bitmap_blocks = rows.div_ceil(rows_per_bit).div_ceil(bitmap_block::BITS as u64);
        let table = bitmap + bitmap_blocks * block;
        let table_pages = (rows * (self.unit / block)).div_ceil(table_page::ENTRIES as u64);
        let data = (table + table_pages * 2 * block).next_multiple_of(self.alignment);
        Regions {
            bitmap,
            bitmap_blocks,
            table,
            table_pages,
            data,
            needed: data + rows * self.unit + self.end,
        }
    }

    /// Most rows that fit with bits for so many; `None` when not one does. With a fixed number of rows for each bit
    /// the bytes needed only rise with the rows.
    fn most_rows(&self, rows_per_bit: u64) -> Option<u64> {
        let fits = |rows| self.regions(rows, rows_per_bit).needed <= self.bytes;
        let (mut fit, mut over) = (1, self.bytes / self.unit + 1);
        if !fits(fit) {
            return None;
        }
        while over - fit > 1 {
            let middle = fit.midpoint(over);
            if fits(middle) {
                fit = middle;
            } else {
                over = middle;
            }
        }
        Some(fit)
    }

    /// Most rows with a bitmap that is not too large, and how many of them each bit stands for: as few as can be.
    fn solve(&self) -> Option<(u64, u64)> {
        let mut best: Option<(u64, u64)> = None;
        for rows_per_bit in (0..u32::BITS).map(|power| 1 << power) {
            let most = self.most_rows(rows_per_bit)?;
            let covered = BITMAP_BLOCKS * bitmap_block::BITS as u64 * rows_per_bit;
            let rows = most.min(covered);
            if best.is_none_or(|(best, _)| rows > best) {
                best = Some((rows, rows_per_bit));
            }
            if most <= covered {
                break;
            }
        }
        best
    }
}

impl Geometry {
    /// The largest layout for members of which the smallest has `member_bytes`. The journal has at least
    /// `journal_bytes`, and more when 16 segments that each hold a transaction of a full row need it.
    pub fn plan(
        level: Level,
        slots: u16,
        unit: u32,
        member_bytes: u64,
        catalogue_blocks: u32,
        journal_bytes: u64,
    ) -> Result<Self, PlanError> {
        if !level.takes(slots) {
            return Err(PlanError::Members { level, slots });
        }
        if !UNITS.contains(&unit) || !unit.is_power_of_two() {
            return Err(PlanError::Unit(unit));
        }
        if !CATALOGUE_BLOCKS.contains(&catalogue_blocks) {
            return Err(PlanError::Catalogue(catalogue_blocks));
        }
        let block = BLOCK as u64;
        // Copies may be added later.
        let most_slots = if level == Level::Raid1 { *level.slots().end() } else { slots };
        let row_transaction = u64::from(row_transaction_blocks(most_slots, unit)) * block;
        let segment_bytes = (journal_bytes / WANTED_SEGMENTS / block * block)
            .clamp(LEAST_SEGMENT_BYTES, MOST_SEGMENT_BYTES)
            .max(row_transaction);
        let segments =
            journal_bytes.div_ceil(segment_bytes).clamp(LEAST_SEGMENTS, u64::from(*SEGMENTS.end()));
        let bytes = member_bytes.min(MAX_MEMBER_BYTES) / block * block;
        let mut frame = Frame {
            bytes,
            unit: unit.into(),
            end: end_bytes(catalogue_blocks),
            segment_bytes,
            segments,
            alignment: alignment(bytes, unit),
        };
        let Some((rows, rows_per_bit)) = frame.solve() else {
            // Members of the size that is named have to do, and they may be aligned otherwise.
            frame.alignment = alignment(frame.regions(1, 1).needed, unit);
            return Err(PlanError::TooSmall { bytes: member_bytes, needed: frame.regions(1, 1).needed });
        };
        let regions = frame.regions(rows, rows_per_bit);
        Ok(Self {
            level,
            slots,
            sets: Sets::default(),
            unit,
            rows,
            bytes,
            catalogue_blocks,
            journal: frame.end,
            segment_bytes: segment_bytes as u32,
            segments: segments as u32,
            bitmap: regions.bitmap,
            bitmap_blocks: regions.bitmap_blocks as u32,
            rows_per_bit: rows_per_bit as u32,
            table: regions.table,
            table_pages: regions.table_pages,
            data: regions.data,
        })
    }
}

impl Geometry {
    /// The largest layout for members that have `member_bytes` now: everything stays where it is, rows are added behind the last
    /// one, and bitmap and table, which have to be larger, get new places that nothing had before. `None` when not one row is won.
    pub fn grown(&self, member_bytes: u64) -> Option<Geometry> {
        let block = BLOCK as u64;
        let bytes = member_bytes.min(MAX_MEMBER_BYTES) / block * block;
        let with = |rows: u64| {
            let bitmap_blocks = rows.div_ceil(self.rows_per_bit.into()).div_ceil(bitmap_block::BITS as u64);
            let table_pages = (rows * u64::from(self.blocks_per_unit())).div_ceil(table_page::ENTRIES as u64);
            // What is in use until the change is left alone by what is written before it.
            let bitmap = (self.data + rows * u64::from(self.unit)).max(self.bytes);
            let table = bitmap + bitmap_blocks * block;
            let end = table + table_pages * 2 * block + end_bytes(self.catalogue_blocks);
            let most = u64::from(*super::geometry::BITMAP_BLOCKS.end());
            (end <= bytes && bitmap_blocks <= most).then_some(Geometry {
                rows,
                bytes,
                bitmap,
                bitmap_blocks: bitmap_blocks as u32,
                table,
                table_pages,
                ..*self
            })
        };
        let (mut fit, mut over) = (with(self.rows + 1)?, bytes / u64::from(self.unit) + 1);
        while over - fit.rows > 1 {
            let middle = fit.rows.midpoint(over);
            match with(middle) {
                Some(more) => fit = more,
                None => over = middle,
            }
        }
        Some(fit)
    }
}

#[cfg(test)]
mod tests;
