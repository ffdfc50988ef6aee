//! Gathers updates into the header of a transaction, in memory of the caller; nothing is allocated.

use super::{BLOCK, CHECKSUM, HEAD, MAGIC, MAX_HEADER_BLOCKS, TransactionHead, UPDATE, UpdateHead};
use crate::pool::format::{put, seal};

/// The update does not fit this header any more: finish it, and begin another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the header of the transaction is full")]
pub struct Full;

/// A header that is being filled.
#[derive(Debug)]
pub struct TransactionWriter<'a> {
    out: &'a mut [u8],
    /// Bytes in use.
    used: usize,
    updates: u32,
    /// Of each slot.
    payload_blocks: [u32; 64],
}

impl<'a> TransactionWriter<'a> {
    /// Into the whole blocks of `out`, at most 16; at least one has to be there. What they held does not matter.
    pub fn new(out: &'a mut [u8]) -> Self {
        let capacity = (out.len() / BLOCK).min(MAX_HEADER_BLOCKS) * BLOCK;
        assert!(capacity > 0, "a header has at least one block");
        Self { out: &mut out[..capacity], used: HEAD, updates: 0, payload_blocks: [0; 64] }
    }

    /// Updates so far.
    pub fn updates(&self) -> u32 {
        self.updates
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.updates == 0
    }

    /// Blocks of the header as it is.
    pub fn header_blocks(&self) -> u16 {
        self.used.div_ceil(BLOCK) as u16
    }

    /// Blocks of the payload of a slot's part, so far.
    pub fn payload_blocks(&self, slot: u16) -> u32 {
        self.payload_blocks.get(usize::from(slot)).copied().unwrap_or(0)
    }

    /// Blocks of the header if this update is added; `None` if it does not fit.
    pub fn header_blocks_with(&self, update: &UpdateHead) -> Option<u16> {
        let end = self.used + update.bytes();
        (end <= self.out.len()).then(|| end.div_ceil(BLOCK) as u16)
    }

    /// Adds an update. `entries` gives for each touched slot, ascending, an entry for each column, so
    /// [`UpdateHead::entries`] of them; another number, or an update that touches nothing, is a mistake of the caller, and
    /// panics: a header that cannot be read again must not reach a medium.
    #[inline]
    pub fn push(&mut self, update: &UpdateHead, entries: impl IntoIterator<Item = u32>) -> Result<(), Full> {
        assert!(update.touched != 0 && update.columns != 0, "an update without a block");
        let end = self.used + update.bytes();
        let out = self.out.get_mut(self.used..end).ok_or(Full)?;
        let (head, rest) = out.split_at_mut(UPDATE);
        put(head, 0, &update.row.to_le_bytes());
        put(head, 8, &update.position.to_le_bytes());
        put(head, 10, &update.columns.to_le_bytes());
        put(head, 12, &[update.kind.code(), 0, 0, 0]);
        put(head, 16, &update.touched.to_le_bytes());
        let (places, padding) = rest.split_at_mut(update.entries() * 4);
        let mut entries = entries.into_iter();
        for place in places.as_chunks_mut::<4>().0 {
            *place = entries.next().expect("an entry for each block").to_le_bytes();
        }
        assert!(entries.next().is_none(), "an entry more than blocks");
        padding.fill(0);
        let mut left = if update.entries() > 0 { update.touched } else { 0 };
        while left != 0 {
            self.payload_blocks[left.trailing_zeros() as usize] += u32::from(update.columns);
            left &= left - 1;
        }
        self.used = end;
        self.updates += 1;
        Ok(())
    }

    /// The header for one of the members; `payload_blocks` of it is what [`TransactionWriter::payload_blocks`] says for
    /// its slot. [`restamp`] makes those for the other members of copies of it.
    pub fn finish(self, head: &TransactionHead) -> &'a mut [u8] {
        debug_assert_eq!(head.payload_blocks, self.payload_blocks(head.slot));
        let blocks = self.header_blocks();
        let out = &mut self.out[..usize::from(blocks) * BLOCK];
        out[self.used..].fill(0);
        put(out, 0, &MAGIC);
        put(out, 8, &head.pool);
        put(out, 24, &head.number.to_le_bytes());
        put(out, 32, &head.retired.to_le_bytes());
        put(out, 50, &blocks.to_le_bytes());
        put(out, 56, &self.updates.to_le_bytes());
        restamp(out, head.slot, head.place, head.payload_blocks);
        out
    }
}

/// Makes a finished header that of the part on another member.
pub fn restamp(header: &mut [u8], slot: u16, place: u64, payload_blocks: u32) {
    put(header, 40, &place.to_le_bytes());
    put(header, 48, &slot.to_le_bytes());
    put(header, 52, &payload_blocks.to_le_bytes());
    seal(header, CHECKSUM);
}
