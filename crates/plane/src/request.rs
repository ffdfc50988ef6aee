//! The noun that travels: a request goes down the stack by value, its buffer in it; the completion brings the
//! buffer back up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ring::{Buffer, PooledFuture};

use crate::error::{Error, ErrorKind};

/// A run of bytes of a volume. Bytes, not blocks, because layers disagree about block sizes; both numbers are
/// multiples of the volume's block size, which every hop checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Extent {
    /// `length` bytes from `offset`.
    pub const fn new(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    /// The first byte behind it; `None` when that is no number.
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }

    /// Whether both have a byte in common.
    pub const fn overlaps(self, other: Extent) -> bool {
        self.offset < other.offset.saturating_add(other.length)
            && other.offset < self.offset.saturating_add(self.length)
    }
}

/// What a request wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Bytes of the extent into the buffer.
    Read,
    /// Bytes of the buffer to the extent.
    Write,
    /// Everything acknowledged so far onto stable media. Has no extent.
    Flush,
    /// The extent is of no use any more: its space may be given back. Reads as zeroes after, where
    /// [`Geometry::discard_zeroes`] says so.
    Discard,
    /// The extent reads as zeroes after.
    WriteZeroes,
}

bitflags::bitflags! {
    /// Rarities. A plain request has none, and one comparison with zero tells so.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Flags: u8 {
        /// On stable media at completion.
        const FUA = 1;
        /// Zeroes may be made by giving the space back.
        const MAY_UNMAP = 2;
        /// The time in each layer is taken.
        const TRACED = 4;
        /// Zeroes are made without writing them out, or refused as unsupported before anything is done.
        const FAST = 8;
        /// Where the times of a traced request are kept: the stack that it enters says it.
        const SLOT = 0xF0;
    }
}

/// One request. Reads and writes carry a buffer of the extent's length; the others an empty one.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub verb: Verb,
    /// How.
    pub flags: Flags,
    /// Where.
    pub extent: Extent,
    /// With what.
    pub buffer: Buffer,
}

impl Request {
    /// Fills `buffer` from `offset`.
    pub fn read(offset: u64, buffer: Buffer) -> Request {
        let extent = Extent::new(offset, buffer.len() as u64);
        Request { verb: Verb::Read, flags: Flags::empty(), extent, buffer }
    }

    /// Writes `buffer` to `offset`.
    pub fn write(offset: u64, buffer: Buffer) -> Request {
        let extent = Extent::new(offset, buffer.len() as u64);
        Request { verb: Verb::Write, flags: Flags::empty(), extent, buffer }
    }

    /// Makes everything acknowledged durable.
    pub fn flush() -> Request {
        Request::plain(Verb::Flush, Extent::default())
    }

    /// A request without a buffer.
    pub fn plain(verb: Verb, extent: Extent) -> Request {
        Request { verb, flags: Flags::empty(), extent, buffer: Buffer::empty() }
    }

    /// The same with more flags.
    #[must_use]
    pub fn with(mut self, flags: Flags) -> Request {
        self.flags |= flags;
        self
    }

    /// Its completion, when it is done.
    pub fn done(self) -> Completion {
        Completion { result: Ok(()), buffer: self.buffer }
    }

    /// Its completion, when it failed.
    pub fn failed(self, error: Error) -> Completion {
        Completion { result: Err(error), buffer: self.buffer }
    }
}

/// How a request ended; the buffer comes back either way. After a failed read its bytes mean nothing.
#[derive(Debug)]
pub struct Completion {
    /// Done, or why not.
    pub result: Result<(), Error>,
    /// The request's buffer.
    pub buffer: Buffer,
}

/// A run of bytes that are all backed by space, or all not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Bytes from where was asked.
    pub length: u64,
    /// Whether space is given to them.
    pub mapped: bool,
}

/// What a stack, or the part of it below some layer, is and can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of a block, 512 or 4096: the unit of every extent.
    pub block_size: u32,
    /// Bytes of a physical block, of which smaller writes are dear.
    pub physical_block_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Whether acknowledged writes may be lost by a power cut until a flush.
    pub write_cache: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether discard does anything.
    pub discard: bool,
    /// Whether what was discarded reads as zeroes.
    pub discard_zeroes: bool,
    /// The unit in which space is given back, in bytes.
    pub discard_granularity: u32,
}

