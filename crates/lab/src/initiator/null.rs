//! `null:` completes at once. What is measured with it is the lab itself.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ring::{Buffer, Instant, Ring};

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

    pub(super) fn heard(&self) -> Instant {
        self.ring.now()
    }

    pub(super) async fn read(&self, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        Turn::default().await;
        (Ok(()), buffer)
    }

    pub(super) async fn flush(&self) -> Result<(), IoError> {
        Turn::default().await;
        Ok(())
    }
}

/// Every operation goes once through the executor, as those of a real target do.
#[derive(Default)]
pub(super) struct Turn {
    passed: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.passed, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
