use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::pool::format::samples::{
    POOL, any_updates, geometry, patched, transaction, transaction_head, updates,
};
use crate::pool::format::{Geometry, put};

const PLACE: u64 = 0x1_6000;

fn read(bytes: &[u8]) -> Result<Transaction<'_>, NotOne> {
    Transaction::decode(bytes, &POOL, PLACE, &geometry())
}

fn header() -> Vec<u8> {
    transaction(&updates(), transaction_head())
}

fn again(transaction: &Transaction<'_>) -> Vec<u8> {
    let updates: Vec<_> =
        transaction.updates().map(|update| (update.head, update.entries().collect())).collect();
    super::super::samples::transaction(&updates, transaction.head)
}

#[test]
fn what_is_not_a_transaction_is_told_apart() {
    let bytes = header();
    let at = |bytes, pool, place| Transaction::decode(bytes, pool, place, &geometry()).unwrap_err();
    assert_eq!(at(&[], &POOL, PLACE), NotOne::NoMagic);
    assert_eq!(at(&[0; BLOCK], &POOL, PLACE), NotOne::NoMagic);
    assert_eq!(at(&bytes[..8], &POOL, PLACE), NotOne::Short { blocks: 1 });
    assert_eq!(at(&bytes[..BLOCK - 1], &POOL, PLACE), NotOne::Short { blocks: 1 });
    assert_eq!(at(&bytes, &[1; 16], PLACE), NotOne::Foreign);
    assert_eq!(at(&bytes, &POOL, PLACE + 4096), NotOne::Misplaced(PLACE));
    let more = patched(&bytes, CHECKSUM, 50, &[16, 0]);
    assert_eq!(at(&more, &POOL, PLACE), NotOne::Short { blocks: 16 });
    for blocks in [[0, 0], [17, 0], [0, 1]] {
        let bytes = patched(&bytes, CHECKSUM, 50, &blocks);
        assert_eq!(read(&bytes).unwrap_err(), NotOne::Damaged);
    }
}

#[test]
fn every_byte_is_looked_at() {
    let bytes = header();
    for offset in 0..BLOCK {
        let mut torn = bytes.clone();
        torn[offset] ^= 0x10;
        assert!(read(&torn).is_err(), "{offset}");
        let other = patched(&bytes, CHECKSUM, offset, &[bytes[offset] ^ 0x10]);
        if let Ok(transaction) = read(&other) {
            assert_eq!(again(&transaction), other, "{offset}");
        }
    }
}

#[test]
fn invalid_fields_are_refused() {
    let wrong: [(usize, &[u8], &str); 25] = [
        (24, &[0], "its number is zero"),
        (48, &[4], "its slot"),
        (48, &[1], "its payload"),
        (52, &[0], "its payload"),
        (52, &[2], "its payload"),
        (56, &[1], "behind its updates"),
        (56, &[3], "cut off"),
        (56, &[0xff; 4], "cut off"),
        (64, &[100], "a row"),
        (71, &[0x80], "a row"),
        (72, &[16, 0], "columns"),
        (72, &[0xff, 0xff], "columns"),
        (74, &[0, 0], "columns"),
        (76, &[0], "kind"),
        (76, &[3], "kind"),
        (77, &[1], "kind"),
        (79, &[1], "kind"),
        (80, &[0b1_1100], "slots"),
        (100, &[1], "cut off"),
        (114, &[17], "columns"),
        (114, &[0xff, 0xff], "columns"),
        (120, &[0], "slots"),
        (127, &[0x80], "slots"),
        (128, &[1], "behind its updates"),
        (4095, &[1], "behind its updates"),
    ];
    for (offset, field, sentence) in wrong {
        let bytes = patched(&header(), CHECKSUM, offset, field);
        let error = read(&bytes).expect_err(sentence);
        assert!(matches!(error, NotOne::Invalid(what) if what.contains(sentence)), "{offset}: {error}");
    }
    // A block of the header more than its updates need.
    let mut longer = header();
    longer.resize(2 * BLOCK, 0);
    let error = read(&patched(&longer, CHECKSUM, 50, &[2])).unwrap_err();
    assert_eq!(error, NotOne::Invalid("a block of its header is empty"));
}

/// Header and payload lie in one segment of the journal.
#[test]
fn a_part_lies_in_a_segment() {
    let whole = UpdateHead { row: 1, position: 0, columns: 16, kind: Kind::Write, touched: 1 };
    for (place, fits) in [
        (0x4000, false),
        (0x5000, true),
        (0x6000, false),
        (0x1_6000, true),
        (0x1_6008, false),
        (0x1_7000, false),
        (0x2_7000, false),
        (u64::MAX, false),
    ] {
        let head = TransactionHead { place, slot: 0, ..transaction_head() };
        let bytes = transaction(&[(whole, vec![9; 16])], head);
        let read = Transaction::decode(&bytes, &POOL, place, &geometry());
        assert_eq!(read.is_ok(), fits, "{place:#x}: {read:?}");
    }
}

