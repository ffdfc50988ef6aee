//! A disk that keeps nothing: reads give zeroes, writes vanish. What everything above it costs.

use crate::disk::{Disk, PHYSICAL_BLOCK};
use crate::error::Error;
use crate::request::{Extent, Geometry, Io, Request, Run, Verb};

/// One core's view of nothing.
pub struct NullDisk {
    geometry: Geometry,
}

impl NullDisk {
    /// `blocks` blocks of nothing.
    pub fn new(blocks: u64, block_size: u32) -> NullDisk {
        let geometry = Geometry {
            block_size,
            physical_block_size: PHYSICAL_BLOCK,
            blocks,
            write_cache: false,
            read_only: false,
            discard: true,
            discard_zeroes: true,
            discard_granularity: block_size,
        };
        NullDisk { geometry }
    }
}

impl Disk for NullDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, mut request: Request) -> Io<'_> {
        if request.verb == Verb::Read {
            request.buffer.fill(0);
        }
        Io::ready(request.done())
    }

    fn allocation(&self, extent: Extent) -> Result<Run, Error> {
        Ok(Run { length: extent.length, mapped: false })
    }
}
