//! The journal of what a target acknowledged as durable: so that another process can tell, after a crash of the
//! target, what must still be there.
//!
//! The bytes are drawn in `docs/formats/journal.md`. A generation newer than the last durable one is right as well:
//! a whole stamp of the run can only come from a write that the run had sent.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::rc::Rc;

use ring::{Buffer, File, FileOptions, Ring};
use wire::iscsi::digest::crc32c;

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"FelsJrnl";
/// The version of the layout.
pub const VERSION: u32 = 1;
/// Bytes of the head.
pub const HEAD: usize = 64;
/// Bytes of a record.
pub const RECORD: usize = 24;
/// Bytes read at once.
const PIECE: usize = 1 << 20;
/// Most slots that a journal speaks of.
const MAX_SLOTS: u64 = 1 << 28;

/// Why a journal cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file.
    #[error("{0}; hint: check the path, its permissions and the space on the disk")]
    File(#[from] io::Error),
    /// It is none.
    #[error("the file is no journal ({0}); hint: give the file that `fels lab run --journal` wrote")]
    NotOne(&'static str),
    /// It is one of a version that this program does not know.
    #[error("the journal has version {0}, this program knows {VERSION}; hint: use the program that wrote it")]
    Version(u32),
}

/// What a journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The run that writes.
    pub run: u64,
    /// Bytes of a stamped block.
    pub block_size: u32,
    /// Bytes of an operation.
    pub slot_size: u32,
    /// Byte of the volume where slot 0 lies.
    pub offset: u64,
    /// Number of slots.
    pub slots: u64,
}

impl Head {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.block_size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.slot_size.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.run.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.offset.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.slots.to_le_bytes());
        let crc = crc32c(&bytes[..HEAD - 4]);
        bytes[HEAD - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads and checks it.
    pub fn decode(bytes: &[u8]) -> Result<Head, JournalError> {
        let bytes: &[u8; HEAD] = bytes.first_chunk().ok_or(JournalError::NotOne("it is too short"))?;
        if bytes[..8] != MAGIC {
            return Err(JournalError::NotOne("its first bytes are others"));
        }
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if u32_at(8) != VERSION {
            return Err(JournalError::Version(u32_at(8)));
        }
        if u32_at(HEAD - 4) != crc32c(&bytes[..HEAD - 4]) {
            return Err(JournalError::NotOne("the checksum of its head is wrong"));
        }
        let head = Head {
            run: u64_at(24),
            block_size: u32_at(12),
            slot_size: u32_at(16),
            offset: u64_at(32),
            slots: u64_at(40),
        };
        let block_size = head.block_size as usize;
        let possible = block_size.is_power_of_two()
            && (512..=1 << 16).contains(&block_size)
            && head.slot_size > 0
            && head.slot_size.is_multiple_of(head.block_size)
            && head.slot_size as usize <= ring::LARGEST
            && head.slots <= MAX_SLOTS
            && head.offset.checked_add(head.slots * u64::from(head.slot_size)).is_some();
        if possible { Ok(head) } else { Err(JournalError::NotOne("its head makes no sense")) }
    }
}

fn encode_record(slot: u64, generation: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&slot.to_le_bytes());
    record[8..16].copy_from_slice(&generation.to_le_bytes());
    let crc = crc32c(&record[..16]);
    record[16..20].copy_from_slice(&crc.to_le_bytes());
    record
}

fn decode_record(record: &[u8; RECORD]) -> Option<(u64, u64)> {
    let (words, crc) = record.split_at(16);
    if crc[..4] != crc32c(words).to_le_bytes() || crc[4..] != [0; 4] {
        return None;
    }
    let (words, _) = words.as_chunks::<8>();
    Some((u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])))
}

struct Writer {
    file: File,
    position: u64,
    waiting: Vec<u8>,
    writing: bool,
    failed: Option<io::Error>,
}

/// A journal being written. Clones share it.
#[derive(Clone)]
pub struct Journal(Rc<RefCell<Writer>>);

