//! A disk in a file or on a block device.
//!
//! After a failed sync or durable write the file is fail-stop: the kernel may have dropped the dirty data and would
//! report success the next time, so nothing is promised any more until the node has been started again.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ring::{Buffer, File, FileOptions, Ring};

use crate::disk::{Disk, PHYSICAL_BLOCK};
use crate::error::{Error, ErrorKind};
use crate::limits::FILL_BYTES;
use crate::request::{Completion, Extent, Flags, Geometry, Io, Request, Run, Verb};

/// EMFILE.
const TOO_MANY_OPEN_FILES: i32 = 24;

/// What may be done to a file so that it holds a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// Nothing: it has to be there. Block devices are.
    Nothing,
    /// It is made if it is missing.
    Missing,
    /// It is made if it is missing, and made longer if it is too short.
    Longer,
}

/// Why a file cannot be a volume. Sentences for people, with a hint.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or made.
    #[error("{path} cannot be opened: {source}; hint: {hint}", hint = open_hint(source))]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is held by another process.
    #[error(
        "{path} is in use by another process; hint: two programs writing one volume destroy it: stop the other one \
         (`fuser {path}` names it)"
    )]
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// It has fewer bytes than the volume.
    #[error(
        "{path} has {found} bytes, the volume has {wanted}; hint: a volume is never cut or stretched by starting it: \
         set `size` to what the file has, or extend the file with `truncate -s {wanted} {path}`"
    )]
    TooShort {
        /// Which.
        path: PathBuf,
        /// Bytes there.
        found: u64,
        /// Bytes wanted.
        wanted: u64,
    },
    /// It could not be given its size, or made durable.
    #[error(
        "{path} cannot be made {wanted} bytes long: {source}; hint: check the free space and the limits of the file system"
    )]
    Create {
        /// Which.
        path: PathBuf,
        /// Bytes wanted.
        wanted: u64,
        /// Why.
        source: io::Error,
    },
}

fn open_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make the directory first, or correct the path",
        io::ErrorKind::PermissionDenied => "the user who runs the node needs to read and write it",
        io::ErrorKind::StorageFull => "the file system is full: free some space",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is mounted read-only",
        io::ErrorKind::IsADirectory => "a volume is a file or a block device",
        _ if error.raw_os_error() == Some(TOO_MANY_OPEN_FILES) => {
            "raise the limit of open files (LimitNOFILE=, ulimit -n): every shard opens every file, and one more is its lock"
        }
        _ => "check the path and the permissions",
    }
}

/// A file that was checked, made if it was missing, and locked: what every core then opens.
#[derive(Clone)]
pub struct PreparedFile {
    path: PathBuf,
    bytes: u64,
    block_size: u32,
    direct: bool,
    failed: Arc<AtomicBool>,
}

impl PreparedFile {
    /// Checks `path` for a volume of `bytes`, and makes it, sparse, as far as `make` says. Gives the lock beside it: whoever
    /// keeps it keeps the file.
    pub async fn new(
        ring: &Ring,
        path: &Path,
        bytes: u64,
        block_size: u32,
        make: Make,
    ) -> Result<(PreparedFile, File), FileError> {
        let open = |source| FileError::Open { path: path.to_owned(), source };
        let file =
            File::open(ring, path, FileOptions { create: make != Make::Nothing, ..FileOptions::default() })
                .map_err(open)?;
        if !file.try_lock().map_err(open)? {
            return Err(FileError::Locked { path: path.to_owned() });
        }
        let found = file.length().map_err(open)?;
        if found < bytes {
            let may = found == 0 && make == Make::Missing || make == Make::Longer;
            if !may {
                return Err(FileError::TooShort { path: path.to_owned(), found, wanted: bytes });
            }
            lengthen(ring, &file, path, bytes).await?;
        }
        let direct = File::open(ring, path, FileOptions { direct: true, ..FileOptions::default() })
            .and_then(|file| file.direct_alignment())
            .is_ok_and(|alignment| alignment <= block_size);
        let failed = Arc::default();
        Ok((PreparedFile { path: path.to_owned(), bytes, block_size, direct, failed }, file))
    }

    /// The same file for a volume of more bytes, which it is given if it has fewer. `lock`: what [`PreparedFile::new`] gave.
    /// A device has what it has.
    pub async fn larger(&self, ring: &Ring, lock: &File, bytes: u64) -> Result<PreparedFile, FileError> {
        let open = |source| FileError::Open { path: self.path.clone(), source };
        let found = lock.length().map_err(open)?;
        if found < bytes {
            lengthen(ring, lock, &self.path, bytes).await?;
        }
        Ok(PreparedFile { bytes, ..self.clone() })
    }

