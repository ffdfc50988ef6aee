//! Any bytes as blocks, rows and names of the history, as they are and with checksums that fit: no panic, and what is
//! taken is what would be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use monitor::history::format::{BLOCK, Block, Names, ROW_STRIDE, Row};
use wire::iscsi::digest::crc32c;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if bytes.len() < 32 {
        return;
    }
    let mut block = bytes.to_vec();
    block.resize(BLOCK, 0);
    let checksum = crc32c(&block[4..]);
    block[..4].copy_from_slice(&checksum.to_le_bytes());
    check(&block);
    let mut row = bytes.to_vec();
    let count = (row.len().min(ROW_STRIDE) - 32) / 4;
    row.truncate(32 + 4 * count);
    row[24..28].copy_from_slice(&(count as u32).to_le_bytes());
    let checksum = crc32c(&row[4..]);
    row[..4].copy_from_slice(&checksum.to_le_bytes());
    check(&row);
    let mut names = bytes.to_vec();
    names[..8].copy_from_slice(b"FelsName");
    names[8..12].copy_from_slice(&1u32.to_le_bytes());
    names[12..16].fill(0);
    let checksum = crc32c(&names);
    names[12..16].copy_from_slice(&checksum.to_le_bytes());
    check(&names);
});

fn check(bytes: &[u8]) {
    if let Some(block) = Block::decode(bytes) {
        let mut again = [0xFF; BLOCK];
        block.encode(&mut again);
        let known = block.values.iter().all(|value| !value.is_nan());
        assert!(!known || again[..] == bytes[..BLOCK]);
        assert!(Block::decode(&again).is_some());
    }
    if let Some(row) = Row::decode(bytes) {
        let again = row.encode();
        let known = row.values.iter().all(|value| !value.is_nan());
        assert!(!known || again[..] == bytes[..again.len()]);
        assert!(Row::decode(&again).is_some());
    }
    if let Ok(names) = Names::decode(bytes) {
        assert_eq!(names.encode(), bytes);
    }
}
