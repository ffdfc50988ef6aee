//! A disk in RAM, shared by all cores. What is in RAM is as durable as it will ever be: there is no write cache to
//! flush, and nothing survives the process.

use std::cell::Cell;
use std::sync::Arc;

use ring::{Lender, Memory, Notify, PAGE, Ring, Shared, Soon, Writing};

use crate::disk::{Disk, PHYSICAL_BLOCK};
use crate::error::Error;
use crate::request::{Completion, Extent, Flags, Geometry, Io, Request, Run, Verb};

/// One core's view of a volume in RAM.
pub struct MemoryDisk {
    memory: Arc<Memory>,
    /// None when as many cores lend as can: this one moves bytes by requests then.
    lender: Option<Lender>,
    block_size: u32,
    ring: Ring,
    /// Somebody makes memory ready.
    in_work: Cell<bool>,
    work_ended: Notify,
}

/// Who makes memory ready; also when he is dropped before the end.
struct Turn<'a>(&'a MemoryDisk);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.in_work.set(false);
        self.0.work_ended.notify();
    }
}

impl MemoryDisk {
    /// One core's view of a memory whose length is a multiple of `block_size`.
    pub fn new(ring: &Ring, memory: Arc<Memory>, block_size: u32) -> MemoryDisk {
        let (in_work, work_ended) = (Cell::new(false), Notify::new());
        MemoryDisk { lender: memory.lender(), memory, block_size, ring: ring.clone(), in_work, work_ended }
    }

    /// Waits until these bytes can be written without waiting. One at a time of a core: threads of the kernel do the work,
    /// and would take all the processors.
    async fn make_ready(&self, offset: u64, length: usize) {
        while !self.memory.is_ready(offset, length) {
            if self.in_work.replace(true) {
                // Perhaps on the same page: then there is nothing more to wait for.
                self.work_ended.wait().await;
                continue;
            }
            let _turn = Turn(self);
            if !self.memory.make_ready(&self.ring, offset, length).await {
                return;
            }
        }
    }

    async fn write(&self, request: Request) -> Completion {
        let Extent { offset, length } = request.extent;
        self.make_ready(offset, length as usize).await;
        self.memory.write(offset, &request.buffer);
        request.done()
    }

    /// Writes zeroes that keep their space.
    async fn fill(&self, request: Request) -> Completion {
        let Extent { offset, length } = request.extent;
        self.in_steps(offset, length, async |at, left| {
            let count = left.min(ZEROES.len() as u64) as usize;
            self.make_ready(at, count).await;
            self.memory.write(at, &ZEROES[..count]);
            count as u64
        })
        .await;
        request.done()
    }

    async fn discard(&self, request: Request) -> Completion {
        let Extent { offset, length } = request.extent;
        self.in_steps(offset, length, async |at, left| self.memory.discard(at, left)).await;
        request.done()
    }

    /// Does what takes long a little at a time, so that others get their turn in between: `step` gets where it is to begin and
    /// how much is left, and gives how much it did.
    async fn in_steps(&self, mut at: u64, mut left: u64, step: impl AsyncFn(u64, u64) -> u64) {
        while left > 0 {
            let done = step(at, left).await;
            (at, left) = (at + done, left - done);
            if left > 0 {
                self.ring.next_turn().await;
            }
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

    fn absorb(&self, extent: Extent, pieces: &[&[u8]]) -> Option<Writing> {
        let lender = self.lender.as_ref().expect("a disk that is prompt");
        let is_ready = self.memory.is_ready(extent.offset, extent.length as usize);
        is_ready.then(|| lender.write(extent.offset, pieces))
    }

    fn submit(&self, mut request: Request) -> Io<'_> {
        let Extent { offset, length } = request.extent;
        match request.verb {
            Verb::Read => self.memory.read(offset, &mut request.buffer),
            Verb::Write if self.memory.is_ready(offset, length as usize) => {
                self.memory.write(offset, &request.buffer);
            }
            Verb::Write => return Io::pending(self.write(request)),
            Verb::Flush => {}
            Verb::WriteZeroes if !request.flags.contains(Flags::MAY_UNMAP) => {
                return Io::pending(self.fill(request));
            }
            Verb::Discard | Verb::WriteZeroes => return Io::pending(self.discard(request)),
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

#[cfg(test)]
mod tests;