    /// Whether I/O goes around the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// One core's view.
    pub fn open(&self, ring: &Ring) -> Result<FileDisk, FileError> {
        let options = FileOptions { direct: self.direct, ..FileOptions::default() };
        let file = File::open(ring, &self.path, options)
            .map_err(|source| FileError::Open { path: self.path.clone(), source })?;
        let geometry = Geometry {
            block_size: self.block_size,
            physical_block_size: PHYSICAL_BLOCK,
            blocks: self.bytes / u64::from(self.block_size),
            write_cache: true,
            read_only: false,
            discard: true,
            discard_zeroes: true,
            discard_granularity: PHYSICAL_BLOCK,
        };
        Ok(FileDisk {
            file,
            geometry,
            failed: self.failed.clone(),
            zero_range: Cell::new(true),
            punch: Cell::new(true),
        })
    }
}

/// Gives a file its length, durably.
async fn lengthen(ring: &Ring, file: &File, path: &Path, bytes: u64) -> Result<(), FileError> {
    let failed = |source| FileError::Create { path: path.to_owned(), wanted: bytes, source };
    file.set_length(bytes).map_err(failed)?;
    file.sync().await.map_err(failed)?;
    File::sync_directory_of(ring, path).map_err(failed)
}

/// One core's view of a file.
pub struct FileDisk {
    file: File,
    geometry: Geometry,
    failed: Arc<AtomicBool>,
    /// What the file system turned out not to do is not asked of it again.
    zero_range: Cell<bool>,
    punch: Cell<bool>,
}

impl FileDisk {
    fn is_failed(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Failed, "writing after an earlier sync of the file failed"));
        }
        Ok(())
    }

    /// Nothing is promised any more.
    fn fail(&self, context: &'static str, source: io::Error) -> Error {
        self.failed.store(true, Ordering::Release);
        Error::caused(ErrorKind::Failed, context, source)
    }

    async fn read(&self, request: Request) -> Completion {
        let (mut buffer, mut done) = (request.buffer, 0);
        let length = buffer.len();
        // A short read comes again from where it ended, into a buffer of its own as the kernel wants it aligned.
        while done < length {
            let part = if done == 0 { std::mem::take(&mut buffer) } else { Buffer::new(length - done) };
            let (count, part) = self.file.read_at(part, request.extent.offset + done as u64).await;
            let (error, count) = match count {
                Ok(0) => (Some(Error::new(ErrorKind::Medium, "reading behind the end of the file")), 0),
                Ok(count) => (None, count),
                Err(error) => (Some(Error::caused(ErrorKind::Medium, "reading the file", error)), 0),
            };
            if done == 0 {
                buffer = part;
            } else {
                buffer[done..done + count].copy_from_slice(&part[..count]);
            }
            if let Some(error) = error {
                return Completion { result: Err(error), buffer };
            }
            done += count;
        }
        Completion { result: Ok(()), buffer }
    }

    async fn write(&self, request: Request) -> Completion {
        let durable = request.flags.contains(Flags::FUA);
        let (result, buffer) = self.write_all(request.extent.offset, request.buffer, durable).await;
        Completion { result, buffer }
    }

    async fn write_all(&self, offset: u64, buffer: Buffer, durable: bool) -> (Result<(), Error>, Buffer) {
        if let Err(error) = self.is_failed() {
            return (Err(error), buffer);
        }
        let length = buffer.len();
        let (count, buffer) = self.file.write_at(buffer, offset, durable).await;
        let mut done = match count {
            Ok(count) => count,
            Err(error) => return (Err(self.write_error(error, durable)), buffer),
        };
        while done < length {
            let part = Buffer::copy_of(&buffer[done..]);
            match self.file.write_at(part, offset + done as u64, durable).await.0 {
                Ok(0) => {
                    return (
                        Err(Error::new(ErrorKind::Write, "writing the file: nothing was taken")),
                        buffer,
                    );
                }
                Ok(count) => done += count,
                Err(error) => return (Err(self.write_error(error, durable)), buffer),
            }
        }
        (Ok(()), buffer)
    }

    fn write_error(&self, source: io::Error, durable: bool) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::caused(ErrorKind::NoSpace, "writing the file", source)
            }
            _ if durable => self.fail("writing the file durably", source),
            _ => Error::caused(ErrorKind::Write, "writing the file", source),
        }
    }

    async fn flush(&self) -> Result<(), Error> {
        self.is_failed()?;
        self.file.sync().await.map_err(|source| self.fail("syncing the file", source))?;
        // Another sync, under way at the same time, may have been told of data of ours that is lost: the kernel tells
        // only one of them.
        self.is_failed()
    }

    /// Gives back what is there. The promise is that it reads as zeroes.
    async fn discard(&self, extent: Extent, fast: bool) -> Result<(), Error> {
        self.is_failed()?;
        self.clear(extent, fast, &self.punch, |extent| self.file.punch(extent.offset, extent.length)).await
    }

    async fn write_zeroes(&self, request: &Request) -> Result<(), Error> {
        let (extent, fast) = (request.extent, request.flags.contains(Flags::FAST));
        if request.flags.contains(Flags::MAY_UNMAP) {
            self.discard(extent, fast).await?;
        } else {
            self.zero(extent, fast).await?;
        }
        if request.flags.contains(Flags::FUA) { self.flush().await } else { Ok(()) }
    }

    async fn zero(&self, extent: Extent, fast: bool) -> Result<(), Error> {
        self.is_failed()?;
        self.clear(extent, fast, &self.zero_range, |extent| self.file.zero(extent.offset, extent.length))
            .await
    }

    /// Makes zeroes of an extent in the way of the file system while it `can`, and writes them otherwise.
    async fn clear<F: Future<Output = io::Result<()>>>(
        &self,
        extent: Extent,
        fast: bool,
        can: &Cell<bool>,
        way: impl Fn(Extent) -> F,
    ) -> Result<(), Error> {
        if self.try_to_clear(extent, can, &way).await? {
            return Ok(());
        }
        // Devices clear whole blocks of theirs alone, and those may be larger than the volume's.
        let whole = whole_blocks(extent);
        if whole != extent && whole.length > 0 && self.try_to_clear(whole, can, &way).await? {
            let (head, tail) = around(extent, whole);
            self.fill_zeroes(head, false).await?;
            return self.fill_zeroes(tail, false).await;
        }
        self.fill_zeroes(extent, fast).await
    }

    /// False: it cannot be done like that, and nothing was done.
    async fn try_to_clear<F: Future<Output = io::Result<()>>>(
        &self,
        extent: Extent,
        can: &Cell<bool>,
        way: impl Fn(Extent) -> F,
    ) -> Result<bool, Error> {
        if !can.get() {
            return Ok(false);
        }
        match way(extent).await {
            Ok(()) => Ok(true),
            Err(error) if is_unsupported(&error) => {
                can.set(false);
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(self.write_error(error, false)),
        }
    }

    async fn fill_zeroes(&self, extent: Extent, fast: bool) -> Result<(), Error> {
        if fast {
            return Err(Error::new(ErrorKind::Unsupported, "zeroing fast on a file system that cannot"));
        }
        let (mut at, end) = (extent.offset, extent.offset + extent.length);
        let mut zeroes = Buffer::zeroed(extent.length.min(FILL_BYTES as u64) as usize);
        while at < end {
            zeroes.set_len((end - at).min(FILL_BYTES as u64) as usize);
            let (result, back) = self.write_all(at, zeroes, false).await;
            result?;
            zeroes = back;
            at += zeroes.len() as u64;
        }
        Ok(())
    }
}

