//! Who changed what: an append-only log, as `docs/formats/audit.md` draws it.

mod notes;
#[cfg(test)]
mod tests;

pub use notes::{note, noting};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lines::{self, Lines, Shape};
use crate::moment::Moment;

/// How it is kept. Changes that are under way when the first one cannot be written wait.
pub(crate) const SHAPE: Shape =
    Shape { name: "audit.log", old_files: 8, max_file_bytes: 4 << 20, max_waiting: 256 };
/// Characters of a path, and of a step.
const MAX_TEXT: usize = 512;
/// Steps of an entry.
const MAX_STEPS: usize = 16;

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
    shape: Shape,
}

/// What is being written.
struct Log {
    lines: Lines,
    next: u64,
}

impl Audit {
    /// The log in a data directory, of which this process has the lock.
    pub fn open(directory: &Path) -> io::Result<Audit> {
        Audit::with_shape(directory, SHAPE)
    }

    fn with_shape(directory: &Path, shape: Shape) -> io::Result<Audit> {
        let newest = newest(directory, &shape, 1, None)?;
        let next = newest.first().map_or(1, |entry| entry.id.saturating_add(1));
        let log = Mutex::new(Log { lines: Lines::new(directory, shape), next });
        let audit = Audit { directory: directory.to_owned(), log, shape };
        audit.ready()?;
        Ok(audit)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a change can be entered: everything before it is, and the file is open. Blocks.
    pub fn ready(&self) -> io::Result<()> {
        self.log().lines.flush()
    }

    /// Enters something; it is durable afterwards. Where that fails the line is kept, and written with the next one. Blocks.
    pub fn enter(&self, entry: Entry) -> io::Result<u64> {
        let mut log = self.log();
        let id = log.next;
        let mut line = serde_json::to_vec(&Entry { id, ..entry }.bounded())?;
        line.push(b'\n');
        log.lines.push(line)?;
        log.next = id.saturating_add(1);
        log.lines.flush().map(|()| id)
    }

    /// The newest entries, the newest first; only those before an id, if one is given. Blocks.
    pub fn read(&self, limit: usize, before: Option<u64>) -> io::Result<Vec<Entry>> {
        newest(&self.directory, &self.shape, limit, before)
    }
}

fn newest(directory: &Path, shape: &Shape, limit: usize, before: Option<u64>) -> io::Result<Vec<Entry>> {
    lines::newest(directory, shape, limit, before, |entry: &Entry| entry.id, |_| true)
}
