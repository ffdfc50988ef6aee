//! Structures for tests: one of each, whose bytes `golden` has, and strategies for any.

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::geometry::slot_mask;
use super::*;
use crate::pool::Level;

pub const POOL: Id = [0x50; 16];
pub const MEMBERS: [Id; 4] = [[0xa0; 16], [0xa1; 16], [0xa2; 16], [0xa3; 16]];

/// Four members of 100 rows.
pub fn geometry() -> Geometry {
    Geometry {
        level: Level::Raid6,
        slots: 4,
        sets: Sets::default(),
        unit: 0x1_0000,
        rows: 100,
        bytes: 0x67_5000,
        catalogue_blocks: 2,
        journal: 0x5000,
        segment_bytes: 0x1_1000,
        segments: 2,
        bitmap: 0x2_7000,
        bitmap_blocks: 1,
        rows_per_bit: 1,
        table: 0x2_8000,
        table_pages: 2,
        data: 0x3_0000,
    }
}

pub fn volume() -> VolumeEntry {
    VolumeEntry {
        id: [0x70; 16],
        name: "demo".into(),
        bytes: 0x2_0000,
        block_size: 512,
        extents: vec![RowExtent { first_row: 3, rows: 1 }, RowExtent { first_row: 9, rows: 2 }],
    }
}

pub fn reference(bytes: &[u8], volumes: u32) -> CatalogueReference {
    CatalogueReference { generation: 6, volumes, checksum: catalogue::checksum(bytes), copy: 1 }
}

pub fn label() -> Label {
    let catalogue = catalogue::encode(&[volume()], &geometry()).unwrap();
    let out = SlotState::Out { cause: Cause::WriteError, since: 5 };
    let rebuilding = SlotState::Rebuilding { since: 4, cursor: 50, by_bitmap: true };
    Label {
        pool: POOL,
        member: MEMBERS[1],
        generation: 7,
        slot: Some(1),
        end: End::Tail,
        integrity: true,
        clean: true,
        geometry: geometry(),
        retired: 0x1122_3344_5566_7788,
        catalogue: reference(&catalogue, 1),
        name: "tank".into(),
        slots: vec![
            Slot { member: MEMBERS[0], state: SlotState::InSync },
            Slot { member: MEMBERS[1], state: SlotState::InSync },
            Slot { member: [0; 16], state: out },
            Slot { member: MEMBERS[3], state: rebuilding },
        ],
        spares: vec![[0xb0; 16]],
        scrub: None,
    }
}

pub fn updates() -> Vec<(UpdateHead, Vec<u32>)> {
    vec![
        (
            UpdateHead { row: 7, position: 2, columns: 1, kind: Kind::Write, touched: 0b1101 },
            vec![0x11, 0x22, 0x33],
        ),
        (UpdateHead { row: 8, position: 0, columns: 16, kind: Kind::Erase, touched: 0b0011 }, vec![]),
    ]
}

pub fn transaction_head() -> TransactionHead {
    TransactionHead { pool: POOL, number: 21, retired: 20, place: 0x1_6000, slot: 2, payload_blocks: 1 }
}

/// The header of these updates on the member of a slot.
pub fn transaction(updates: &[(UpdateHead, Vec<u32>)], head: TransactionHead) -> Vec<u8> {
    let mut out = vec![0xee; transaction::MAX_HEADER_BLOCKS * BLOCK];
    let mut writer = TransactionWriter::new(&mut out);
    for (update, entries) in updates {
        writer.push(update, entries.iter().copied()).unwrap();
    }
    let payload_blocks = writer.payload_blocks(head.slot);
    writer.finish(&TransactionHead { payload_blocks, ..head }).to_vec()
}

/// Puts bytes into a structure and makes its checksum fit again.
pub fn patched(bytes: &[u8], checksum: usize, offset: usize, field: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    put(&mut bytes, offset, field);
    if checksum + 4 == bytes.len() {
        let crc = crc32c(&bytes[..checksum]);
        put(&mut bytes, checksum, &crc.to_le_bytes());
    } else {
        seal(&mut bytes, checksum);
    }
    bytes
}

