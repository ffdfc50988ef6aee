//! Label: what a member says of itself and of its pool.

use std::collections::HashSet;

use wire::iscsi::digest::crc32c;

use super::catalogue::VOLUMES_PER_BLOCK;
use super::geometry::{GeometryError, MAX_SLOTS};
use super::slot::{self, Slot, SlotState};
use super::{
    BLOCK, Geometry, Id, Sets, is_name, is_zero, name_in, put, set_of, take, u16_at, u32_at, u64_at, within,
};
use crate::pool::Level;

/// First bytes.
pub const MAGIC: [u8; 8] = *b"FelsPool";
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Bytes that the name of a pool may have.
pub const MAX_NAME_BYTES: usize = 64;
/// Spares that a pool may have.
pub const MAX_SPARES: usize = 16;

const SPARE: u16 = 0xffff;
const NO_ID: Id = [0; 16];
/// The feature of a label that has a scrub under way.
pub const SCRUBS: u32 = 1;
/// The feature of a label of a pool that was grown: bitmap and table lie behind the units.
pub const GROWN: u32 = 2;
/// The feature of a label of a pool that was extended by sets of slots.
pub const EXTENDED: u32 = 4;
const KNOWN: u32 = SCRUBS | GROWN | EXTENDED;
const INTEGRITY: u16 = 1;
const CLEAN: u16 = 2;
const NAME: usize = 176;
const SETS: usize = 240;
const SLOTS: usize = 256;
const SPARES: usize = 3328;
const SCRUB: usize = 3584;
const SCRUB_END: usize = 3624;
const CHECKSUM: usize = 4092;
/// Bytes that have no meaning yet.
const RESERVED: [std::ops::Range<usize>; 2] = [170..176, SCRUB_END..CHECKSUM];

/// The two ends of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Byte 0.
    Head,
    /// Where the bytes in use end.
    Tail,
}

impl End {
    /// Both, in the order in which they are written.
    pub const BOTH: [Self; 2] = [Self::Head, Self::Tail];
}

/// The catalogue that belongs to a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogueReference {
    /// The label generation with which it was written.
    pub generation: u64,
    /// Volumes in it.
    pub volumes: u32,
    /// Of the blocks that hold them.
    pub checksum: u32,
    /// The one in use, 0 or 1.
    pub copy: u8,
}

/// How far a scrub is that is under way, and what it found until there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubPlace {
    /// Rows below are verified.
    pub row: u64,
    /// Blocks that were bad.
    pub bad: u64,
    /// Of those, repaired.
    pub repaired: u64,
    /// Of those, lost.
    pub lost: u64,
    /// Rows whose blocks did not fit one another.
    pub uneven: u64,
}

impl ScrubPlace {
    fn fields(&self) -> [u64; 5] {
        [self.row, self.bad, self.repaired, self.lost, self.uneven]
    }
}

/// What a member says of itself and of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Whose member it is.
    pub pool: Id,
    /// Which.
    pub member: Id,
    /// One more with every change of a label, from 1.
    pub generation: u64,
    /// Its slot; none of a spare.
    pub slot: Option<u16>,
    /// Where this label is.
    pub end: End,
    /// Checksums are kept and verified.
    pub integrity: bool,
    /// The pool was stopped in good order.
    pub clean: bool,
    /// Where everything is.
    pub geometry: Geometry,
    /// Transactions with a lower number are of no use any more.
    pub retired: u64,
    /// Which volumes there are.
    pub catalogue: CatalogueReference,
    /// Of the pool.
    pub name: String,
    /// All of them, in their order.
    pub slots: Vec<Slot>,
    /// Members that wait for one to fail.
    pub spares: Vec<Id>,
    /// The scrub that is under way.
    pub scrub: Option<ScrubPlace>,
}

