//! Append-only files of lines of JSON in the data directory, bounded in size and number: what the audit log and the event log are
//! written into.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::whole::sync_directory;

/// What the files are called, and how much there may be of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The file that is written; those that were written before are `NAME.1` (the newest) and so on.
    pub name: &'static str,
    /// Files that were written before.
    pub old_files: usize,
    /// Bytes of a file at most.
    pub max_file_bytes: u64,
    /// Lines that wait for being written at most.
    pub max_waiting: usize,
}

impl Shape {
    /// Whether a name in the data directory is one of these files.
    pub fn has(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.name) else { return false };
        rest.is_empty() || rest.strip_prefix('.').is_some_and(|number| number.parse::<usize>().is_ok())
    }

    /// A file that was written before; the first one is the newest.
    pub fn old(&self, directory: &Path, number: usize) -> PathBuf {
        directory.join(format!("{}.{number}", self.name))
    }
}

/// What is being written. Blocks for as long as a disk takes.
pub(crate) struct Lines {
    directory: PathBuf,
    shape: Shape,
    /// None until it is opened, and after something failed.
    file: Option<File>,
    bytes: u64,
    /// Lines that could not be written yet.
    waiting: VecDeque<Vec<u8>>,
}

impl Lines {
    /// Those of a data directory, of which this process has the lock.
    pub fn new(directory: &Path, shape: Shape) -> Lines {
        Lines { directory: directory.to_owned(), shape, file: None, bytes: 0, waiting: VecDeque::new() }
    }

    /// Takes a line with its line feed; it is written by the next [`Lines::flush`].
    pub fn push(&mut self, line: Vec<u8>) -> io::Result<()> {
        if self.waiting.len() >= self.shape.max_waiting {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.waiting.push_back(line);
        Ok(())
    }

    /// Writes what waits, and makes it durable. What could not be written goes on waiting.
    pub fn flush(&mut self) -> io::Result<()> {
        let written = self.write();
        if written.is_err() {
            self.reopen();
        }
        written
    }

    /// What is at the end of the file now is found out when it is opened again.
    pub fn reopen(&mut self) {
        self.file = None;
    }

    fn write(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.open()?;
        }
        let mut written = 0;
        while let Some(line) = self.waiting.get(written) {
            let length = line.len() as u64;
            if self.bytes > 0 && self.bytes + length > self.shape.max_file_bytes {
                self.settle(&mut written)?;
                rotate(&self.directory, &self.shape)?;
                self.open()?;
                continue;
            }
            let Some(file) = self.file.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
            file.write_all(line)?;
            self.bytes += length;
            written += 1;
        }
        self.settle(&mut written)
    }

    /// Makes the first lines that wait durable, and forgets them.
    fn settle(&mut self, written: &mut usize) -> io::Result<()> {
        if *written > 0 {
            let Some(file) = self.file.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
            file.sync_data()?;
            self.waiting.drain(..std::mem::take(written));
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        let (file, bytes) = open(&self.directory, &self.shape)?;
        (self.file, self.bytes) = (Some(file), bytes);
        Ok(())
    }
}

/// Opens the file for appending, and closes an end that was torn.
fn open(directory: &Path, shape: &Shape) -> io::Result<(File, u64)> {
    let path = directory.join(shape.name);
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

/// Makes room for a new file; the oldest one goes.
fn rotate(directory: &Path, shape: &Shape) -> io::Result<()> {
    let moved = |from: PathBuf, to: PathBuf| match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    for number in (1..shape.old_files).rev() {
        moved(shape.old(directory, number), shape.old(directory, number + 1))?;
    }
    moved(directory.join(shape.name), shape.old(directory, 1))?;
    sync_directory(directory)
}

/// The newest entries that are wanted, the newest first; only those with an id below `before`. Lines that cannot be read are
/// passed over. Blocks.
pub(crate) fn newest<T: DeserializeOwned>(
    directory: &Path,
    shape: &Shape,
    limit: usize,
    before: Option<u64>,
    id: impl Fn(&T) -> u64,
    wanted: impl Fn(&T) -> bool,
) -> io::Result<Vec<T>> {
    let mut entries = Vec::new();
    let mut before = before.unwrap_or(u64::MAX);
    let files = std::iter::once(directory.join(shape.name));
    for path in files.chain((1..=shape.old_files).map(|number| shape.old(directory, number))) {
        for line in bytes(&path, shape)?.split(|byte| *byte == b'\n').rev() {
            if entries.len() >= limit {
                return Ok(entries);
            }
            // An id that was seen already is in a file that was renamed meanwhile, or of a line that was written again.
            let entry: Option<T> = serde_json::from_slice(line).ok();
            if let Some(entry) = entry.filter(|entry| id(entry) < before) {
                before = id(&entry);
                if wanted(&entry) {
                    entries.push(entry);
                }
            }
        }
    }
    Ok(entries)
}

/// What a file has; nothing if there is none.
fn bytes(path: &Path, shape: &Shape) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A line more than its bound at most, if it is one of ours.
        file => drop(file?.take(2 * shape.max_file_bytes).read_to_end(&mut bytes)?),
    }
    Ok(bytes)
}
