//! How long a core looks for completions before it sleeps. No I/O, no clock: it is told what happened.
//!
//! Sleeping and being woken by another core costs tens of microseconds on a virtual machine, looking costs nothing but
//! the core. So when the last gaps say that the next completion is likely to come soon, a core looks for as long as a sleep
//! would cost: what comes a little later than usual is not to cost a sleep as well. It stops looking when that did not
//! pay, and an idle core does not look at all.

use std::time::Duration;

/// After this many looks in vain in a row the core sleeps at once for a while.
const VAIN: u32 = 4;
/// For so many waits at most.
const PENANCE: u32 = 1024;
/// It looks for so long at most, whatever it is told.
const LONGEST: Duration = Duration::from_secs(3600);

/// What one core has learnt of its gaps.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    limit: Duration,
    /// The usual gap between the end of work and the next completion, in nanoseconds: it is reckoned anew for each.
    gap: u64,
    vain: u32,
    /// Waits to sleep through without a look.
    penance: u32,
}

impl Patience {
    /// Never looks longer than `limit` at a time; zero switches it off.
    pub(crate) fn new(limit: Duration) -> Patience {
        let limit = limit.min(LONGEST);
        Patience { limit, gap: nanos(limit * 4), vain: 0, penance: 0 }
    }

    /// From now on never looks longer than `limit` at a time; what was learnt is forgotten.
    pub(crate) fn set_limit(&mut self, limit: Duration) {
        *self = Patience::new(limit);
    }

    /// How long to look before the next sleep.
    pub(crate) fn look(&mut self) -> Duration {
        if self.penance > 0 {
            self.penance -= 1;
            return Duration::ZERO;
        }
        if self.gap > nanos(self.limit) { Duration::ZERO } else { self.limit }
    }

    /// A wait of `gap` has ended; `looked`: with a look before it, which `paid` when no sleep was needed.
    pub(crate) fn learn(&mut self, gap: Duration, looked: bool, paid: bool) {
        // Longer gaps than this say no more than that it is quiet.
        let gap = nanos(gap).min(nanos(self.limit) * 8);
        self.gap = (self.gap * 7 + gap) / 8;
        if paid {
            self.vain = 0;
        } else if looked {
            self.vain += 1;
            if self.vain >= VAIN {
                self.penance = (1 << (self.vain - VAIN).min(10)).min(PENANCE);
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    span.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    /// Lets `gaps` happen and counts the looks.
    fn live(patience: &mut Patience, gaps: impl Iterator<Item = Duration>) -> usize {
        gaps.filter(|&gap| {
            let look = patience.look();
            patience.learn(gap, !look.is_zero(), !look.is_zero() && gap <= look);
            !look.is_zero()
        })
        .count()
    }

    #[test]
    fn a_busy_core_looks_and_an_idle_one_does_not() {
        let mut patience = Patience::new(LIMIT);
        let second = Duration::from_secs(1);
        assert_eq!(live(&mut patience, std::iter::repeat_n(second, 100)), 0);
        let quick = Duration::from_micros(10);
        assert!(live(&mut patience, std::iter::repeat_n(quick, 200)) > 150);
        assert!(live(&mut patience, std::iter::repeat_n(second, 100)) <= 2);
    }

    #[test]
    fn looking_in_vain_is_given_up() {
        let mut patience = Patience::new(LIMIT);
        live(&mut patience, std::iter::repeat_n(Duration::from_micros(1), 100));
        let mut looks = 0;
        for _ in 0..10_000 {
            let look = patience.look();
            looks += usize::from(!look.is_zero());
            // Quick only for those who sleep, as when the peer needs this very core to run.
            patience.learn(Duration::from_micros(20), !look.is_zero(), false);
        }
        assert!(looks < 50, "{looks}");
    }

    #[test]
    fn a_limit_without_end_is_one_of_an_hour() {
        let mut patience = Patience::new(Duration::MAX);
        for gap in [Duration::MAX, Duration::ZERO].into_iter().cycle().take(99) {
            patience.learn(gap, true, true);
            assert!([Duration::ZERO, LONGEST].contains(&patience.look()));
        }
        live(&mut patience, std::iter::repeat_n(Duration::ZERO, 100));
        assert_eq!(patience.look(), LONGEST);
    }

    #[test]
    fn it_can_be_switched_off() {
        let mut patience = Patience::new(Duration::ZERO);
        assert_eq!(live(&mut patience, std::iter::repeat_n(Duration::ZERO, 1000)), 0);
    }
}
