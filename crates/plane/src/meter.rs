//! What happened to something on one core: plain numbers that only this core changes, copied out when somebody asks.
//!
//! Times are taken from the clock of the reactor's turns, which costs nothing: a request that is done in the turn in which it
//! came took no time that anybody could measure.

use std::cell::{Cell, OnceCell};
use std::ops::{AddAssign, SubAssign};

use ring::Instant;

pub use crate::buckets::{BUCKETS, bucket};
use crate::request::Verb;

/// Kinds of requests, as [`Verb`] has them.
pub const VERBS: usize = 5;

/// How long requests of one kind took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// How many fell into each bucket.
    pub buckets: [u64; BUCKETS],
    /// All of them together, in nanoseconds.
    pub sum: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { buckets: [0; BUCKETS], sum: 0 }
    }
}

/// What is known of requests of one kind, without how their times were spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many there were, those that failed included.
    pub requests: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// The time of all of them together.
    pub nanoseconds: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.nanoseconds += other.nanoseconds;
    }
}

impl SubAssign for Counts {
    /// Takes away what was there before.
    fn sub_assign(&mut self, before: Counts) {
        self.requests -= before.requests;
        self.bytes -= before.bytes;
        self.errors -= before.errors;
        self.nanoseconds -= before.nanoseconds;
    }
}

/// What is known of requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbFigures {
    /// How many there were, those that failed included.
    pub requests: u64,
    /// Bytes of those that did not fail.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// How long they took; none when all were done in the turn in which they came.
    pub times: Option<Box<Times>>,
}

impl VerbFigures {
    /// Adds what is known of the same kind on another core.
    pub fn add(&mut self, other: VerbFigures) {
        let before = self.requests;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        // One without times has all of its requests in the lowest bucket.
        match (&mut self.times, other.times) {
            (Some(mine), Some(theirs)) => {
                for (bucket, count) in mine.buckets.iter_mut().zip(theirs.buckets) {
                    *bucket += count;
                }
                mine.sum += theirs.sum;
            }
            (Some(mine), None) => mine.buckets[0] += other.requests,
            (None, theirs) => {
                self.times = theirs;
                if let Some(times) = &mut self.times {
                    times.buckets[0] += before;
                }
            }
        }
    }
}

/// By [`Verb`].
pub type Figures = [VerbFigures; VERBS];

/// Adds what is known on another core.
pub fn add_figures(mine: &mut Figures, theirs: Figures) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.add(theirs);
    }
}

fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get().wrapping_add(count));
}

/// What is counted for requests of one kind.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    requests: Cell<u64>,
    bytes: Cell<u64>,
    errors: Cell<u64>,
    nanoseconds: Cell<u64>,
}

impl Counter {
    /// A request was done at once, without an error.
    pub fn prompt(&self, bytes: u64) {
        add(&self.requests, 1);
        add(&self.bytes, bytes);
    }

    /// A request has ended after so many nanoseconds.
    pub fn done(&self, bytes: u64, nanoseconds: u64, failed: bool) {
        add(&self.requests, 1);
        if failed {
            add(&self.errors, 1);
        } else {
            add(&self.bytes, bytes);
        }
        add(&self.nanoseconds, nanoseconds);
    }

    /// A copy.
    pub fn counts(&self) -> Counts {
        Counts {
            requests: self.requests.get(),
            bytes: self.bytes.get(),
            errors: self.errors.get(),
            nanoseconds: self.nanoseconds.get(),
        }
    }
}

/// How the times of requests of one kind were spread. Made with the first that took one: most things never see most kinds.
#[derive(Debug, Default)]
pub(crate) struct Spread(OnceCell<Box<[Cell<u64>; BUCKETS]>>);

impl Spread {
    /// A request took so long.
    pub fn note(&self, nanoseconds: u64) {
        let index = bucket(nanoseconds);
        // The lowest bucket is what the others leave of all requests.
        if index > 0 {
            let buckets = self.0.get_or_init(|| Box::new([const { Cell::new(0) }; BUCKETS]));
            add(&buckets[index], 1);
        }
    }

    /// A copy, of requests that were counted so.
    pub fn figures(&self, counts: Counts) -> VerbFigures {
        let times = self.0.get().map(|cells| {
            let mut times = Box::<Times>::default();
            for (bucket, cell) in times.buckets.iter_mut().zip(cells.iter()) {
                *bucket = cell.get();
            }
            times.sum = counts.nanoseconds;
            times.buckets[0] = counts.requests.saturating_sub(times.buckets.iter().sum());
            times
        });
        VerbFigures { requests: counts.requests, bytes: counts.bytes, errors: counts.errors, times }
    }
}

