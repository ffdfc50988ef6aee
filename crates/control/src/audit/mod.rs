//! Who changed what: an append-only log, as `docs/formats/audit.md` draws it.

mod notes;
mod read;
#[cfg(test)]
mod tests;

pub use notes::{note, noting};

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::moment::Moment;
use crate::whole::sync_directory;

/// The file that is written.
pub const AUDIT_FILE: &str = "audit.log";
/// Files that were written before.
pub const OLD_FILES: usize = 8;
/// Bytes of a file at most.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Characters of a path, and of a step.
const MAX_TEXT: usize = 512;
/// Steps of an entry.
const MAX_STEPS: usize = 16;
/// Lines that wait for being written at most: changes that were under way when the first could not be.
const MAX_WAITING: usize = 256;

/// What somebody did, or was not let do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// One more than that of the one before.
    pub id: u64,
    /// When it ended, in UTC.
    #[schema(value_type = String, format = DateTime)]
    pub at: Moment,
    /// A user, `uid N` on the unix socket, or `nobody`.
    pub who: String,
    /// `token NAME` or `session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// An address and a port, or `socket`.
    pub from: String,
    /// What was asked for.
    pub method: String,
    /// Of what.
    pub path: String,
    /// The status of HTTP: below 300 it was done, from 400 on it was refused.
    pub status: u16,
    /// What the answer has as `x-request-id`.
    pub request: String,
    /// What was done, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

impl Entry {
    /// Within bounds, whoever sent what is in it.
    fn bounded(mut self) -> Entry {
        let cut = |text: &mut String| {
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
                text.truncate(end);
            }
        };
        cut(&mut self.path);
        self.steps.truncate(MAX_STEPS);
        self.steps.iter_mut().for_each(cut);
        self
    }
}

/// The log of a node that runs. Writing blocks for as long as a disk takes.
pub struct Audit {
    directory: PathBuf,
    log: Mutex<Log>,
    max_file_bytes: u64,
}

/// What is being written.
#[derive(Default)]
struct Log {
    /// None until it is opened, and after something failed.
    file: Option<File>,
    bytes: u64,
    next: u64,
    /// Lines that could not be written yet.
    waiting: VecDeque<Vec<u8>>,
}

impl Audit {
    /// The log in a data directory, of which this process has the lock.
    pub fn open(directory: &Path) -> io::Result<Audit> {
        Audit::with_bound(directory, MAX_FILE_BYTES)
    }

    fn with_bound(directory: &Path, max_file_bytes: u64) -> io::Result<Audit> {
        let next = read::newest_id(directory)?.map_or(1, |id| id.saturating_add(1));
        let log = Mutex::new(Log { next, ..Log::default() });
        let audit = Audit { directory: directory.to_owned(), log, max_file_bytes };
        audit.ready()?;
        Ok(audit)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a change can be entered: everything before it is, and the file is open. Blocks.
    pub fn ready(&self) -> io::Result<()> {
        self.log().flush(&self.directory, self.max_file_bytes)
    }

    /// Enters something; it is durable afterwards. Where that fails the line is kept, and written with the next one. Blocks.
    pub fn enter(&self, entry: Entry) -> io::Result<u64> {
        let mut log = self.log();
        let id = log.next;
        let mut line = serde_json::to_vec(&Entry { id, ..entry }.bounded())?;
        line.push(b'\n');
        if log.waiting.len() >= MAX_WAITING {
            return Err(io::ErrorKind::StorageFull.into());
        }
        log.next = id.saturating_add(1);
        log.waiting.push_back(line);
        log.flush(&self.directory, self.max_file_bytes).map(|()| id)
    }

    /// The newest entries, the newest first; only those before an id, if one is given. Blocks.
    pub fn read(&self, limit: usize, before: Option<u64>) -> io::Result<Vec<Entry>> {
        read::newest(&self.directory, limit, before)
    }
}

impl Log {
    /// Writes what waits, and makes it durable.
    fn flush(&mut self, directory: &Path, max_file_bytes: u64) -> io::Result<()> {
        let written = self.write(directory, max_file_bytes);
        if written.is_err() {
            // What is at its end now is found out when it is opened again.
            self.file = None;
        }
        written
    }

    fn write(&mut self, directory: &Path, max_file_bytes: u64) -> io::Result<()> {
        if self.file.is_none() {
            let (file, bytes) = open(directory)?;
            (self.file, self.bytes) = (Some(file), bytes);
        }
        while let Some(line) = self.waiting.front() {
            let length = line.len() as u64;
            if self.bytes > 0 && self.bytes + length > max_file_bytes {
                rotate(directory)?;
                let (file, bytes) = open(directory)?;
                (self.file, self.bytes) = (Some(file), bytes);
            }
            let Some(file) = self.file.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
            file.write_all(line)?;
            file.sync_data()?;
            self.bytes += length;
            self.waiting.pop_front();
        }
        Ok(())
    }
}

/// Opens the file for appending, and closes an end that was torn.
fn open(directory: &Path) -> io::Result<(File, u64)> {
    let path = directory.join(AUDIT_FILE);
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
    let mut bytes = file.metadata()?.len();
    if bytes > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    if is_new {
        sync_directory(directory)?;
    }
    Ok((file, bytes))
}

/// The name of a file that was written before; the first one is the newest.
fn old(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("{AUDIT_FILE}.{number}"))
}

/// Makes room for a new file; the oldest one goes.
fn rotate(directory: &Path) -> io::Result<()> {
    let moved = |from: PathBuf, to: PathBuf| match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    for number in (1..OLD_FILES).rev() {
        moved(old(directory, number), old(directory, number + 1))?;
    }
    moved(directory.join(AUDIT_FILE), old(directory, 1))?;
    sync_directory(directory)
}

/// Whether a name in the data directory is one of the log's.
pub(crate) fn is_file_name(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(AUDIT_FILE) else { return false };
    rest.is_empty() || rest.strip_prefix('.').is_some_and(|number| number.parse::<usize>().is_ok())
}