/// The blocks of [`PHYSICAL_BLOCK`] that lie in an extent as a whole.
fn whole_blocks(extent: Extent) -> Extent {
    let block = u64::from(PHYSICAL_BLOCK);
    let start = extent.offset.next_multiple_of(block);
    let end = (extent.offset + extent.length) / block * block;
    Extent::new(start, end.saturating_sub(start))
}

/// What of `extent` lies before and behind a part of it.
fn around(extent: Extent, part: Extent) -> (Extent, Extent) {
    let (end, part_end) = (extent.offset + extent.length, part.offset + part.length);
    (Extent::new(extent.offset, part.offset - extent.offset), Extent::new(part_end, end - part_end))
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc_errno::EOPNOTSUPP | libc_errno::ENOSYS | libc_errno::ENODEV))
}

/// The few error numbers that have no [`io::ErrorKind`] of their own; the same on every Linux.
mod libc_errno {
    pub const ENODEV: i32 = 19;
    pub const ENOSYS: i32 = 38;
    pub const EOPNOTSUPP: i32 = 95;
}

impl Disk for FileDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) -> Io<'_> {
        match request.verb {
            Verb::Read => Io::pending(self.read(request)),
            Verb::Write => Io::pending(self.write(request)),
            Verb::Flush => Io::pending(async move {
                let result = self.flush().await;
                Completion { result, buffer: request.buffer }
            }),
            Verb::Discard => Io::pending(async move {
                let result = self.discard(request.extent, false).await;
                Completion { result, buffer: request.buffer }
            }),
            Verb::WriteZeroes => Io::pending(async move {
                let result = self.write_zeroes(&request).await;
                Completion { result, buffer: request.buffer }
            }),
        }
    }

    fn allocation(&self, extent: Extent) -> Result<Run, Error> {
        let failed = |error| Error::caused(ErrorKind::Medium, "asking the file for its holes", error);
        let data = self.file.data_after(extent.offset).map_err(failed)?;
        Ok(match data {
            Some(data) if data.start <= extent.offset => {
                Run { length: (data.end - extent.offset).min(extent.length), mapped: true }
            }
            Some(data) => Run { length: (data.start - extent.offset).min(extent.length), mapped: false },
            None => Run { length: extent.length, mapped: false },
        })
    }
}
