//! What happened to a volume on one core: plain numbers that only this core changes, copied out when somebody asks.
//!
//! Times are taken from the clock of the reactor's turns, which costs nothing: a request that is done in the turn in which it
//! came took no time that anybody could measure.

use std::cell::{Cell, OnceCell};
use std::time::Duration;

use ring::Instant;

pub use crate::buckets::{BUCKETS, bucket};
use crate::layers::{Followed, Spent};
use crate::request::Verb;

/// Kinds of requests, as [`Verb`] has them.
pub const VERBS: usize = 5;
/// One of so many requests is followed through the layers.
const TRACED: u32 = 64;

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

/// What is counted for requests of one kind.
#[derive(Debug, Default)]
struct Counted {
    /// Those that took a time that can be measured. Made with the first one: most volumes never see most kinds.
    times: OnceCell<Box<Cells>>,
    /// All of them.
    requests: Cell<u64>,
    bytes: Cell<u64>,
    errors: Cell<u64>,
}

#[derive(Debug)]
struct Cells {
    buckets: [Cell<u64>; BUCKETS],
    sum: Cell<u64>,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells { buckets: [const { Cell::new(0) }; BUCKETS], sum: Cell::new(0) }
    }
}

/// The numbers of one volume on one core.
#[derive(Debug, Default)]
pub(super) struct Meter {
    verbs: [Counted; VERBS],
    turn: Cell<u32>,
}

fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get().wrapping_add(count));
}

impl Meter {
    /// A request was done at once, without an error.
    pub fn prompt(&self, verb: Verb, bytes: u64) {
        let counted = &self.verbs[verb as usize];
        add(&counted.requests, 1);
        add(&counted.bytes, bytes);
    }

    /// A request that began at `begun` has ended.
    pub fn done(&self, verb: Verb, bytes: u64, begun: Instant, now: Instant, failed: bool) {
        let counted = &self.verbs[verb as usize];
        add(&counted.requests, 1);
        if failed {
            add(&counted.errors, 1);
        } else {
            add(&counted.bytes, bytes);
        }
        let nanoseconds = now.since(begun).as_nanos() as u64;
        let index = bucket(nanoseconds);
        // The lowest bucket is what the others leave of all requests.
        if index > 0 {
            let times = counted.times.get_or_init(Box::default);
            add(&times.buckets[index], 1);
            add(&times.sum, nanoseconds);
        }
    }

    /// Whether the next request is to be followed.
    pub fn follows(&self) -> bool {
        let turn = self.turn.get();
        self.turn.set(if turn == 0 { TRACED - 1 } else { turn - 1 });
        turn == 0
    }

    /// A copy.
    pub fn figures(&self) -> [VerbFigures; VERBS] {
        std::array::from_fn(|verb| self.verbs[verb].figures())
    }
}

impl Counted {
    fn figures(&self) -> VerbFigures {
        let requests = self.requests.get();
        let times = self.times.get().map(|cells| {
            let mut times = Box::<Times>::default();
            for (bucket, cell) in times.buckets.iter_mut().zip(&cells.buckets) {
                *bucket = cell.get();
            }
            times.sum = cells.sum.get();
            times.buckets[0] = requests.saturating_sub(times.buckets.iter().sum());
            times
        });
        VerbFigures { requests, bytes: self.bytes.get(), errors: self.errors.get(), times }
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

/// What is known of a volume on one core, since the node has it.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Its place.
    pub place: usize,
    /// Its name.
    pub name: String,
    /// By [`Verb`].
    pub verbs: [VerbFigures; VERBS],
    /// Requests under way.
    pub in_flight: usize,
    /// The time of some of the requests at each level, everything below it included; top first, the disk last.
    pub layers: Vec<(&'static str, Spent)>,
    /// The same requests by how long they took.
    pub followed: Followed,
}

impl VerbFigures {
    fn add(&mut self, other: VerbFigures) {
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

impl Figures {
    /// Adds what is known of the same volume on another core.
    pub fn add(&mut self, other: Figures) {
        for (mine, theirs) in self.verbs.iter_mut().zip(other.verbs) {
            mine.add(theirs);
        }
        self.in_flight += other.in_flight;
        self.followed.add(other.followed);
        // Between two cores that change their layers there are others for a moment.
        for ((_, mine), (_, theirs)) in self.layers.iter_mut().zip(other.layers) {
            mine.requests += theirs.requests;
            mine.time += theirs.time;
        }
    }

    /// The time of the requests that were followed that each level took for itself.
    pub fn shares(&self) -> impl Iterator<Item = (&'static str, u64, Duration)> + '_ {
        let below = self.layers.iter().skip(1).map(|(_, spent)| spent.time).chain([Duration::ZERO]);
        self.layers
            .iter()
            .zip(below)
            .map(|((name, spent), below)| (*name, spent.requests, spent.time.saturating_sub(below)))
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
        meter.done(Verb::Read, 512, at(0), at(u64::MAX), true);
        let read = &meter.figures()[Verb::Read as usize];
        assert_eq!((read.requests, read.bytes, read.errors), (4, 4096 + 1024, 1));
        let times = read.times.as_ref().unwrap();
        assert_eq!(times.buckets.iter().sum::<u64>(), 4);
        assert_eq!((times.buckets[0], times.buckets[bucket(100_000)], times.buckets[BUCKETS - 1]), (2, 1, 1));
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
    fn one_of_many_is_followed() {
        let meter = Meter::default();
        assert_eq!((0..TRACED * 10).filter(|_| meter.follows()).count(), 10);
    }

    #[test]
    fn a_level_has_what_those_below_leave() {
        let spent = |millis| Spent { requests: 2, time: Duration::from_millis(millis) };
        let figures = Figures {
            place: 0,
            name: "demo".to_owned(),
            verbs: Default::default(),
            in_flight: 0,
            layers: vec![("limit", spent(10)), ("disk", spent(7))],
            followed: Followed::default(),
        };
        let shares: Vec<_> = figures.shares().map(|(name, _, time)| (name, time.as_millis())).collect();
        assert_eq!(shares, [("limit", 3), ("disk", 7)]);
    }
}
