//! Any bytes as a label, as they are and with a checksum that fits: no panic, and what is taken is what would be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plane::pool::format::{BLOCK, Label};
use wire::iscsi::digest::crc32c;

const CHECKSUM: usize = BLOCK - 4;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut block = bytes.to_vec();
    block.resize(BLOCK, 0);
    let checksum = crc32c(&block[..CHECKSUM]);
    block[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    check(&block);
});

fn check(bytes: &[u8]) {
    if let Ok(label) = Label::decode(bytes) {
        assert_eq!(label.encode()[..], bytes[..BLOCK]);
    }
}
