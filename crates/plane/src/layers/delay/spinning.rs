//! The layer that takes the time of a spinning disk. What is below is asked at once; its answer is told when the disk would.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::{Instant, Ring};

use super::arm::{Arm, Motion, Progress, Ticket};
use super::spinning_disk::{SpinningDisk, SpinningDiskError};
use crate::layers::{Layer, Next};
use crate::request::{Flags, Geometry, Io, Request, Verb};

/// One disk, shared by all cores that use it.
pub struct Spindle {
    arm: Mutex<Arm>,
    has_cache: bool,
    is_skipped: AtomicBool,
}

impl Spindle {
    /// A disk with its arm over the first track.
    pub fn new(disk: SpinningDisk) -> Result<Arc<Spindle>, SpinningDiskError> {
        let has_cache = disk.write_cache_bytes > 0;
        let arm = Mutex::new(Arm::new(disk)?);
        Ok(Arc::new(Spindle { arm, has_cache, is_skipped: AtomicBool::new(false) }))
    }

    /// While it is skipped, nothing takes time: to fill a disk that is to be measured.
    pub fn skip(&self, skip: bool) {
        self.is_skipped.store(skip, Ordering::Relaxed);
    }

    fn arm(&self) -> MutexGuard<'_, Arm> {
        self.arm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One core's way through the model of a disk to where its bytes really are.
pub struct Spinning {
    /// The core's ring.
    pub ring: Ring,
    /// The disk.
    pub spindle: Arc<Spindle>,
}

/// A request of ours that waits for the arm; given up, it is forgotten.
struct Turn<'a> {
    layer: &'a Spinning,
    ticket: Ticket,
    progress: Progress,
}

impl Turn<'_> {
    async fn end(mut self) {
        loop {
            match self.progress {
                Progress::Done(at) => return self.layer.ring.sleep_until(Instant::from_nanos(at)).await,
                Progress::Ask(at) => {
                    self.layer.ring.sleep_until(Instant::from_nanos(at)).await;
                    let now = self.layer.ring.now().as_nanos();
                    self.progress = self.layer.spindle.arm().ask(self.ticket, now);
                }
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if matches!(self.progress, Progress::Ask(_)) {
            self.layer.spindle.arm().forget(self.ticket);
        }
    }
}

impl Spinning {
    fn timed<'a>(&'a self, motion: Motion, request: Request, next: Next<'a>) -> Io<'a> {
        if self.spindle.is_skipped.load(Ordering::Relaxed) {
            return next.submit(request);
        }
        Io::pending(async move {
            let (extent, now) = (request.extent, self.ring.now().as_nanos());
            let size = next.geometry().bytes();
            let (ticket, progress) =
                self.spindle.arm().enter(now, motion, extent.offset, extent.length, size);
            let turn = Turn { layer: self, ticket, progress };
            let completion = next.submit(request).await;
            turn.end().await;
            completion
        })
    }

    fn write_motion(request: &Request) -> Motion {
        if request.flags.contains(Flags::FUA) { Motion::Write } else { Motion::CachedWrite }
    }
}

impl Layer for Spinning {
    fn name(&self) -> &'static str {
        "spinning"
    }

    fn geometry(&self, below: Geometry) -> Geometry {
        Geometry { write_cache: below.write_cache || self.spindle.has_cache, ..below }
    }

    fn read<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.timed(Motion::Read, request, next)
    }

    fn write<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.timed(Spinning::write_motion(&request), request, next)
    }

    fn write_zeroes<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.timed(Spinning::write_motion(&request), request, next)
    }

    fn flush<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        debug_assert_eq!(request.verb, Verb::Flush);
        if self.spindle.is_skipped.load(Ordering::Relaxed) || !self.spindle.has_cache {
            return next.submit(request);
        }
        Io::pending(async move {
            let until = self.spindle.arm().last();
            loop {
                let now = self.ring.now().as_nanos();
                let progress = self.spindle.arm().ask_flushed(until, now);
                match progress {
                    Progress::Ask(at) => self.ring.sleep_until(Instant::from_nanos(at)).await,
                    Progress::Done(at) => {
                        self.ring.sleep_until(Instant::from_nanos(at)).await;
                        return next.submit(request).await;
                    }
                }
            }
        })
    }
}
