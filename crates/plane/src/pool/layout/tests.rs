use proptest::prelude::*;

use super::*;
use crate::pool::Level;
use crate::pool::format::{row_of, within};

fn geometry(level: Level, slots: u16, unit: u32) -> Geometry {
    Geometry::plan(level, slots, unit, 64 << 20, 1, 1 << 20).expect("a good arrangement")
}

fn arrangements() -> impl Strategy<Value = Geometry> {
    let counts = |level| match level {
        Level::Single => 1..=1u16,
        Level::Raid0 => 2..=12,
        Level::Raid1 => 2..=4,
        Level::Raid10 => 2..=6,
        Level::Raid5 => 3..=12,
        Level::Raid6 => 4..=12,
    };
    let levels = [Level::Single, Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6];
    (0..levels.len(), 0..5u32)
        .prop_flat_map(move |(level, unit)| (Just(levels[level]), counts(levels[level]), Just(4096 << unit)))
        .prop_map(|(level, slots, unit)| {
            geometry(level, if level == Level::Raid10 { slots * 2 } else { slots }, unit)
        })
}

/// With further sets where there can be some.
fn extended() -> impl Strategy<Value = Geometry> {
    (arrangements(), prop::collection::vec(1usize..4, 0..4)).prop_map(|(geometry, further)| {
        further.into_iter().fold(geometry, |geometry, slots| {
            let slots = if geometry.level == Level::Raid10 { slots * 2 } else { slots };
            geometry.extended(slots).unwrap_or(geometry)
        })
    })
}

