//! How long a core looks for completions before it sleeps. No I/O, no clock: it is told what happened.
//!
//! Sleeping and being woken by another core costs tens of microseconds on a virtual machine, looking costs nothing but
//! the core. So when the last gaps say that the next completion is likely to come soon, a core looks for as long as a sleep
//! would cost: what comes a little later than usual is not to cost a sleep as well. It stops looking when that did not
//! pay, and an idle core does not look at all. Where nothing is said, it finds out whether to look for [`LONGER`] pays.

use std::time::Duration;

use crate::clock::Instant;
use crate::payoff::{Ended, Payoff};

/// After this many looks in vain in a row the core sleeps at once for a while.
const VAIN: u32 = 4;
/// For so many waits at most.
const PENANCE: u32 = 1024;
/// It looks for so long at most, whatever it is told.
const LONGEST: Duration = Duration::from_secs(3600);
/// About what a sleep and a wake-up across cores cost on a virtual machine.
const USUAL: Duration = Duration::from_micros(60);
/// Longer than a disk takes between two bursts of completions.
const LONGER: Duration = Duration::from_micros(500);

/// How long a core looks for completions at most before it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// 60 us, or 500 us while it is seen that more comes through with these.
    #[default]
    Auto,
    /// So long. Zero: it always sleeps at once.
    Most(Duration),
}

/// What one core has learnt of its gaps.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    limit: Duration,
    /// What longer looks bring, where that is to be found out.
    payoff: Option<Payoff>,
    /// The usual gap between the end of work and the next completion, in nanoseconds: it is reckoned anew for each.
    gap: u64,
    vain: u32,
    /// Waits to sleep through without a look.
    penance: u32,
}

impl Patience {
    pub(crate) fn new(busy_poll: BusyPoll) -> Patience {
        let (limit, payoff) = match busy_poll {
            BusyPoll::Auto => (USUAL, Some(Payoff::new())),
            BusyPoll::Most(span) => (span.min(LONGEST), None),
        };
        Patience { limit, payoff, gap: nanos(limit * 4), vain: 0, penance: 0 }
    }

    /// How long it looks at most now.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
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

    /// A wait of `gap` has ended at `at`; the core has moved `moved` bytes in all. Finds out whether longer looks pay.
    pub(crate) fn weigh(&mut self, at: Instant, gap: Duration, moved: u64) {
        if let Some(payoff) = &mut self.payoff {
            let is_late = (USUAL..LONGER).contains(&gap);
            let is_longer = payoff.learn(&Ended { at, gap: nanos(gap), is_late, moved });
            self.limit = if is_longer { LONGER } else { USUAL };
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
        let mut patience = Patience::new(BusyPoll::Most(LIMIT));
        let second = Duration::from_secs(1);
        assert_eq!(live(&mut patience, std::iter::repeat_n(second, 100)), 0);
        let quick = Duration::from_micros(10);
        assert!(live(&mut patience, std::iter::repeat_n(quick, 200)) > 150);
        assert!(live(&mut patience, std::iter::repeat_n(second, 100)) <= 2);
    }

    #[test]
    fn looking_in_vain_is_given_up() {
        let mut patience = Patience::new(BusyPoll::Most(LIMIT));
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
        let mut patience = Patience::new(BusyPoll::Most(Duration::MAX));
        for gap in [Duration::MAX, Duration::ZERO].into_iter().cycle().take(99) {
            patience.learn(gap, true, true);
            assert!([Duration::ZERO, LONGEST].contains(&patience.look()));
        }
        live(&mut patience, std::iter::repeat_n(Duration::ZERO, 100));
        assert_eq!(patience.look(), LONGEST);
    }

    #[test]
    fn longer_looks_are_taken_up_where_they_pay_and_nothing_else_is_said() {
        let longest = |busy_poll, gain: u64| {
            let mut patience = Patience::new(busy_poll);
            let (mut moved, mut longest) = (0, Duration::ZERO);
            for wait in 0..30_000u64 {
                let look = patience.look();
                // What comes after 100 us needs a sleep where it is not looked for so long.
                let (gap, paid) = (Duration::from_micros(100), look >= Duration::from_micros(100));
                moved += if paid { 100 + gain } else { 100 };
                patience.learn(gap, !look.is_zero(), paid);
                patience.weigh(Instant::from_nanos(wait * 100_000), gap, moved);
                // Not the first trials.
                longest = if wait > 16_000 { longest.max(look) } else { longest };
            }
            longest
        };
        assert_eq!(longest(BusyPoll::Auto, 30), LONGER);
        assert_eq!(longest(BusyPoll::Most(USUAL), 30), Duration::ZERO);
        // Nor is it looked for what the usual look would not find.
        assert_eq!(longest(BusyPoll::Auto, 0), Duration::ZERO);
    }

    #[test]
    fn it_can_be_switched_off() {
        let mut patience = Patience::new(BusyPoll::Most(Duration::ZERO));
        assert_eq!(live(&mut patience, std::iter::repeat_n(Duration::ZERO, 1000)), 0);
    }
}
