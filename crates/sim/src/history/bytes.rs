//! The bytes that stand for each value: every sector bears a stamp that says where it belongs and who wrote it.

use lab::stamp::{self, Expectation};
use ring::Buffer;

use super::{History, Id, Place, Value, Wish};
use crate::{Failure, SECTOR};

/// The number that a stamp bears that is the same in all blocks of a WRITE SAME: this and the sector in the block.
const SAME: u64 = 1 << 62;

impl History {
    /// The bytes that `id` sends: what it compares, then what it writes; of WRITE SAME one block.
    pub fn data(&self, id: Id) -> Buffer {
        let operation = &self.volumes[id.0].operations[id.1];
        let count = match operation.wish {
            Wish::WriteSame { block } => block,
            Wish::Compare(_) => 0,
            _ => operation.place.count,
        };
        let (old, mut at) = match &operation.wish {
            Wish::Compare(old) | Wish::CompareAndWrite(old) => (old.as_slice(), old.len()),
            _ => (&[][..], 0),
        };
        let mut buffer = Buffer::zeroed((count as usize + at) * SECTOR);
        let first = operation.place.first;
        for (index, value) in old.iter().enumerate() {
            self.fill(&mut buffer[index * SECTOR..][..SECTOR], *value, first + index as u64);
        }
        for index in 0..count {
            self.fill(&mut buffer[at * SECTOR..][..SECTOR], operation.value, first + index);
            at += 1;
        }
        buffer
    }

    /// The number in the stamp of a value in a sector.
    fn stamp_number(&self, value: Value, sector: u64) -> u64 {
        let content = &self.contents[value as usize - 1];
        match content.block {
            Some(block) => SAME | (sector % block),
            None => ((content.volume as u64) << 40) | sector,
        }
    }

    pub(super) fn fill(&self, bytes: &mut [u8], value: Value, sector: u64) {
        if value != 0 {
            stamp::stamp(bytes, self.run, self.stamp_number(value, sector), value);
        }
    }

    /// The value that bytes read from a sector stand for.
    fn recognise(&self, bytes: &[u8], volume: usize, sector: u64) -> Result<Value, Failure> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(0);
        }
        let value = u64::from_le_bytes(bytes[32..40].try_into().expect("8 bytes"));
        let known = (1..=self.contents.len() as u64).contains(&value);
        let number = if known { self.stamp_number(value, sector) } else { ((volume as u64) << 40) | sector };
        let newest = self.contents.len() as u64;
        let expected = Expectation { run: self.run, block: number, oldest: 1, newest };
        stamp::check(bytes, &expected).map_err(|wrong| {
            Failure(format!("volume {volume}, sector {sector} has {wrong}, which nobody wrote there"))
        })
    }

    /// The values in a buffer read from a place.
    pub fn recognise_all(&self, bytes: &[u8], place: Place) -> Result<Vec<Value>, Failure> {
        let sectors = bytes.chunks_exact(SECTOR).zip(place.first..);
        sectors.map(|(bytes, sector)| self.recognise(bytes, place.volume, sector)).collect()
    }
}
