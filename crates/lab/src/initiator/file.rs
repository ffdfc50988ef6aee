//! A file or block device of this machine, around the page cache where it can be.

use std::io;
use std::path::Path;

use ring::{Buffer, File, FileOptions, Instant, Ring, Shared};

use super::{Cause, Geometry, IoError, OpenError};

/// The block size that we name for files.
const BLOCK: u32 = 512;

/// An open file. Clones share it.
#[derive(Clone)]
pub struct FileSession {
    ring: Ring,
    file: File,
    geometry: Geometry,
    direct: bool,
}

impl FileSession {
    /// Opens an existing file or device; direct I/O is tried first.
    pub(super) fn open(ring: &Ring, path: &Path) -> Result<FileSession, OpenError> {
        let (file, direct) = open(ring, path)?;
        let refused = |error| OpenError::File(error, "give a regular file or a block device");
        let size = file.length().map_err(refused)?;
        let alignment =
            if direct { file.direct_alignment().map_err(refused)?.clamp(BLOCK, 1 << 16) } else { BLOCK };
        if size < u64::from(alignment) {
            return Err(OpenError::Unusable(format!(
                "the file is {size} bytes long; hint: make one with `truncate -s 1G {}`",
                path.display()
            )));
        }
        let geometry = Geometry {
            block_size: alignment,
            physical_block_size: alignment.max(4096),
            size: size / u64::from(alignment) * u64::from(alignment),
            maximum_transfer: ring::LARGEST as u32,
            discard: true,
        };
        Ok(FileSession { ring: ring.clone(), file, geometry, direct })
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(super) fn heard(&self) -> Instant {
        self.ring.now()
    }

    /// Whether the page cache is passed by.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    pub(super) async fn read(&self, offset: u64, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        let wanted = buffer.len();
        let (moved, buffer) = self.file.read_at(buffer, offset).await;
        (whole(moved, wanted), buffer)
    }

    /// Direct I/O wants aligned memory of its own, so the data is copied.
    pub(super) async fn write(&self, offset: u64, data: Shared, fua: bool) -> Result<(), IoError> {
        let (moved, _) = self.file.write_at(Buffer::copy_of(&data), offset, fua).await;
        whole(moved, data.len())
    }

    pub(super) async fn flush(&self) -> Result<(), IoError> {
        Ok(self.file.sync().await?)
    }

    pub(super) async fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        Ok(self.file.punch(offset, length).await?)
    }
}

fn open(ring: &Ring, path: &Path) -> Result<(File, bool), OpenError> {
    let direct = FileOptions { direct: true, ..FileOptions::default() };
    match File::open(ring, path, direct) {
        Ok(file) => Ok((file, true)),
        // File systems without direct I/O say "invalid argument".
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let file = File::open(ring, path, FileOptions::default())
                .map_err(|error| OpenError::File(error, "check the path and its permissions"))?;
            Ok((file, false))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(OpenError::File(error, "make it first, e.g. with `truncate -s 1G PATH`"))
        }
        Err(error) => Err(OpenError::File(error, "check the path and its permissions")),
    }
}

fn whole(moved: io::Result<usize>, wanted: usize) -> Result<(), IoError> {
    match moved? {
        moved if moved == wanted => Ok(()),
        moved => Err(Cause::Short { moved: moved as u64, wanted: wanted as u64 }.into()),
    }
}
