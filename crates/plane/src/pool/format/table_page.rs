//! Table: a checksum for each block of a member's units.

use super::{BLOCK, Id, checksum_around, is_zero, put, seal, take, u16_at, u32_at, u64_at};

/// Entries of a page.
pub const ENTRIES: usize = 960;
/// Never written, or discarded: reads as zeroes.
pub const UNWRITTEN: u32 = 0;
/// What was here could not be rebuilt.
pub const LOST: u32 = 1;

const MAGIC: [u8; 8] = *b"FelsTabl";
const CHECKSUM: usize = 252;
const HEAD: usize = 256;

/// The entry for a block with this CRC32C: the two that have a meaning of their own are moved.
#[inline]
pub const fn entry_of(crc: u32) -> u32 {
    if crc > LOST { crc } else { crc + 2 }
}

/// The entry for a block with these bytes.
#[inline]
pub fn block_entry(bytes: &[u8]) -> u32 {
    entry_of(parity::crc32c(bytes))
}

/// Copies a block to a place of its size, and gives its entry.
#[inline]
pub fn copy_entry(bytes: &[u8], to: &mut [u8]) -> u32 {
    entry_of(parity::copy_crc32c(bytes, to))
}

/// The head of a page: whose it is, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablePage {
    /// Of the pool.
    pub pool: Id,
    /// Of the member.
    pub slot: u16,
    /// Its number.
    pub page: u64,
    /// One more each time that it is written, from 1.
    pub generation: u64,
}

impl TablePage {
    /// Writes a block. Entries that `entries` does not give are [`UNWRITTEN`], what it gives beyond [`ENTRIES`] is not
    /// taken.
    pub fn encode(&self, entries: impl IntoIterator<Item = u32>, out: &mut [u8]) {
        let out = &mut out[..BLOCK];
        out[..HEAD].fill(0);
        put(out, 0, &MAGIC);
        put(out, 8, &self.pool);
        put(out, 24, &self.slot.to_le_bytes());
        put(out, 32, &self.page.to_le_bytes());
        put(out, 40, &self.generation.to_le_bytes());
        let mut entries = entries.into_iter();
        for place in out[HEAD..].as_chunks_mut::<4>().0 {
            *place = entries.next().unwrap_or(UNWRITTEN).to_le_bytes();
        }
        seal(out, CHECKSUM);
    }

    /// The generation and the entries of a block that is this page, whole, of this member. `None` when it is not: torn,
    /// never written, or of another place.
    pub fn decode<'a>(
        bytes: &'a [u8],
        pool: &Id,
        slot: u16,
        page: u64,
    ) -> Option<(u64, impl ExactSizeIterator<Item = u32> + 'a)> {
        let bytes = bytes.get(..BLOCK)?;
        let generation = u64_at(bytes, 40);
        let whole = bytes.starts_with(&MAGIC)
            && take(bytes, 8) == *pool
            && u16_at(bytes, 24) == slot
            && is_zero(&bytes[26..32])
            && u64_at(bytes, 32) == page
            && generation > 0
            && is_zero(&bytes[48..CHECKSUM])
            && u32_at(bytes, CHECKSUM) == checksum_around(bytes, CHECKSUM);
        whole.then(|| {
            (generation, bytes[HEAD..].as_chunks::<4>().0.iter().map(|entry| u32::from_le_bytes(*entry)))
        })
    }
}

#[cfg(test)]
mod tests;
