use proptest::prelude::*;

use super::*;
use crate::pool::format::samples::any_level;

const GIB: u64 = 1 << 30;

fn usual(level: Level, slots: u16, member: u64) -> Result<Geometry, PlanError> {
    let journal = default_journal_bytes(member);
    Geometry::plan(level, slots, DEFAULT_UNIT, member, DEFAULT_CATALOGUE_BLOCKS, journal)
}

#[test]
fn six_of_a_gibibyte() {
    let geometry = usual(Level::Raid6, 6, GIB).unwrap();
    assert_eq!(geometry.check(), Ok(()));
    assert_eq!((geometry.segments, geometry.segment_bytes), (64, 256 << 10));
    assert_eq!((geometry.bitmap_blocks, geometry.rows_per_bit), (1, 1));
    assert_eq!(geometry.data % (1 << 20), 0);
    assert_eq!((geometry.data, geometry.rows), (19 << 20, 16_077));
    assert!(geometry.pool_bytes() > 392 * GIB / 100);
}

#[test]
fn a_large_bitmap_has_bits_for_several_rows() {
    let geometry = usual(Level::Raid5, 3, 20_000 * GIB).unwrap();
    assert_eq!(geometry.check(), Ok(()));
    assert!((9..=16).contains(&geometry.bitmap_blocks), "{geometry:?}");
    assert_eq!(geometry.rows_per_bit, 1024);
    let largest = usual(Level::Raid0, 64, u64::MAX).unwrap();
    assert_eq!(largest.check(), Ok(()));
    assert_eq!(largest.bytes, MAX_MEMBER_BYTES);
}

#[test]
fn what_grows_moves_nothing_and_writes_nothing_that_is_in_use() {
    let first = usual(Level::Raid6, 6, GIB).unwrap();
    assert_eq!(first.grown(GIB), None);
    assert_eq!(first.grown(GIB + (64 << 10)), None, "not even its table has room");
    let mut geometry = first;
    for member in [GIB * 5 / 4, 3 * GIB, 100 * GIB] {
        let grown = geometry.grown(member).unwrap();
        assert_eq!(grown.check(), Ok(()));
        assert!(grown.is_grown());
        assert!(grown.bitmap >= geometry.bytes, "in the midst of what is in use");
        assert_eq!(Geometry { journal: first.journal, ..grown }, grown);
        assert_eq!((grown.data, grown.segments, grown.rows_per_bit), (first.data, first.segments, 1));
        assert!(grown.rows > geometry.rows && grown.bytes == member);
        // One more row does not fit.
        let next = Geometry { rows: grown.rows + 1, ..grown };
        assert!(next.check().is_err());
        geometry = grown;
    }
}

#[test]
fn the_usual_journal_is_bounded() {
    assert_eq!([0, GIB, 1 << 50].map(default_journal_bytes), [1 << 20, 16 << 20, 64 << 20]);
}

#[test]
fn refusals_are_sentences_with_a_hint() {
    let wrong = [
        (usual(Level::Raid6, 3, GIB), "raid6 cannot have 3 members; hint: give 4 to 64"),
        (
            usual(Level::Raid10, 5, GIB),
            "raid10 cannot have 5 members; hint: give an even number from 4 to 64",
        ),
        (usual(Level::Single, 2, GIB), "single cannot have 2 members; hint: it has one"),
        (
            Geometry::plan(Level::Raid5, 3, 98_304, GIB, 16, 0),
            "a stripe unit of 98304 bytes is not possible; hint: ",
        ),
        (
            Geometry::plan(Level::Raid5, 3, 2048, GIB, 16, 0),
            "a stripe unit of 2048 bytes is not possible; hint: ",
        ),
        (Geometry::plan(Level::Raid5, 3, 4096, GIB, 0, 0), "a catalogue of 0 blocks is not possible; hint: "),
        (
            Geometry::plan(Level::Raid5, 3, 4096, GIB, 1025, 0),
            "a catalogue of 1025 blocks is not possible; hint: ",
        ),
        (
            usual(Level::Raid5, 3, GIB / 1024),
            "a member of 1048576 bytes is too small, 1511424 are needed; hint: ",
        ),
    ];
    for (result, sentence) in wrong {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(sentence), "{error}");
    }
}

proptest! {
    /// The layout holds, has what was asked for, and is the largest one.
    #[test]
    fn the_largest_that_fits(
        (level, slots) in any_level(),
        unit in 12u32..=20,
        catalogue in prop_oneof![1u32..=1024, Just(DEFAULT_CATALOGUE_BLOCKS)],
        journal in prop_oneof![0u64..1 << 32, 0u64..1 << 22],
        member in (0u32..=56).prop_flat_map(|power| 0u64..=1 << power),
    ) {
        let plan = |member| Geometry::plan(level, slots, 1 << unit, member, catalogue, journal);
        let geometry = match plan(member) {
            Ok(geometry) => geometry,
            Err(PlanError::TooSmall { bytes, needed }) => {
                prop_assert_eq!(bytes, member);
                prop_assert!(needed > member);
                // What is needed is enough, and one block less is not, unless that changes the alignment.
                prop_assert!(plan(needed).is_ok());
                let less = needed - BLOCK as u64;
                prop_assert!(less <= LARGE_MEMBER_BYTES && needed > LARGE_MEMBER_BYTES || plan(less).is_err());
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(geometry.check(), Ok(()));
        prop_assert_eq!(geometry.bytes, member / 4096 * 4096);
        prop_assert!(geometry.segments >= 16);
        prop_assert!(geometry.segment_bytes >= 64 << 10);
        prop_assert!(u64::from(geometry.segments) * u64::from(geometry.segment_bytes) >= journal);
        prop_assert!(geometry.bitmap_blocks <= 16);
        prop_assert!(geometry.data.is_multiple_of(geometry.unit.into()));
        prop_assert!(member <= LARGE_MEMBER_BYTES + 4096 || geometry.data.is_multiple_of(1 << 20));
        // No row more, unless the bitmap is what ends.
        let one_more = Geometry { rows: geometry.rows + 1, ..geometry };
        let blocks = one_more.rows * u64::from(geometry.blocks_per_unit());
        let pages = blocks.div_ceil(960) - geometry.table_pages;
        let data = (geometry.table + 8192 * (geometry.table_pages + pages))
            .next_multiple_of(if geometry.bytes > LARGE_MEMBER_BYTES { 1 << 20 } else { 4096 }.max(1 << unit));
        let fits = data + one_more.rows * u64::from(geometry.unit) <= geometry.tail();
        let covered = one_more.rows <= u64::from(geometry.bitmap_blocks) * 32_512 * u64::from(geometry.rows_per_bit);
        prop_assert!(!fits || !covered);

        // Exactly enough bytes give the same rows, and one block less gives fewer.
        let tight = geometry.unit_place(geometry.rows) + end_bytes(catalogue);
        if (tight > LARGE_MEMBER_BYTES + 4096) == (geometry.bytes > LARGE_MEMBER_BYTES) {
            prop_assert_eq!(plan(tight).unwrap().rows, geometry.rows);
            prop_assert!(plan(tight - 4096).map_or(0, |less| less.rows) < geometry.rows);
        }
    }
}