pub fn any_id() -> impl Strategy<Value = Id> {
    any::<Id>().prop_filter("no id", |id| *id != [0; 16])
}

pub fn any_level() -> impl Strategy<Value = (Level, u16)> {
    select(&Level::ALL[..]).prop_flat_map(|level| (Just(level), level.slots())).prop_map(|(level, slots)| {
        let odd = level == Level::Raid10 && slots % 2 == 1;
        (level, slots - u16::from(odd))
    })
}

/// With a few further sets, if it can have them.
pub fn any_geometry() -> impl Strategy<Value = Geometry> {
    let further = prop::collection::vec(1usize..6, 0..4);
    (any_plan(), further).prop_map(|(plan, further)| {
        let has_sets = matches!(plan.level, Level::Raid0 | Level::Raid10);
        let further = further.into_iter().filter(|_| has_sets);
        further.fold(plan, |geometry, slots| {
            let slots = if geometry.level == Level::Raid10 { slots * 2 } else { slots };
            geometry.extended(slots).unwrap_or(geometry)
        })
    })
}

fn any_plan() -> impl Strategy<Value = Geometry> {
    (any_level(), 12u32..=20, 1u32..=64, 0u64..64 << 20, 0u64..16 << 30).prop_map(
        |((level, slots), unit, catalogue, journal, more)| {
            let least = match Geometry::plan(level, slots, 1 << unit, 0, catalogue, journal) {
                Err(PlanError::TooSmall { needed, .. }) => needed,
                other => panic!("{other:?}"),
            };
            // Several MiB for the alignment of larger members.
            let member = least + (4 << 20) + more;
            Geometry::plan(level, slots, 1 << unit, member, catalogue, journal).unwrap()
        },
    )
}

fn any_state(generation: u64, rows: u64) -> impl Strategy<Value = SlotState> {
    let causes = vec![Cause::None, Cause::Missing, Cause::Stall, Cause::Administrator, Cause::Replaced];
    let since = 1..=generation;
    prop_oneof![
        Just(SlotState::InSync),
        (select(causes), since.clone()).prop_map(|(cause, since)| SlotState::Out { cause, since }),
        (since, 0..=rows, any::<bool>()).prop_map(|(since, cursor, by_bitmap)| SlotState::Rebuilding {
            since,
            cursor,
            by_bitmap
        }),
    ]
}

fn any_slot(generation: u64, rows: u64) -> impl Strategy<Value = Slot> {
    (any_id(), any_state(generation, rows), any::<bool>()).prop_map(|(member, state, given_up)| match state {
        SlotState::Out { .. } if given_up => Slot { member: [0; 16], state },
        _ => Slot { member, state },
    })
}

pub fn any_label() -> impl Strategy<Value = Label> {
    (any_geometry(), 1..=u64::MAX).prop_flat_map(|(geometry, generation)| {
        let slots = usize::from(geometry.slots);
        let catalogue = (0..=generation, 0..=geometry.catalogue_blocks * 8, any::<u32>(), 0u8..2);
        let members = (
            prop::collection::vec(any_slot(generation, geometry.rows), slots),
            prop::collection::vec(any_id(), 0..=label::MAX_SPARES),
            any_id(),
            any::<Index>(),
        );
        let place = (0..geometry.sets.count(), 0..=geometry.rows);
        let scrub = prop::option::of((place, any::<[u64; 4]>())).prop_map(|scrub| {
            scrub.map(|((set, row), found): ((usize, u64), [u64; 4])| {
                let [bad, repaired, lost, uneven] = found;
                let row = row_of(set, row);
                ScrubPlace { row, bad, repaired, lost, uneven }
            })
        });
        let rest = (any_id(), "[a-z ä-ö]{1,32}", any::<[bool; 3]>(), any::<u64>());
        (catalogue, members, rest, scrub).prop_map(
            move |(catalogue, (slots, spares, own, place), rest, scrub)| {
                let (pool, name, [tail, integrity, clean], retired) = rest;
                let (generation_of_catalogue, volumes, checksum, copy) = catalogue;
                let mut label = Label {
                    pool,
                    member: own,
                    generation,
                    slot: None,
                    end: End::BOTH[usize::from(tail)],
                    integrity,
                    clean,
                    geometry,
                    retired,
                    catalogue: CatalogueReference {
                        generation: generation_of_catalogue,
                        volumes,
                        checksum,
                        copy,
                    },
                    name,
                    slots,
                    spares,
                    scrub,
                };
                match place.index(label.slots.len() + label.spares.len()) {
                    slot if slot < label.slots.len() => {
                        label.slots[slot].member = own;
                        label.slot = Some(slot as u16);
                    }
                    spare => label.spares[spare - label.slots.len()] = own,
                }
                label
            },
        )
    })
}

