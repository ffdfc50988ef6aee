//! Layers that are slow on purpose: for tests, drills and models of slow disks.

mod arm;
mod spinning;
mod spinning_disk;

use std::time::Duration;

use ring::Ring;

use crate::layers::{Layer, Next};
use crate::request::{Io, Request};

pub use spinning::{Spindle, Spinning};
pub use spinning_disk::{Order, SpinningDisk, SpinningDiskError};

/// Waits before it passes reads, writes and flushes on.
pub struct Delay {
    /// The core's ring.
    pub ring: Ring,
    /// Before each read.
    pub read: Duration,
    /// Before each write.
    pub write: Duration,
    /// Before each flush.
    pub flush: Duration,
}

impl Delay {
    fn after<'a>(&'a self, span: Duration, request: Request, next: Next<'a>) -> Io<'a> {
        if span.is_zero() {
            return next.submit(request);
        }
        Io::pending(async move {
            self.ring.sleep(span).await;
            next.submit(request).await
        })
    }
}

impl Layer for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn read<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.after(self.read, request, next)
    }

    fn write<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.after(self.write, request, next)
    }

    fn flush<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.after(self.flush, request, next)
    }
}

#[cfg(test)]
mod tests;
