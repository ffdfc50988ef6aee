//! What befalls the members of a pool, drawn from the seed.

use std::ops::Range;

use plane::pool::format::End;

use super::atlas::Atlas;
use super::machine::Machine;
use super::roster::{Files, path};

const BLOCK: u64 = 4096;

/// Something that befalls one member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Accident {
    /// Bits or whole ranges are others.
    Spoil { bytes: Range<u64>, bits: bool },
    /// Sectors cannot be read until they are written.
    Pending(Range<u64>),
    /// They cannot be read at all.
    Unreadable(Range<u64>),
    /// Reads give a wrong bit, so often.
    Misread(Range<u64>, u32),
    /// Writes do not happen, so often.
    Drop(Range<u64>, u32),
    /// Writes land elsewhere.
    Misdirect(Range<u64>, i64),
    /// Writes fail.
    Unwritable(Range<u64>),
    /// Flushes fail.
    Unflushable,
    /// It is pulled out.
    Detach,
    /// It does not answer.
    Stall,
    /// It is slow.
    Slow(u32),
}

/// What an accident costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cost {
    Nothing,
    /// The blocks in its range.
    Blocks,
    /// The units in its range.
    Units,
    /// The member.
    Member,
}

/// A part of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Region {
    Data,
    Table,
    Journal,
    Label,
    Catalogue,
    Bitmap,
}

impl Machine {
    fn draw_bytes(&self, atlas: &Atlas, random: &mut fastrand::Rng, region: Region) -> Range<u64> {
        let geometry = &self.geometry();
        let row = |random: &mut fastrand::Rng| {
            let rows: Vec<u64> = atlas.rows().collect();
            rows[random.usize(0..rows.len())]
        };
        let start = match region {
            Region::Data => {
                let place = geometry.unit_place(row(random));
                place + random.u64(0..u64::from(geometry.blocks_per_unit())) * BLOCK
            }
            Region::Table => {
                let (page, _) = geometry.table_entry(row(random), 0);
                geometry.table_page_place(page, random.u8(0..2))
            }
            Region::Journal => {
                let bytes = u64::from(geometry.segments) * u64::from(geometry.segment_bytes);
                // Most of it is not in use: the first segments are.
                let most = if random.bool() { bytes / 4 } else { bytes };
                geometry.journal + random.u64(0..most / BLOCK) * BLOCK
            }
            Region::Label => geometry.label_place(End::BOTH[random.usize(0..2)]),
            Region::Catalogue => geometry.catalogue_place(End::BOTH[random.usize(0..2)], random.u8(0..2)),
            Region::Bitmap => geometry.bitmap_place(0),
        };
        match region {
            Region::Data => start..start + BLOCK * random.u64(1..=3),
            Region::Journal => start..start + BLOCK * random.u64(1..=8),
            _ => start..start + BLOCK,
        }
    }

    /// Draws what befalls a member that runs.
    pub fn draw_accident(&self, atlas: &Atlas, random: &mut fastrand::Rng) -> Accident {
        let region = match random.u8(0..16) {
            0..9 => Region::Data,
            9..11 => Region::Table,
            11..13 => Region::Journal,
            13 => Region::Label,
            14 => Region::Catalogue,
            _ => Region::Bitmap,
        };
        let bytes = self.draw_bytes(atlas, random, region);
        match random.u8(0..24) {
            0..4 => Accident::Spoil { bytes, bits: true },
            4..6 => Accident::Spoil { bytes, bits: false },
            6..9 => Accident::Pending(bytes),
            9 => Accident::Unreadable(bytes),
            10..12 => Accident::Misread(bytes, random.u32(1..=2)),
            12..15 => Accident::Drop(bytes, random.u32(1..=2)),
            15..18 if region == Region::Data => {
                let distance = random.i64(-24..=24) * BLOCK.cast_signed();
                Accident::Misdirect(bytes, if distance == 0 { BLOCK.cast_signed() } else { distance })
            }
            18 => Accident::Unwritable(bytes),
            19 => Accident::Unflushable,
            20 => Accident::Detach,
            21 => Accident::Stall,
            _ => Accident::Slow(random.u32(2..40)),
        }
    }

