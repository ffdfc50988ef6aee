//! Journal: the header of a transaction, which says what changes on all members. Each of them has a part: this header,
//! and behind it its own new blocks.

mod reader;
mod writer;

use super::{BLOCK, Id};

pub use reader::{Entries, NotOne, Transaction, Update, Updates};
pub use writer::{Full, TransactionWriter, restamp};

/// Most blocks of a header.
pub const MAX_HEADER_BLOCKS: usize = 16;
/// Bytes before the first update.
pub const HEAD: usize = 64;

const MAGIC: [u8; 8] = *b"FelsTran";
const CHECKSUM: usize = 60;
/// Bytes of an update before its entries.
const UPDATE: usize = 24;

/// What a change does to the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// They get new content.
    Write,
    /// They read as zeroes from then on, and have no content.
    Erase,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Write => 1,
            Self::Erase => 2,
        }
    }
}

/// A change of neighbouring columns of a row, without its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateHead {
    /// The row.
    pub row: u64,
    /// Of the first column.
    pub position: u16,
    /// Their number, 1 or more.
    pub columns: u16,
    /// What is done.
    pub kind: Kind,
    /// A bit for each slot whose blocks change; not zero.
    pub touched: u64,
}

impl UpdateHead {
    /// Number of its entries.
    #[inline]
    pub const fn entries(&self) -> usize {
        match self.kind {
            Kind::Write => self.touched.count_ones() as usize * self.columns as usize,
            Kind::Erase => 0,
        }
    }

    /// Bytes that it takes in a header, its entries and their padding as well.
    #[inline]
    pub const fn bytes(&self) -> usize {
        update_bytes(self.kind, self.touched.count_ones(), self.columns)
    }

    /// Blocks that it adds to the payload of a slot's part.
    #[inline]
    pub const fn payload_blocks(&self, slot: u16) -> u32 {
        match self.kind {
            Kind::Write if slot < 64 && self.touched >> slot & 1 == 1 => self.columns as u32,
            _ => 0,
        }
    }
}

/// Bytes of an update that touches so many slots.
#[inline]
pub const fn update_bytes(kind: Kind, touched: u32, columns: u16) -> usize {
    match kind {
        Kind::Write => UPDATE + (touched as usize * columns as usize * 4).next_multiple_of(8),
        Kind::Erase => UPDATE,
    }
}

/// What a header says beside its updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionHead {
    /// Of the pool.
    pub pool: Id,
    /// Unique in the pool, ascending within a segment, from 1.
    pub number: u64,
    /// Transactions with a lower number need not be looked at any more.
    pub retired: u64,
    /// Where this header lies, in bytes.
    pub place: u64,
    /// Of the member that this part is on.
    pub slot: u16,
    /// That follow on this member.
    pub payload_blocks: u32,
}

#[cfg(test)]
mod tests;
