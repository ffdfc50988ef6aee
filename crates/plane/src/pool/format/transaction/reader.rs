//! Reads the header of a transaction from a segment, where anything may be.

use super::{BLOCK, CHECKSUM, HEAD, Kind, MAGIC, MAX_HEADER_BLOCKS, TransactionHead, UPDATE, UpdateHead};
use crate::pool::format::{Geometry, Id, checksum_around, is_zero, take, u16_at, u32_at, u64_at};

/// Why there is no transaction at a place. All but [`NotOne::Short`] are what the end of a segment looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOne {
    /// Something else is here.
    #[error("there is no transaction")]
    NoMagic,
    /// It may be one: ask again with so many blocks, at most 16.
    #[error("the header of the transaction has {blocks} blocks")]
    Short {
        /// Of the header.
        blocks: u16,
    },
    /// It is torn, or was damaged.
    #[error("the header of the transaction is not whole")]
    Damaged,
    /// It is of another pool.
    #[error("the transaction is of another pool")]
    Foreign,
    /// It was written for another place.
    #[error("the transaction belongs to byte {0} of its member")]
    Misplaced(u64),
    /// It is whole and makes no sense.
    #[error("the transaction is not valid: {0}")]
    Invalid(&'static str),
}

/// A header that is whole, and in order for its pool.
#[derive(Debug, Clone, Copy)]
pub struct Transaction<'a> {
    /// What it says beside its updates.
    pub head: TransactionHead,
    /// Blocks of the header.
    pub header_blocks: u16,
    updates: u32,
    /// The updates, and zeroes behind them.
    body: &'a [u8],
}

/// An update of a header.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// What it does, and to which blocks.
    pub head: UpdateHead,
    /// Where the new blocks of this member begin, in blocks of its part, so behind the header. There are
    /// `head.payload_blocks(slot)` of them, which may be none.
    pub payload: u32,
    entries: &'a [[u8; 4]],
}

/// Entries of the table, for neighbouring blocks.
pub type Entries<'a> = std::iter::Map<std::slice::Iter<'a, [u8; 4]>, fn(&[u8; 4]) -> u32>;

fn entries(bytes: &[[u8; 4]]) -> Entries<'_> {
    bytes.iter().map(|entry| u32::from_le_bytes(*entry))
}

impl<'a> Update<'a> {
    /// For each touched slot, ascending, an entry for each column; none of an erase.
    pub fn entries(&self) -> Entries<'a> {
        entries(self.entries)
    }

    /// The entries of a slot, one for each column; none when it is not touched, or for an erase.
    pub fn entries_of(&self, slot: u16) -> Entries<'a> {
        let columns = self.head.payload_blocks(slot) as usize;
        if columns == 0 {
            return entries(&[]);
        }
        let before = (self.head.touched & ((1 << slot) - 1)).count_ones() as usize * columns;
        entries(self.entries.get(before..before + columns).unwrap_or(&[]))
    }
}

impl<'a> Transaction<'a> {
    /// Reads the header at the begin of `bytes`, which were read at `place` of a member. What is returned refers only to
    /// rows, columns and slots that the pool has, and to payload within the segment.
    pub fn decode(bytes: &'a [u8], pool: &Id, place: u64, geometry: &Geometry) -> Result<Self, NotOne> {
        if !bytes.starts_with(&MAGIC) {
            return Err(NotOne::NoMagic);
        }
        if bytes.len() < HEAD {
            return Err(NotOne::Short { blocks: 1 });
        }
        let header_blocks = u16_at(bytes, 50);
        if !(1..=MAX_HEADER_BLOCKS).contains(&usize::from(header_blocks)) {
            return Err(NotOne::Damaged);
        }
        let header =
            bytes.get(..usize::from(header_blocks) * BLOCK).ok_or(NotOne::Short { blocks: header_blocks })?;
        if u32_at(header, CHECKSUM) != checksum_around(header, CHECKSUM) {
            return Err(NotOne::Damaged);
        }
        let head = TransactionHead {
            pool: take(header, 8),
            number: u64_at(header, 24),
            retired: u64_at(header, 32),
            place: u64_at(header, 40),
            slot: u16_at(header, 48),
            payload_blocks: u32_at(header, 52),
        };
        if head.pool != *pool {
            return Err(NotOne::Foreign);
        }
        if head.place != place {
            return Err(NotOne::Misplaced(head.place));
        }
        let transaction = Self { head, header_blocks, updates: u32_at(header, 56), body: &header[HEAD..] };
        transaction.check(geometry).map_err(NotOne::Invalid)?;
        Ok(transaction)
    }

