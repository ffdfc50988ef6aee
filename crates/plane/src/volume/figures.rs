//! What is known of a volume.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use ring::Instant;

use crate::layers::{Followed, Spent};
use crate::meter::{self, add_figures, nanoseconds};

/// One of so many requests is followed through the layers.
const TRACED: u32 = 64;

/// Says which requests are followed.
#[derive(Debug, Default)]
pub(super) struct Turns(Cell<u32>);

impl Turns {
    /// Whether the next request is to be followed.
    pub fn next(&self) -> bool {
        let turn = self.0.get();
        self.0.set(if turn == 0 { TRACED - 1 } else { turn - 1 });
        turn == 0
    }
}

/// The time in which something was in flight.
#[derive(Debug, Default)]
pub(super) struct Busy {
    before_ns: u64,
    since: Option<Instant>,
}

impl Busy {
    /// Something is in flight from now on.
    pub fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Nothing is in flight any more.
    pub fn end(&mut self, now: Instant) {
        self.before_ns = self.until_ns(now);
        self.since = None;
    }

    /// All of it until now.
    pub fn until(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.until_ns(now))
    }

    fn until_ns(&self, now: Instant) -> u64 {
        self.before_ns + self.since.map_or(0, |since| nanoseconds(since, now))
    }
}

/// What is known of a volume on one core, or on several, since the node has it.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Its place.
    pub place: usize,
    /// Its name.
    pub name: String,
    /// Bytes that initiators see.
    pub bytes: u64,
    /// By [`crate::Verb`].
    pub verbs: meter::Figures,
    /// Requests under way.
    pub in_flight: usize,
    /// The time in which there was one, on each core.
    pub busy: BTreeMap<usize, Duration>,
    /// The time of some of the requests at each level, everything below it included; top first, the disk last.
    pub layers: Vec<(&'static str, Spent)>,
    /// The same requests by how long they took.
    pub followed: Followed,
}

impl Figures {
    /// Nothing is known yet of a volume of this place and name.
    pub fn new(place: usize, name: &str) -> Figures {
        Figures {
            place,
            name: name.to_owned(),
            bytes: 0,
            verbs: meter::Figures::default(),
            in_flight: 0,
            busy: BTreeMap::new(),
            layers: Vec::new(),
            followed: Followed::default(),
        }
    }

    /// Adds what is known of the same volume on another core.
    pub fn add(&mut self, other: Figures) {
        add_figures(&mut self.verbs, other.verbs);
        self.in_flight += other.in_flight;
        self.busy.extend(other.busy);
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

    #[test]
    fn one_of_many_is_followed() {
        let turns = Turns::default();
        assert_eq!((0..TRACED * 10).filter(|_| turns.next()).count(), 10);
    }

    #[test]
    fn time_counts_while_something_is_in_flight() {
        let at = |second: u64| Instant::from_nanos(second * 1_000_000_000);
        let mut busy = Busy::default();
        busy.begin(at(10));
        assert_eq!(busy.until(at(13)).as_secs(), 3);
        busy.end(at(15));
        assert_eq!(busy.until(at(100)).as_secs(), 5);
        busy.begin(at(100));
        assert_eq!(busy.until(at(101)).as_secs(), 6);
    }

    #[test]
    fn a_level_has_what_those_below_leave() {
        let spent = |millis| Spent { requests: 2, time: Duration::from_millis(millis) };
        let layers = vec![("limit", spent(10)), ("disk", spent(7))];
        let figures = Figures { layers, ..Figures::new(0, "demo") };
        let shares: Vec<_> = figures.shares().map(|(name, _, time)| (name, time.as_millis())).collect();
        assert_eq!(shares, [("limit", 3), ("disk", 7)]);
    }
}