/// Why bytes are not a label that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Something else is here.
    #[error("there is no label of a pool")]
    NotALabel,
    /// A part of it is not what was written.
    #[error("the label is damaged: its checksum does not fit")]
    Damaged,
    /// It was written by another Fels.
    #[error("the label has version {0}, this Fels knows 1; hint: use the Fels that wrote it, or a newer one")]
    Version(u32),
    /// The pool uses what is not known here.
    #[error("the pool uses features {0:#x} that this Fels does not know; hint: use a newer Fels")]
    Features(u32),
    /// It is whole and makes no sense.
    #[error("the label is not valid: {0}")]
    Invalid(&'static str),
}

impl From<GeometryError> for LabelError {
    fn from(error: GeometryError) -> Self {
        Self::Invalid(error.0)
    }
}

fn hold(holds: bool, what: &'static str) -> Result<(), LabelError> {
    if holds { Ok(()) } else { Err(LabelError::Invalid(what)) }
}

impl Label {
    /// The slot that a member has.
    pub fn slot_of(&self, member: &Id) -> Option<usize> {
        self.slots.iter().position(|slot| slot.member == *member)
    }

    /// As the member of a slot has it at one of its ends.
    pub fn of_slot(&self, slot: usize, end: End) -> Label {
        Label { slot: Some(slot as u16), member: self.slots[slot].member, end, ..self.clone() }
    }

    /// Whether it can be written: what is not would be refused when it is read.
    pub fn check(&self) -> Result<(), LabelError> {
        self.geometry.check()?;
        hold(self.pool != NO_ID, "the pool has no id")?;
        hold(self.generation > 0, "the generation is zero")?;
        hold(is_name(&self.name, MAX_NAME_BYTES), "the name of the pool")?;
        hold(self.catalogue.generation <= self.generation, "the catalogue is newer than the label")?;
        let room = self.geometry.catalogue_blocks * VOLUMES_PER_BLOCK;
        hold(self.catalogue.volumes <= room, "the catalogue has no room for so many volumes")?;
        hold(self.catalogue.copy <= 1, "the copy of the catalogue")?;
        hold(self.slots.len() == usize::from(self.geometry.slots), "the number of slots")?;
        hold(self.spares.len() <= MAX_SPARES, "too many spares")?;
        let scrubbed = self.scrub.map_or(0, |scrub| scrub.row);
        let is_inside =
            within(scrubbed) <= self.geometry.rows && set_of(scrubbed) < self.geometry.sets.count();
        hold(is_inside, "the place of the scrub lies beyond the rows")?;
        let mut seen = HashSet::new();
        for slot in &self.slots {
            hold(slot.member == NO_ID || seen.insert(slot.member), "a member is there twice")?;
            self.check_slot(slot)?;
        }
        for spare in &self.spares {
            hold(*spare != NO_ID, "a spare has no id")?;
            hold(seen.insert(*spare), "a member is there twice")?;
        }
        hold(self.member != NO_ID, "the member has no id")?;
        let own = match self.slot {
            Some(slot) => self.slots.get(usize::from(slot)).is_some_and(|slot| slot.member == self.member),
            None => self.spares.contains(&self.member),
        };
        hold(own, "the member is not in its own slot or among the spares")
    }

    fn check_slot(&self, slot: &Slot) -> Result<(), LabelError> {
        let went_out = |since| (1..=self.generation).contains(&since);
        match slot.state {
            SlotState::InSync => hold(slot.member != NO_ID, "a slot without a member is in sync"),
            SlotState::Out { since, .. } => hold(went_out(since), "when a slot went out"),
            SlotState::Rebuilding { since, cursor, .. } => {
                hold(slot.member != NO_ID, "a slot without a member is rebuilt")?;
                hold(went_out(since), "when a slot went out")?;
                hold(cursor <= self.geometry.rows, "the cursor of a slot lies beyond the rows")
            }
        }
    }

