//! Where bytes live.

mod file;
mod memory;
mod null;
#[cfg(test)]
mod tests;

pub use file::{FileDisk, FileError, Make, PreparedFile};
pub use memory::MemoryDisk;
pub use null::NullDisk;

use ring::{Shared, Soon, Writing};

use crate::error::Error;
use crate::request::{Extent, Geometry, Io, Request, Run, Verb};

/// The bottom of a stack on one core. Requests have been checked against [`Disk::geometry`].
pub trait Disk: 'static {
    /// What it is.
    fn geometry(&self) -> Geometry;

    /// A request for `extent` is about to come. Only a hint.
    fn expect(&self, _verb: Verb, _extent: Extent, _soon: Soon) {}

    /// The bytes of `extent` as they are now, without a copy; `None` when they have to be read.
    fn lend(&self, _extent: Extent) -> Option<Shared> {
        None
    }

    /// Whether reads can be lent and writes absorbed, mostly: nothing has to be waited for, and what is written needs no flush.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Writes these pieces to `extent`, one behind the other, from wherever they are: no buffer is made for them. They are there
    /// when what it gives is dropped. `None`: there is something to wait for.
    fn absorb(&self, _extent: Extent, _pieces: &[&[u8]]) -> Option<Writing> {
        unreachable!("asked of a disk that is not prompt");
    }

    /// Carries out a request.
    fn submit(&self, request: Request) -> Io<'_>;

    /// The run at the start of `extent` that is all mapped or all not.
    fn allocation(&self, extent: Extent) -> Result<Run, Error>;
}

/// Physical block that every disk reports: what file systems and flash work in, in bytes.
pub(crate) const PHYSICAL_BLOCK: u32 = 4096;
