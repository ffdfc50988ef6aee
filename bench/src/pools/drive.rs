//! Slices of load on a stack, driven by the thread that runs it: no node and no network.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use plane::Request;
use plane::layers::Stack;
use ring::{Buffer, Instant, Ring};
use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;
use crate::stats::float;

/// Bytes after which another task has its turn at least.
const TURN: u64 = 64 << 10;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name, as in rows.
    pub name: &'static str,
    /// Reads, or else writes.
    pub reads: bool,
    /// At random places, or else one after the other.
    pub random: bool,
    /// Bytes of each request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: u32,
}

/// What a slice reached.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Requests a second.
    pub iops: f64,
    /// Processor time of the thread for each request, that of the load included, in microseconds.
    pub cpu_us: f64,
}

/// What the tasks of a slice share.
struct Slice {
    stack: Rc<Stack>,
    load: Load,
    places: u64,
    next: Cell<u64>,
    done: Cell<u64>,
    left: Cell<u32>,
    until: Instant,
    ended: ring::Notify,
    failed: Cell<bool>,
}

impl Slice {
    fn place(&self) -> u64 {
        if self.load.random {
            return fastrand::u64(0..self.places);
        }
        let place = self.next.get();
        self.next.set((place + 1) % self.places);
        place
    }

    async fn run(&self, ring: &Ring) {
        let mut buffer = Buffer::new(self.load.bytes as usize);
        buffer.fill(0x5a);
        while ring.turn_time() < self.until && !self.failed.get() {
            let offset = self.place() * self.load.bytes;
            let request =
                if self.load.reads { Request::read(offset, buffer) } else { Request::write(offset, buffer) };
            let completion = self.stack.submit(request).await;
            if let Err(error) = completion.result {
                eprintln!("a request failed: {error}");
                self.failed.set(true);
            }
            buffer = completion.buffer;
            self.done.set(self.done.get() + 1);
            // What is done at once lets the others, and the clock, go on.
            if self.done.get().is_multiple_of((TURN / self.load.bytes).max(1)) {
                ring.yield_now().await;
            }
        }
        self.left.set(self.left.get() - 1);
        self.ended.notify();
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Drives the stack for a while; sequential loads go on at `cursor`, which is moved.
pub async fn slice(
    ring: &Ring,
    stack: &Rc<Stack>,
    load: Load,
    span: Duration,
    cursor: &Cell<u64>,
) -> Result<Reached, Error> {
    let places = stack.geometry().bytes() / load.bytes;
    let (start, spent) = (ring.now(), thread_time());
    let slice = Rc::new(Slice {
        stack: stack.clone(),
        load,
        places,
        next: Cell::new(cursor.get() % places),
        done: Cell::new(0),
        left: Cell::new(load.depth),
        until: start + span,
        ended: ring::Notify::new(),
        failed: Cell::new(false),
    });
    for _ in 0..load.depth {
        let (slice, ring) = (slice.clone(), ring.clone());
        ring.clone().spawn_later(async move { slice.run(&ring).await });
    }
    slice.ended.until(|| (slice.left.get() == 0).then_some(())).await;
    let wall = ring.now().since(start).as_secs_f64();
    let cpu = (thread_time().saturating_sub(spent)).as_secs_f64();
    cursor.set(slice.next.get());
    if slice.failed.get() {
        return Err(Error::Output { program: "the pool", reason: "a request failed".to_owned() });
    }
    let done = float(slice.done.get().max(1));
    Ok(Reached { iops: done / wall, cpu_us: cpu * 1e6 / done })
}
