//! Whether it pays to break step with a peer that works in turn with this core: that is tried. No I/O, no clock: it is told
//! what happened.
//!
//! Two batches under way keep both cores at work, and cost both twice the calls, between which they quarrel for the socket:
//! that lets a third more through on one machine, and a quarter less on another. So who works in turn now and then compares
//! how many bytes it moves while all is under way together and how many after it has broken step, in pairs of windows.

use std::time::Duration;

use crate::clock::Instant;
use crate::pairs::{IDLE, Pairs, Said};

/// Waits of a window.
const WINDOW: u32 = 32;
/// Waits before a window, so that what was done before does not count: with all together the core has to find out again
/// whom it may ask [alone](crate::alone).
const TOGETHER: u32 = 64;
const APART: u32 = 32;
/// Waits without an occasion to break step that end a trial.
const OCCASIONS: u32 = 64;
/// What was under way has come together after so many of the usual spans between two waits, and after so long at most.
const SPANS: u32 = 2;
pub(crate) const LONGEST_HOLD: Duration = Duration::from_micros(200);
/// What a trial says holds for so long at most, in nanoseconds.
const LONGEST_REST: u64 = 1_600_000_000;
/// The rest after a trial that came to nothing, and after one that something came between: that one goes on with the pairs
/// that it has.
const IN_VAIN: u64 = 100_000_000;
const PAUSE: u64 = 10_000_000;

/// What one core has learnt of what breaking step brings.
#[derive(Clone, Debug)]
pub(crate) struct Breaking {
    said: Said,
    stage: Stage,
    pairs: Pairs,
    /// The end of the last wait, or the begin of what came between.
    last: Instant,
    /// Of the last window with all under way together: bytes a nanosecond, and the span from one wait to the next.
    together: f64,
    span: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It is as it is until then.
    Rest {
        until: Instant,
    },
    /// What is under way is to come together.
    Joining,
    Together(Window),
    /// It is to break step at the next occasion. The waits without one.
    Ready {
        waits: u32,
    },
    Apart(Window),
}

/// Waits, of which the last are measured.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    waits: u32,
    begin: Instant,
    moved: u64,
}

impl Breaking {
    pub(crate) fn new() -> Breaking {
        Breaking {
            said: Said::nothing(),
            stage: Stage::Rest { until: Instant::ZERO },
            pairs: Pairs::default(),
            last: Instant::ZERO,
            together: 0.0,
            span: Duration::ZERO,
        }
    }

    /// One whose peer was through with a wait at `at`, and which is to hold off next, for the longest time.
    #[cfg(test)]
    pub(crate) fn joining(at: Instant) -> Breaking {
        Breaking { stage: Stage::Joining, last: at, span: LONGEST_HOLD, ..Breaking::new() }
    }

    /// A wait for a peer has ended at `at` without a sleep; the core has moved `moved` bytes in all.
    pub(crate) fn waited(&mut self, at: Instant, moved: u64) {
        let last = std::mem::replace(&mut self.last, at);
        if at.nanos_since(last) >= IDLE {
            return self.begin_anew(at);
        }
        match &mut self.stage {
            Stage::Rest { .. } | Stage::Joining => {}
            Stage::Together(window) => {
                if let Some((rate, span)) = window.waited(TOGETHER, at, moved) {
                    (self.together, self.span) = (rate, span / WINDOW);
                    self.stage = Stage::Ready { waits: 0 };
                }
            }
            Stage::Ready { waits } => {
                *waits += 1;
                if *waits == OCCASIONS {
                    self.pairs = Pairs::default();
                    self.rest_for(IN_VAIN, at);
                }
            }
            Stage::Apart(window) => {
                if let Some((apart, _)) = window.waited(APART, at, moved) {
                    self.end_pair(apart, at);
                }
            }
        }
    }

    /// There may be another load: it is tried at once.
    fn begin_anew(&mut self, at: Instant) {
        self.said.doubt();
        self.pairs = Pairs::default();
        self.stage = Stage::Rest { until: at };
    }

    fn end_pair(&mut self, apart: f64, at: Instant) {
        self.pairs.note(self.together, apart);
        let Some(pays) = self.pairs.verdict(0.0) else {
            self.stage = Stage::Joining;
            return;
        };
        self.pairs = Pairs::default();
        let rest = self.said.say(pays, LONGEST_REST);
        self.rest_for(rest, at);
    }