    /// The block. A label that [`Label::check`] refuses is a mistake of the caller: panics rather than have written
    /// what cannot be read.
    pub fn encode(&self) -> [u8; BLOCK] {
        if let Err(error) = self.check() {
            panic!("a label is to be written that cannot be read: {error}");
        }
        let mut bytes = [0; BLOCK];
        let mut put = |offset, field: &[u8]| put(&mut bytes, offset, field);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        let grown = if self.geometry.is_grown() { GROWN } else { 0 };
        let extended = if self.geometry.sets.count() > 1 { EXTENDED } else { 0 };
        put(12, &(self.scrub.map_or(0, |_| SCRUBS) | grown | extended).to_le_bytes());
        put(16, &self.pool);
        put(32, &self.member);
        put(48, &self.generation.to_le_bytes());
        put(56, &self.slot.unwrap_or(SPARE).to_le_bytes());
        put(59, &[self.end as u8]);
        let flags = if self.integrity { INTEGRITY } else { 0 } | if self.clean { CLEAN } else { 0 };
        put(62, &flags.to_le_bytes());
        put(144, &self.retired.to_le_bytes());
        put(152, &self.catalogue.generation.to_le_bytes());
        put(160, &self.catalogue.volumes.to_le_bytes());
        put(164, &self.catalogue.checksum.to_le_bytes());
        put(168, &[self.catalogue.copy, self.name.len() as u8]);
        put(NAME, self.name.as_bytes());
        for (index, spare) in self.spares.iter().enumerate() {
            put(SPARES + index * spare.len(), spare);
        }
        for (index, field) in self.scrub.iter().flat_map(ScrubPlace::fields).enumerate() {
            put(SCRUB + 8 * index, &field.to_le_bytes());
        }
        encode_geometry(&self.geometry, &mut bytes);
        for (slot, out) in self.slots.iter().zip(bytes[SLOTS..SPARES].chunks_exact_mut(slot::BYTES)) {
            slot.encode(out);
        }
        let checksum = crc32c(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Of a block that is a damaged label: where it says that the one at the tail is. It may be anything.
    pub fn tail_of_damaged(bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.get(..BLOCK).filter(|bytes| bytes.starts_with(&MAGIC))?;
        let end = u64_at(bytes, 80);
        (end.is_multiple_of(BLOCK as u64) && end > BLOCK as u64).then(|| end - BLOCK as u64)
    }

    /// Reads the block; bytes behind it are not looked at.
    pub fn decode(bytes: &[u8]) -> Result<Self, LabelError> {
        let bytes =
            bytes.get(..BLOCK).filter(|bytes| bytes.starts_with(&MAGIC)).ok_or(LabelError::NotALabel)?;
        if u32_at(bytes, CHECKSUM) != crc32c(&bytes[..CHECKSUM]) {
            return Err(LabelError::Damaged);
        }
        let features = match (u32_at(bytes, 8), u32_at(bytes, 12)) {
            (VERSION, features) if features & !KNOWN == 0 => features,
            (VERSION, features) => return Err(LabelError::Features(features & !KNOWN)),
            (version, _) => return Err(LabelError::Version(version)),
        };
        hold(RESERVED.into_iter().all(|range| is_zero(&bytes[range])), "a reserved byte is not zero")?;
        let scrubs = features & SCRUBS != 0;
        hold(scrubs || is_zero(&bytes[SCRUB..SCRUB_END]), "a reserved byte is not zero")?;
        let flags = u16_at(bytes, 62);
        hold(flags & !(INTEGRITY | CLEAN) == 0, "a flag that is not known")?;
        let end = *End::BOTH.get(usize::from(bytes[59])).ok_or(LabelError::Invalid("the end"))?;
        let geometry = decode_geometry(bytes, features & EXTENDED != 0)?;
        hold(geometry.is_grown() == (features & GROWN != 0), "where bitmap and table lie")?;
        let name = name_in(&bytes[NAME..NAME + MAX_NAME_BYTES], bytes[169].into())
            .ok_or(LabelError::Invalid("the name of the pool"))?;
        // The number of slots is at most 64: the geometry has been checked.
        let (slots, rest) = bytes[SLOTS..SPARES].split_at(usize::from(geometry.slots) * slot::BYTES);
        hold(is_zero(rest), "a slot beyond the last one")?;
        let (spares, _) = bytes[SPARES..SCRUB].as_chunks::<16>();
        let count = spares.iter().take_while(|spare| **spare != NO_ID).count();
        hold(spares[count..].iter().all(|spare| *spare == NO_ID), "a gap between spares")?;
        let label = Self {
            pool: take(bytes, 16),
            member: take(bytes, 32),
            generation: u64_at(bytes, 48),
            slot: Some(u16_at(bytes, 56)).filter(|&slot| slot != SPARE),
            end,
            integrity: flags & INTEGRITY != 0,
            clean: flags & CLEAN != 0,
            geometry,
            retired: u64_at(bytes, 144),
            catalogue: CatalogueReference {
                generation: u64_at(bytes, 152),
                volumes: u32_at(bytes, 160),
                checksum: u32_at(bytes, 164),
                copy: bytes[168],
            },
            name: name.to_owned(),
            slots: slots
                .chunks_exact(slot::BYTES)
                .map(Slot::decode)
                .collect::<Result<_, _>>()
                .map_err(LabelError::Invalid)?,
            spares: spares[..count].to_vec(),
            scrub: scrubs.then(|| decode_scrub(bytes)),
        };
        label.check()?;
        Ok(label)
    }
}

fn decode_scrub(bytes: &[u8]) -> ScrubPlace {
    let [row, bad, repaired, lost, uneven] = std::array::from_fn(|index| u64_at(bytes, SCRUB + 8 * index));
    ScrubPlace { row, bad, repaired, lost, uneven }
}

fn encode_geometry(geometry: &Geometry, out: &mut [u8]) {
    out[58] = geometry.level.code();
    put(out, 60, &geometry.slots.to_le_bytes());
    put(out, 64, &geometry.unit.to_le_bytes());
    put(out, 68, &geometry.catalogue_blocks.to_le_bytes());
    put(out, 72, &geometry.rows.to_le_bytes());
    put(out, 80, &geometry.bytes.to_le_bytes());
    put(out, 88, &geometry.journal.to_le_bytes());
    put(out, 96, &geometry.segment_bytes.to_le_bytes());
    put(out, 100, &geometry.segments.to_le_bytes());
    put(out, 104, &geometry.bitmap.to_le_bytes());
    put(out, 112, &geometry.bitmap_blocks.to_le_bytes());
    put(out, 116, &geometry.rows_per_bit.to_le_bytes());
    put(out, 120, &geometry.table.to_le_bytes());
    put(out, 128, &geometry.table_pages.to_le_bytes());
    put(out, 136, &geometry.data.to_le_bytes());
    put(out, SETS, &geometry.sets.encode(geometry.slots));
}

fn decode_geometry(bytes: &[u8], extended: bool) -> Result<Geometry, LabelError> {
    let sets = take(bytes, SETS);
    hold(extended || is_zero(&sets), "a reserved byte is not zero")?;
    let several = if extended { Sets::decode(&sets) } else { Some(Sets::default()) };
    let geometry = Geometry {
        level: Level::from_code(bytes[58]).ok_or(LabelError::Invalid("the level"))?,
        slots: u16_at(bytes, 60),
        sets: several.ok_or(LabelError::Invalid("the sets"))?,
        unit: u32_at(bytes, 64),
        rows: u64_at(bytes, 72),
        bytes: u64_at(bytes, 80),
        catalogue_blocks: u32_at(bytes, 68),
        journal: u64_at(bytes, 88),
        segment_bytes: u32_at(bytes, 96),
        segments: u32_at(bytes, 100),
        bitmap: u64_at(bytes, 104),
        bitmap_blocks: u32_at(bytes, 112),
        rows_per_bit: u32_at(bytes, 116),
        table: u64_at(bytes, 120),
        table_pages: u64_at(bytes, 128),
        data: u64_at(bytes, 136),
    };
    geometry.check()?;
    // The last one has what is left, which has to be what is said.
    hold(geometry.sets.encode(geometry.slots) == sets, "the sets")?;
    Ok(geometry)
}

const _: () =
    assert!(SLOTS + MAX_SLOTS as usize * slot::BYTES == SPARES && SPARES + MAX_SPARES * 16 == SCRUB);

#[cfg(test)]
mod tests;
