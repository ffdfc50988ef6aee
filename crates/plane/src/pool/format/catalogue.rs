//! Catalogue: the volumes of a pool, 8 to a block.

use std::collections::HashSet;

use wire::iscsi::digest::crc32c;

use super::label::CatalogueReference;
use super::{BLOCK, Geometry, Id, is_name, is_zero, name_in, put, take, u16_at, u32_at, u64_at, within};

/// Volumes in a block.
pub const VOLUMES_PER_BLOCK: u32 = 8;
/// Bytes that the name of a volume may have.
pub const MAX_NAME_BYTES: usize = 200;
/// Extents that a volume may have.
pub const MAX_EXTENTS: usize = 16;

const ENTRY: usize = BLOCK / VOLUMES_PER_BLOCK as usize;
const NAME: usize = 32;
const EXTENTS: usize = 240;
const EXTENTS_END: usize = EXTENTS + MAX_EXTENTS * 16;
const CHECKSUM: usize = 508;

/// Neighbouring rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowExtent {
    /// The first one.
    pub first_row: u64,
    /// Their number, 1 or more.
    pub rows: u64,
}

/// A volume of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeEntry {
    /// For ever.
    pub id: Id,
    /// What people call it.
    pub name: String,
    /// Its size: whole blocks of `block_size`.
    pub bytes: u64,
    /// 512 or 4096.
    pub block_size: u32,
    /// Where its bytes are, one after the other.
    pub extents: Vec<RowExtent>,
}

/// Why a catalogue cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// There are fewer blocks than it has.
    #[error("the catalogue of the pool is cut off")]
    Short,
    /// It is not what was written, or not the one that the label speaks of.
    #[error("the catalogue of the pool is damaged: its checksum does not fit")]
    Damaged,
    /// More volumes than the pool was made for.
    #[error(
        "the catalogue of the pool is full: it holds {0} volumes; hint: remove a volume that is not needed"
    )]
    Full(u32),
    /// It is whole and makes no sense.
    #[error("the catalogue of the pool is not valid at volume {volume}: {what}")]
    Invalid {
        /// Its place in the catalogue, from 0.
        volume: u32,
        /// What is wrong.
        what: &'static str,
    },
}

/// Blocks that hold so many volumes.
pub const fn blocks(volumes: u32) -> u32 {
    volumes.div_ceil(VOLUMES_PER_BLOCK)
}

/// Of the blocks that [`encode`] gave, as the label has it.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c(bytes)
}

/// Whether the volumes can be a catalogue of this pool: what cannot would be refused when it is read.
pub fn check(volumes: &[VolumeEntry], geometry: &Geometry) -> Result<(), CatalogueError> {
    let room = geometry.catalogue_blocks * VOLUMES_PER_BLOCK;
    if volumes.len() > room as usize {
        return Err(CatalogueError::Full(room));
    }
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    let mut taken = Vec::new();
    for (volume, entry) in (0..).zip(volumes) {
        let invalid = |what| CatalogueError::Invalid { volume, what };
        entry.check(geometry).map_err(invalid)?;
        if !ids.insert(entry.id) {
            return Err(invalid("another one has its id"));
        }
        if !names.insert(entry.name.as_str()) {
            return Err(invalid("another one has its name"));
        }
        taken.extend(entry.extents.iter().map(|extent| (extent.first_row, extent.rows, volume)));
    }
    taken.sort_unstable();
    match taken.windows(2).find(|pair| pair[1].0 - pair[0].0 < pair[0].1) {
        Some(pair) => Err(CatalogueError::Invalid { volume: pair[1].2, what: "another extent has its rows" }),
        None => Ok(()),
    }
}

/// The blocks that hold the volumes, and no more. Refuses what [`check`] refuses.
pub fn encode(volumes: &[VolumeEntry], geometry: &Geometry) -> Result<Vec<u8>, CatalogueError> {
    check(volumes, geometry)?;
    let mut bytes = vec![0; blocks(volumes.len() as u32) as usize * BLOCK];
    for (entry, out) in volumes.iter().zip(bytes.chunks_exact_mut(ENTRY)) {
        entry.encode(out);
    }
    Ok(bytes)
}

