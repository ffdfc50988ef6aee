//! What a pool does for every change: a header filled, made that of other members, and read again.

use plane::pool::Level;
use plane::pool::format::transaction::restamp;
use plane::pool::format::{
    BLOCK, Geometry, Kind, TablePage, Transaction, TransactionHead, TransactionWriter, UpdateHead,
    bitmap_block, block_entry,
};
use ring::count_allocations::by_this_thread;

#[test]
fn nothing_is_allocated_for_a_transaction() {
    let geometry = Geometry::plan(Level::Raid6, 6, 64 << 10, 64 << 20, 2, 0).unwrap();
    let pool = [0x50; 16];
    let block = vec![7; BLOCK];
    let mut out = vec![0; 16 * BLOCK];
    let mut page = vec![0; BLOCK];
    let mut round = |number: u64| {
        let mut writer = TransactionWriter::new(&mut out);
        let update =
            UpdateHead { row: number, position: 3, columns: 2, kind: Kind::Write, touched: 0b11_0001 };
        let entry = block_entry(&block);
        writer.push(&update, [entry; 6]).unwrap();
        writer.push(&UpdateHead { kind: Kind::Erase, ..update }, []).unwrap();
        let place = geometry.segment_place(1);
        let payload_blocks = writer.payload_blocks(0);
        let head = TransactionHead { pool, number, retired: 1, place, slot: 0, payload_blocks };
        let header = writer.finish(&head);
        restamp(header, 5, place, payload_blocks);
        let read = Transaction::decode(header, &pool, place, &geometry).unwrap();
        let entries = read.updates().flat_map(|update| update.entries_of(5)).filter(|found| *found == entry);
        assert_eq!(entries.count(), 2);
        TablePage { pool, slot: 5, page: 0, generation: number }.encode([entry; 960], &mut page);
        assert_eq!(TablePage::decode(&page, &pool, 5, 0).map(|(generation, _)| generation), Some(number));
        bitmap_block::encode(&pool, 0, &[number], &mut page);
        assert_eq!(bitmap_block::decode(&page, &pool, 0).and_then(|mut words| words.next()), Some(number));
    };
    // The first one chooses how checksums are computed on this machine.
    round(1);
    let before = by_this_thread();
    for number in 2..100 {
        round(number);
    }
    assert_eq!(by_this_thread() - before, 0);
}
