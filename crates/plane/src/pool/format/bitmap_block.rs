//! Bitmap: rows that were changed while a member was out.

use super::{BLOCK, Id, checksum_around, put, seal, take, u32_at};

/// Bits of a block.
pub const BITS: usize = 32_512;
/// Words of 64 bits that hold them: bit `n` is bit `n % 64` of word `n / 64`.
pub const WORDS: usize = BITS / 64;

const MAGIC: [u8; 8] = *b"FelsBits";
const CHECKSUM: usize = 28;
const HEAD: usize = 32;

/// Writes a block. Words that are not given are zero; more than [`WORDS`] are not taken.
pub fn encode(pool: &Id, number: u32, bits: &[u64], out: &mut [u8]) {
    let out = &mut out[..BLOCK];
    put(out, 0, &MAGIC);
    put(out, 8, pool);
    put(out, 24, &number.to_le_bytes());
    let mut bits = bits.iter();
    for place in out[HEAD..].as_chunks_mut::<8>().0 {
        *place = bits.next().copied().unwrap_or(0).to_le_bytes();
    }
    seal(out, CHECKSUM);
}

/// The [`WORDS`] of a block that is this one, and whole. `None` when it is not: then all its bits count as set.
pub fn decode<'a>(
    bytes: &'a [u8],
    pool: &Id,
    number: u32,
) -> Option<impl ExactSizeIterator<Item = u64> + 'a> {
    let bytes = bytes.get(..BLOCK)?;
    let whole = bytes.starts_with(&MAGIC)
        && take(bytes, 8) == *pool
        && u32_at(bytes, 24) == number
        && u32_at(bytes, CHECKSUM) == checksum_around(bytes, CHECKSUM);
    whole.then(|| bytes[HEAD..].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)))
}

#[cfg(test)]
mod tests;
