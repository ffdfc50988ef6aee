use proptest::prelude::*;

use super::*;
use crate::pool::format::samples::{any_geometry, geometry};

#[test]
fn places_are_those_of_the_page() {
    let geometry = geometry();
    assert_eq!(geometry.check(), Ok(()));
    assert_eq!((geometry.data_units(), geometry.redundancy(), geometry.blocks_per_unit()), (2, 2, 16));
    assert_eq!((geometry.row_bytes(), geometry.pool_bytes()), (0x2_0000, 100 * 0x2_0000));
    assert_eq!(geometry.label_place(End::Head), 0);
    assert_eq!(geometry.label_place(End::Tail), 0x67_4000);
    assert_eq!(geometry.catalogue_place(End::Head, 0), 0x1000);
    assert_eq!(geometry.catalogue_place(End::Head, 1), 0x3000);
    assert_eq!(geometry.catalogue_place(End::Tail, 0), 0x67_0000);
    assert_eq!(geometry.catalogue_place(End::Tail, 1), 0x67_2000);
    assert_eq!(geometry.segment_place(1), 0x1_6000);
    assert_eq!(geometry.bitmap_place(0), 0x2_7000);
    assert_eq!(geometry.table_page_place(0, 1), 0x2_9000);
    assert_eq!(geometry.table_page_place(1, 0), 0x2_a000);
    assert_eq!(geometry.table_entry(59, 15), (0, 959));
    assert_eq!(geometry.table_entry(60, 0), (1, 0));
    assert_eq!(geometry.unit_place(99), 0x66_0000);
    assert_eq!(geometry.slot_mask(), 0b1111);
    let coarse = Geometry { rows_per_bit: 4, ..geometry };
    assert_eq!([coarse.bitmap_bit(3), coarse.bitmap_bit(4)], [(0, 0), (0, 1)]);
    assert_eq!(coarse.bitmap_bit(4 * 32_512), (1, 0));
}

#[test]
fn a_transaction_of_a_row_fits_a_segment() {
    // 24 + 64 bytes of head, 4 of each entry.
    assert_eq!(row_transaction_blocks(4, 0x1_0000), 16 + 1);
    assert_eq!(row_transaction_blocks(64, 0x1_0000), 16 + 2);
    assert_eq!(row_transaction_blocks(1, 0x1000), 1 + 1);
    // 64 slots of 256 columns do not fit 16 blocks.
    assert_eq!(row_transaction_blocks(64, 1 << 20), 256 + 16);
}

