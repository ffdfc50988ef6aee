//! Time as a ring sees it: monotonic nanoseconds, real or simulated.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds since an origin that all rings of one process (or one simulated world) share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);

    /// `nanoseconds` after the origin.
    pub const fn from_nanos(nanoseconds: u64) -> Instant {
        Instant(nanoseconds)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same in nanoseconds, where it is asked for each time that a core has waited.
    pub(crate) fn nanos_since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The machine's monotonic clock.
    pub(crate) fn monotonic() -> Instant {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writing; CLOCK_MONOTONIC cannot fail.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}
