//! Which connection is alone: the core asks its socket itself while it looks for something to do.
//!
//! A receive that stands in the kernel is woken when bytes come, leaves a note, and brings them when the kernel is
//! entered. For one request at a time this is a good part of the way: who looks anyway is quicker by asking. No I/O, no
//! clock: it is told what happened.

use std::os::fd::RawFd;

use crate::op::OpKey;

/// So often in a row a receive has to bring what the core was waiting for, and nothing else, to be taken back.
const LONE: u32 = 32;
/// So many more receives that brought several messages than such that brought one, and it is let go: where messages come
/// together, the kernel gathers more of them.
const SEVERAL: u32 = 16;
/// Turns without a question after which the receive goes to the kernel: the core has other things to do.
const BUSY: u32 = 8;

/// Turns in which the receive that was taken back may come again to be held. Whoever made it may have ended.
const AGAIN: u32 = 8;

/// A standing receive that the kernel does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) key: OpKey,
    pub(crate) descriptor: RawFd,
}

/// What a turn brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Brought {
    /// The last standing receive that brought bytes.
    pub(crate) by: Option<OpKey>,
    /// Another one did, too.
    pub(crate) by_others: bool,
    /// How many times standing receives did.
    pub(crate) times: u32,
    /// Whatever else completed.
    pub(crate) others: u32,
}

/// What one core has learnt of who asks it.
#[derive(Default)]
pub(crate) struct Alone {
    held: Option<Held>,
    /// Turns in which the next standing receive is to be held: the one that was taken back comes again.
    expected: u32,
    /// Who brought something alone last, and how often in a row.
    last: Option<OpKey>,
    lone: u32,
    several: u32,
    unasked: u32,
}

impl Alone {
    /// A standing receive is to be submitted: whether it is held instead.
    pub(crate) fn holds(&mut self, held: Held) -> bool {
        let is_held = std::mem::take(&mut self.expected) > 0 && self.held.is_none();
        if is_held {
            (self.held, self.several, self.unasked) = (Some(held), 0, 0);
        }
        is_held
    }

    pub(crate) fn held(&self) -> Option<Held> {
        self.held
    }

    /// Nothing is held any more: it has ended, or goes to the kernel.
    pub(crate) fn let_go(&mut self) -> Option<Held> {
        self.held.take()
    }

    /// A turn has ended; `waited`: the core looked for some time, and found this. Gives the receive that is to be taken
    /// back from the kernel.
    pub(crate) fn learn(&mut self, waited: bool, brought: Brought) -> Option<OpKey> {
        self.expected = self.expected.saturating_sub(1);
        if brought.times == 0 {
            return None;
        }
        let is_lone = waited && brought.times == 1 && brought.others == 0;
        self.lone = if is_lone && self.last == brought.by { self.lone + 1 } else { u32::from(is_lone) };
        self.last = brought.by;
        if self.lone < LONE || self.held.is_some() {
            return None;
        }
        (self.lone, self.expected) = (0, AGAIN);
        self.last
    }

    /// The socket was asked and had bytes.
    pub(crate) fn answered(&mut self) {
        self.unasked = 0;
        self.several = self.several.saturating_sub(1);
    }

    /// What some connection has brought were several messages.
    pub(crate) fn several(&mut self) {
        self.lone = 0;
        self.several = self.several.saturating_add(2);
    }

    /// The socket was asked and had nothing.
    pub(crate) fn waits(&mut self) {
        self.unasked = 0;
    }

    /// A turn begins without a wait. Whether to let go.
    pub(crate) fn passes(&mut self) -> bool {
        self.unasked += u32::from(self.held.is_some());
        self.is_of_several() || self.held.is_some() && self.unasked > BUSY
    }

    /// Whether to let go as most of what comes are several messages.
    pub(crate) fn is_of_several(&self) -> bool {
        self.held.is_some() && self.several > SEVERAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(key: u64) -> Brought {
        Brought { by: Some(OpKey::from_bits(key)), times: 1, ..Brought::default() }
    }

    fn held(key: u64) -> Held {
        Held { key: OpKey::from_bits(key), descriptor: 7 }
    }

    /// One that holds `key`.
    fn holding(key: u64) -> Alone {
        let mut alone = Alone::default();
        assert!((1..LONE).all(|_| alone.learn(true, by(key)).is_none()));
        assert_eq!(alone.learn(true, by(key)), by(key).by);
        assert!(alone.holds(held(key)));
        alone
    }

    #[test]
    fn who_is_waited_for_alone_is_held_and_nobody_else() {
        let mut alone = holding(1);
        assert_eq!(alone.held(), Some(held(1)));
        assert!(!alone.holds(held(2)), "one at a time");
        // Another one that is as lone is not taken back as long.
        assert!((0..LONE * 4).all(|_| alone.learn(true, by(2)).is_none()));
        assert_eq!(alone.let_go(), Some(held(1)));
        assert!(!alone.holds(held(1)), "only when it was taken back");
    }

    #[test]
    fn who_was_taken_back_and_does_not_come_again_is_not_waited_for() {
        let mut alone = Alone::default();
        for (turns, is_held) in [(AGAIN, false), (AGAIN - 1, true)] {
            assert!((1..LONE).all(|_| alone.learn(true, by(1)).is_none()));
            assert_eq!(alone.learn(true, by(1)), by(1).by);
            assert!((0..turns).all(|_| alone.learn(false, Brought::default()).is_none()));
            assert_eq!(alone.holds(held(2)), is_held);
        }
    }

    #[test]
    fn who_is_not_alone_stays_with_the_kernel() {
        let together = Brought { others: 1, ..by(1) };
        let twice = Brought { times: 2, ..by(1) };
        for other in [(true, by(2)), (false, by(1)), (true, together), (true, twice)] {
            let mut alone = Alone::default();
            for _ in 0..LONE * 4 {
                assert!((1..LONE).all(|_| alone.learn(true, by(1)).is_none()));
                assert_eq!(alone.learn(other.0, other.1), None);
            }
        }
        // What was sent has been sent: that says nothing of who asks.
        let mut alone = Alone::default();
        let sent = Brought { others: 1, ..Brought::default() };
        assert!((1..LONE).all(|_| alone.learn(true, by(1)).or(alone.learn(false, sent)).is_none()));
        assert!(alone.learn(true, by(1)).is_some());
    }

    #[test]
    fn what_comes_together_is_let_go() {
        let mut alone = holding(1);
        let mut take = |several: bool| {
            alone.answered();
            if several {
                alone.several();
            }
            assert!(alone.is_of_several() || !alone.passes(), "nothing else lets it go");
            alone.is_of_several()
        };
        assert!((0..SEVERAL * 4).all(|number| !take(number % 2 == 0)), "every other one");
        assert!((0..SEVERAL).any(|_| take(true)));
        assert!(alone.passes());
        // Nor is it taken back.
        alone.let_go();
        for _ in 0..LONE * 4 {
            assert_eq!(alone.learn(true, by(1)), None);
            alone.several();
        }
    }

    #[test]
    fn a_busy_core_lets_go() {
        let mut alone = holding(1);
        for _ in 0..4 {
            assert!((0..BUSY).all(|_| !alone.passes()));
            alone.waits();
        }
        assert!((0..BUSY).all(|_| !alone.passes()));
        assert!(alone.passes());
        let mut nobody = Alone::default();
        assert!((0..BUSY * 4).all(|_| !nobody.passes()));
    }
}