/// A change, and a part of the sentence that it is refused with.
type Wrong = (fn(&mut Geometry), &'static str);

/// Every field that does not fit the others is refused, and by its own sentence.
#[test]
fn what_is_wrong_is_said() {
    let wrong: [Wrong; 39] = [
        (|g| g.slots = 3, "so many slots"),
        (|g| g.slots = 65, "so many slots"),
        (|g| g.level = Level::Single, "so many slots"),
        (|g| g.unit = 0, "the unit"),
        (|g| g.unit = 2048, "the unit"),
        (|g| g.unit = 0x1_8000, "the unit"),
        (|g| g.unit = 1 << 21, "the unit"),
        (|g| g.catalogue_blocks = 0, "the catalogue"),
        (|g| g.catalogue_blocks = 1025, "the catalogue"),
        (|g| g.segments = 1, "number of segments"),
        (|g| g.segments = 4097, "number of segments"),
        (|g| g.bitmap_blocks = 0, "number of blocks"),
        (|g| g.bitmap_blocks = 1025, "number of blocks"),
        (|g| g.rows_per_bit = 0, "rows per bit"),
        (|g| g.rows_per_bit = 3, "rows per bit"),
        (|g| g.rows = 0, "no row"),
        (|g| g.bytes = (1 << 56) + 4096, "too large"),
        (|g| g.bytes += 512, "on a block"),
        (|g| g.journal += 1, "on a block"),
        (|g| g.segment_bytes += 2048, "on a block"),
        (|g| g.bitmap += 8, "on a block"),
        (|g| g.table += 512, "on a block"),
        (|g| g.data += 512, "on a block"),
        (|g| g.segment_bytes -= 4096, "too small for a row"),
        (|g| g.segment_bytes = 0, "too small for a row"),
        (|g| g.journal -= 4096, "in the head"),
        (|g| g.catalogue_blocks = 3, "in the head"),
        (|g| g.segments = 3, "in the journal"),
        (|g| g.journal = 0xffff_ffff_ffff_f000, "in the journal"),
        (|g| (g.bitmap, g.table) = (0x66_f000, 0x67_0000), "the bitmap lies in the units"),
        (|g| (g.bitmap, g.table, g.data) = (0x67_0000, 0x67_1000, 0x2_6000), "the units lie in the journal"),
        (|g| (g.bitmap, g.table) = (0x67_0000 + 0x1000, 0x67_2000), "the table lies in the tail"),
        (|g| g.bitmap_blocks = 2, "in the bitmap"),
        (|g| g.table_pages = 5, "in the table"),
        (|g| g.table_pages = 1 << 62, "in the table"),
        (|g| g.bytes -= 4096, "in the tail"),
        (|g| g.rows = 1 << 60, "in the tail"),
        (|g| g.table_pages = 1, "the table is too small"),
        (
            |g| {
                (g.rows, g.bytes, g.table_pages) = (32_513, 1 << 40, 600);
                g.data = 1 << 30;
            },
            "the bitmap is too small",
        ),
    ];
    for (index, (change, sentence)) in wrong.into_iter().enumerate() {
        let mut geometry = geometry();
        change(&mut geometry);
        let error = geometry.check().expect_err(sentence).to_string();
        assert!(error.contains(sentence), "{index}: {error}");
    }
}

proptest! {
    /// The places of all that there is are within the member, in order, and apart.
    #[test]
    fn places_do_not_overlap(geometry in any_geometry()) {
        let g = geometry;
        let block = BLOCK_BYTES;
        let catalogue = u64::from(g.catalogue_blocks) * block;
        let places = [
            (g.label_place(End::Head), block),
            (g.catalogue_place(End::Head, 0), catalogue),
            (g.catalogue_place(End::Head, 1), catalogue),
            (g.segment_place(0), g.segment_bytes.into()),
            (g.segment_place(g.segments - 1), g.segment_bytes.into()),
            (g.bitmap_place(0), block),
            (g.bitmap_place(g.bitmap_blocks), 0),
            (g.table_page_place(0, 0), block),
            (g.table_page_place(0, 1), block),
            (g.table_page_place(g.table_pages, 0), 0),
            (g.unit_place(0), 0),
            (g.unit_place(g.rows - 1), g.unit.into()),
            (g.catalogue_place(End::Tail, 0), catalogue),
            (g.catalogue_place(End::Tail, 1), catalogue),
            (g.label_place(End::Tail), block),
            (g.bytes, 0),
        ];
        for pair in places.windows(2) {
            prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} of {g:?}");
        }
        let last = g.blocks_per_unit() as u16 - 1;
        prop_assert!(g.table_entry(g.rows - 1, last).0 < g.table_pages);
        prop_assert!(g.bitmap_bit(g.rows - 1).0 < g.bitmap_blocks);
    }

    /// Whatever numbers: no panic, and what is taken can be reckoned with.
    #[test]
    fn any_numbers(
        (level, slots) in crate::pool::format::samples::any_level(),
        small in any::<[u32; 6]>(),
        large in any::<[u64; 7]>(),
        shifts in any::<[u32; 7]>(),
    ) {
        let [unit, catalogue_blocks, segment_bytes, segments, bitmap_blocks, rows_per_bit] = small;
        let mut large = large;
        for (value, shift) in large.iter_mut().zip(shifts) {
            *value = (*value >> (shift % 64)) & !0xfff;
        }
        large.sort_unstable();
        let [rows, journal, bitmap, table, table_pages, data, bytes] = large;
        let geometry = Geometry {
            level, slots, sets: Sets::default(), rows: rows >> 12, bytes, journal, bitmap, table, table_pages: table_pages >> 40, data,
            unit: 1 << (12 + unit % 9),
            catalogue_blocks: 1 + catalogue_blocks % 8,
            segment_bytes: (segment_bytes >> 8) & !0xfff,
            segments: 2 + segments % 8,
            bitmap_blocks: 1 + bitmap_blocks % 1024,
            rows_per_bit: 1 << (rows_per_bit % 32),
        };
        if geometry.check().is_ok() {
            prop_assert!(geometry.unit_place(geometry.rows) <= geometry.tail());
            prop_assert!(geometry.pool_bytes() >= geometry.rows);
        }
    }
}
