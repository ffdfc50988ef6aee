//! Where the files are.

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::format::LAYOUTS;

const JOURNAL: &str = "journal";
const NAMES: &str = "names";
const NEW_NAMES: &str = "names.new";
/// What is left of the file system to those who keep their data there: figures are never what fills a disk.
const LEFT_BYTES: u64 = 64 << 20;
/// More than any version of `names` has.
const MAX_NAMES_BYTES: u64 = 16 << 20;

/// A file that is written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The last rows.
    Journal,
    /// An archive by its number.
    Archive(u8),
}

/// The files: a directory, or what a test makes of it.
pub trait Medium: Send + Sync {
    /// Reads from an offset; what lies beyond the end is zero.
    fn read(&self, part: Part, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes at an offset.
    fn write(&mut self, part: Part, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// What was written survives from now on.
    fn sync(&mut self, part: Part) -> io::Result<()>;
    /// Makes it so long at least, with room on the disk.
    fn reserve(&mut self, part: Part, bytes: u64) -> io::Result<()>;
    /// An error if there is no room for so many bytes more.
    fn check_room(&self, bytes: u64) -> io::Result<()>;
    /// The file `names`, if there is one.
    fn names(&self) -> io::Result<Option<Vec<u8>>>;
    /// Puts another file `names` in its place; it is the one or the other at any time, and the other from now on.
    fn replace_names(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Files in a directory.
pub struct Directory {
    path: PathBuf,
    journal: File,
    archives: Vec<File>,
}

impl Directory {
    /// Opens them, and makes what is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .mode(0o600)
                .truncate(false)
                .open(path.join(name))
        };
        let archives = LAYOUTS.iter().map(|layout| open(layout.file)).collect::<io::Result<_>>()?;
        let directory = Self { path: path.to_owned(), journal: open(JOURNAL)?, archives };
        // Their names, before anything in them counts.
        File::open(path)?.sync_all()?;
        Ok(directory)
    }

    fn file(&self, part: Part) -> &File {
        match part {
            Part::Journal => &self.journal,
            Part::Archive(number) => &self.archives[usize::from(number)],
        }
    }
}

impl Medium for Directory {
    fn read(&self, part: Part, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            match self.file(part).read_at(into, offset) {
                Ok(0) => {
                    into.fill(0);
                    return Ok(());
                }
                Ok(count) => {
                    into = &mut into[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&mut self, part: Part, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(part).write_all_at(bytes, offset)
    }

    fn sync(&mut self, part: Part) -> io::Result<()> {
        self.file(part).sync_data()
    }

    fn reserve(&mut self, part: Part, bytes: u64) -> io::Result<()> {
        let file = self.file(part);
        let length = file.metadata()?.len();
        if length >= bytes {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::empty(), length, bytes - length) {
            // The file system cannot: then it has the length, and room as it is written.
            Err(Errno::OPNOTSUPP) => file.set_len(bytes),
            other => other.map_err(io::Error::from),
        }?;
        file.sync_all()
    }

    fn check_room(&self, bytes: u64) -> io::Result<()> {
        let about = fstatvfs(&self.journal)?;
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        if free >= bytes.saturating_add(LEFT_BYTES) { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn names(&self) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(NAMES);
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(about) if about.len() > MAX_NAMES_BYTES => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the file names is too long"))
            }
            Ok(_) => std::fs::read(&path).map(Some),
        }
    }

    fn replace_names(&mut self, bytes: &[u8]) -> io::Result<()> {
        let new = self.path.join(NEW_NAMES);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, self.path.join(NAMES))?;
        File::open(&self.path)?.sync_all()
    }
}
