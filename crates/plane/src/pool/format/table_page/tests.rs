use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::pool::format::samples::{POOL, patched};

const PAGE: TablePage = TablePage { pool: POOL, slot: 2, page: 1, generation: 9 };

fn encoded(page: &TablePage, entries: &[u32]) -> Vec<u8> {
    let mut out = vec![0xee; BLOCK];
    page.encode(entries.iter().copied(), &mut out);
    out
}

#[test]
fn entries_with_a_meaning_are_not_checksums() {
    assert_eq!([0, 1, 2, 3, u32::MAX].map(entry_of), [2, 3, 2, 3, u32::MAX]);
    assert_eq!(block_entry(&[0; BLOCK]), 0x98f9_4189);
    assert_eq!(block_entry(&[0xff; BLOCK]), 0x25c1_fe13);
}

#[test]
fn a_page_of_another_place_is_not_taken() {
    let bytes = encoded(&PAGE, &[7; ENTRIES]);
    assert!(TablePage::decode(&bytes, &POOL, 2, 1).is_some());
    assert!(TablePage::decode(&bytes, &[0x51; 16], 2, 1).is_none());
    assert!(TablePage::decode(&bytes, &POOL, 3, 1).is_none());
    assert!(TablePage::decode(&bytes, &POOL, 2, 2).is_none());
    assert!(TablePage::decode(&bytes[..BLOCK - 1], &POOL, 2, 1).is_none());
    assert!(TablePage::decode(&[0; BLOCK], &POOL, 0, 0).is_none());
}

#[test]
fn every_byte_is_looked_at() {
    let bytes = encoded(&PAGE, &[7; ENTRIES]);
    for offset in 0..BLOCK {
        let mut torn = bytes.clone();
        torn[offset] ^= 0x10;
        assert!(TablePage::decode(&torn, &POOL, 2, 1).is_none(), "{offset}");
    }
    for offset in (0..40).chain(48..CHECKSUM) {
        let other = patched(&bytes, CHECKSUM, offset, &[bytes[offset] ^ 0x10]);
        assert!(TablePage::decode(&other, &POOL, 2, 1).is_none(), "{offset}");
    }
    assert!(TablePage::decode(&patched(&bytes, CHECKSUM, 40, &[0]), &POOL, 2, 1).is_none());
}

#[test]
fn entries_that_are_not_given_were_never_written() {
    let bytes = encoded(&PAGE, &[5]);
    let (_, mut entries) = TablePage::decode(&bytes, &POOL, 2, 1).unwrap();
    assert_eq!(entries.len(), ENTRIES);
    assert_eq!(entries.next(), Some(5));
    assert!(entries.all(|entry| entry == UNWRITTEN));
}

proptest! {
    #[test]
    fn round_trip(
        pool in any::<Id>(), slot in any::<u16>(), page in any::<u64>(), generation in 1..=u64::MAX,
        entries in prop::collection::vec(any::<u32>(), ENTRIES),
    ) {
        let bytes = encoded(&TablePage { pool, slot, page, generation }, &entries);
        let (read, found) = TablePage::decode(&bytes, &pool, slot, page).unwrap();
        prop_assert_eq!(read, generation);
        prop_assert!(found.eq(entries));
    }

    /// With a checksum that fits whatever stands there: what is taken is what would be written.
    #[test]
    fn mutated(offset in any::<Index>(), field in any::<[u8; 4]>()) {
        let bytes = patched(&encoded(&PAGE, &[7; ENTRIES]), CHECKSUM, offset.index(BLOCK - 3), &field);
        if let Some((generation, entries)) = TablePage::decode(&bytes, &POOL, 2, 1) {
            let entries: Vec<u32> = entries.collect();
            prop_assert_eq!(&encoded(&TablePage { generation, ..PAGE }, &entries), &bytes);
        }
    }

    #[test]
    fn arbitrary(bytes in prop::collection::vec(any::<u8>(), 0..=BLOCK + 1), slot in any::<u16>()) {
        prop_assert!(TablePage::decode(&bytes, &POOL, slot, 0).is_none());
    }
}
