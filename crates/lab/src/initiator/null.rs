//! `null:` completes at once. What is measured with it is the lab itself.

use ring::{Buffer, Ring, Shared};

use super::{Geometry, IoError};

/// A target that does nothing.
#[derive(Clone)]
pub struct NullSession {
    ring: Ring,
    size: u64,
}

impl NullSession {
    pub(super) fn new(ring: &Ring, size: u64) -> NullSession {
        NullSession { ring: ring.clone(), size }
    }

    pub(super) fn geometry(&self) -> Geometry {
        Geometry {
            block_size: 512,
            physical_block_size: 4096,
            size: self.size,
            maximum_transfer: ring::LARGEST as u32,
            discard: true,
        }
    }

    /// Every operation goes once through the executor, as those of a real target do.
    pub(super) async fn read(&self, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        self.ring.yield_now().await;
        (Ok(()), buffer)
    }

    pub(super) async fn write(&self, data: Shared) -> Result<(), IoError> {
        self.ring.yield_now().await;
        drop(data);
        Ok(())
    }

    pub(super) async fn flush(&self) -> Result<(), IoError> {
        self.ring.yield_now().await;
        Ok(())
    }
}
