//! Any bytes as a page of the table, as they are and with a checksum that fits: no panic, and what is taken is what would
//! be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plane::pool::format::{BLOCK, Id, TablePage};
use wire::iscsi::digest::crc32c;

const POOL: Id = [0x50; 16];
const CHECKSUM: usize = 252;

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
    let (slot, page) = (2, 1);
    if let Some((generation, entries)) = TablePage::decode(bytes, &POOL, slot, page) {
        let mut again = [0xee; BLOCK];
        TablePage { pool: POOL, slot, page, generation }.encode(entries, &mut again);
        assert_eq!(again[..], bytes[..BLOCK]);
    }
}
