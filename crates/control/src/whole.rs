//! Files that are replaced as a whole: whenever the node ends, the old one is there or the new one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Remove what is left of a writing that was cut off.
    Clear,
    /// Make the new file.
    Make,
    /// Write the first half of it.
    Begin,
    /// Write the rest of it.
    Write,
    /// Make it durable.
    Sync,
    /// Give it its name.
    Rename,
    /// Make the name durable.
    SyncDirectory,
}

/// Replaces the file `name` in a directory, by way of `new_name`, mode 0600. `before` is asked before each step: where it
/// fails, things stay as they are at that moment, as when the node ends there.
pub(crate) fn replace(
    directory: &Path,
    name: &str,
    new_name: &str,
    bytes: &[u8],
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> io::Result<()> {
    let new = directory.join(new_name);
    before(Step::Clear)?;
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    before(Step::Make)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let (begin, rest) = bytes.split_at(bytes.len() / 2);
    before(Step::Begin)?;
    file.write_all(begin)?;
    before(Step::Write)?;
    file.write_all(rest)?;
    before(Step::Sync)?;
    file.sync_all()?;
    before(Step::Rename)?;
    std::fs::rename(&new, directory.join(name))?;
    before(Step::SyncDirectory)?;
    sync_directory(directory)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
