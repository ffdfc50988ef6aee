//! What a pool does for every change: a header filled, made that of other members, and read again; and whole requests.

use plane::disk::Disk;
use plane::pool::format::transaction::restamp;
use plane::pool::format::{
    BLOCK, Geometry, Kind, TablePage, Transaction, TransactionHead, TransactionWriter, UpdateHead,
    bitmap_block, block_entry,
};
use plane::pool::{Level, Member, Place, Pool, PoolDisk, PoolOptions};
use plane::request::Request;
use ring::count_allocations::by_this_thread;
use ring::{Buffer, Options, Reactor, Ring};

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

/// A volume on a pool of six members in memory, on this thread's core. Of larger members each huge page would be made ready
/// when it is written for the first time, and who waits for that is in lists.
async fn volume(ring: &Ring) -> PoolDisk {
    let mut members = Vec::new();
    for _ in 0..6 {
        members.push(Member::open(ring, Place::Memory(30 << 20), None, None).await.unwrap().0);
    }
    let options = PoolOptions {
        name: "tank".into(),
        level: Level::Raid6,
        unit: 64 << 10,
        integrity: true,
        catalogue_blocks: 1,
        journal_bytes: Some(16 << 20),
    };
    let pool = Pool::make(ring, &options, members, 1).await.unwrap();
    pool.add_volume(ring, [7; 16], "demo", 32 << 20, 512).await.unwrap();
    let core = pool.core(0, ring).unwrap();
    PoolDisk::new(core, &pool.volumes()[0])
}

#[test]
fn nothing_is_allocated_for_a_read_or_write_of_a_pool() {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let disk = volume(&ring).await;
        // A large write keeps lists of its blocks: so many allocations it may have.
        for (bytes, allowed) in [(512, 0), (BLOCK, 0), (128 << 10, 16)] {
            let (mut of_writes, mut of_reads) = (0, 0);
            for number in 0..60 {
                let offset = number * 132_096 % (32 << 20);
                let (start, buffer) = (by_this_thread(), Buffer::zeroed(bytes));
                let written = disk.submit(Request::write(offset, buffer)).await;
                let middle = by_this_thread();
                let read = disk.submit(Request::read(offset, written.buffer)).await;
                written.result.and(read.result).unwrap();
                // The first ones fill what is used again.
                if number >= 20 {
                    of_writes += middle - start;
                    of_reads += by_this_thread() - middle;
                }
            }
            assert_eq!(of_reads, 0, "reads of {bytes} bytes");
            assert!(of_writes <= 40 * allowed, "{of_writes} for 40 writes of {bytes} bytes");
        }
    });
}