/// The time from one turn to another, in nanoseconds.
pub(crate) fn nanoseconds(begun: Instant, now: Instant) -> u64 {
    now.as_nanos().saturating_sub(begun.as_nanos())
}

/// The numbers of one thing on one core.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    verbs: [(Counter, Spread); VERBS],
}

impl Meter {
    /// A request was done at once, without an error.
    pub fn prompt(&self, verb: Verb, bytes: u64) {
        self.verbs[verb as usize].0.prompt(bytes);
    }

    /// A request that began at `begun` has ended.
    pub fn done(&self, verb: Verb, bytes: u64, begun: Instant, now: Instant, failed: bool) {
        let (counter, spread) = &self.verbs[verb as usize];
        let nanoseconds = nanoseconds(begun, now);
        counter.done(bytes, nanoseconds, failed);
        spread.note(nanoseconds);
    }

    /// A copy.
    pub fn figures(&self) -> Figures {
        self.verbs.each_ref().map(|(counter, spread)| spread.figures(counter.counts()))
    }
}

/// A meter, and what is under way.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    pub meter: Meter,
    in_flight: Cell<u64>,
}

/// A request under way; given up or done, it is that no more.
pub(crate) struct UnderWay<'a>(&'a Cell<u64>);

impl Gauge {
    /// A request begins.
    pub fn begin(&self) -> UnderWay<'_> {
        add(&self.in_flight, 1);
        UnderWay(&self.in_flight)
    }

    /// A copy.
    pub fn figures(&self) -> GaugeFigures {
        GaugeFigures { verbs: self.meter.figures(), in_flight: self.in_flight.get() }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What is known of something that requests are sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GaugeFigures {
    /// By [`Verb`].
    pub verbs: Figures,
    /// Requests that have not ended.
    pub in_flight: u64,
}

impl GaugeFigures {
    /// Adds what is known on another core.
    pub fn add(&mut self, other: GaugeFigures) {
        add_figures(&mut self.verbs, other.verbs);
        self.in_flight += other.in_flight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanoseconds: u64) -> Instant {
        Instant::from_nanos(nanoseconds)
    }

    #[test]
    fn every_request_is_in_one_bucket() {
        let meter = Meter::default();
        meter.prompt(Verb::Read, 4096);
        meter.done(Verb::Read, 512, at(5), at(5), false);
        meter.done(Verb::Read, 512, at(5), at(5 + 100_000), false);
        meter.done(Verb::Read, 512, at(0), at(1 << 50), true);
        let read = &meter.figures()[Verb::Read as usize];
        assert_eq!((read.requests, read.bytes, read.errors), (4, 4096 + 1024, 1));
        let times = read.times.as_ref().unwrap();
        assert_eq!(times.buckets.iter().sum::<u64>(), 4);
        assert_eq!((times.buckets[0], times.buckets[bucket(100_000)], times.buckets[BUCKETS - 1]), (2, 1, 1));
        assert_eq!(times.sum, 100_000 + (1 << 50));
        assert_eq!(meter.figures()[Verb::Write as usize], VerbFigures::default());
    }

    #[test]
    fn cores_are_added_up() {
        let (quick, slow) = (Meter::default(), Meter::default());
        quick.prompt(Verb::Write, 512);
        slow.done(Verb::Write, 512, at(0), at(5000), false);
        for (one, other) in [(&quick, &slow), (&slow, &quick), (&slow, &slow), (&quick, &quick)] {
            let mut sum = one.figures()[1].clone();
            sum.add(other.figures()[1].clone());
            assert_eq!((sum.requests, sum.bytes), (2, 1024));
            let count = sum.times.map_or(2, |times| times.buckets.iter().sum());
            assert_eq!(count, 2, "every request is in one bucket");
        }
    }

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let mut last = 0;
        for power in 0..40 {
            for part in 0..8u64 {
                let index = bucket((1 << power) + (part << power) / 8);
                assert!(index >= last && index <= last + 1, "2^{power} + {part}/8");
                last = index;
            }
        }
        assert_eq!(last, BUCKETS - 1);
    }

    #[test]
    fn what_is_given_up_is_under_way_no_more() {
        let gauge = Gauge::default();
        let (one, other) = (gauge.begin(), gauge.begin());
        assert_eq!(gauge.figures().in_flight, 2);
        drop(one);
        assert_eq!(gauge.figures().in_flight, 1);
        drop(other);
        assert_eq!(gauge.figures().in_flight, 0);
    }
}