    fn check(&self, geometry: &Geometry) -> Result<(), &'static str> {
        let hold = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
        hold(self.head.number > 0, "its number is zero")?;
        hold(self.head.slot < geometry.slots, "its slot")?;
        // Each update has at least 24 bytes, so their number is bounded by the header.
        let mut updates = Updates { left: self.updates, rest: self.body, slot: self.head.slot, payload: 0 };
        while updates.left > 0 {
            let update = updates.parse().ok_or("an update is cut off, or of no known kind")?;
            let head = update.head;
            hold(geometry.has_row(head.row), "a row that the pool does not have")?;
            let end = u32::from(head.position) + u32::from(head.columns);
            hold(head.columns > 0 && end <= geometry.blocks_per_unit(), "columns that a unit does not have")?;
            hold(
                head.touched != 0 && head.touched & !geometry.row_mask(head.row) == 0,
                "slots that the row does not have",
            )?;
        }
        hold(updates.payload == self.head.payload_blocks, "its payload is not what the updates say")?;
        hold(is_zero(updates.rest), "there is something behind its updates")?;
        hold(updates.rest.len() < BLOCK, "a block of its header is empty")?;
        let part = u64::from(self.blocks()) * BLOCK as u64;
        let within = self.head.place.checked_sub(geometry.journal).is_some_and(|offset| {
            let segment = u64::from(geometry.segment_bytes);
            self.head.place.is_multiple_of(BLOCK as u64)
                && offset / segment < geometry.segments.into()
                && offset % segment + part <= segment
        });
        hold(within, "it does not lie in a segment")
    }

    /// Blocks of this part: header and payload.
    pub fn blocks(&self) -> u32 {
        u32::from(self.header_blocks) + self.head.payload_blocks
    }

    /// The updates, in their order.
    pub fn updates(&self) -> Updates<'a> {
        Updates {
            left: self.updates,
            rest: self.body,
            slot: self.head.slot,
            payload: self.header_blocks.into(),
        }
    }
}

/// The updates of a header.
#[derive(Debug, Clone)]
pub struct Updates<'a> {
    left: u32,
    rest: &'a [u8],
    /// Whose part it is.
    slot: u16,
    /// Blocks of the part before the payload of the next update.
    payload: u32,
}

impl<'a> Updates<'a> {
    fn parse(&mut self) -> Option<Update<'a>> {
        let (bytes, rest) = self.rest.split_at_checked(UPDATE)?;
        let kind = match bytes[12..16] {
            [1, 0, 0, 0] => Kind::Write,
            [2, 0, 0, 0] => Kind::Erase,
            _ => return None,
        };
        let head = UpdateHead {
            row: u64_at(bytes, 0),
            position: u16_at(bytes, 8),
            columns: u16_at(bytes, 10),
            kind,
            touched: u64_at(bytes, 16),
        };
        let (entries, rest) = rest.split_at_checked(head.bytes() - UPDATE)?;
        let (entries, padding) = entries.split_at(head.entries() * 4);
        if !is_zero(padding) {
            return None;
        }
        let update = Update { head, payload: self.payload, entries: entries.as_chunks().0 };
        self.payload += head.payload_blocks(self.slot);
        self.left -= 1;
        self.rest = rest;
        Some(update)
    }
}

impl<'a> Iterator for Updates<'a> {
    type Item = Update<'a>;

    fn next(&mut self) -> Option<Update<'a>> {
        if self.left == 0 { None } else { self.parse() }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Updates<'_> {}