#[test]
fn a_full_header_says_so_and_stays_as_it_is() {
    let mut out = vec![0xee; 2 * BLOCK + 100];
    let mut writer = TransactionWriter::new(&mut out);
    assert!(writer.is_empty());
    let update = UpdateHead { row: 1, position: 0, columns: 15, kind: Kind::Write, touched: 0b1111 };
    let entries = || (0..).take(60);
    while writer.header_blocks_with(&update).is_some() {
        writer.push(&update, entries()).unwrap();
    }
    assert_eq!(writer.push(&update, entries()), Err(Full));
    assert_eq!((writer.updates(), writer.header_blocks()), (30, 2));
    assert_eq!([0, 3, 4, 64].map(|slot| writer.payload_blocks(slot)), [450, 450, 0, 0]);
    let small = UpdateHead { kind: Kind::Erase, ..update };
    assert_eq!(writer.header_blocks_with(&small), Some(2));
    writer.push(&small, []).unwrap();
}

#[test]
fn entries_have_to_be_as_many_as_blocks() {
    for count in [2, 4] {
        let pushed = std::panic::catch_unwind(|| {
            let mut out = vec![0; BLOCK];
            TransactionWriter::new(&mut out).push(&updates()[0].0, (0..).take(count))
        });
        assert!(pushed.is_err(), "{count}");
    }
}

/// Parts of other members are made of a finished header.
fn check(geometry: &Geometry, updates: &[(UpdateHead, Vec<u32>)], own: u16) {
    let place = geometry.segment_place(geometry.segments - 1);
    let head = TransactionHead { pool: POOL, number: 5, retired: 2, place, slot: own, payload_blocks: 0 };
    let bytes = transaction(updates, head);
    for slot in 0..geometry.slots {
        let mut bytes = bytes.clone();
        let payload_blocks = updates.iter().map(|(update, _)| update.payload_blocks(slot)).sum();
        restamp(&mut bytes, slot, place, payload_blocks);
        assert_eq!(bytes, transaction(updates, TransactionHead { slot, ..head }));
        let read = match Transaction::decode(&bytes, &POOL, place, geometry) {
            Ok(read) => read,
            Err(error) => {
                // Twelve updates may be more than a segment of small units holds.
                assert_eq!(error, NotOne::Invalid("it does not lie in a segment"));
                let blocks = bytes.len() as u64 / 4096 + u64::from(payload_blocks);
                assert!(blocks * 4096 > geometry.segment_bytes.into());
                continue;
            }
        };
        assert_eq!(read.head, TransactionHead { slot, payload_blocks, ..head });
        assert_eq!(usize::from(read.header_blocks) * BLOCK, bytes.len());
        assert_eq!(read.updates().len(), updates.len());
        let mut payload = u32::from(read.header_blocks);
        for (read, (update, entries)) in read.updates().zip(updates) {
            assert_eq!(read.head, *update);
            assert!(read.entries().eq(entries.iter().copied()));
            assert_eq!(read.payload, payload);
            payload += update.payload_blocks(slot);
            let of_slots = (0..64).flat_map(|slot| read.entries_of(slot));
            assert!(of_slots.eq(entries.iter().copied()));
            assert_eq!(read.entries_of(slot).len(), update.payload_blocks(slot) as usize);
        }
        assert_eq!(payload, read.blocks());
    }
}

#[test]
fn a_transaction_without_updates_is_one() {
    check(&geometry(), &[], 0);
}

proptest! {
    #[test]
    fn round_trip((geometry, updates, slot) in any_updates()) {
        check(&geometry, &updates, slot);
    }

    /// With a checksum that fits whatever stands there: no panic, and what is taken is what would be written.
    #[test]
    fn mutated(changes in prop::collection::vec((0usize..136, any::<u8>(), any::<Index>()), 1..4)) {
        let mut bytes = header();
        for (near, byte, far) in changes {
            let offset = if near < 132 { near } else { far.index(BLOCK) };
            bytes = patched(&bytes, CHECKSUM, offset, &[byte]);
        }
        if let Ok(transaction) = read(&bytes) {
            prop_assert_eq!(again(&transaction), bytes);
        }
    }

    #[test]
    fn arbitrary(mut bytes in prop::collection::vec(any::<u8>(), 0..=2 * BLOCK), fits in any::<bool>()) {
        if fits && bytes.len() >= BLOCK {
            bytes.truncate(BLOCK);
            put(&mut bytes, 0, &MAGIC);
            put(&mut bytes, 8, &POOL);
            put(&mut bytes, 40, &PLACE.to_le_bytes());
            put(&mut bytes, 48, &[2, 0, 1, 0]);
            bytes = patched(&bytes, CHECKSUM, 0, &[]);
            prop_assert!(matches!(read(&bytes), Err(NotOne::Invalid(_))));
        } else {
            prop_assert!(read(&bytes).is_err());
        }
    }
}