    fn rest_for(&mut self, span: u64, at: Instant) {
        self.stage = Stage::Rest { until: at + Duration::from_nanos(span) };
    }

    /// The core works in turn with one peer, and could answer one part of what came before the other: whether it is to.
    pub(crate) fn has_occasion(&mut self, at: Instant) -> bool {
        match self.stage {
            Stage::Rest { until } if at >= until => {
                // It is together: that is why there is an occasion.
                self.stage = Stage::Together(Window::default());
                false
            }
            Stage::Rest { .. } => self.said.pays,
            Stage::Ready { .. } => {
                self.stage = Stage::Apart(Window::default());
                true
            }
            Stage::Joining | Stage::Together(_) | Stage::Apart(_) => false,
        }
    }

    /// For how long to take in nothing now, so that what is under way comes together.
    pub(crate) fn hold(&mut self) -> Option<Duration> {
        if !matches!(self.stage, Stage::Joining) {
            return None;
        }
        self.stage = Stage::Together(Window::default());
        Some((self.span * SPANS).min(LONGEST_HOLD))
    }

    /// The core has slept, or has waited for something else than a peer.
    pub(crate) fn interrupt(&mut self, at: Instant) {
        self.last = at;
        if !matches!(self.stage, Stage::Rest { .. }) {
            self.rest_for(PAUSE, at);
        }
    }
}

impl Window {
    /// One more wait, the first `before` of which do not count. With the last one, bytes a nanosecond and the time it took.
    #[expect(clippy::cast_precision_loss, reason = "a window is short")]
    fn waited(&mut self, before: u32, at: Instant, moved: u64) -> Option<(f64, Duration)> {
        self.waits += 1;
        if self.waits == before {
            (self.begin, self.moved) = (at, moved);
        }
        let span = at.nanos_since(self.begin);
        (self.waits == before + WINDOW)
            .then(|| ((moved - self.moved) as f64 / span.max(1) as f64, Duration::from_nanos(span)))
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "some seconds, and as many gigabytes")]
mod tests {
    use super::*;

    /// From one wait to the next, in nanoseconds.
    const SPAN: u64 = 20_000;
    /// Waits after which two batches are one again by themselves.
    const STAY_APART: u32 = 200;

    /// A core that works in turn with one peer.
    struct Core {
        breaking: Breaking,
        at: u64,
        moved: f64,
        /// Waits for which two batches are still under way.
        apart: u32,
        /// Waits that ended with two batches under way, and times that the core held off.
        waits_apart: u64,
        holds: u64,
        random: fastrand::Rng,
    }

    impl Core {
        fn new() -> Core {
            Core {
                breaking: Breaking::new(),
                at: 1 << 40,
                moved: 0.0,
                apart: 0,
                waits_apart: 0,
                holds: 0,
                random: fastrand::Rng::with_seed(1),
            }
        }

        /// So many waits, up to twice what comes through in each; with two batches under way `gain` more of it.
        fn live(&mut self, waits: u32, gain: f64) {
            for _ in 0..waits {
                if let Some(span) = self.breaking.hold() {
                    (self.at, self.apart) = (self.at + span.as_nanos() as u64, 0);
                    self.holds += 1;
                }
                self.at += SPAN;
                let part = if self.apart > 0 { 1.0 + gain } else { 1.0 };
                self.moved += SPAN as f64 * part * self.random.f64() * 2.0;
                self.waits_apart += u64::from(self.apart > 0);
                self.apart = self.apart.saturating_sub(1);
                let at = Instant::from_nanos(self.at);
                self.breaking.waited(at, self.moved as u64);
                if self.apart == 0 && self.breaking.has_occasion(at) {
                    self.apart = STAY_APART;
                }
            }
        }

        fn part_apart(&mut self, waits: u32, gain: f64) -> f64 {
            let before = self.waits_apart;
            self.live(waits, gain);
            (self.waits_apart - before) as f64 / f64::from(waits)
        }
    }

    #[test]
    fn step_is_broken_where_that_lets_more_through_and_nowhere_else() {
        for (gain, least, most) in [(0.35, 0.95, 1.0), (0.1, 0.9, 1.0), (-0.05, 0.0, 0.1), (-0.25, 0.0, 0.02)]
        {
            let parts = (0..20).map(|seed| {
                let mut core = Core { random: fastrand::Rng::with_seed(seed), ..Core::new() };
                core.live(30_000, gain);
                core.part_apart(200_000, gain)
            });
            let part = parts.sum::<f64>() / 20.0;
            assert!((least..=most).contains(&part), "{gain}: {part}");
        }
    }

