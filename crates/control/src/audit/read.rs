//! Reading the log, the newest entries first.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::{AUDIT_FILE, Entry, MAX_FILE_BYTES, OLD_FILES, old};

/// The id of the last entry that can be read.
pub(super) fn newest_id(directory: &Path) -> io::Result<Option<u64>> {
    Ok(newest(directory, 1, None)?.first().map(|entry| entry.id))
}

/// The newest entries, the newest first; only those before an id, if one is given.
pub(super) fn newest(directory: &Path, limit: usize, before: Option<u64>) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut before = before.unwrap_or(u64::MAX);
    let files = std::iter::once(directory.join(AUDIT_FILE));
    for path in files.chain((1..=OLD_FILES).map(|number| old(directory, number))) {
        for line in bytes(&path)?.split(|byte| *byte == b'\n').rev() {
            if entries.len() >= limit {
                return Ok(entries);
            }
            // An id that was seen already is in a file that was renamed meanwhile.
            let entry: Option<Entry> = serde_json::from_slice(line).ok();
            if let Some(entry) = entry.filter(|entry| entry.id < before) {
                before = entry.id;
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

/// What a file has; nothing if there is none.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // A line more than its bound at most, if it is one of ours.
        file => drop(file?.take(2 * MAX_FILE_BYTES).read_to_end(&mut bytes)?),
    }
    Ok(bytes)
}
