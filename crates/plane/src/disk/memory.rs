//! A disk in RAM, shared by all cores. What is in RAM is as durable as it will ever be: there is no write cache to
//! flush, and nothing survives the process.

use std::sync::Arc;

use ring::{Lender, Memory, PAGE, Shared, Soon, Writing};

use crate::disk::{Disk, PHYSICAL_BLOCK};
use crate::error::Error;
use crate::request::{Extent, Flags, Geometry, Io, Request, Run, Verb};

/// One core's view of a volume in RAM.
pub struct MemoryDisk {
    memory: Arc<Memory>,
    /// None when as many cores lend as can: this one moves bytes by requests then.
    lender: Option<Lender>,
    block_size: u32,
}

impl MemoryDisk {
    /// The memory's length is a multiple of `block_size`.
    pub fn new(memory: Arc<Memory>, block_size: u32) -> MemoryDisk {
        MemoryDisk { lender: memory.lender(), memory, block_size }
    }

    /// Zeroes that keep their space.
    fn fill_zeroes(&self, offset: u64, length: u64) {
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let count = (end - at).min(ZEROES.len() as u64);
            self.memory.write(at, &ZEROES[..count as usize]);
            at += count;
        }
    }
}

static ZEROES: [u8; 16 * PAGE] = [0; 16 * PAGE];

impl Disk for MemoryDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_size: self.block_size,
            physical_block_size: PHYSICAL_BLOCK,
            blocks: self.memory.length() / u64::from(self.block_size),
            write_cache: false,
            read_only: false,
            discard: true,
            discard_zeroes: true,
            discard_granularity: PAGE as u32,
        }
    }

    fn expect(&self, verb: Verb, extent: Extent, soon: Soon) {
        let length = extent.length as usize;
        let is_fetched = verb == Verb::Read || self.memory.ways().fetches_before_write(length);
        let soon = match soon {
            Soon::Next if !is_fetched => return,
            Soon::Now if !is_fetched => Soon::Later,
            soon => soon,
        };
        self.memory.expect(extent.offset, length, soon);
    }

    fn lend(&self, extent: Extent) -> Option<Shared> {
        self.lender.as_ref()?.lend(extent.offset, extent.length as usize)
    }

    fn is_prompt(&self) -> bool {
        self.lender.is_some()
    }

    fn absorb(&self, offset: u64, pieces: &[&[u8]]) -> Writing {
        let lender = self.lender.as_ref().expect("a disk that is prompt");
        lender.write(offset, pieces)
    }

    fn submit(&self, mut request: Request) -> Io<'_> {
        let Extent { offset, length } = request.extent;
        match request.verb {
            Verb::Read => self.memory.read(offset, &mut request.buffer),
            Verb::Write => self.memory.write(offset, &request.buffer),
            Verb::Flush => {}
            Verb::WriteZeroes if !request.flags.contains(Flags::MAY_UNMAP) => {
                self.fill_zeroes(offset, length);
            }
            Verb::Discard | Verb::WriteZeroes => self.memory.discard(offset, length),
        }
        Io::ready(request.done())
    }

    fn allocation(&self, extent: Extent) -> Result<Run, Error> {
        let mapped = self.memory.is_written(extent.offset);
        let end = extent.offset + extent.length;
        let mut at = extent.offset - extent.offset % PAGE as u64 + PAGE as u64;
        while at < end && self.memory.is_written(at) == mapped {
            at += PAGE as u64;
        }
        Ok(Run { length: at.min(end) - extent.offset, mapped })
    }
}
