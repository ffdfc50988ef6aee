//! The bytes of one structure of each kind, laid out by hand from `docs/formats/pool.md`. The checksums come from
//! elsewhere. When this test fails the format has changed, and what is on disks cannot be read any more.

use super::samples::*;
use super::*;

fn laid(fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    for (offset, field) in fields {
        put(&mut bytes, *offset, field);
    }
    bytes
}

#[track_caller]
fn same(ours: &[u8], page: &[u8]) {
    assert_eq!(ours.len(), page.len());
    let differ: Vec<usize> = (0..page.len()).filter(|&byte| ours[byte] != page[byte]).collect();
    assert!(differ.is_empty(), "bytes {differ:?} are not as the page has them");
}

#[test]
fn label_is_as_the_page_has_it() {
    let page = laid(&[
        (0, b"FelsPool"),
        (8, &[1, 0, 0, 0]),
        (16, &POOL),
        (32, &MEMBERS[1]),
        (48, &[7]),
        (56, &[1, 0]),
        (58, &[5]),
        (59, &[1]),
        (60, &[4, 0]),
        (62, &[3, 0]),
        (64, &[0, 0, 1, 0]),
        (68, &[2]),
        (72, &[100]),
        (80, &[0x00, 0x50, 0x67]),
        (88, &[0x00, 0x50]),
        (96, &[0x00, 0x10, 0x01]),
        (100, &[2]),
        (104, &[0x00, 0x70, 0x02]),
        (112, &[1]),
        (116, &[1]),
        (120, &[0x00, 0x80, 0x02]),
        (128, &[2]),
        (136, &[0x00, 0x00, 0x03]),
        (144, &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]),
        (152, &[6]),
        (160, &[1]),
        (164, &[0x09, 0x0b, 0x9a, 0xba]),
        (168, &[1]),
        (169, &[4]),
        (176, b"tank"),
        (256, &MEMBERS[0]),
        (272, &[1]),
        (304, &MEMBERS[1]),
        (320, &[1]),
        (368, &[2, 3]),
        (376, &[5]),
        (400, &MEMBERS[3]),
        (416, &[3, 0]),
        (424, &[4]),
        (432, &[50]),
        (440, &[1]),
        (3328, &[0xb0; 16]),
        (4092, &[0x70, 0xac, 0xa9, 0xfa]),
    ]);
    same(&label().encode(), &page);
    assert_eq!(Label::decode(&page), Ok(label()));
}

#[test]
fn label_with_a_scrub_is_as_the_page_has_it() {
    let mut page = label().encode().to_vec();
    for (offset, field) in [(12, 1), (3584, 7), (3592, 6), (3600, 5), (3608, 1), (3616, 2)] {
        page[offset] = field;
    }
    put(&mut page, 4092, &[0x33, 0x73, 0x00, 0x8d]);
    let scrub = Some(ScrubPlace { row: 7, bad: 6, repaired: 5, lost: 1, uneven: 2 });
    let ours = Label { scrub, ..label() };
    same(&ours.encode(), &page);
    assert_eq!(Label::decode(&page), Ok(ours));
}

#[test]
fn spare_is_as_the_page_has_it() {
    let spare = Label { member: [0xb0; 16], slot: None, end: End::Head, ..label() }.encode();
    assert_eq!(spare[32..48], [0xb0; 16]);
    assert_eq!(spare[56..60], [0xff, 0xff, 5, 0]);
}

#[test]
fn catalogue_is_as_the_page_has_it() {
    let page = laid(&[
        (0, &[0x70; 16]),
        (16, &[0x00, 0x00, 0x02]),
        (24, &[0x00, 0x02]),
        (28, &[4]),
        (30, &[2]),
        (32, b"demo"),
        (240, &[3]),
        (248, &[1]),
        (256, &[9]),
        (264, &[2]),
        (508, &[0x11, 0xf7, 0x89, 0xf5]),
    ]);
    same(&catalogue::encode(&[volume()], &geometry()).unwrap(), &page);
    assert_eq!(catalogue::checksum(&page), 0xba9a_0b09);
    assert_eq!(catalogue::decode(&page, &reference(&page, 1), &geometry()), Ok(vec![volume()]));
}

#[test]
fn table_page_is_as_the_page_has_it() {
    let page = laid(&[
        (0, b"FelsTabl"),
        (8, &POOL),
        (24, &[2, 0]),
        (32, &[1]),
        (40, &[9]),
        (252, &[0x9b, 0xe5, 0x70, 0x16]),
        (260, &[1]),
        (264, &[0xef, 0xbe, 0xad, 0xde]),
        (4092, &[5]),
    ]);
    let mut entries = vec![0; table_page::ENTRIES];
    (entries[1], entries[2], entries[959]) = (LOST, 0xdead_beef, 5);
    let mut ours = vec![0xee; BLOCK];
    TablePage { pool: POOL, slot: 2, page: 1, generation: 9 }.encode(entries.iter().copied(), &mut ours);
    same(&ours, &page);
    let (generation, read) = TablePage::decode(&page, &POOL, 2, 1).unwrap();
    assert_eq!((generation, read.collect::<Vec<_>>()), (9, entries));
}

#[test]
fn transaction_is_as_the_page_has_it() {
    let page = laid(&[
        (0, b"FelsTran"),
        (8, &POOL),
        (24, &[21]),
        (32, &[20]),
        (40, &[0x00, 0x60, 0x01]),
        (48, &[2, 0]),
        (50, &[1, 0]),
        (52, &[1]),
        (56, &[2]),
        (60, &[0xf8, 0x7d, 0xa3, 0x6a]),
        (64, &[7]),
        (72, &[2, 0]),
        (74, &[1, 0]),
        (76, &[1]),
        (80, &[0b1101]),
        (88, &[0x11]),
        (92, &[0x22]),
        (96, &[0x33]),
        (104, &[8]),
        (112, &[0, 0]),
        (114, &[16, 0]),
        (116, &[2]),
        (120, &[0b0011]),
    ]);
    same(&transaction(&updates(), transaction_head()), &page);
    let read = Transaction::decode(&page, &POOL, 0x1_6000, &geometry()).unwrap();
    assert_eq!(read.head, transaction_head());
    assert_eq!((read.header_blocks, read.blocks()), (1, 2));
    assert!(read.updates().map(|update| (update.head, update.entries().collect())).eq(updates()));
}

#[test]
fn bitmap_block_is_as_the_page_has_it() {
    let page = laid(&[
        (0, b"FelsBits"),
        (8, &POOL),
        (24, &[3]),
        (28, &[0x9e, 0xda, 0xef, 0xd3]),
        (32, &[0x01]),
        (39, &[0x80]),
        (4095, &[0x80]),
    ]);
    let mut words = [0; bitmap_block::WORDS];
    (words[0], words[507]) = (1 << 63 | 1, 1 << 63);
    let mut ours = vec![0xee; BLOCK];
    bitmap_block::encode(&POOL, 3, &words, &mut ours);
    same(&ours, &page);
    assert!(bitmap_block::decode(&page, &POOL, 3).unwrap().eq(words));
}
