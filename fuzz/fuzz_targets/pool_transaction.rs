//! Any bytes as the header of a transaction, as they are and with a checksum that fits: no panic, what it refers to is
//! within the pool, and what is taken is what would be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plane::pool::Level;
use plane::pool::format::transaction::MAX_HEADER_BLOCKS;
use plane::pool::format::{BLOCK, Geometry, Id, NotOne, Transaction, TransactionWriter};
use wire::iscsi::digest::crc32c;

const POOL: Id = [0x50; 16];
const PLACE: u64 = 0x1_6000;
const CHECKSUM: usize = 60;

fuzz_target!(|bytes: &[u8]| {
    // With these numbers the second segment begins where the seed says that it lies.
    let geometry = Geometry::plan(Level::Raid6, 4, 64 << 10, 16 << 20, 2, 0).expect("a pool that can be");
    assert_eq!(geometry.segment_place(1), PLACE);
    check(bytes, &geometry);
    let mut header = bytes.to_vec();
    header.truncate(MAX_HEADER_BLOCKS * BLOCK);
    header.resize(header.len().next_multiple_of(BLOCK).max(BLOCK), 0);
    let blocks = (header.len() / BLOCK) as u16;
    header[50..52].copy_from_slice(&blocks.to_le_bytes());
    header[CHECKSUM..CHECKSUM + 4].fill(0);
    let checksum = crc32c(&header);
    header[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
    check(&header, &geometry);
});

fn check(bytes: &[u8], geometry: &Geometry) {
    let transaction = match Transaction::decode(bytes, &POOL, PLACE, geometry) {
        Ok(transaction) => transaction,
        Err(NotOne::Short { blocks }) => return assert!(bytes.len() < usize::from(blocks) * BLOCK),
        Err(_) => return,
    };
    let mut again = vec![0xee; MAX_HEADER_BLOCKS * BLOCK];
    let mut writer = TransactionWriter::new(&mut again);
    let mut payload = u32::from(transaction.header_blocks);
    for update in transaction.updates() {
        let head = update.head;
        assert!(geometry.has_row(head.row));
        assert!(u32::from(head.position) + u32::from(head.columns) <= geometry.blocks_per_unit());
        assert_eq!(update.payload, payload);
        payload += head.payload_blocks(transaction.head.slot);
        let of_slots = (0..geometry.slots).flat_map(|slot| update.entries_of(slot));
        assert!(of_slots.eq(update.entries()));
        writer.push(&head, update.entries()).expect("it came from a header");
    }
    assert_eq!(payload, transaction.blocks());
    assert!(u64::from(payload) * BLOCK as u64 <= geometry.segment_bytes.into());
    assert_eq!(writer.finish(&transaction.head), &bytes[..usize::from(transaction.header_blocks) * BLOCK]);
}
