//! Whether a core and whoever asks it work in turn: each waits while the other works. No I/O, no clock: it is told what
//! happened.
//!
//! A peer that has a few requests in flight easily gets all their answers at once, and sends the next requests at once
//! when it is through with them: each of the two cores is at work for half of the time. Answers that leave in two parts
//! end that: the peer begins with the first part while the second is made, and from then on two batches are under way.

use std::time::Duration;

use crate::clock::Instant;

/// So many waits are looked at together.
const WAITS: u32 = 16;
/// Who waits for more than one part in so many of the time works in turn. Two who do wait for a third of it, as the
/// kernel works for both; a core that has enough to do waits for next to nothing.
const PART: u32 = 4;

/// What one core has learnt of its waits. It has slept through none of them: who sleeps has time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lockstep {
    /// When the last wait ended.
    since: Option<Instant>,
    /// How many waits the two spans, of nanoseconds, are of.
    waits: u32,
    worked: u64,
    waited: u64,
    is_so: bool,
}

impl Lockstep {
    /// A wait that began at `begin` has ended without a sleep.
    pub(crate) fn waited(&mut self, begin: Instant, span: Duration) {
        let Some(since) = self.since.replace(begin + span) else { return };
        self.worked += begin.nanos_since(since);
        self.waited += span.as_nanos() as u64;
        self.waits += 1;
        if self.waits == WAITS {
            let is_so = self.waited * u64::from(PART - 1) > self.worked;
            *self = Lockstep { since: self.since, is_so, ..Lockstep::default() };
        }
    }

    /// All is to be learnt anew: the core has slept, has waited for something else, was due to do something, or did something
    /// against it.
    pub(crate) fn forget(&mut self) {
        // As most have nothing to forget.
        if self.since.is_some() {
            *self = Lockstep::default();
        }
    }

    /// Whether it works in turn with whoever asks it.
    pub(crate) fn is_so(&self) -> bool {
        self.is_so
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets so many waits happen, each of `waited` microseconds after work of `worked`.
    fn live(lockstep: &mut Lockstep, waits: u32, worked: u64, waited: u64) -> bool {
        let [worked, waited] = [worked, waited].map(Duration::from_micros);
        for _ in 0..waits {
            let begin = lockstep.since.unwrap_or_default() + worked;
            lockstep.waited(begin, waited);
        }
        lockstep.is_so()
    }

    #[test]
    fn who_waits_for_more_than_a_quarter_of_the_time_works_in_turn() {
        let mut lockstep = Lockstep::default();
        assert!(
            !live(&mut lockstep, WAITS, 10, 5),
            "of the first one it is not known how long it had worked before"
        );
        assert!(live(&mut lockstep, 1, 10, 5));
        assert!(live(&mut lockstep, WAITS - 1, 20, 1) && !live(&mut lockstep, 1, 20, 1));
        assert!(!live(&mut lockstep, WAITS, 30, 10) && live(&mut lockstep, WAITS, 30, 11));
        assert!(live(&mut lockstep, 1, 60_000_000, 0) && !live(&mut lockstep, WAITS - 1, 12, 6));
        assert!(live(&mut lockstep, WAITS, 12, 6), "what takes long is not remembered for long");
    }

    #[test]
    fn what_is_forgotten_takes_as_long_to_be_known_again() {
        let mut lockstep = Lockstep::default();
        assert!(live(&mut lockstep, WAITS + 1, 10, 10));
        lockstep.forget();
        assert!(!live(&mut lockstep, WAITS, 10, 10) && live(&mut lockstep, 1, 10, 10));
    }
}
