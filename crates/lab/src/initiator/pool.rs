//! A pool in this very process: its volume's stack is asked on the thread of the job, so what is measured is the pool and
//! nothing else. The processor time of the lab is that of both.

use std::cell::Cell;
use std::rc::Rc;

use plane::request::{Extent, Request, Verb};
use plane::{Completion, Flags};
use ring::{Buffer, Instant, Ring, Shared};

use super::{Geometry, IoError};
use crate::pool::{BedError, OpenPool, PoolTarget};

/// A session to a pool. Clones share it.
#[derive(Clone)]
pub struct PoolSession(Rc<Open>);

struct Open {
    ring: Ring,
    pool: OpenPool,
    /// Jobs that have not closed it yet.
    jobs: Cell<u32>,
}

impl PoolSession {
    pub(super) async fn open(ring: &Ring, target: &PoolTarget) -> Result<PoolSession, BedError> {
        let pool = target.bed().open(ring).await?;
        Ok(PoolSession(Rc::new(Open { ring: ring.clone(), pool, jobs: Cell::new(1) })))
    }

    /// The same pool for one job more of this thread.
    pub fn for_another(&self) -> PoolSession {
        self.0.jobs.set(self.0.jobs.get() + 1);
        self.clone()
    }

    pub(super) fn geometry(&self) -> Geometry {
        let geometry = self.0.pool.stack().geometry();
        Geometry {
            block_size: geometry.block_size,
            physical_block_size: geometry.physical_block_size,
            size: geometry.bytes(),
            maximum_transfer: ring::LARGEST as u32,
            discard: true,
        }
    }

    pub(super) fn heard(&self) -> Instant {
        self.0.ring.now()
    }

    /// Every operation goes once through the executor, as those of a real target do: members in memory answer at once, and
    /// nobody else would have a turn.
    async fn submit(&self, request: Request) -> Completion {
        self.0.ring.yield_now().await;
        self.0.pool.stack().submit(request).await
    }

    pub(super) async fn read(&self, offset: u64, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        let Completion { result, buffer } = self.submit(Request::read(offset, buffer)).await;
        (result.map_err(IoError::from), buffer)
    }

    /// A pool may keep what it writes, and the lab what it wrote, so the data is copied.
    pub(super) async fn write(&self, offset: u64, data: Shared, fua: bool) -> Result<(), IoError> {
        let request = Request::write(offset, Buffer::copy_of(&data));
        let request = if fua { request.with(Flags::FUA) } else { request };
        Ok(self.submit(request).await.result?)
    }

    pub(super) async fn flush(&self) -> Result<(), IoError> {
        Ok(self.submit(Request::flush()).await.result?)
    }

    pub(super) async fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        let request = Request::plain(Verb::Discard, Extent::new(offset, length));
        Ok(self.submit(request).await.result?)
    }

    /// The last job closes the pool.
    pub(super) async fn close(&self) {
        self.0.jobs.set(self.0.jobs.get().saturating_sub(1));
        if self.0.jobs.get() == 0 {
            self.0.pool.close().await;
        }
    }
}
