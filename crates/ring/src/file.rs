//! Files and block devices.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::handle::Handle;
use crate::op::{Allocate, Keep, Operation, Outcome};
use crate::ring::Ring;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileOptions {
    /// Make it when it is missing.
    pub create: bool,
    /// Around the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Refuse writes.
    pub read_only: bool,
}

/// An open file or block device. Clones share it.
#[derive(Clone)]
pub struct File(Rc<Handle>);

impl File {
    /// Opens `path`. Blocks: not for the request path.
    pub fn open(ring: &Ring, path: &Path, options: FileOptions) -> io::Result<File> {
        Ok(File(ring.handle(ring.0.driver.open(path, options)?)))
    }

    /// Makes the directory entry of `path` durable: without it a new file may be gone after a power cut, synced or
    /// not.
    pub fn sync_directory_of(ring: &Ring, path: &Path) -> io::Result<()> {
        ring.0.driver.sync_directory_of(path)
    }

    /// Takes the file for this process alone, until it is closed. False when another one has it.
    pub fn try_lock(&self) -> io::Result<bool> {
        self.0.ring().0.driver.lock(self.0.descriptor)
    }

    /// Bytes in the file or device.
    pub fn length(&self) -> io::Result<u64> {
        self.0.ring().0.driver.length(self.0.descriptor)
    }

    /// Cuts or extends the file; what is added is a hole.
    pub fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.ring().0.driver.set_length(self.0.descriptor, length)
    }

    /// The first run of data at or after `offset`, in bytes; `None` when only holes follow.
    pub fn data_after(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.0.ring().0.driver.data_after(self.0.descriptor, offset)
    }

    /// The alignment of offset, length and memory that direct I/O asks for, in bytes.
    pub fn direct_alignment(&self) -> io::Result<u32> {
        self.0.ring().0.driver.direct_alignment(self.0.descriptor)
    }

    /// Fills the buffer from `offset`. A short count means the end of the file.
    pub async fn read_at(&self, buffer: Buffer, offset: u64) -> (io::Result<usize>, Buffer) {
        self.transfer(Operation::Read { offset }, buffer).await
    }

    /// Writes the buffer at `offset`; with `durable` it is on stable media at the end.
    pub async fn write_at(&self, buffer: Buffer, offset: u64, durable: bool) -> (io::Result<usize>, Buffer) {
        self.transfer(Operation::Write { offset, durable }, buffer).await
    }

    /// Everything written before this call is on stable media after it, with what is needed to find it again.
    pub async fn sync(&self) -> io::Result<()> {
        self.plain(Operation::Sync).await
    }

    /// Gives the bytes' space back; they read as zeroes.
    pub async fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.plain(Operation::Allocate { mode: Allocate::Punch, offset, length }).await
    }

    /// Makes the bytes read as zeroes, their space kept.
    pub async fn zero(&self, offset: u64, length: u64) -> io::Result<()> {
        self.plain(Operation::Allocate { mode: Allocate::Zero, offset, length }).await
    }

    /// Gives space to the bytes, so that writing them cannot fail for want of it.
    pub async fn reserve(&self, offset: u64, length: u64) -> io::Result<()> {
        self.plain(Operation::Allocate { mode: Allocate::Reserve, offset, length }).await
    }

    async fn transfer(&self, operation: Operation, buffer: Buffer) -> (io::Result<usize>, Buffer) {
        let outcome = self.0.ring().submit(&self.0, operation, Keep::Buffer(buffer)).await;
        let count = count(&outcome);
        let Keep::Buffer(buffer) = outcome.keep else { unreachable!("a transfer keeps its buffer") };
        (count, buffer)
    }

    async fn plain(&self, operation: Operation) -> io::Result<()> {
        count(&self.0.ring().submit(&self.0, operation, Keep::Nothing).await).map(|_| ())
    }
}

/// The result of a completed operation.
pub(crate) fn count(outcome: &Outcome) -> io::Result<usize> {
    usize::try_from(outcome.result).map_err(|_| io::Error::from_raw_os_error(-outcome.result))
}
