//! Stamped blocks: a block that says where it belongs, in which version, and whether it is whole.
//!
//! The bytes are drawn in `docs/formats/stamp.md`.

use std::fmt;

use wire::iscsi::digest::Crc32c;

/// First bytes of every stamped block.
pub const MAGIC: [u8; 8] = *b"FelsStmp";
/// The version of the layout.
pub const VERSION: u32 = 1;
/// Bytes before the filling.
const HEADER: usize = 48;
/// The smallest block that can be stamped, in bytes.
pub const SMALLEST: usize = 512;
/// Bits that may differ for the difference to be called a flip.
const FEW_BITS: u32 = 8;

/// How often a block has been written in this run; the first time is 1.
pub type Generation = u64;

/// What a block should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The run that wrote it.
    pub run: u64,
    /// Its number on the volume.
    pub block: u64,
    /// The oldest generation that may be there.
    pub oldest: Generation,
    /// The newest one.
    pub newest: Generation,
}

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// All bytes are zero.
    Zero,
    /// No stamp.
    Foreign,
    /// A stamp of a layout that this version does not know.
    Version(u32),
    /// A whole stamp of another run.
    OtherRun(u64),
    /// The data of another block.
    Misdirected {
        /// That block.
        block: u64,
        /// Its generation.
        generation: Generation,
    },
    /// An older generation: a write was lost.
    Lost {
        /// What is there.
        generation: Generation,
    },
    /// A generation that was never written.
    Newer {
        /// What is there.
        generation: Generation,
    },
    /// The beginning is of one generation, the rest of another.
    Torn {
        /// Of the beginning.
        generation: Generation,
        /// First byte of something else.
        at: usize,
    },
    /// Nearly right.
    BitFlip {
        /// First byte that differs.
        at: usize,
        /// Bits that differ.
        bits: u32,
    },
    /// The stamp is this block's, the bytes are not.
    Corrupt {
        /// First byte that differs.
        at: usize,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Zero => write!(formatter, "zeroes"),
            Wrong::Foreign => write!(formatter, "data without a stamp"),
            Wrong::Version(version) => write!(formatter, "a stamp of version {version}"),
            Wrong::OtherRun(run) => write!(formatter, "data of another run ({run:016x})"),
            Wrong::Misdirected { block, generation } => {
                write!(formatter, "data of block {block}, generation {generation} (a misdirected write)")
            }
            Wrong::Lost { generation: 0 } => write!(formatter, "nothing of this run (a lost write)"),
            Wrong::Lost { generation } => write!(formatter, "generation {generation} (a lost write)"),
            Wrong::Newer { generation } => {
                write!(formatter, "generation {generation}, which was never written")
            }
            Wrong::Torn { generation, at } => {
                write!(formatter, "generation {generation} up to byte {at}, then another (a torn write)")
            }
            Wrong::BitFlip { at, bits } => write!(formatter, "{bits} flipped bits from byte {at}"),
            Wrong::Corrupt { at } => write!(formatter, "wrong bytes from byte {at}"),
        }
    }
}

