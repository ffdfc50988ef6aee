//! Arrivals of an open loop. Latency counts from when an operation was due, so that a target that stalls is not
//! asked less and does not look better than it is (coordinated omission).

use std::time::Duration;

use ring::Instant;

use super::job::{Arrivals, Rate};

/// Operations that may be due and not begun, as a span of the rate. Beyond it they are dropped and counted.
pub const MAX_BACKLOG: Duration = Duration::from_secs(10);

/// When the operations of one job are due.
pub struct Schedule {
    due: Instant,
    gap_ns: f64,
    /// Part of a nanosecond that is left over.
    fraction: f64,
    arrivals: Arrivals,
    random: fastrand::Rng,
    dropped: u64,
}

impl Schedule {
    /// The share of one of `jobs` jobs, whose first arrivals lie apart.
    pub fn new(rate: Rate, start: Instant, jobs: u32, index: u32, seed: u64) -> Schedule {
        let gap_ns = 1e9 * f64::from(jobs) / rate.per_second;
        let first = gap_ns * f64::from(index) / f64::from(jobs);
        Schedule {
            due: start + span(first),
            gap_ns,
            fraction: 0.0,
            arrivals: rate.arrivals,
            random: fastrand::Rng::with_seed(seed.rotate_left(17) ^ u64::from(index)),
            dropped: 0,
        }
    }

    /// When the next operation is due. What was due longer ago than [`MAX_BACKLOG`] is dropped.
    pub fn next(&mut self, now: Instant) -> Instant {
        while now.since(self.due) > MAX_BACKLOG {
            self.dropped += 1;
            self.step();
        }
        let due = self.due;
        self.step();
        due
    }

    fn step(&mut self) {
        let gap = match self.arrivals {
            Arrivals::Constant => self.gap_ns,
            Arrivals::Poisson => -self.gap_ns * (1.0 - self.random.f64()).ln(),
        };
        let exact = gap + self.fraction;
        let whole = exact.floor();
        self.fraction = exact - whole;
        self.due = self.due + span(whole);
    }

    /// Operations due at `now` and not begun.
    pub fn backlog(&self, now: Instant) -> u64 {
        let gap = span(self.gap_ns).max(Duration::from_nanos(1));
        (now.since(self.due).as_nanos() / gap.as_nanos()) as u64
    }

    /// Operations that were due and never begun.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Nanoseconds that are not below 0.
#[expect(clippy::cast_sign_loss, reason = "gaps are above 0; a cast saturates")]
fn span(nanoseconds: f64) -> Duration {
    Duration::from_nanos(nanoseconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(arrivals: Arrivals, per_second: f64) -> Schedule {
        Schedule::new(Rate { per_second, arrivals }, Instant::ZERO, 2, 1, 7)
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let mut schedule = schedule(Arrivals::Constant, 3.0);
        let due: Vec<_> = (0..4).map(|_| schedule.next(Instant::ZERO).as_nanos()).collect();
        assert_eq!(due[0], 333_333_333);
        assert!(due[3].abs_diff(2_333_333_333) <= 2, "{due:?}");
    }

    #[test]
    fn poisson_arrivals_keep_the_rate() {
        let mut schedule = schedule(Arrivals::Poisson, 2000.0);
        let last = (0..100_000).map(|_| schedule.next(Instant::ZERO)).last().unwrap();
        let seconds = last.as_nanos() as f64 / 1e9;
        assert!((98.0..102.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_backlog_is_bounded_and_counted() {
        let mut schedule = schedule(Arrivals::Constant, 2000.0);
        let late = Instant::from_nanos(15_000_000_000);
        let due = schedule.next(late);
        assert!(late.since(due) <= MAX_BACKLOG);
        assert!((4_990..=5_001).contains(&schedule.dropped()), "{}", schedule.dropped());
        assert!((9_990..=10_000).contains(&schedule.backlog(late)));
    }
}
