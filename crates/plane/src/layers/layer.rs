//! The verbs of a layer.

use crate::error::Error;
use crate::layers::stack::Next;
use crate::request::{Extent, Geometry, Io, Request, Run};

/// One layer of a stack on one core. Every verb passes through unless a layer writes it; [`Next`] is the rest of
/// the stack below.
pub trait Layer: 'static {
    /// Its name in tables and in the configuration.
    fn name(&self) -> &'static str;

    /// What the stack is from here up, given what it is below.
    fn geometry(&self, below: Geometry) -> Geometry {
        below
    }

    /// [`crate::Verb::Read`].
    fn read<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        next.submit(request)
    }

    /// [`crate::Verb::Write`].
    fn write<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        next.submit(request)
    }

    /// [`crate::Verb::Flush`].
    fn flush<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        next.submit(request)
    }

    /// [`crate::Verb::Discard`].
    fn discard<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        next.submit(request)
    }

    /// [`crate::Verb::WriteZeroes`].
    fn write_zeroes<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        next.submit(request)
    }

    /// The run at the start of `extent` that is all mapped or all not, at most the extent's length. Not per request:
    /// it may look at metadata of the file system.
    fn allocation(&self, extent: Extent, next: Next<'_>) -> Result<Run, Error> {
        next.allocation(extent)
    }
}