impl Geometry {
    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_size)
    }

    /// Whether `request` can be asked of this.
    pub fn check(&self, request: &Request) -> Result<(), Error> {
        self.check_parts(request.verb, request.extent, request.buffer.len())
    }

    /// The same for a verb, an extent and the bytes that come with them.
    pub fn check_parts(&self, verb: Verb, extent: Extent, bytes: usize) -> Result<(), Error> {
        let Extent { offset, length } = extent;
        let inside = extent.end().is_some_and(|end| end <= self.bytes());
        if !inside || (offset | length) & u64::from(self.block_size - 1) != 0 {
            return Err(Error::new(ErrorKind::OutOfRange, "checking the extent"));
        }
        let moves = matches!(verb, Verb::Read | Verb::Write);
        if moves && bytes as u64 != length {
            return Err(Error::new(ErrorKind::OutOfRange, "checking the buffer's length"));
        }
        if self.read_only && matches!(verb, Verb::Write | Verb::WriteZeroes | Verb::Discard) {
            return Err(Error::new(ErrorKind::ReadOnly, "checking the volume"));
        }
        if !self.discard && verb == Verb::Discard {
            return Err(Error::new(ErrorKind::Unsupported, "checking for discard"));
        }
        Ok(())
    }
}

/// A request on its way: done already, or a future in pooled memory. Nothing is allocated for what is in RAM.
pub enum Io<'a> {
    /// Done; taken by the first poll.
    Ready(Option<Completion>),
    /// Under way.
    Pending(PooledFuture<'a, Completion>),
}

impl<'a> Io<'a> {
    /// Done already.
    pub fn ready(completion: Completion) -> Io<'a> {
        Io::Ready(Some(completion))
    }

    /// Still to be done by `future`.
    pub fn pending(future: impl Future<Output = Completion> + 'a) -> Io<'a> {
        Io::Pending(PooledFuture::future(future))
    }
}

impl Future for Io<'_> {
    type Output = Completion;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        match &mut *self {
            Io::Ready(completion) => Poll::Ready(completion.take().expect("polled after its end")),
            Io::Pending(future) => Pin::new(future).poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry {
            block_size: 512,
            physical_block_size: 4096,
            blocks: 16,
            write_cache: true,
            read_only: false,
            discard: true,
            discard_zeroes: true,
            discard_granularity: 4096,
        }
    }

    #[test]
    fn extents_overlap_when_they_share_a_byte() {
        let extent = Extent::new(1024, 512);
        assert!(extent.overlaps(Extent::new(0, 1025)));
        assert!(extent.overlaps(Extent::new(1535, 1)));
        assert!(!extent.overlaps(Extent::new(0, 1024)));
        assert!(!extent.overlaps(Extent::new(1536, u64::MAX)));
    }

    #[test]
    fn a_hop_refuses_what_does_not_fit() {
        let kind = |request| geometry().check(&request).map_err(|error| error.kind());
        assert_eq!(kind(Request::read(8192 - 512, Buffer::new(512))), Ok(()));
        assert_eq!(kind(Request::read(8192, Buffer::new(512))), Err(ErrorKind::OutOfRange));
        assert_eq!(kind(Request::read(256, Buffer::new(512))), Err(ErrorKind::OutOfRange));
        assert_eq!(kind(Request::write(0, Buffer::new(100))), Err(ErrorKind::OutOfRange));
        let overflow = Extent::new(u64::MAX - 511, 512);
        assert_eq!(kind(Request::plain(Verb::Discard, overflow)), Err(ErrorKind::OutOfRange));
        let mut short = Request::read(0, Buffer::new(512));
        short.extent.length = 1024;
        assert_eq!(kind(short), Err(ErrorKind::OutOfRange));
        let fixed = Geometry { read_only: true, discard: false, ..geometry() };
        let kind = |request| fixed.check(&request).map_err(|error| error.kind());
        assert_eq!(kind(Request::write(0, Buffer::new(512))), Err(ErrorKind::ReadOnly));
        assert_eq!(kind(Request::plain(Verb::Discard, Extent::new(0, 512))), Err(ErrorKind::ReadOnly));
        assert_eq!(kind(Request::flush()), Ok(()));
    }
}
