//! What a pool keeps on its members, byte for byte: `docs/formats/pool.md`. Pure codecs, no I/O and no clock.
//!
//! A decoder takes only what an encoder can have written: reserved bytes have to be zero, so that the next version
//! can use them and knows that no one else did.

pub mod bitmap_block;
pub mod catalogue;
mod extension;
mod geometry;
pub mod label;
mod plan;
mod sets;
mod slot;
pub mod table_page;
pub mod transaction;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod samples;

use wire::iscsi::digest::{Crc32c, crc32c};

pub use catalogue::{CatalogueError, RowExtent, VolumeEntry};
pub use extension::ExtensionError;
pub use geometry::{Geometry, GeometryError};
pub use label::{CatalogueReference, End, Label, LabelError, ScrubPlace};
pub use plan::{DEFAULT_CATALOGUE_BLOCKS, DEFAULT_UNIT, PlanError, default_journal_bytes};
pub use sets::{MAX_SETS, Sets, row_of, set_of, within};
pub use slot::{Cause, Slot, SlotState};
pub use table_page::{LOST, TablePage, UNWRITTEN, block_entry, copy_entry, entry_of};
pub use transaction::{Kind, NotOne, Transaction, TransactionHead, TransactionWriter, Update, UpdateHead};

/// Bytes of a block: what a checksum stands for, and to what everything is aligned.
pub const BLOCK: usize = 4096;

/// What a pool, a member and a volume are known by, for ever. Random; never zero.
pub type Id = [u8; 16];

/// `N` bytes at `offset`, or zeroes beyond the end: callers check lengths first, and this keeps a forgotten check from
/// becoming a panic.
fn take<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(take(bytes, offset))
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(take(bytes, offset))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(take(bytes, offset))
}

/// Copies `field` to `offset`, which has to be inside.
fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    bytes[offset..offset + field.len()].copy_from_slice(field);
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// The checksum of `bytes` with the four at `field` taken as zero.
fn checksum_around(bytes: &[u8], field: usize) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&bytes[..field]);
    crc.update(&[0; 4]);
    crc.update(&bytes[field + 4..]);
    crc.value()
}

/// Puts the checksum of `bytes` to `field`.
fn seal(bytes: &mut [u8], field: usize) {
    put(bytes, field, &[0; 4]);
    let checksum = crc32c(bytes);
    put(bytes, field, &checksum.to_le_bytes());
}

/// The name in a field that is zero behind it. `None` when it is empty, too long, no UTF-8, has control characters or
/// something behind it.
fn name_in(field: &[u8], length: usize) -> Option<&str> {
    let (name, rest) = field.split_at_checked(length)?;
    let name = std::str::from_utf8(name).ok()?;
    (is_zero(rest) && is_name(name, field.len())).then_some(name)
}

/// Whether a name can be written into a field of `most` bytes.
fn is_name(name: &str, most: usize) -> bool {
    !name.is_empty() && name.len() <= most && !name.chars().any(char::is_control)
}