    /// Lets an accident happen to a member, if the plan affords it. Says whether it did.
    pub fn befall(&mut self, atlas: &mut Atlas, slot: usize, accident: &Accident) -> bool {
        let bad = atlas.bad(&self.roster);
        let (cost, columns) = self.cost(atlas, slot, accident);
        let affords = match cost {
            Cost::Nothing => true,
            Cost::Blocks | Cost::Units => atlas.affords(&bad, &columns, slot),
            Cost::Member => atlas.affords_all(&bad, slot),
        };
        if !affords && !self.plan.beyond {
            return false;
        }
        if cost == Cost::Member {
            atlas.away |= 1 << slot;
        }
        self.strike(self.roster.seat(slot), accident);
        atlas.look(&self.roster);
        true
    }

    /// Lets an accident happen to a file, whatever that costs.
    pub fn strike(&mut self, file: usize, accident: &Accident) {
        if matches!(accident, Accident::Detach | Accident::Stall) {
            self.roster.mute.set(self.roster.mute.get() | 1 << file);
        }
        let (node, path) = (&self.node, path(file));
        match accident.clone() {
            Accident::Spoil { bytes, bits: true } => {
                let middle = u64::midpoint(bytes.start, bytes.end);
                for at in [bytes.start + 5, middle, bytes.end - 1] {
                    node.flip_bit(&path, at, 2);
                }
            }
            Accident::Spoil { bytes, bits: false } => node.corrupt(&path, bytes),
            Accident::Pending(bytes) => node.fail_reads_until_written(&path, bytes),
            Accident::Unreadable(bytes) => node.fail_reads(&path, bytes),
            Accident::Misread(bytes, count) => node.misread(&path, bytes, count),
            Accident::Drop(bytes, count) => node.drop_writes(&path, bytes, count),
            Accident::Misdirect(bytes, distance) => node.misdirect_writes(&path, bytes, distance, 1),
            Accident::Unwritable(bytes) => node.fail_writes(&path, bytes),
            Accident::Unflushable => node.fail_flushes(&path),
            Accident::Detach => node.detach(&path),
            Accident::Stall => node.stall(&path),
            Accident::Slow(factor) => node.slow_down(&path, factor),
        }
    }

    fn cost(&self, atlas: &Atlas, slot: usize, accident: &Accident) -> (Cost, Vec<super::atlas::Column>) {
        let data = self.data();
        let of = |bytes: &Range<u64>, cost: Cost| {
            if data.contains(&bytes.start) && bytes.end <= data.end {
                (cost, atlas.reach(slot, bytes, cost == Cost::Units))
            } else {
                (Cost::Member, Vec::new())
            }
        };
        match accident {
            Accident::Spoil { bytes, .. }
            | Accident::Pending(bytes)
            | Accident::Unreadable(bytes)
            | Accident::Misread(bytes, _) => of(bytes, Cost::Blocks),
            Accident::Drop(bytes, _) => of(bytes, Cost::Units),
            Accident::Misdirect(bytes, distance) => {
                let landing = atlas.landing(bytes, *distance);
                let (cost, mut columns) = of(bytes, Cost::Units);
                let (other, more) = of(&landing, Cost::Units);
                columns.extend(more);
                if other == Cost::Member { (other, columns) } else { (cost, columns) }
            }
            Accident::Unwritable(_) | Accident::Unflushable | Accident::Detach | Accident::Stall => {
                (Cost::Member, Vec::new())
            }
            Accident::Slow(_) => (Cost::Nothing, Vec::new()),
        }
    }

    /// Where the units of a member are.
    pub fn data(&self) -> Range<u64> {
        let geometry = self.geometry();
        geometry.data..geometry.unit_place(geometry.rows)
    }

    /// While the machine is off: a member is taken away. It may come back, as it was then.
    pub fn put_by(&mut self, atlas: &mut Atlas, slot: usize) -> bool {
        let bad = atlas.bad(&self.roster);
        let can_be_missed = atlas.affords_all(&bad, slot) || self.plan.beyond && self.survives_without(slot);
        let (absent, file): (Files, usize) = (self.roster.absent.get(), self.roster.seat(slot));
        if absent & 1 << file != 0 || !can_be_missed {
            return false;
        }
        atlas.away |= 1 << slot;
        self.roster.absent.set(absent | 1 << file);
        atlas.look(&self.roster);
        true
    }

    /// Whether the pool can be opened at all without the slot.
    fn survives_without(&self, slot: usize) -> bool {
        let out = self.roster.slots_of(self.roster.absent.get()) | self.not_in_sync() | 1 << slot;
        self.geometry().survives(out)
    }
}
