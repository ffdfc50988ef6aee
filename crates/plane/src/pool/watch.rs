//! What is watched while a pool runs: how long its members take, how fast what goes over all rows gets on, and what the
//! labels say of members that are out and of spares. Counted where requests end, looked at by the keeper and from outside.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::Instant;

use super::format::{Cause, Id};
use super::layout::Slots;
use super::member::Member;
use crate::limits::{POOL_SLOW_FACTOR, POOL_SLOW_LEAST, POOL_SLOW_REQUESTS, POOL_SLOW_WINDOWS};
use crate::request::Verb;

/// Reads and writes.
const KINDS: usize = 2;

/// Time over which the rate of what goes over all rows is taken.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// How often it is taken.
const RATE_STEP: Duration = Duration::from_millis(500);

/// Requests of one kind to one slot by one core. That core alone writes it.
#[derive(Default)]
struct Sum {
    requests: AtomicU64,
    nanoseconds: AtomicU64,
}

/// Requests and their time of both kinds.
type Totals = [(u64, u64); KINDS];

/// How long members take to answer, counted by each core for itself.
pub(super) struct Latencies(Box<[Box<[[Sum; KINDS]]>]>);

impl Latencies {
    fn new(cores: usize, slots: usize) -> Latencies {
        let core = |_| (0..slots).map(|_| <[Sum; KINDS]>::default()).collect();
        Latencies((0..cores).map(core).collect())
    }

    /// A request to a slot ended well after `took`. Only of its own core.
    pub(super) fn note(&self, core: usize, slot: usize, kind: usize, took: Duration) {
        let sum = &self.0[core][slot][kind];
        // Nobody else writes these: no need to make it one step.
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&sum.requests, 1);
        add(&sum.nanoseconds, took.as_nanos() as u64);
    }

    fn totals(&self, slot: usize) -> Totals {
        std::array::from_fn(|kind| {
            self.0.iter().fold((0, 0), |(requests, nanoseconds), core| {
                let sum = &core[slot][kind];
                let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                (requests + load(&sum.requests), nanoseconds + load(&sum.nanoseconds))
            })
        })
    }
}

/// The kind of a request of which the time is counted.
pub(super) fn kind_of(verb: Verb) -> Option<usize> {
    match verb {
        Verb::Read => Some(0),
        Verb::Write => Some(1),
        _ => None,
    }
}

/// The middle of some values.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// How much longer than its siblings each slot took, if that is too long: the times in microseconds, its own and that of the
/// one in the middle of the others. `means`: of each slot in nanoseconds, as far as it was asked often enough.
fn too_long(means: &[Option<u64>], slot: usize) -> Option<(u64, u64)> {
    let own = means[slot]?;
    let others = means.iter().enumerate().filter(|(other, _)| *other != slot).filter_map(|(_, mean)| *mean);
    let middle = median(others.collect())?;
    let limit = middle.saturating_mul(POOL_SLOW_FACTOR).max(POOL_SLOW_LEAST.as_nanos() as u64);
    (own > limit).then_some((own / 1000, middle / 1000))
}

/// What became of a slot in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// It is slow from now on: microseconds that it takes, and that its siblings take.
    Slow(u64, u64),
    /// It is as fast as its siblings again.
    Well,
}

/// Holds each slot against its siblings, window by window.
pub(super) struct SlowWatch {
    before: Vec<Totals>,
    /// Windows in a row in which it was slow; once it is said to be, those in which it was not.
    windows: Vec<u32>,
    slow: Slots,
}

impl SlowWatch {
    pub(super) fn new(slots: usize) -> SlowWatch {
        SlowWatch { before: vec![Totals::default(); slots], windows: vec![0; slots], slow: 0 }
    }

    /// A window ends. Slots of `out` are not asked; what was thought of them is of no use any more.
    pub(super) fn window(&mut self, watch: &Watch, out: Slots) -> Vec<(usize, Turn)> {
        let slots = self.before.len();
        let mut means = [vec![None; slots], vec![None; slots]];
        for slot in 0..slots {
            let totals = watch.latencies.totals(slot);
            for (kind, means) in means.iter_mut().enumerate() {
                let (requests, nanoseconds) = totals[kind];
                let (earlier_requests, earlier_nanoseconds) = self.before[slot][kind];
                let count = requests.wrapping_sub(earlier_requests);
                if out & 1 << slot == 0 && count > 0 {
                    let mean = nanoseconds.wrapping_sub(earlier_nanoseconds) / count;
                    watch.means[slot][kind].store(mean.max(1), Ordering::Relaxed);
                    means[slot] = (count >= POOL_SLOW_REQUESTS).then_some(mean);
                }
            }
            self.before[slot] = totals;
        }
        let turns = (0..slots).filter_map(|slot| self.judge(slot, &means, out)).collect();
        watch.slow.store(self.slow, Ordering::Relaxed);
        turns
    }

    fn judge(&mut self, slot: usize, means: &[Vec<Option<u64>>; KINDS], out: Slots) -> Option<(usize, Turn)> {
        let bit = 1 << slot;
        if out & bit != 0 {
            self.slow &= !bit;
            self.windows[slot] = 0;
            return None;
        }
        if means.iter().all(|means| means[slot].is_none()) {
            return None;
        }
        let long = means.iter().find_map(|means| too_long(means, slot));
        if long.is_some() == (self.slow & bit != 0) {
            self.windows[slot] = 0;
            return None;
        }
        self.windows[slot] += 1;
        if self.windows[slot] < POOL_SLOW_WINDOWS {
            return None;
        }
        self.windows[slot] = 0;
        self.slow ^= bit;
        Some((slot, long.map_or(Turn::Well, |(own, others)| Turn::Slow(own, others))))
    }
}

