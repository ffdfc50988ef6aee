//! Blocks that say of each of their sectors where it belongs and which write it came from.

/// Bytes of a sector; each has its own stamp, so that a torn block is seen as what it is.
pub const SECTOR: usize = 512;

/// Fills `block`, which begins at sector number `sector`, with stamps of write number `version`.
pub fn fill(block: &mut [u8], sector: u64, version: u64) {
    for (index, bytes) in block.chunks_exact_mut(SECTOR).enumerate() {
        let sector = sector + index as u64;
        for (word, bytes) in bytes.chunks_exact_mut(8).enumerate() {
            let value = match word {
                0 => sector,
                1 => version,
                _ => mix(sector, version, word as u64),
            };
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// The write that sector number `sector` came from: 0 if it was never written, `Err` if it is not a whole
/// stamp of this sector.
pub fn version(bytes: &[u8], sector: u64) -> Result<u64, String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    let word = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("eight bytes"));
    let version = word(1);
    if word(0) != sector {
        return Err(format!("sector {sector} holds what was written to sector {}", word(0)));
    }
    match (2..SECTOR / 8).find(|index| word(*index) != mix(sector, version, *index as u64)) {
        Some(index) => Err(format!("sector {sector}, version {version}, is wrong from byte {}", index * 8)),
        None => Ok(version),
    }
}

/// The finaliser of `SplitMix64`: each bit of the input changes about half of the output's.
fn mix(sector: u64, version: u64, word: u64) -> u64 {
    let mut value = sector ^ version.rotate_left(24) ^ word.rotate_left(48);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_only_good_whole_and_in_its_place() {
        let mut block = [0; 2 * SECTOR];
        assert_eq!(version(&block[..SECTOR], 7), Ok(0));
        fill(&mut block, 7, 42);
        assert_eq!(version(&block[SECTOR..], 8), Ok(42));
        assert!(version(&block[..SECTOR], 8).is_err());
        block[300] ^= 1;
        assert!(version(&block[..SECTOR], 7).is_err());
    }
}
