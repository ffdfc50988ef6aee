//! CRC32C is what a loop over bits says, whatever the length, and a copy is a copy.

use parity::{copy_crc32c, crc32c};
use proptest::prelude::*;

/// Bit for bit, by the definition.
fn plain(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 };
        }
    }
    !crc
}

#[test]
fn vectors_of_the_standard() {
    let incrementing: Vec<u8> = (0..32).collect();
    for (bytes, crc) in
        [(&[0_u8; 32][..], 0x8a91_36aa_u32), (&[0xff; 32], 0x62a8_ab43), (&incrementing, 0x46dd_794e)]
    {
        assert_eq!(crc32c(bytes), crc);
    }
    assert_eq!(crc32c(&[]), 0);
    assert_eq!(crc32c(&[0; 4096]), 0x98f9_4189);
}

#[test]
fn each_bit_of_a_block_counts() {
    let mut block: Vec<u8> = (0..1024_u32).map(|index| (index * 37 / 8) as u8).collect();
    let whole = crc32c(&block);
    for bit in 0..8 * block.len() {
        block[bit / 8] ^= 1 << (bit % 8);
        let other = crc32c(&block);
        assert!(other != whole && other == plain(&block), "bit {bit}");
        block[bit / 8] ^= 1 << (bit % 8);
    }
}

proptest! {
    #[test]
    fn all_lengths_at_all_addresses(
        steps in 0_usize..12, rest in prop_oneof![Just(0_usize), 0_usize..512], start in 0_usize..64, seed: u64,
    ) {
        let length = steps * 512 + rest;
        let mut state = seed | 1;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let bytes: Vec<u8> = (0..start + length).map(|_| byte()).collect();
        let bytes = &bytes[start..];
        let crc = plain(bytes);
        prop_assert_eq!(crc32c(bytes), crc);
        let mut copy = vec![0xa5; length + 2];
        prop_assert_eq!(copy_crc32c(bytes, &mut copy[1..=length]), crc);
        prop_assert_eq!(&copy[1..=length], bytes);
        prop_assert_eq!((copy[0], copy[length + 1]), (0xa5, 0xa5));
    }
}

#[test]
#[should_panic(expected = "bytes to copy to")]
fn a_copy_needs_as_much_room() {
    copy_crc32c(&[0; 512], &mut [0; 1024]);
}
