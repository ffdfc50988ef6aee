//! What another way brings over the usual one, by windows of each that lie side by side, and for how long that is believed.
//! No I/O, no clock.

/// It is said when it is plain enough, but not before so many pairs, nor after so many.
const LEAST: u32 = 8;
const MOST: u32 = 64;
/// The other way pays when its mean gain is so many errors of the mean above nothing, and does not when it is so many below
/// what it is worth. What is not plain after the most pairs is taken as is likely.
const SURE: f64 = 3.0;
const UNLIKELY: f64 = 2.0;
const LIKELY: f64 = 1.0;
/// What a trial says holds for so many times this, in nanoseconds. Each one that says the same again makes that as many times as
/// long: what was said once may be chance, or of a load that is gone.
const REST: u64 = 100_000_000;
const GROWTH: u64 = 4;
/// After a wait of so long, in nanoseconds, there may be another load.
pub(crate) const IDLE: u64 = 50_000_000;

/// Pairs of windows, one of the usual way and one of the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    count: u32,
    /// Of what each pair has gained by the other way, as a part.
    sum: f64,
    squares: f64,
}

impl Pairs {
    /// One more pair: what came through in each of its windows, in any unit of rate.
    pub(crate) fn note(&mut self, usual: f64, other: f64) {
        let mean = f64::midpoint(usual, other);
        let gain = if mean > 0.0 { (other - usual) / mean } else { 0.0 };
        self.count += 1;
        self.sum += gain;
        self.squares += gain * gain;
    }

    /// Whether the other way pays, when that can be said: it has to bring more than nothing, and more than `worth` as a part.
    pub(crate) fn verdict(&self, worth: f64) -> Option<bool> {
        if self.count < LEAST {
            return None;
        }
        let count = f64::from(self.count);
        let mean = self.sum / count;
        let error = ((self.squares / count - mean * mean).max(0.0) / (count - 1.0)).sqrt();
        let pays = |errors: f64| mean > worth && mean > errors * error;
        if pays(SURE) {
            return Some(true);
        }
        if worth - mean > UNLIKELY * error {
            return Some(false);
        }
        (self.count >= MOST).then(|| pays(LIKELY))
    }
}

/// What the last trial said.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) pays: bool,
    rest: u64,
}

impl Said {
    /// Nothing is known; the other way is as good as one that does not pay.
    pub(crate) fn nothing() -> Said {
        Said { pays: false, rest: REST }
    }

    /// What is said next is of another load. The last verdict stays until then.
    pub(crate) fn doubt(&mut self) {
        self.rest = REST;
    }

    /// A trial has ended. For how long what it says holds, in nanoseconds: for `longest` at most.
    pub(crate) fn say(&mut self, pays: bool, longest: u64) -> u64 {
        let again = if pays == self.pays { self.rest } else { REST };
        *self = Said { pays, rest: (again * GROWTH).min(longest) };
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on pairs of which the other way has so many hundredths of the usual one in turn, and their number.
    fn tried(worth: f64, hundredths: &[u32]) -> (bool, u32) {
        let mut pairs = Pairs::default();
        for &part in hundredths.iter().cycle() {
            pairs.note(100.0, part.into());
            if let Some(pays) = pairs.verdict(worth) {
                return (pays, pairs.count);
            }
        }
        unreachable!("there is a most")
    }

    #[test]
    fn what_is_plain_is_said_soon_and_what_is_not_in_the_end() {
        assert_eq!(tried(0.05, &[130, 125]), (true, LEAST));
        assert_eq!(tried(0.05, &[101, 99]), (false, LEAST));
        assert_eq!(tried(0.0, &[80, 90]), (false, LEAST));
        // Between nothing and what it is worth, and around nothing.
        assert_eq!(tried(0.05, &[103, 104]), (false, LEAST));
        assert_eq!(tried(0.0, &[103, 104]), (true, LEAST));
        assert_eq!(tried(0.0, &[150, 75]), (true, MOST));
        assert_eq!(tried(0.0, &[100]), (false, MOST), "as much is not more");
        assert_eq!(tried(0.0, &[150, 70]), (false, MOST), "less than an error above nothing");
    }

    #[test]
    fn nothing_moved_is_nothing_gained() {
        let mut pairs = Pairs::default();
        (0..MOST).for_each(|_| pairs.note(0.0, 0.0));
        assert_eq!(pairs.verdict(0.0), Some(false));
    }

    #[test]
    fn what_is_said_again_holds_for_longer() {
        let mut said = Said::nothing();
        let rests =
            [false, false, false, false, true, true].map(|pays| said.say(pays, 2_000_000_000) / 1_000_000);
        assert_eq!(rests, [400, 1600, 2000, 2000, 400, 1600]);
        said.doubt();
        assert!(said.pays);
        assert_eq!(said.say(true, 2_000_000_000), 400_000_000);
    }
}
