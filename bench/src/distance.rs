//! How far the cores of the servers and of their clients are apart: how long a cache line takes from one to the other and back.
//!
//! A hypervisor may move a virtual core to a real one behind another last-level cache, for seconds or for minutes. All
//! that goes from core to core takes several times as long then, for every server, and a row with rounds of both kinds says
//! nothing of either. So each window is measured while the cores are near, and again if they are not when it ends.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::gaps::{first_of, pinned};
use crate::process::Interrupt;
use crate::stats::Spread;

/// Cores are near when they are not further apart than so many times the nearest that was seen.
const NEAR: f64 = 2.0;
/// A look is the shortest of so many spans, of which each may be interrupted.
const SPANS: u32 = 40;
/// Round trips of a span.
const TRIPS: u32 = 50;
/// Between two looks while the cores are apart.
const PAUSE: Duration = Duration::from_millis(200);
/// Windows are measured so many times at most.
const TRIES: u32 = 3;
/// Looks at the line for one answer, about a tenth of a second: the other core does not run for so long.
const LOOKS: u32 = 100_000_000;
/// No more questions.
const END: u32 = u32::MAX;
/// How long is waited for cores that are apart: most come together again after seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at how far two cores are apart, and remembers what it saw.
#[derive(Debug)]
pub struct Distance {
    /// None where both are the same one.
    cores: Option<[usize; 2]>,
    /// How long is waited for the cores to come together. Then they are taken as they are.
    patience: Duration,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Nanoseconds of a round trip; none before the first look.
    nearest: Option<f64>,
    /// At the end of each window that counts; without end where the cores did not both run then.
    windows: Vec<f64>,
    repeated: u32,
    waited: Duration,
}

/// What a run saw of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Apart {
    /// Nanoseconds that a cache line took from core to core and back at the end of the windows that count.
    pub round_trip_ns: Spread,
    /// Windows that count though the cores were apart when they ended, against the nearest of all; a kept run did not ask.
    #[serde(default)]
    pub far: usize,
    /// Windows that were measured again, as the cores were apart when they ended.
    pub repeated: u32,
    /// Seconds that were waited for the cores to come together.
    pub waited_s: f64,
}

impl Distance {
    /// Between the first cores of two lists, as taskset takes them.
    pub fn new(servers: &str, clients: &str, patience: Duration) -> Self {
        let cores = [first_of(servers), first_of(clients)];
        let cores = (cores[0] != cores[1]).then_some(cores);
        Self { cores, patience, seen: Mutex::default() }
    }

    /// What `measure` gives while the cores are near.
    pub fn near<T>(
        &self,
        interrupt: &Interrupt,
        mut measure: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.cores {
            Some(cores) => self.near_by(interrupt, || round_trip(cores), measure),
            None => measure(),
        }
    }

    fn near_by<T>(
        &self,
        interrupt: &Interrupt,
        mut look: impl FnMut() -> Result<f64, Error>,
        mut measure: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut tries = 0;
        loop {
            self.come_together(interrupt, &mut look)?;
            let measured = measure()?;
            tries += 1;
            let round_trip = look()?;
            let mut seen = self.seen();
            if seen.is_near(round_trip) || tries == TRIES {
                seen.windows.push(round_trip);
                return Ok(measured);
            }
            seen.repeated += 1;
            eprintln!("measuring again: the cores went apart, {round_trip:.0} ns");
        }
    }

    /// Waits until the cores are near, or for as long as its patience lasts: the machine is another one then.
    fn come_together(
        &self,
        interrupt: &Interrupt,
        look: &mut impl FnMut() -> Result<f64, Error>,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let round_trip = look()?;
            let mut seen = self.seen();
            if seen.is_near(round_trip) {
                return Ok(());
            }
            if begun.elapsed() >= self.patience {
                eprintln!("the cores stay apart, {round_trip:.0} ns: taking them as they are");
                seen.nearest = Some(round_trip);
                return Ok(());
            }
            seen.waited += PAUSE;
            drop(seen);
            interrupt.check()?;
            thread::sleep(PAUSE);
        }
    }

    /// What was seen; none before the first window.
    pub fn apart(&self) -> Option<Apart> {
        let seen = self.seen();
        let windows = || seen.windows.iter().copied();
        let round_trip_ns = Spread::of(windows().filter(|round_trip| round_trip.is_finite()))?;
        let far = windows().filter(|round_trip| *round_trip > round_trip_ns.min * NEAR).count();
        Some(Apart { round_trip_ns, far, repeated: seen.repeated, waited_s: seen.waited.as_secs_f64() })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Whether this is near, as far as was seen; it is remembered.
    fn is_near(&mut self, round_trip: f64) -> bool {
        let nearest = self.nearest.map_or(round_trip, |nearest| nearest.min(round_trip));
        self.nearest = Some(nearest);
        round_trip <= nearest * NEAR
    }
}

impl Apart {
    /// For people.
    pub fn sentence(&self) -> String {
        let Spread { median, min, max } = self.round_trip_ns;
        let took = format!(
            "A cache line took {median:.0} ns ({min:.0}..{max:.0}) from the server's core to the client's and back"
        );
        if self.far == 0 && self.repeated == 0 && self.waited_s == 0.0 {
            return took + ".";
        }
        format!(
            "{took}. Measured again, as that was more than {NEAR:.0} times the least at the end: {} windows; counted all the same: \
             {}; waited until it was less: {:.0} s.",
            self.repeated, self.far, self.waited_s
        )
    }
}

/// Nanoseconds that a cache line takes from one core to the other and back; without end where they do not both run.
fn round_trip([one, other]: [usize; 2]) -> Result<f64, Error> {
    let line = Line::default();
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let asked = pinned(one).map(|()| line.ask());
            line.0.store(END, Ordering::Release);
            asked
        });
        let answering = scope.spawn(|| pinned(other).map(|()| line.answer()));
        let asked = asking.join().expect("asking does not panic");
        answering.join().expect("answering does not panic")?;
        asked
    })
}

/// Odd is a question, and the next number its answer.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    fn answer(&self) {
        loop {
            match self.0.load(Ordering::Acquire) {
                END => return,
                question if question % 2 == 1 => {
                    // It may be the end by now, which has to stay.
                    let order = Ordering::AcqRel;
                    let _is_end = self.0.compare_exchange(question, question + 1, order, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }

    fn ask(&self) -> f64 {
        let mut shortest = f64::INFINITY;
        for span in 0..SPANS {
            let begun = Instant::now();
            let questions = (0..TRIPS).map(|trip| 2 * (span * TRIPS + trip) + 1);
            if !questions.into_iter().all(|question| self.is_answered(question)) {
                break;
            }
            shortest = shortest.min(begun.elapsed().as_secs_f64() * 1e9 / f64::from(TRIPS));
        }
        shortest
    }

    fn is_answered(&self, question: u32) -> bool {
        self.0.store(question, Ordering::Release);
        (0..LOOKS).any(|_| self.0.load(Ordering::Acquire) == question + 1)
    }
}

#[cfg(test)]
#[path = "distance_tests.rs"]
mod tests;
