//! Any bytes as a block of the bitmap, as they are and with a checksum that fits: no panic, and what is taken is what
//! would be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plane::pool::format::{BLOCK, Id, bitmap_block};
use wire::iscsi::digest::crc32c;

const POOL: Id = [0x50; 16];
const CHECKSUM: usize = 28;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut block = bytes.to_vec();
    block.resize(BLOCK, 0);
    block[CHECKSUM..CHECKSUM + 4].fill(0);
    let checksum = crc32c(&block);
    block[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
    check(&block);
});

fn check(bytes: &[u8]) {
    if let Some(words) = bitmap_block::decode(bytes, &POOL, 3) {
        let words: Vec<u64> = words.collect();
        let mut again = [0xee; BLOCK];
        bitmap_block::encode(&POOL, 3, &words, &mut again);
        assert_eq!(again[..], bytes[..BLOCK]);
    }
}