/// Volumes on every second of some cuts through the rows.
pub fn any_catalogue() -> impl Strategy<Value = (Geometry, Vec<VolumeEntry>)> {
    (any_geometry(), prop::collection::vec(any::<(Index, Id, bool)>(), 0..24)).prop_map(
        |(geometry, seeds)| {
            let mut cuts: Vec<u64> =
                seeds.iter().map(|seed| seed.0.index(geometry.rows as usize + 1) as u64).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let extents: Vec<RowExtent> = cuts
                .windows(2)
                .map(|pair| RowExtent { first_row: pair[0], rows: pair[1] - pair[0] })
                .collect();
            let volumes = extents
                .chunks(3)
                .take(geometry.catalogue_blocks as usize * 8)
                .zip(seeds)
                .enumerate()
                .map(|(index, (extents, (_, id, large)))| VolumeEntry {
                    id: [&id[..15], &[index as u8 + 1]].concat().try_into().unwrap(),
                    name: format!("{index} ä{}", if large { "x".repeat(190) } else { String::new() }),
                    bytes: extents.iter().map(|extent| extent.rows).sum::<u64>() * geometry.row_bytes()
                        - if large { 0 } else { 3584 },
                    block_size: if large { 4096 } else { 512 },
                    extents: extents.iter().rev().copied().collect(),
                })
                .collect();
            (geometry, volumes)
        },
    )
}

fn any_update(geometry: Geometry) -> impl Strategy<Value = (UpdateHead, Vec<u32>)> {
    let columns = geometry.blocks_per_unit() as u16;
    let place = (0..geometry.sets.count(), 0..geometry.rows, 0..columns);
    let place = place.prop_flat_map(move |(set, row, position)| {
        let slots: Vec<usize> = geometry.set_slots(set).collect();
        let count = 1..=slots.len();
        let place = (Just(row_of(set, row)), Just(position), 1..=(columns - position).min(8), any::<bool>());
        (place, subsequence(slots, count))
    });
    place.prop_flat_map(|((row, position, columns, erase), slots)| {
        let touched = slots.iter().map(|slot| 1 << slot).sum();
        let kind = if erase { Kind::Erase } else { Kind::Write };
        let head = UpdateHead { row, position, columns, kind, touched };
        (Just(head), prop::collection::vec(any::<u32>(), head.entries()))
    })
}

/// A pool whose segments hold any of these, updates that fit a header, and the slot of a part.
pub fn any_updates() -> impl Strategy<Value = (Geometry, Vec<(UpdateHead, Vec<u32>)>, u16)> {
    any_geometry().prop_flat_map(|geometry| {
        (Just(geometry), prop::collection::vec(any_update(geometry), 0..12), 0..geometry.slots)
    })
}

#[test]
fn masks_have_a_bit_for_each_slot() {
    assert_eq!([slot_mask(1), slot_mask(63), slot_mask(64)], [1, u64::MAX >> 1, u64::MAX]);
}