/// How fast something goes over the rows, for whoever asks.
#[derive(Default)]
pub(super) struct Rate {
    bytes_per_second: AtomicU64,
    milli_rows_per_second: AtomicU64,
}

/// How far something is that goes over all rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Rows that are done.
    pub rows: u64,
    /// Of how many.
    pub of: u64,
    /// Bytes of members read and written a second, of late.
    pub bytes_per_second: u64,
    /// How long it takes yet at this rate, as far as that can be said.
    pub left: Option<Duration>,
}

impl Rate {
    /// How far it is, at row `rows` of `of`.
    pub(super) fn progress(&self, rows: u64, of: u64) -> Progress {
        let milli_rows = self.milli_rows_per_second.load(Ordering::Relaxed);
        let milliseconds = of.saturating_sub(rows).saturating_mul(1_000_000).checked_div(milli_rows);
        Progress {
            rows,
            of,
            bytes_per_second: self.bytes_per_second.load(Ordering::Relaxed),
            left: milliseconds.map(Duration::from_millis),
        }
    }

    /// Nothing is known of it yet.
    pub(super) fn reset(&self) {
        self.bytes_per_second.store(0, Ordering::Relaxed);
        self.milli_rows_per_second.store(0, Ordering::Relaxed);
    }
}

/// Takes the rate of one pass over the rows, over the last seconds.
#[derive(Default)]
pub(super) struct Pace {
    /// When so many rows and bytes were done.
    samples: VecDeque<(Instant, u64, u64)>,
    bytes: u64,
}

impl Pace {
    /// Up to row `rows` all is done, `bytes` of it just now.
    pub(super) fn note(&mut self, now: Instant, rows: u64, bytes: u64, rate: &Rate) {
        self.bytes += bytes;
        if self.samples.back().is_some_and(|(last, ..)| now.since(*last) < RATE_STEP) {
            return;
        }
        self.samples.push_back((now, rows, self.bytes));
        while self.samples.len() > 2 && now.since(self.samples[0].0) > RATE_WINDOW {
            self.samples.pop_front();
        }
        let (begin, first_rows, first_bytes) = self.samples[0];
        let milliseconds = now.since(begin).as_millis() as u64;
        if milliseconds > 0 {
            let per_second = |count: u64| count.saturating_mul(1000) / milliseconds;
            rate.bytes_per_second.store(per_second(self.bytes - first_bytes), Ordering::Relaxed);
            let milli_rows = per_second((rows - first_rows).saturating_mul(1000));
            rate.milli_rows_per_second.store(milli_rows, Ordering::Relaxed);
        }
    }
}

/// What the labels say.
#[derive(Clone, Default)]
pub(super) struct Said {
    /// Why each slot is out; `None` of those that are not.
    pub(super) causes: Vec<Option<Cause>>,
    /// The spares.
    pub(super) spares: Vec<Id>,
}

/// What is watched of a pool.
pub(super) struct Watch {
    pub(super) latencies: Latencies,
    /// Of each slot and kind, the mean of the last window in which it was asked, in nanoseconds; 0 before.
    means: Box<[[AtomicU64; KINDS]]>,
    /// The slots that are slow.
    slow: AtomicU64,
    /// Of the rebuilding of each slot.
    pub(super) rebuilds: Box<[Rate]>,
    /// Of the scrub.
    pub(super) scrub: Rate,
    said: Mutex<Said>,
    /// Spares that are there.
    spares: Mutex<Vec<(Id, Arc<Member>)>>,
}

impl Watch {
    pub(super) fn new(cores: usize, slots: usize) -> Watch {
        Watch {
            latencies: Latencies::new(cores, slots),
            means: (0..slots).map(|_| <[AtomicU64; KINDS]>::default()).collect(),
            slow: AtomicU64::new(0),
            rebuilds: (0..slots).map(|_| Rate::default()).collect(),
            scrub: Rate::default(),
            said: Mutex::default(),
            spares: Mutex::default(),
        }
    }

    /// Whether a slot is slow beside its siblings.
    pub(super) fn is_slow(&self, slot: usize) -> bool {
        self.slow.load(Ordering::Relaxed) & 1 << slot != 0
    }

    /// How long a slot took of late: reads and writes.
    pub(super) fn mean(&self, slot: usize, kind: usize) -> Option<Duration> {
        let nanoseconds = self.means[slot][kind].load(Ordering::Relaxed);
        (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
    }

    pub(super) fn said(&self) -> Said {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn say(&self, said: Said) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// The spares that are there. Not held while anything is waited for.
    pub(super) fn spares(&self) -> MutexGuard<'_, Vec<(Id, Arc<Member>)>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A spare, if it is there.
    pub(super) fn spare(&self, id: &Id) -> Option<Arc<Member>> {
        self.spares().iter().find(|(other, _)| other == id).map(|(_, member)| member.clone())
    }

    /// A spare is not there any more, or is none any more.
    pub(super) fn drop_spare(&self, id: &Id) {
        self.spares().retain(|(other, _)| other != id);
    }
}

#[cfg(test)]
mod tests;
