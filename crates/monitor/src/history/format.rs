//! Every byte of the files, without I/O: docs/formats/history.md.

mod names;

pub use names::{Era, MAX_ERAS, Named, Names, NotNames};

use crc_fast::{CrcAlgorithm, Digest, checksum};

/// Series in all.
pub const MAX_SERIES: usize = 10_240;
/// Bytes of a series' name.
pub const MAX_NAME_BYTES: usize = 512;
/// Bytes of a block of an archive.
pub const BLOCK: usize = 512;
/// Columns that share a strip.
pub const GROUP: usize = 64;
/// Bytes from one row of the journal to the next.
pub const ROW_STRIDE: usize = 45_056;
/// Bytes before the values, of rows and of blocks.
const HEAD: usize = 32;

/// How an archive is cut.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its number and its place in [`LAYOUTS`].
    pub number: u8,
    /// The file.
    pub file: &'static str,
    /// Seconds of a slot.
    pub step_s: u64,
    /// Slots of a strip.
    pub slots: usize,
    /// Strips that are kept.
    pub strips: u64,
    /// Values of a slot.
    pub width: usize,
}

/// The archives, from the shortest slots to the longest.
pub const LAYOUTS: [Layout; 4] = [
    Layout { number: 0, file: "day", step_s: 10, slots: 120, strips: 72, width: 1 },
    Layout { number: 1, file: "week", step_s: 60, slots: 40, strips: 252, width: 3 },
    Layout { number: 2, file: "month", step_s: 300, slots: 36, strips: 248, width: 3 },
    Layout { number: 3, file: "years", step_s: 3600, slots: 40, strips: 439, width: 3 },
];

const _: () = {
    assert!(HEAD + 4 * MAX_SERIES <= ROW_STRIDE && MAX_SERIES.is_multiple_of(GROUP));
    let mut finer = 0;
    while finer < LAYOUTS.len() {
        assert!(HEAD + 4 * LAYOUTS[finer].slots * LAYOUTS[finer].width <= BLOCK);
        if finer > 0 {
            let (short, long) = (&LAYOUTS[finer - 1], &LAYOUTS[finer]);
            let ratio = long.step_s / short.step_s;
            // A slot is made of whole slots of one strip, and an open strip of what the archive before still has.
            assert!(long.step_s % short.step_s == 0 && (short.slots as u64).is_multiple_of(ratio));
            assert!((long.slots as u64) * long.step_s <= short.strips * short.step_s * short.slots as u64);
        }
        finer += 1;
    }
};

impl Layout {
    /// The strip of a slot.
    pub fn strip(&self, slot: u64) -> u64 {
        slot / self.slots as u64
    }

    /// The first slot of a strip.
    pub fn first(&self, strip: u64) -> u64 {
        strip * self.slots as u64
    }

    /// How long it remembers, in seconds.
    pub fn span_s(&self) -> u64 {
        self.strips * self.slots as u64 * self.step_s
    }

    /// Where the blocks of a group's strip begin.
    pub fn offset(&self, group: usize, strip: u64) -> u64 {
        (group as u64 * self.strips + strip % self.strips) * (GROUP * BLOCK) as u64
    }

    /// Bytes of the file with so many groups.
    pub fn file_bytes(&self, groups: usize) -> u64 {
        self.offset(groups, 0)
    }
}

/// One series for the time of one strip.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// When it was written.
    pub era: u32,
    /// Which time.
    pub strip: u64,
    /// Which series.
    pub serial: u64,
    /// Where it stands.
    pub column: u32,
    /// Of which archive.
    pub archive: u8,
    /// Values of slot after slot.
    pub values: Vec<f32>,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn crc32c(bytes: &[u8]) -> u32 {
    // A CRC of 32 bits comes in a u64.
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn values(bytes: &[u8]) -> Vec<f32> {
    let value = |bytes: &[u8; 4]| {
        let value = f32::from_le_bytes(*bytes);
        if value.is_finite() { value } else { f32::NAN }
    };
    bytes.as_chunks().0.iter().map(value).collect()
}

fn put_values(out: &mut [u8], values: &[f32]) {
    for (out, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
        *out = value.to_le_bytes();
    }
}

impl Block {
    /// What the first 512 bytes say; `None` unless they are a block.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..BLOCK)?;
        if u32_at(bytes, 0)? != crc32c(&bytes[4..]) {
            return None;
        }
        let layout = LAYOUTS.get(usize::from(bytes[28]))?;
        let end = HEAD + 4 * layout.slots * layout.width;
        if bytes[29..HEAD].iter().chain(&bytes[end..]).any(|byte| *byte != 0) {
            return None;
        }
        Some(Self {
            era: u32_at(bytes, 4)?,
            strip: u64_at(bytes, 8)?,
            serial: u64_at(bytes, 16)?,
            column: u32_at(bytes, 24)?,
            archive: bytes[28],
            values: values(&bytes[HEAD..end]),
        })
    }

    /// Its bytes into a place of 512.
    pub fn encode(&self, out: &mut [u8]) {
        out.fill(0);
        out[4..8].copy_from_slice(&self.era.to_le_bytes());
        out[8..16].copy_from_slice(&self.strip.to_le_bytes());
        out[16..24].copy_from_slice(&self.serial.to_le_bytes());
        out[24..28].copy_from_slice(&self.column.to_le_bytes());
        out[28] = self.archive;
        put_values(&mut out[HEAD..], &self.values);
        let checksum = crc32c(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// All series at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// When it was written.
    pub era: u32,
    /// Which time.
    pub slot: u64,
    /// It says nothing of series with this serial or a later one.
    pub watermark: u64,
    /// One for each column.
    pub values: Vec<f32>,
}

impl Row {
    /// Where the row of a slot stands in the journal.
    pub fn offset(slot: u64) -> u64 {
        slot % LAYOUTS[0].slots as u64 * ROW_STRIDE as u64
    }

    /// What the bytes begin with; `None` unless that is a row.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let count = u32_at(bytes, 24)? as usize;
        if count > MAX_SERIES || u32_at(bytes, 28)? != 0 {
            return None;
        }
        let bytes = bytes.get(..HEAD + 4 * count)?;
        if u32_at(bytes, 0)? != crc32c(&bytes[4..]) {
            return None;
        }
        Some(Self {
            era: u32_at(bytes, 4)?,
            slot: u64_at(bytes, 8)?,
            watermark: u64_at(bytes, 16)?,
            values: values(&bytes[HEAD..]),
        })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD + 4 * self.values.len()];
        out[4..8].copy_from_slice(&self.era.to_le_bytes());
        out[8..16].copy_from_slice(&self.slot.to_le_bytes());
        out[16..24].copy_from_slice(&self.watermark.to_le_bytes());
        let count = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        out[24..28].copy_from_slice(&count.to_le_bytes());
        put_values(&mut out[HEAD..], &self.values);
        let checksum = crc32c(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

/// The checksum of a file in which the four bytes at `at` hold it.
fn checksum_around(bytes: &[u8], at: usize) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..at]);
    digest.update(&[0; 4]);
    digest.update(&bytes[at + 4..]);
    digest.finalize() as u32
}