/// The volumes of the catalogue that the label speaks of; blocks behind it are not looked at.
pub fn decode(
    bytes: &[u8],
    reference: &CatalogueReference,
    geometry: &Geometry,
) -> Result<Vec<VolumeEntry>, CatalogueError> {
    let bytes = bytes.get(..blocks(reference.volumes) as usize * BLOCK).ok_or(CatalogueError::Short)?;
    if checksum(bytes) != reference.checksum {
        return Err(CatalogueError::Damaged);
    }
    let (entries, rest) = bytes.split_at(reference.volumes as usize * ENTRY);
    if !is_zero(rest) {
        return Err(CatalogueError::Invalid {
            volume: reference.volumes,
            what: "there is something behind the last one",
        });
    }
    let volumes = (0..)
        .zip(entries.chunks_exact(ENTRY))
        .map(|(volume, bytes)| VolumeEntry::decode(bytes, volume))
        .collect::<Result<Vec<_>, _>>()?;
    check(&volumes, geometry)?;
    Ok(volumes)
}

impl VolumeEntry {
    fn check(&self, geometry: &Geometry) -> Result<(), &'static str> {
        let hold = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
        hold(self.id != [0; 16], "it has no id")?;
        hold(is_name(&self.name, MAX_NAME_BYTES), "its name")?;
        hold([512, 4096].contains(&self.block_size), "its block size")?;
        hold(
            self.bytes > 0 && self.bytes.is_multiple_of(self.block_size.into()),
            "its size is not of whole blocks",
        )?;
        hold((1..=MAX_EXTENTS).contains(&self.extents.len()), "the number of its extents")?;
        let mut room = 0;
        for extent in &self.extents {
            hold(extent.rows > 0, "an extent is empty")?;
            let end = within(extent.first_row).checked_add(extent.rows);
            let inside = geometry.has_row(extent.first_row) && end.is_some_and(|end| end <= geometry.rows);
            hold(inside, "an extent lies beyond the rows")?;
            room += u128::from(extent.rows) * u128::from(geometry.row_bytes_of(extent.first_row));
        }
        // At most 16 times the rows: wide enough arithmetic even if extents overlap, which is found later.
        hold(room >= self.bytes.into(), "its extents are too small")
    }

    fn encode(&self, out: &mut [u8]) {
        put(out, 0, &self.id);
        put(out, 16, &self.bytes.to_le_bytes());
        put(out, 24, &self.block_size.to_le_bytes());
        put(out, 28, &(self.name.len() as u16).to_le_bytes());
        put(out, 30, &(self.extents.len() as u16).to_le_bytes());
        put(out, NAME, self.name.as_bytes());
        for (extent, out) in self.extents.iter().zip(out[EXTENTS..EXTENTS_END].chunks_exact_mut(16)) {
            put(out, 0, &extent.first_row.to_le_bytes());
            put(out, 8, &extent.rows.to_le_bytes());
        }
        let checksum = crc32c(&out[..CHECKSUM]);
        put(out, CHECKSUM, &checksum.to_le_bytes());
    }

    fn decode(bytes: &[u8], volume: u32) -> Result<Self, CatalogueError> {
        if u32_at(bytes, CHECKSUM) != crc32c(&bytes[..CHECKSUM]) {
            return Err(CatalogueError::Damaged);
        }
        let invalid = |what| CatalogueError::Invalid { volume, what };
        if !is_zero(&bytes[232..EXTENTS]) || !is_zero(&bytes[EXTENTS_END..CHECKSUM]) {
            return Err(invalid("a reserved byte is not zero"));
        }
        let name = name_in(&bytes[NAME..NAME + MAX_NAME_BYTES], u16_at(bytes, 28).into());
        let count = usize::from(u16_at(bytes, 30));
        let (extents, rest) = bytes[EXTENTS..EXTENTS_END]
            .split_at_checked(count * 16)
            .ok_or_else(|| invalid("the number of its extents"))?;
        if !is_zero(rest) {
            return Err(invalid("there is something behind its extents"));
        }
        Ok(Self {
            id: take(bytes, 0),
            name: name.ok_or_else(|| invalid("its name"))?.to_owned(),
            bytes: u64_at(bytes, 16),
            block_size: u32_at(bytes, 24),
            extents: extents
                .chunks_exact(16)
                .map(|extent| RowExtent { first_row: u64_at(extent, 0), rows: u64_at(extent, 8) })
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests;
