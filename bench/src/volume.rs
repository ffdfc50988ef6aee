//! A volume without a network: the stack of one core on a file, driven by the thread that runs it. What fio with
//! io_uring is to be compared with.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plane::Request;
use plane::volume::{Backing, Channel, Limits, Volume, VolumeOptions};
use ring::{Buffer, File, Instant, Options, Reactor, Ring};

use crate::error::Error;
use crate::limit::{Reached, Shape};

/// Block size of the volume, in bytes.
const BLOCK: u32 = 512;

/// What one run shares.
struct Drive {
    channel: Channel,
    shape: Shape,
    /// Requests that fit into the volume.
    places: u64,
    next: Cell<u64>,
    done: Cell<u64>,
    left: Cell<u32>,
    ended: ring::Notify,
    failed: Cell<bool>,
}

impl Drive {
    fn place(&self) -> u64 {
        if self.shape.random {
            return fastrand::u64(0..self.places);
        }
        let place = self.next.get();
        self.next.set((place + 1) % self.places);
        place
    }

    fn request(&self, buffer: Buffer) -> Request {
        let offset = self.place() * u64::from(self.shape.request_bytes);
        if fastrand::u8(0..100) < self.shape.read_percent {
            Request::read(offset, buffer)
        } else {
            Request::write(offset, buffer)
        }
    }

    /// One of the requests that are in flight at a time, one after the other.
    async fn run(&self, until: Instant, ring: Ring) {
        let mut buffer = Buffer::new(self.shape.request_bytes as usize);
        buffer.fill(0x5a);
        while ring.turn_time() < until && !self.failed.get() {
            let completion = self.channel.submit(self.request(buffer)).await;
            if let Err(error) = completion.result {
                eprintln!("a request failed: {error}");
                self.failed.set(true);
            }
            buffer = completion.buffer;
            self.done.set(self.done.get() + 1);
        }
        self.left.set(self.left.get() - 1);
        self.ended.notify();
    }
}

/// Drives the file at `path`, which is there and filled, and gives what was reached between `warm_up` and its end.
pub fn drive(path: &Path, shape: Shape, warm_up: Duration, span: Duration) -> Result<Reached, Error> {
    let reactor = Reactor::new(&Options::default()).map_err(failed)?;
    let ring = reactor.ring().clone();
    let path = path.to_owned();
    reactor.block_on(async move {
        let (channel, _lock) = open(&ring, path).await?;
        let places = channel.geometry().bytes() / u64::from(shape.request_bytes);
        let drive = Rc::new(Drive {
            channel,
            shape,
            places,
            next: Cell::new(0),
            done: Cell::new(0),
            left: Cell::new(shape.depth * shape.sessions),
            ended: ring::Notify::new(),
            failed: Cell::new(false),
        });
        let start = ring.now();
        for _ in 0..drive.left.get() {
            let (drive, ring) = (drive.clone(), ring.clone());
            ring.clone().spawn_later(async move { drive.run(start + warm_up + span, ring).await });
        }
        ring.sleep(warm_up).await;
        let (begun, before) = (ring.now(), drive.done.get());
        ring.sleep(span).await;
        let (seconds, operations) = (ring.now().since(begun).as_secs_f64(), drive.done.get() - before);
        drive.ended.until(|| (drive.left.get() == 0).then_some(())).await;
        if drive.failed.get() {
            return Err(failed("a request failed"));
        }
        Ok(Reached { operations, seconds, latency: None })
    })
}

async fn open(ring: &Ring, path: PathBuf) -> Result<(Channel, Option<File>), Error> {
    let bytes = std::fs::metadata(&path).map_err(Error::io(format!("cannot use {}", path.display())))?.len();
    let options = VolumeOptions {
        name: "bench".to_owned(),
        id: [1; 16],
        bytes: bytes - bytes % u64::from(BLOCK),
        block_size: BLOCK,
        backing: Backing::File(path),
        limits: Limits::default(),
        may_grow: false,
        faults: None,
    };
    let (volume, lock) =
        Volume::prepare(ring, options, &plane::pool::Pools::default()).await.map_err(failed)?;
    if volume.is_direct() != Some(true) {
        return Err(failed("its file system has no direct I/O"));
    }
    let stack = volume.stack(ring, &plane::pool::PoolCores::default()).map_err(failed)?;
    Ok((Channel::new(0, Arc::new(volume), stack), lock))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Options(format!("the volume cannot be driven: {error}"))
}