proptest! {
    /// Every block of every set has its places, on the slots of its set alone; no two blocks share one, and each place of the
    /// table and of the medium tells its block again.
    #[test]
    fn a_block_of_any_set_lies_in_its_places_and_nowhere_else(geometry in extended(), first in 0u64..1000) {
        let block_bytes = BLOCK as u64;
        let per_unit = u64::from(geometry.unit) / block_bytes;
        let (mut taken, mut total) = (std::collections::BTreeMap::new(), 0);
        for set in 0..geometry.sets.count() {
            let begin = row_of(set, 0);
            let units = u64::from(geometry.data_units_of(begin));
            let blocks = geometry.rows * geometry.row_bytes_of(begin) / block_bytes;
            total += blocks * block_bytes;
            let first = first.min(blocks - 1);
            for block in first..blocks.min(first + 200) {
                let piece = pieces_from(&geometry, begin, block * block_bytes, block_bytes).next().unwrap();
                prop_assert!(geometry.has_row(piece.row) && set_of(piece.row) == set);
                let row = Row::new(&geometry, piece.row);
                prop_assert!(piece.unit < row.units());
                prop_assert_eq!(row.slots(), geometry.row_mask(piece.row));
                for slot in row.copies(piece.unit) {
                    prop_assert!(geometry.set_slots(set).contains(&slot));
                    prop_assert_eq!(geometry.set_of_slot(slot), set);
                    prop_assert_eq!(row.role(slot), Role::Data(piece.unit));
                    prop_assert!(row.group(slot) & !row.slots() == 0);
                    let place = geometry.unit_place(piece.row) + piece.offset as u64;
                    prop_assert!(place < geometry.data + geometry.rows * u64::from(geometry.unit));
                    prop_assert_eq!(taken.insert((slot, place), (set, block)), None);
                    let entry = geometry.table_entry(piece.row, (piece.offset / BLOCK) as u16);
                    prop_assert!(entry.0 < geometry.table_pages);
                }
                let back = (within(piece.row) * units + piece.unit as u64) * per_unit + (piece.offset / BLOCK) as u64;
                prop_assert_eq!(back, block);
            }
        }
        prop_assert_eq!(total, geometry.pool_bytes());
    }

    /// All rows are gone over, each once.
    #[test]
    fn rows_follow_one_another(geometry in extended()) {
        let geometry = Geometry { rows: geometry.rows.min(9), ..geometry };
        let mut row = geometry.row_from(0);
        let mut count = 0;
        while let Some(number) = row {
            prop_assert_eq!(geometry.rows_before(number), count);
            count += 1;
            row = geometry.row_from(number + 1);
        }
        prop_assert_eq!(count, geometry.all_rows());
    }

    /// Every block of the pool has its places, no two blocks share one, and every place tells its block again.
    #[test]
    fn a_block_lies_in_its_places_and_nowhere_else(geometry in arrangements(), first in 0u64..1000) {
        let blocks = geometry.pool_bytes() / BLOCK as u64;
        let first = first.min(blocks.saturating_sub(1));
        let per_unit = u64::from(geometry.unit) / BLOCK as u64;
        let mut taken = std::collections::BTreeMap::new();
        for block in first..blocks.min(first + 500) {
            let piece = pieces(&geometry, block * BLOCK as u64, BLOCK as u64).next().unwrap();
            let row = Row::new(&geometry, piece.row);
            prop_assert!(piece.row < geometry.rows && piece.unit < row.units());
            for slot in row.copies(piece.unit) {
                prop_assert_eq!(row.role(slot), Role::Data(piece.unit));
                let place = (slot, piece.row, piece.offset);
                prop_assert_eq!(taken.insert(place, block), None);
            }
            let units = u64::from(geometry.data_units());
            let back = (piece.row * units + piece.unit as u64) * per_unit + (piece.offset / BLOCK) as u64;
            prop_assert_eq!(back, block);
        }
    }

    /// The slots of a row are its data and its parity, each once.
    #[test]
    fn a_row_is_data_and_parity(geometry in arrangements(), row in 0u64..100) {
        let row = Row::new(&geometry, row);
        let data = (0..row.units()).fold(0, |all, unit| all | set(row.copies(unit)));
        let parity = [row.p(), row.q()].into_iter().flatten().fold(0, |all, slot| all | 1 << slot);
        prop_assert_eq!(data & parity, 0);
        prop_assert_eq!(data | parity, set(0..usize::from(geometry.slots)));
        prop_assert_eq!(row.units(), usize::from(geometry.data_units()));
        for slot in 0..usize::from(geometry.slots) {
            let is_parity = parity & 1 << slot != 0;
            prop_assert_eq!(is_parity, !matches!(row.role(slot), Role::Data(_)));
            prop_assert!(row.group(slot) & 1 << slot != 0);
        }
        prop_assert!(row.survives(0));
        prop_assert!(!row.survives(set(0..usize::from(geometry.slots))));
    }

    /// Pieces cover a run of bytes without a gap.
    #[test]
    fn pieces_are_the_run(geometry in arrangements(), offset in 0u64..1 << 20, length in 0u64..1 << 20) {
        let units = u64::from(geometry.data_units());
        let mut at = offset;
        for piece in pieces(&geometry, offset, length) {
            let place = (piece.row * units + piece.unit as u64) * u64::from(geometry.unit);
            prop_assert_eq!(place + piece.offset as u64, at);
            prop_assert!(piece.length > 0 && piece.offset + piece.length <= geometry.unit as usize);
            prop_assert!(piece.positions().end * BLOCK <= geometry.unit as usize);
            at += piece.length as u64;
        }
        prop_assert_eq!(at, offset + length);
    }
}

#[test]
fn parity_moves_to_the_left_row_by_row() {
    let geometry = geometry(Level::Raid6, 6, 4096);
    let places: Vec<_> =
        (0..7).map(|row| (Row::new(&geometry, row).p(), Row::new(&geometry, row).q())).collect();
    let wanted = [(5, 0), (4, 5), (3, 4), (2, 3), (1, 2), (0, 1), (5, 0)];
    assert_eq!(places, wanted.map(|(p, q)| (Some(p), Some(q))));
}

#[test]
fn redundancy_is_what_the_level_says() {
    let lost = |level, slots, gone| Row::new(&geometry(level, slots, 4096), 0).survives(gone);
    assert!(!lost(Level::Single, 1, 1) && !lost(Level::Raid0, 3, 0b010));
    assert!(lost(Level::Raid1, 4, 0b0111) && !lost(Level::Raid1, 4, 0b1111));
    assert!(lost(Level::Raid10, 4, 0b0101) && !lost(Level::Raid10, 4, 0b0011));
    assert!(lost(Level::Raid5, 5, 0b1_0000) && !lost(Level::Raid5, 5, 0b1_0001));
    assert!(lost(Level::Raid6, 6, 0b11) && !lost(Level::Raid6, 6, 0b111));
}
