//! The file `names`: which series there are, and the eras.

use super::{MAX_NAME_BYTES, MAX_SERIES, checksum_around, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"FelsName";
const VERSION: u32 = 1;
const HEAD: usize = 32;
const CHECKSUM: usize = 12;
/// Eras that are kept.
pub const MAX_ERAS: usize = 32;

/// A time in which the clock did not jump back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era {
    /// Its number.
    pub number: u32,
    /// When it began: seconds since 1970.
    pub begun_s: u64,
}

/// A series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Where its values are.
    pub column: u32,
    /// What tells it from others that had the column.
    pub serial: u64,
    /// When it was last known: seconds since 1970.
    pub known_s: u64,
    /// Its name.
    pub name: String,
}

/// Everything in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// For the next series.
    pub next_serial: u64,
    /// Those that are not the first one, in order.
    pub eras: Vec<Era>,
    /// In the order of columns.
    pub series: Vec<Named>,
}

/// Why bytes are not the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNames {
    /// Of another version.
    #[error("its version is {0}; this build reads version {VERSION}")]
    Version(u32),
    /// Not as it was written.
    #[error("it is damaged")]
    Damaged,
}

impl Names {
    /// Reads the whole file.
    pub fn decode(bytes: &[u8]) -> Result<Self, NotNames> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(NotNames::Damaged);
        }
        match u32_at(bytes, 8) {
            Some(VERSION) => Self::decode_body(bytes).ok_or(NotNames::Damaged),
            Some(other) => Err(NotNames::Version(other)),
            None => Err(NotNames::Damaged),
        }
    }

    fn decode_body(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEAD || u32_at(bytes, CHECKSUM)? != checksum_around(bytes, CHECKSUM) {
            return None;
        }
        let mut names = Self { next_serial: u64_at(bytes, 16)?, ..Self::default() };
        let (eras, series) = (u32_at(bytes, 24)? as usize, u32_at(bytes, 28)? as usize);
        if eras > MAX_ERAS || series > MAX_SERIES {
            return None;
        }
        let mut at = HEAD;
        for _ in 0..eras {
            names.eras.push(Era { number: u32_at(bytes, at)?, begun_s: u64_at(bytes, at + 4)? });
            at += 12;
        }
        for _ in 0..series {
            let length = u32_at(bytes, at + 20)? as usize;
            if !(1..=MAX_NAME_BYTES).contains(&length) {
                return None;
            }
            let name = std::str::from_utf8(bytes.get(at + 24..at + 24 + length)?).ok()?.to_owned();
            let (column, serial, known_s) =
                (u32_at(bytes, at)?, u64_at(bytes, at + 4)?, u64_at(bytes, at + 12)?);
            names.series.push(Named { column, serial, known_s, name });
            at += 24 + length;
        }
        let rise = names.eras.is_sorted_by(|a, b| a.number < b.number)
            && names.series.is_sorted_by(|a, b| a.column < b.column);
        let fits = |one: &Named| (one.column as usize) < MAX_SERIES && one.serial < names.next_serial;
        (at == bytes.len() && rise && names.series.iter().all(fits)).then_some(names)
    }

    /// The whole file.
    pub fn encode(&self) -> Vec<u8> {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        let mut out = Vec::with_capacity(HEAD + self.series.len() * 128);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.next_serial.to_le_bytes());
        out.extend(count(self.eras.len()));
        out.extend(count(self.series.len()));
        for era in &self.eras {
            out.extend(era.number.to_le_bytes());
            out.extend(era.begun_s.to_le_bytes());
        }
        for one in &self.series {
            out.extend(one.column.to_le_bytes());
            out.extend(one.serial.to_le_bytes());
            out.extend(one.known_s.to_le_bytes());
            out.extend(count(one.name.len()));
            out.extend(one.name.as_bytes());
        }
        let checksum = checksum_around(&out, CHECKSUM);
        out[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}