    #[test]
    fn another_load_is_tried_again() {
        let mut core = Core::new();
        core.live(500_000, 0.3);
        core.live(200_000, -0.3);
        assert!(core.part_apart(200_000, -0.3) < 0.05);
        core.live(200_000, 0.3);
        assert!(core.part_apart(200_000, 0.3) > 0.9);
    }

    #[test]
    fn what_is_under_way_comes_together_before_each_pair_but_the_first() {
        let mut core = Core::new();
        core.live(3, -0.5);
        assert!(
            matches!(core.breaking.stage, Stage::Together(Window { waits: 2, .. })),
            "nobody rests before"
        );
        assert_eq!(core.holds, 0, "who has an occasion is together");
        while !matches!(core.breaking.stage, Stage::Joining) {
            core.live(1, -0.5);
        }
        assert_eq!(core.breaking.clone().hold(), Some(Duration::from_nanos(SPAN) * SPANS));
        core.breaking.span = LONGEST_HOLD;
        assert_eq!(core.breaking.hold(), Some(LONGEST_HOLD));
        assert_eq!(core.breaking.hold(), None, "once");
    }

    #[test]
    fn what_comes_between_ends_a_pair_and_not_the_trial() {
        let mut core = Core::new();
        let mut interruptions = 0;
        // Until it rests for longer than such a pause.
        let rests = |core: &Core| {
            let now = Instant::from_nanos(core.at);
            matches!(core.breaking.stage, Stage::Rest { until } if until > now)
        };
        while interruptions < 1000 && !rests(&core) {
            core.live(TOGETHER + APART + 2 * WINDOW + 2, -0.5);
            let pairs = core.breaking.pairs.clone();
            core.breaking.interrupt(Instant::from_nanos(core.at));
            assert!(matches!(core.breaking.stage, Stage::Rest { .. }));
            assert!(!core.breaking.has_occasion(Instant::from_nanos(core.at + PAUSE - 1)), "not at once");
            assert_eq!(format!("{pairs:?}"), format!("{:?}", core.breaking.pairs));
            core.at += PAUSE;
            interruptions += 1;
        }
        assert!(interruptions > 1 && rests(&core), "{interruptions}");
        // Who rests is not interrupted.
        let Stage::Rest { until } = core.breaking.stage else { panic!("it rests") };
        core.breaking.interrupt(Instant::from_nanos(core.at));
        assert!(matches!(core.breaking.stage, Stage::Rest { until: same } if same == until));
    }

    #[test]
    fn what_comes_after_long_is_tried_at_once() {
        let mut core = Core::new();
        core.live(200_000, 0.3);
        for (idle, is_tried) in [(IDLE - SPAN - 1, false), (IDLE, true)] {
            let Stage::Rest { until } = &mut core.breaking.stage else { panic!("it rests") };
            *until = Instant::from_nanos(u64::MAX);
            core.breaking.interrupt(Instant::from_nanos(core.at));
            (core.at, core.apart) = (core.at + idle, STAY_APART);
            core.live(1, 0.3);
            assert!(core.breaking.said.pays, "until it is known");
            core.apart = 0;
            core.live(1, 0.3);
            assert_eq!(matches!(core.breaking.stage, Stage::Together(_)), is_tried);
        }
    }

    #[test]
    fn a_trial_without_an_occasion_comes_to_nothing() {
        let mut core = Core::new();
        core.live(1, 0.0);
        for wait in 0..TOGETHER + WINDOW + OCCASIONS {
            assert!(!matches!(core.breaking.stage, Stage::Rest { .. }), "{wait}");
            core.at += SPAN;
            core.breaking.waited(Instant::from_nanos(core.at), 0);
        }
        let Stage::Rest { until } = core.breaking.stage else { panic!("it rests") };
        assert_eq!(until, Instant::from_nanos(core.at + IN_VAIN));
        assert!(!core.breaking.has_occasion(Instant::from_nanos(core.at + IN_VAIN - 1)));
        assert!(matches!(core.breaking.stage, Stage::Rest { .. }), "nothing is known yet, and it rests");
    }
}