/// A step of a generator whose words look random (SplitMix64).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The words behind the header.
fn filling(run: u64, block: u64, generation: Generation) -> impl Iterator<Item = u64> {
    let seed =
        mix(run) ^ mix(block.wrapping_add(0x9e37_79b9)) ^ mix(generation.wrapping_mul(0x2545_f491_4f6c_dd1d));
    (1u64..).map(move |index| mix(seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
}

fn checksum(block: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&block[..HEADER - 8]);
    crc.update(&[0; 4]);
    crc.update(&block[HEADER - 4..]);
    crc.value()
}

/// Fills `block` (at least [`SMALLEST`] bytes, a multiple of 8).
pub fn stamp(block: &mut [u8], run: u64, number: u64, generation: Generation) {
    assert!(block.len() >= SMALLEST && block.len().is_multiple_of(8), "a block is at least 512 bytes");
    let (header, body) = block.split_at_mut(HEADER);
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
    header[16..24].copy_from_slice(&run.to_le_bytes());
    header[24..32].copy_from_slice(&number.to_le_bytes());
    header[32..40].copy_from_slice(&generation.to_le_bytes());
    header[40..].fill(0);
    for (word, value) in body.as_chunks_mut::<8>().0.iter_mut().zip(filling(run, number, generation)) {
        *word = value.to_le_bytes();
    }
    let crc = checksum(block);
    block[HEADER - 8..HEADER - 4].copy_from_slice(&crc.to_le_bytes());
}

fn word(block: &[u8], offset: usize) -> u64 {
    block.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Whose stamp a block bears, and whether it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    run: u64,
    block: u64,
    generation: Generation,
}

/// Compares a block with what it should be. An expectation from generation 0 on takes anything that is not of this
/// run for generation 0.
pub fn check(block: &[u8], expected: &Expectation) -> Result<Generation, Wrong> {
    let found = look(block, expected);
    if expected.oldest == 0 && matches!(found, Err(Wrong::Zero | Wrong::Foreign | Wrong::OtherRun(_))) {
        return Ok(0);
    }
    found
}

fn look(block: &[u8], expected: &Expectation) -> Result<Generation, Wrong> {
    if block.iter().all(|&byte| byte == 0) {
        return Err(Wrong::Zero);
    }
    if block.len() < SMALLEST || !block.len().is_multiple_of(8) {
        return Err(Wrong::Foreign);
    }
    let stamp = Stamp { run: word(block, 16), block: word(block, 24), generation: word(block, 32) };
    let stored = (word(block, HEADER - 8) & 0xffff_ffff) as u32;
    if checksum(block) != stored {
        return Err(damage(block, expected, stamp));
    }
    if block[..8] != MAGIC {
        return Err(Wrong::Foreign);
    }
    let version = (word(block, 8) & 0xffff_ffff) as u32;
    if version != VERSION {
        return Err(Wrong::Version(version));
    }
    let Stamp { run, block: number, generation } = stamp;
    if run != expected.run {
        return Err(Wrong::OtherRun(run));
    }
    if number != expected.block {
        return Err(Wrong::Misdirected { block: number, generation });
    }
    if generation < expected.oldest {
        return Err(Wrong::Lost { generation });
    }
    if generation > expected.newest {
        return Err(Wrong::Newer { generation });
    }
    Ok(generation)
}

/// What happened to a block whose checksum is wrong: it is compared with the whole blocks that it could have been.
fn damage(block: &[u8], expected: &Expectation, found: Stamp) -> Wrong {
    let mut whole = vec![0; block.len()];
    let mut differences = |generation| {
        stamp(&mut whole, expected.run, expected.block, generation);
        let bits: u32 = whole.iter().zip(block).map(|(a, b)| (a ^ b).count_ones()).sum();
        (bits, whole.iter().zip(block).position(|(a, b)| a != b).unwrap_or(block.len()))
    };
    for generation in [found.generation, expected.newest, expected.oldest] {
        let (bits, at) = differences(generation);
        if bits <= FEW_BITS {
            return Wrong::BitFlip { at, bits };
        }
    }
    let ours = block[..8] == MAGIC && found.run == expected.run && found.block == expected.block;
    if !ours {
        return Wrong::Foreign;
    }
    let (_, at) = differences(found.generation);
    // The rest may be of any generation before; the last few are the likely ones.
    let older = (1..=16)
        .filter_map(|back| found.generation.checked_sub(back))
        .chain([expected.newest, expected.oldest]);
    for generation in older.filter(|&generation| generation > 0 && generation != found.generation) {
        let mut other = vec![0; block.len()];
        stamp(&mut other, expected.run, expected.block, generation);
        if other[at..] == block[at..] {
            return Wrong::Torn { generation: found.generation, at };
        }
    }
    if block[at..].iter().all(|&byte| byte == 0) {
        return Wrong::Torn { generation: found.generation, at };
    }
    Wrong::Corrupt { at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: u64 = 77;

    fn block(number: u64, generation: Generation) -> Vec<u8> {
        let mut block = vec![0; 4096];
        stamp(&mut block, RUN, number, generation);
        block
    }

    fn at(block: u64, oldest: Generation, newest: Generation) -> Expectation {
        Expectation { run: RUN, block, oldest, newest }
    }

    #[test]
    fn what_was_stamped_is_recognised() {
        assert_eq!(check(&block(5, 3), &at(5, 3, 3)), Ok(3));
        assert_eq!(check(&block(5, 3), &at(5, 1, 9)), Ok(3));
    }

    #[test]
    fn every_kind_of_damage_has_its_name() {
        assert_eq!(check(&[0; 512], &at(5, 1, 1)), Err(Wrong::Zero));
        assert_eq!(check(&[9; 512], &at(5, 1, 1)), Err(Wrong::Foreign));
        assert_eq!(check(&block(6, 4), &at(5, 1, 9)), Err(Wrong::Misdirected { block: 6, generation: 4 }));
        assert_eq!(check(&block(5, 3), &at(5, 4, 4)), Err(Wrong::Lost { generation: 3 }));
        assert_eq!(check(&block(5, 5), &at(5, 4, 4)), Err(Wrong::Newer { generation: 5 }));
        let mut other = block(5, 3);
        stamp(&mut other, 78, 5, 3);
        assert_eq!(check(&other, &at(5, 3, 3)), Err(Wrong::OtherRun(78)));
        let mut torn = block(5, 4);
        torn[1024..].copy_from_slice(&block(5, 3)[1024..]);
        assert_eq!(check(&torn, &at(5, 4, 4)), Err(Wrong::Torn { generation: 4, at: 1024 }));
        let mut flipped = block(5, 4);
        flipped[2000] ^= 0x10;
        assert_eq!(check(&flipped, &at(5, 4, 4)), Err(Wrong::BitFlip { at: 2000, bits: 1 }));
        let mut corrupt = block(5, 4);
        corrupt[512..600].fill(0xee);
        assert_eq!(check(&corrupt, &at(5, 4, 4)), Err(Wrong::Corrupt { at: 512 }));
    }

    #[test]
    fn before_the_first_write_anything_foreign_is_right() {
        assert_eq!(check(&[0; 512], &at(5, 0, 2)), Ok(0));
        assert_eq!(check(&[9; 512], &at(5, 0, 2)), Ok(0));
        assert_eq!(check(&block(6, 1), &at(5, 0, 2)), Err(Wrong::Misdirected { block: 6, generation: 1 }));
    }

    proptest! {
        #[test]
        fn no_single_bit_goes_unseen(bit in 0usize..512 * 8, generation in 1u64..1 << 40, number: u64) {
            let mut block = vec![0; 512];
            stamp(&mut block, RUN, number, generation);
            block[bit / 8] ^= 1 << (bit % 8);
            let expected = Expectation { run: RUN, block: number, oldest: generation, newest: generation };
            prop_assert_eq!(check(&block, &expected), Err(Wrong::BitFlip { at: bit / 8, bits: 1 }));
        }

        #[test]
        fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..1024)) {
            let _ = check(&bytes, &at(1, 1, 2));
        }
    }
}