impl Journal {
    /// Makes `path`, or empties it.
    pub async fn create(ring: &Ring, path: &Path, head: &Head) -> Result<Journal, JournalError> {
        let file = File::open(ring, path, FileOptions { create: true, ..FileOptions::default() })?;
        file.set_length(0)?;
        let (written, _) = file.write_at(Buffer::copy_of(&head.encode()), 0, true).await;
        if written? < HEAD {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        let position = HEAD as u64;
        Ok(Journal(Rc::new(RefCell::new(Writer {
            file,
            position,
            waiting: Vec::new(),
            writing: false,
            failed: None,
        }))))
    }

    /// Notes that `generation` of a slot is durable. It is in the file after the next [`Journal::write`].
    pub fn note(&self, slot: u64, generation: u64) {
        self.0.borrow_mut().waiting.extend_from_slice(&encode_record(slot, generation));
    }

    /// Writes what was noted. One task writes for all.
    pub async fn write(&self) -> Result<(), JournalError> {
        loop {
            let (file, piece, position) = {
                let mut writer = self.0.borrow_mut();
                if let Some(error) = writer.failed.take() {
                    return Err(error.into());
                }
                if writer.writing || writer.waiting.is_empty() {
                    return Ok(());
                }
                writer.writing = true;
                let length = writer.waiting.len().min(PIECE / RECORD * RECORD);
                let piece: Vec<u8> = writer.waiting.drain(..length).collect();
                (writer.file.clone(), piece, writer.position)
            };
            let (written, _) = file.write_at(Buffer::copy_of(&piece), position, false).await;
            let mut writer = self.0.borrow_mut();
            writer.writing = false;
            match written {
                Ok(count) if count == piece.len() => writer.position += count as u64,
                Ok(_) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A journal that was read.
#[derive(Debug)]
pub struct Record {
    /// What it is about.
    pub head: Head,
    /// The newest durable generation of each slot that has one.
    pub durable: HashMap<u64, u64>,
}

/// Reads a journal. A last record that is cut short or damaged was never acknowledged to anybody and is left out.
pub async fn read(ring: &Ring, path: &Path) -> Result<Record, JournalError> {
    let file = File::open(ring, path, FileOptions { read_only: true, ..FileOptions::default() })?;
    let mut head = None;
    let mut durable = HashMap::new();
    let mut position = 0;
    let mut left = Vec::new();
    loop {
        let (count, buffer) = file.read_at(Buffer::new(PIECE), position).await;
        let count = count?;
        position += count as u64;
        left.extend_from_slice(&buffer[..count]);
        if head.is_none() {
            head = Some(Head::decode(&left)?);
            left.drain(..HEAD);
        }
        let (records, rest) = left.as_chunks::<RECORD>();
        let mut broken = false;
        for record in records {
            let Some((slot, generation)) = decode_record(record) else {
                broken = true;
                break;
            };
            let newest = durable.entry(slot).or_insert(generation);
            *newest = generation.max(*newest);
        }
        left = rest.to_vec();
        if count == 0 || broken {
            let head = head.ok_or(JournalError::NotOne("it is empty"))?;
            durable.retain(|&slot, _| slot < head.slots);
            return Ok(Record { head, durable });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{Options, Reactor};

    const HEAD_OF_TEST: Head = Head { run: 5, block_size: 512, slot_size: 4096, offset: 1 << 20, slots: 100 };

    #[test]
    fn what_was_noted_is_read_and_a_torn_end_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let reactor = Reactor::new(&Options::default()).unwrap();
        let ring = reactor.ring().clone();
        let ours = path.clone();
        reactor.block_on(async move {
            let journal = Journal::create(&ring, &ours, &HEAD_OF_TEST).await.unwrap();
            for (slot, generation) in [(3, 1), (4, 1), (3, 2), (99, 9)] {
                journal.note(slot, generation);
            }
            journal.write().await.unwrap();
        });
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), HEAD + 4 * RECORD);
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let ring = reactor.ring().clone();
        let record = reactor.block_on(async move { read(&ring, &path).await.unwrap() });
        assert_eq!(record.head, HEAD_OF_TEST);
        assert_eq!(record.durable, HashMap::from([(3, 2), (4, 1)]));
    }

    #[test]
    fn a_head_that_makes_no_sense_is_refused() {
        assert_eq!(Head::decode(&HEAD_OF_TEST.encode()).unwrap(), HEAD_OF_TEST);
        let mut version = HEAD_OF_TEST.encode();
        version[8] = 9;
        assert!(matches!(Head::decode(&version), Err(JournalError::Version(9))));
        let mut bit = HEAD_OF_TEST.encode();
        bit[33] ^= 1;
        assert!(matches!(Head::decode(&bit), Err(JournalError::NotOne(_))));
        assert!(Head::decode(&[0; 63]).is_err() && Head::decode(&[0; 64]).is_err());
        let huge = Head { offset: u64::MAX - 1, ..HEAD_OF_TEST }.encode();
        assert!(Head::decode(&huge).is_err());
        let zero = Head { slot_size: 0, ..HEAD_OF_TEST }.encode();
        assert!(Head::decode(&zero).is_err());
    }
}
