//! Whether it pays to look for longer than usual before each sleep: that is tried. No I/O, no clock: it is told what happened.
//!
//! A disk ends requests in bursts, and a core that sleeps between them is late for each. What that costs depends on whether
//! anybody waits for the answers, on what a wake-up takes here, and on who else would use the core: a longer look lets a
//! third more through on one machine, and less on another. So while waits end within the longest look but not within the
//! usual one, the core now and then looks for either in turn, in windows whose order in a pair is left to chance, and
//! compares how many bytes it has moved in them.

use crate::clock::Instant;
use crate::pairs::{IDLE, Pairs, Said};

const MILLISECOND: u64 = 1_000_000;
/// Of each window of a trial, in nanoseconds: some tens of bursts of a disk.
const WINDOW: u64 = 5 * MILLISECOND;
/// So much more has to come through, as a part, to be worth a core.
const WORTH: f64 = 0.05;
/// A trial is worth its while when such waits take more than one part of the time in so many.
const FEW: u64 = 4;
/// So long a load has to last before it is tried: a thousand idle sessions that say at once that they are there are none.
const LASTING: u64 = 1000 * MILLISECOND;
/// What a trial says holds for so long at most.
const LONGEST_REST: u64 = 6_400 * MILLISECOND;

/// What one core has learnt of what longer looks bring.
#[derive(Clone, Debug)]
pub(crate) struct Payoff {
    is_longer: bool,
    said: Said,
    stage: Stage,
    random: u64,
}

#[derive(Clone, Debug)]
enum Stage {
    /// It is as it is for a while.
    Rest {
        share: Share,
        span: u64,
    },
    Trial(Trial),
}

/// The time since then, and how much of it went by in waits that only a longer look can spare, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Share {
    since: Instant,
    late: u64,
}

/// Pairs of windows, one with the usual look and one with a longer one.
#[derive(Clone, Debug)]
struct Trial {
    share: Share,
    begin: Instant,
    moved: u64,
    /// What the first window of this pair has moved, in bytes a nanosecond.
    first: Option<f64>,
    pairs: Pairs,
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) at: Instant,
    /// How long it took, in nanoseconds.
    pub(crate) gap: u64,
    /// That only a longer look than the usual one could have, or has, spared the sleep.
    pub(crate) is_late: bool,
    /// Bytes that the core has moved in all.
    pub(crate) moved: u64,
}

impl Payoff {
    pub(crate) fn new() -> Payoff {
        let stage = Stage::Rest { share: Share::new(Instant::ZERO), span: LASTING };
        Payoff { is_longer: false, said: Said::nothing(), stage, random: 0 }
    }

    /// Whether to look for longer from now on.
    pub(crate) fn learn(&mut self, ended: &Ended) -> bool {
        if ended.gap >= IDLE {
            self.begin_anew(ended.at);
            return false;
        }
        match &mut self.stage {
            Stage::Rest { share, span } => {
                share.note(ended);
                if ended.at.nanos_since(share.since) >= *span {
                    let is_worth_a_trial = share.is_enough(ended.at);
                    self.end_rest(is_worth_a_trial, ended);
                }
            }
            Stage::Trial(trial) => {
                trial.share.note(ended);
                let span = ended.at.nanos_since(trial.begin);
                if span >= WINDOW {
                    self.end_window(ended);
                }
            }
        }
        self.is_longer
    }

    fn begin_anew(&mut self, at: Instant) {
        (self.is_longer, self.said) = (false, Said::nothing());
        self.stage = Stage::Rest { share: Share::new(at), span: LASTING };
    }

    fn end_rest(&mut self, is_worth_a_trial: bool, ended: &Ended) {
        if !is_worth_a_trial {
            return self.begin_anew(ended.at);
        }
        // Two cores that ask each other are not to try in step.
        self.random = ended.at.as_nanos() | 1;
        self.is_longer = self.chance();
        self.stage = Stage::Trial(Trial {
            share: Share::new(ended.at),
            begin: ended.at,
            moved: ended.moved,
            first: None,
            pairs: Pairs::default(),
        });
    }

    fn end_window(&mut self, ended: &Ended) {
        let Stage::Trial(trial) = &mut self.stage else { return };
        let span = ended.at.nanos_since(trial.begin);
        #[expect(clippy::cast_precision_loss, reason = "a window is short")]
        let rate = (ended.moved - trial.moved) as f64 / span as f64;
        (trial.begin, trial.moved) = (ended.at, ended.moved);
        let Some(first) = trial.first.take() else {
            trial.first = Some(rate);
            self.is_longer = !self.is_longer;
            return;
        };
        let (usual, longer) = if self.is_longer { (first, rate) } else { (rate, first) };
        trial.pairs.note(usual, longer);
        if !trial.share.is_enough(ended.at) {
            // The load that was tried is gone.
            return self.begin_anew(ended.at);
        }
        match trial.pairs.verdict(WORTH) {
            Some(pays) => {
                let span = self.said.say(pays, LONGEST_REST);
                self.is_longer = pays;
                self.stage = Stage::Rest { share: Share::new(ended.at), span };
            }
            None => self.is_longer = self.chance(),
        }
    }

    /// A coin (xorshift).
    fn chance(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random & (1 << 40) == 0
    }
}

impl Share {
    fn new(since: Instant) -> Share {
        Share { since, late: 0 }
    }

    fn note(&mut self, ended: &Ended) {
        self.late += if ended.is_late { ended.gap } else { 0 };
    }

