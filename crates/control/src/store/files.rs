//! Files that are replaced as a whole: at every moment there is the old one or the new one.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The operations that replacing a file takes. The system has them; tests count them, and let the power fail between any two.
pub trait Files {
    /// An open file.
    type File;

    /// Makes a file, or an old one empty, that only its owner may read.
    fn create(&self, path: &Path) -> io::Result<Self::File>;
    /// Gives it owner, group and mode of another file, if that is there.
    fn liken(&self, file: &Self::File, other: &Path) -> io::Result<()>;
    /// Writes all of a text.
    fn write(&self, file: &mut Self::File, text: &str) -> io::Result<()>;
    /// Brings its bytes to stable media.
    fn sync(&self, file: &Self::File) -> io::Result<()>;
    /// Gives it another name, which it takes from whatever has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes its name away.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Brings the names in a directory to stable media.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The files of the system.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Files for System {
    type File = File;

    fn create(&self, path: &Path) -> io::Result<File> {
        // One that a process left which died may have another mode or owner.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => OpenOptions::new().write(true).create_new(true).mode(0o600).open(path),
        }
    }

    fn liken(&self, file: &File, other: &Path) -> io::Result<()> {
        let wanted = match std::fs::metadata(other) {
            Ok(wanted) => wanted,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let has = file.metadata()?;
        if (has.uid(), has.gid()) != (wanted.uid(), wanted.gid()) {
            std::os::unix::fs::fchown(file, Some(wanted.uid()), Some(wanted.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(wanted.mode() & 0o7777))
    }

    fn write(&self, file: &mut File, text: &str) -> io::Result<()> {
        file.write_all(text.as_bytes())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// The new content of a file, on stable media beside it; nothing comes of it unless it is committed.
#[derive(Debug)]
pub struct Written {
    new: PathBuf,
    path: PathBuf,
}

/// Writes what is to become the file at `path`.
pub fn write<F: Files>(files: &F, path: &Path, text: &str) -> io::Result<Written> {
    let new = new_name(path);
    let written = Written { new: new.clone(), path: path.to_owned() };
    let write = || {
        let mut file = files.create(&new)?;
        files.liken(&file, path)?;
        files.write(&mut file, text)?;
        files.sync(&file)
    };
    write().inspect_err(|_| written.discard(files))?;
    Ok(written)
}

impl Written {
    /// Makes it the file. After an error the file is the old one or the new one.
    pub fn commit<F: Files>(self, files: &F) -> io::Result<()> {
        files.rename(&self.new, &self.path)?;
        files.sync_directory(directory_of(&self.path))
    }

    /// Takes it away.
    pub fn discard<F: Files>(&self, files: &F) {
        // What stays has no meaning, and is written over by the next one.
        let _ = files.remove(&self.new);
    }
}

/// Replaces the file at `path`.
pub fn replace<F: Files>(files: &F, path: &Path, text: &str) -> io::Result<()> {
    write(files, path, text)?.commit(files)
}

/// Removes the file at `path` for good, if it is there.
pub fn remove<F: Files>(files: &F, path: &Path) -> io::Result<()> {
    match files.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => files.sync_directory(directory_of(path)),
    }
}

/// The name of the next version of a file until it is whole.
pub fn new_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests;
