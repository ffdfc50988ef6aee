//! A layer that lets no more through than it is told: requests and bytes a second, over all cores.
//!
//! Each of the two is a clock of its own (the generic cell rate algorithm): it says when the next request would be due if all
//! came evenly, and runs ahead of the real one by the cost of every request that is let in. A request waits until the clock is
//! no further ahead than `BURST`. One number for all cores, and nobody has to fill a bucket.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ring::{Instant, Ring};

use crate::error::{Error, ErrorKind};
use crate::layers::{Layer, Next};
use crate::request::{Io, Request, Verb};

/// How far requests may come ahead of their rate: short enough that nobody sees a jump in a graph, long enough that a
/// deep queue is not torn apart.
const BURST: Duration = Duration::from_millis(100);

/// How often those who wait look whether they still have to.
const LOOK: Duration = Duration::from_secs(1);

/// Its name in a stack.
pub(crate) const NAME: &str = "limit";

thread_local! {
    /// Nobody wants what is being polled any more.
    static IS_GIVEN_UP: Cell<bool> = const { Cell::new(false) };
}

/// Carries out `work`. What of it waits within a limit when nobody wants it any more fails there, and is not begun.
pub(crate) async fn while_wanted<T>(is_wanted: impl Fn() -> bool, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        let outer = IS_GIVEN_UP.replace(!is_wanted());
        let result = work.as_mut().poll(context);
        IS_GIVEN_UP.set(outer);
        result
    })
    .await
}

/// What a volume may do. `None` bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests a second, flushes aside; not zero.
    pub iops: Option<u64>,
    /// Bytes a second that are read or written; not zero.
    pub bytes_per_second: Option<u64>,
}

impl Limits {
    /// Whether nothing is bounded.
    pub fn is_unlimited(&self) -> bool {
        *self == Limits::default()
    }
}

/// When the next of several evenly spaced things is due, in nanoseconds of the rings' clock.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Clock {
    /// Takes `cost` in; gives when whoever it is for may go on.
    fn take(&self, now: Instant, cost: u64) -> Instant {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            // A clock that stood still begins anew: what was not used is gone.
            let due = seen.max(now.as_nanos());
            let next = due.saturating_add(cost);
            match self.0.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Instant::from_nanos(due.saturating_sub(BURST.as_nanos() as u64)),
                Err(other) => seen = other,
            }
        }
    }

    /// Takes `cost` out again: whoever it was for does not come.
    fn give_back(&self, cost: u64) {
        let back = |seen: u64| Some(seen.saturating_sub(cost));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, back).ok();
    }
}

/// The clocks of one volume.
#[derive(Debug, Default)]
struct Clocks {
    requests: Clock,
    bytes: Clock,
    /// Nobody waits: what is under way is to come to its end.
    open: AtomicBool,
}

/// Keeps a volume within its limits; clones on all cores share them.
#[derive(Clone)]
pub struct Limit {
    ring: Ring,
    limits: Limits,
    clocks: Arc<Clocks>,
}

/// What the cores of one volume share of its limits.
#[derive(Clone, Debug, Default)]
pub struct Limited {
    limits: Limits,
    clocks: Arc<Clocks>,
}

impl Limited {
    /// Within these limits.
    pub fn new(limits: Limits) -> Limited {
        Limited { limits, clocks: Arc::default() }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Lets those through who wait, and who comes, until the result is dropped: a change that waits for what is under way would
    /// wait as long as the limit says.
    pub fn open(&self) -> OpenLimits {
        self.clocks.open.store(true, Ordering::Relaxed);
        OpenLimits(self.clocks.clone())
    }

    /// The layer of one core.
    pub fn layer(&self, ring: &Ring) -> Limit {
        Limit { ring: ring.clone(), limits: self.limits, clocks: self.clocks.clone() }
    }
}

/// Limits that are open.
pub struct OpenLimits(Arc<Clocks>);

impl Drop for OpenLimits {
    fn drop(&mut self) {
        self.0.open.store(false, Ordering::Relaxed);
    }
}

impl Limit {
    /// What a request costs on the clocks of requests and of bytes, in nanoseconds; nothing where nothing is bounded.
    fn costs(&self, request: &Request) -> [Option<u64>; 2] {
        let cost = |rate: u64, amount: u64| {
            let nanos = u128::from(amount) * 1_000_000_000 / u128::from(rate.max(1));
            u64::try_from(nanos).unwrap_or(u64::MAX)
        };
        let moves = matches!(request.verb, Verb::Read | Verb::Write);
        let bytes = self.limits.bytes_per_second.filter(|_| moves);
        [self.limits.iops.map(|rate| cost(rate, 1)), bytes.map(|rate| cost(rate, request.extent.length))]
    }

    /// The clocks, each with what a request costs there.
    fn charges(&self, costs: [Option<u64>; 2]) -> impl Iterator<Item = (&Clock, u64)> {
        let clocks = [&self.clocks.requests, &self.clocks.bytes];
        clocks.into_iter().zip(costs).filter_map(|(clock, cost)| Some((clock, cost?)))
    }

    fn pass<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        let (now, costs) = (self.ring.now(), self.costs(&request));
        let due = self.charges(costs).map(|(clock, cost)| clock.take(now, cost)).fold(now, Instant::max);
        if due <= self.ring.now() {
            return next.submit(request);
        }
        Io::pending(async move {
            let waits = |now: &Instant| *now < due && !self.clocks.open.load(Ordering::Relaxed);
            while let Some(now) = Some(self.ring.now()).filter(waits) {
                self.ring.sleep_until(due.min(now + LOOK)).await;
                if IS_GIVEN_UP.get() {
                    self.charges(costs).for_each(|(clock, cost)| clock.give_back(cost));
                    return request.failed(Error::new(ErrorKind::GivenUp, "waiting within a limit"));
                }
            }
            next.submit(request).await
        })
    }
}

impl Layer for Limit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn read<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }

    fn write<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }

    fn discard<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }

    fn write_zeroes<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }
}