    /// Whether a trial is worth its while.
    fn is_enough(&self, at: Instant) -> bool {
        self.late > at.nanos_since(self.since) / FEW
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "some seconds, and as many gigabytes")]
mod tests {
    use super::*;

    /// One core and what it moves, up to twice the rate in each wait.
    struct Core {
        payoff: Payoff,
        at: u64,
        moved: f64,
        random: fastrand::Rng,
    }

    impl Core {
        fn new() -> Core {
            Core { payoff: Payoff::new(), at: 1 << 40, moved: 0.0, random: fastrand::Rng::with_seed(1) }
        }

        /// So many milliseconds of waits of `gap`; `rate` is of bytes a nanosecond, by whether it looks for longer. Gives for
        /// how many milliseconds it did.
        fn live(&mut self, milliseconds: u64, gap: u64, rate: impl Fn(bool) -> f64) -> u64 {
            let (begin, mut longer) = (self.at, 0);
            while self.at < begin + milliseconds * MILLISECOND {
                let is_longer = self.payoff.is_longer;
                self.at += gap;
                self.moved += gap as f64 * rate(is_longer) * self.random.f64() * 2.0;
                longer += if is_longer { gap } else { 0 };
                let is_late = (60_000..500_000).contains(&gap);
                let at = Instant::from_nanos(self.at);
                self.payoff.learn(&Ended { at, gap, is_late, moved: self.moved as u64 });
            }
            longer / MILLISECOND
        }
    }

    fn gains(part: f64) -> impl Fn(bool) -> f64 {
        move |is_longer| if is_longer { 1.0 + part } else { 1.0 }
    }

    /// The part of its time for which a core looks for longer, once it knows the load, in the mean of many.
    fn part_of_longer_looks(gain: f64) -> f64 {
        let longer: u64 = (0..20)
            .map(|seed| {
                let mut core = Core { random: fastrand::Rng::with_seed(seed), ..Core::new() };
                core.live(1000, 100_000, gains(gain));
                core.live(10_000, 100_000, gains(gain))
            })
            .sum();
        longer as f64 / 200_000.0
    }

    #[test]
    fn it_looks_for_longer_where_more_comes_through() {
        for (gain, least) in [(0.08, 0.8), (0.12, 0.9), (0.3, 0.95)] {
            let part = part_of_longer_looks(gain);
            assert!(part > least, "{gain}: {part}");
        }
    }

    #[test]
    fn it_looks_as_usual_where_no_more_comes_through() {
        for (gain, most) in [(-0.2, 0.05), (0.0, 0.1), (0.02, 0.2)] {
            let part = part_of_longer_looks(gain);
            assert!(part < most, "{gain}: {part}");
        }
    }

    #[test]
    fn it_does_not_try_where_a_longer_look_changes_nothing() {
        // The usual look is enough, nothing comes within the longest one, or hardly anything does.
        for gap in [20_000, 2_000_000] {
            assert_eq!(Core::new().live(3000, gap, gains(0.5)), 0);
        }
        let mut core = Core::new();
        let few = (0..100).map(|_| core.live(30, 20_000, gains(0.5)) + core.live(1, 100_000, gains(0.5)));
        assert_eq!(few.sum::<u64>(), 0);
    }

    #[test]
    fn an_idle_core_begins_anew() {
        let mut core = Core::new();
        core.live(3000, 100_000, gains(0.3));
        assert!(core.payoff.is_longer || matches!(core.payoff.stage, Stage::Trial(_)));
        core.live(1, IDLE, gains(0.3));
        assert!(!core.payoff.is_longer && !core.payoff.said.pays);
        assert!(matches!(core.payoff.stage, Stage::Rest { span: LASTING, .. }));
        // And in the middle of a trial.
        core.live(LASTING / MILLISECOND + 50, 100_000, gains(0.3));
        assert!(matches!(core.payoff.stage, Stage::Trial(_)));
        core.live(1, IDLE, gains(0.3));
        assert!(matches!(core.payoff.stage, Stage::Rest { .. }));
    }

    #[test]
    fn another_load_is_tried_again() {
        let mut core = Core::new();
        core.live(20_000, 100_000, gains(0.3));
        core.live(4_000, 100_000, gains(0.0));
        assert!(core.live(10_000, 100_000, gains(0.0)) < 1000);
        core.live(4_000, 100_000, gains(0.3));
        assert!(core.live(10_000, 100_000, gains(0.3)) > 8_500);
    }

    #[test]
    fn a_load_that_does_not_last_is_not_tried() {
        // A fifth of a second of late waits every now and then, and few all the time.
        let mut core = Core::new();
        let bursts =
            (0..20).map(|_| core.live(200, 150_000, gains(0.3)) + core.live(3000, 40_000_000, gains(0.3)));
        assert_eq!(bursts.sum::<u64>(), 0);
        let few = (0..1000).map(|_| core.live(2, 150_000, gains(0.3)) + core.live(8, 20_000, gains(0.3)));
        assert_eq!(few.sum::<u64>(), 0);
    }

    #[test]
    fn a_trial_ends_with_its_load() {
        let mut core = Core::new();
        while !matches!(core.payoff.stage, Stage::Trial(_)) {
            core.live(1, 150_000, gains(0.0));
        }
        // A tenth of the time is late waits still.
        let longer: u64 =
            (0..50).map(|_| core.live(1, 150_000, gains(0.0)) + core.live(9, 20_000, gains(0.0))).sum();
        assert!(longer < 50 && !core.payoff.is_longer, "{longer}");
        assert!(matches!(core.payoff.stage, Stage::Rest { span: LASTING, .. }));
    }
}
