//! Any bytes as a catalogue, as they are and with checksums that fit: no panic, and what is taken is what would be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plane::pool::Level;
use plane::pool::format::{BLOCK, CatalogueReference, Geometry, catalogue};
use wire::iscsi::digest::crc32c;

const ENTRY: usize = 512;
const CHECKSUM: usize = ENTRY - 4;

fuzz_target!(|bytes: &[u8]| {
    let geometry = Geometry::plan(Level::Raid5, 3, 4096, 4 << 20, 2, 0).expect("a pool that can be");
    check(bytes, &geometry);
    let mut bytes = bytes.to_vec();
    bytes.truncate(2 * BLOCK);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    for entry in bytes.chunks_exact_mut(ENTRY) {
        if entry.iter().any(|&byte| byte != 0) {
            let checksum = crc32c(&entry[..CHECKSUM]);
            entry[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    check(&bytes, &geometry);
});

fn check(bytes: &[u8], geometry: &Geometry) {
    for volumes in 0..=(bytes.len() / ENTRY) as u32 {
        let used = &bytes[..bytes.len().min(catalogue::blocks(volumes) as usize * BLOCK)];
        let reference =
            CatalogueReference { generation: 1, volumes, checksum: catalogue::checksum(used), copy: 0 };
        if let Ok(entries) = catalogue::decode(bytes, &reference, geometry) {
            assert_eq!(catalogue::encode(&entries, geometry).as_deref(), Ok(used));
        }
    }
}
