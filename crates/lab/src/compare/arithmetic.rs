//! Medians, factors, spreads, and what makes figures doubtful. Numbers in, numbers out.

use serde::Serialize;

/// Two figures that differ by less than this part of themselves are one: a clock that counts nanoseconds does not
/// give nine equal digits twice.
const SAME: f64 = 1e-9;
/// Counts below this are equal by chance now and then.
const FEW: u64 = 1000;
/// A first and a last round that differ by less are no drift.
const DRIFT: f64 = 0.05;
/// So many rounds that all rise, or all fall, are a trend: by chance that is one series of twelve.
const TREND_ROUNDS: usize = 4;
/// A smaller change from first to last is no trend worth a word.
const TREND: f64 = 0.01;

/// A median and what it is the median of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one; the mean of the two in the middle if their number is even.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of these; of none there is none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let upper = sorted[middle];
        let median = if sorted.len().is_multiple_of(2) {
            let lower = sorted[middle - 1];
            lower + (upper - lower) / 2.0
        } else {
            upper
        };
        Some(Spread { median, least, most })
    }

    /// Every figure divided by `unit`.
    pub fn per(self, unit: f64) -> Spread {
        Spread { median: self.median / unit, least: self.least / unit, most: self.most / unit }
    }
}

/// A figure of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// From 1.
    pub round: usize,
    /// Per second.
    pub value: f64,
}

/// `other` as a factor of `base`, over the rounds that both have: the median of one divided by that of the other, and the
/// least and the most of the factors within a round. The first lies between the other two, always: a median
/// moves with its values.
pub fn factor(base: &[Figure], other: &[Figure]) -> Option<Spread> {
    let pairs: Vec<(f64, f64)> = other
        .iter()
        .filter_map(|other| {
            let base = base.iter().find(|base| base.round == other.round)?;
            (base.value > 0.0).then_some((base.value, other.value))
        })
        .collect();
    let medians = |values: Vec<f64>| Spread::of(&values).map(|spread| spread.median);
    let base = medians(pairs.iter().map(|pair| pair.0).collect())?;
    let median = medians(pairs.iter().map(|pair| pair.1).collect())? / base;
    let ratios: Vec<f64> = pairs.iter().map(|(base, other)| other / base).collect();
    let Spread { least, most, .. } = Spread::of(&ratios)?;
    Some(Spread { median, least, most })
}

/// How a machine changed while it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drift {
    /// From the first to the last round by this part, further than all rounds between them.
    Moved(f64),
    /// By this part, and every round went the same way.
    Trend(f64),
}

/// Whether the rounds of one target on one load drift.
pub fn drift(rounds: &[f64]) -> Option<Drift> {
    let (&first, &last) = (rounds.first()?, rounds.last()?);
    if rounds.len() < 2 || first <= 0.0 {
        return None;
    }
    let change = last / first - 1.0;
    let rises = rounds.windows(2).all(|pair| pair[0] < pair[1]);
    let falls = rounds.windows(2).all(|pair| pair[0] > pair[1]);
    if rounds.len() >= TREND_ROUNDS && (rises || falls) && change.abs() > TREND {
        return Some(Drift::Trend(change));
    }
    let (low, high) = (first.min(last), first.max(last));
    let beyond = rounds[1..rounds.len() - 1].iter().all(|value| (low..=high).contains(value));
    (beyond && change.abs() > DRIFT).then_some(Drift::Moved(change))
}

/// Whether two figures are the same to so many digits that they cannot both be measured.
pub fn same(one: f64, other: f64) -> bool {
    one > 0.0 && other > 0.0 && (one - other).abs() <= SAME * one.max(other)
}

/// Whether two rounds counted the same (reads and writes), and enough that this is no chance.
pub fn same_counts(one: (u64, u64), other: (u64, u64)) -> bool {
    one == other && one.0 + one.1 >= FEW
}

/// Which target is measured at which position of a round (from 1): each round begins with the next one.
pub fn order(round: usize, targets: usize) -> impl Iterator<Item = usize> {
    (0..targets).map(move |position| (position + round - 1) % targets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figures(values: &[f64]) -> Vec<Figure> {
        values.iter().zip(1..).map(|(&value, round)| Figure { round, value }).collect()
    }

    #[test]
    fn medians_of_odd_and_even_numbers() {
        let spread = |median, least, most| Some(Spread { median, least, most });
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(Spread::of(&[9.0, 1.0, 4.0]), spread(4.0, 1.0, 9.0));
        assert_eq!(Spread::of(&[4.0, 1.0, 9.0, 2.0]), spread(3.0, 1.0, 9.0));
    }

    #[test]
    fn a_factor_takes_the_rounds_that_both_have() {
        let base = figures(&[100.0, 200.0, 400.0]);
        let Spread { median, least, most } = factor(&base, &figures(&[300.0, 400.0, 1600.0])).unwrap();
        assert_eq!((median, least, most), (2.0, 2.0, 4.0));
        // The other one went away after its first round.
        assert_eq!(factor(&base, &figures(&[50.0])).unwrap(), Spread { median: 0.5, least: 0.5, most: 0.5 });
        let late = [Figure { round: 4, value: 1.0 }];
        assert_eq!((factor(&base, &late), factor(&[], &base), factor(&base, &[])), (None, None, None));
        assert_eq!(factor(&figures(&[0.0]), &figures(&[1.0])), None, "a base of nothing is no base");
    }

    #[test]
    fn a_machine_that_drifts_is_told_from_one_that_trembles() {
        assert_eq!(drift(&[100.0, 103.0, 98.0, 101.0]), None);
        // As far as that, but others went further.
        assert_eq!(drift(&[100.0, 120.0, 90.0, 110.0]), None);
        assert!(matches!(drift(&[100.0, 96.0, 97.0, 80.0]), Some(Drift::Moved(change)) if change < -0.19));
        assert!(matches!(drift(&[100.0, 101.0, 102.0, 103.0]), Some(Drift::Trend(change)) if change > 0.02));
        assert_eq!(drift(&[100.0, 100.1, 100.2, 100.3]), None, "too little to matter");
        assert_eq!(drift(&[100.0, 101.0, 102.0]), None, "too few rounds for a trend");
        assert!(matches!(drift(&[100.0, 110.0]), Some(Drift::Moved(_))));
        assert_eq!((drift(&[]), drift(&[5.0]), drift(&[0.0, 5.0])), (None, None, None));
    }

    #[test]
    fn the_published_table_has_two_identical_cells() {
        // docs: SSD read of OCFS2 and of OCFS2 on DRBD; their writes differ in the fourth digit.
        assert!(same(7.305_113_58, 7.305_113_58) && !same(7.301_772_388, 7.284_048_507));
        assert!(!same(0.0, 0.0), "nothing is not a sample");
        assert!(!same(1_000_000.0, 1_000_000.1));
        assert!(same_counts((700, 300), (700, 300)) && !same_counts((700, 300), (699, 301)));
        assert!(!same_counts((5, 5), (5, 5)), "few operations are equal by chance");
    }

    #[test]
    fn no_target_is_always_first() {
        let rounds: Vec<Vec<usize>> = (1..=4).map(|round| order(round, 3).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }

    fn positive() -> impl Strategy<Value = f64> {
        1.0..1e7
    }

    proptest! {
        #[test]
        fn a_median_has_half_of_all_on_each_side(values in prop::collection::vec(positive(), 1..30)) {
            let Spread { median, least, most } = Spread::of(&values).unwrap();
            prop_assert!(least <= median && median <= most);
            let (below, above) = (
                values.iter().filter(|&&value| value < median).count(),
                values.iter().filter(|&&value| value > median).count(),
            );
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
            prop_assert!(values.contains(&least) && values.contains(&most));
        }

        #[test]
        fn order_does_not_matter_and_units_cancel(
            pairs in prop::collection::vec((positive(), positive()), 1..12),
            unit in 0.001..1000.0f64,
        ) {
            let base = figures(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
            let other = figures(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
            let found = factor(&base, &other).unwrap();
            // Between the rounds' own factors; a little is the rounding of two divisions.
            prop_assert!(found.least <= found.median * (1.0 + 1e-12) && found.median <= found.most * (1.0 + 1e-12));
            let reversed: Vec<_> = other.iter().rev().copied().collect();
            prop_assert_eq!(factor(&base, &reversed).unwrap(), found);
            let scale = |figures: &[Figure]| -> Vec<Figure> {
                figures.iter().map(|figure| Figure { value: figure.value * unit, ..*figure }).collect()
            };
            let scaled = factor(&scale(&base), &scale(&other)).unwrap();
            prop_assert!((scaled.median / found.median - 1.0).abs() < 1e-9);
            let itself = factor(&base, &base).unwrap();
            prop_assert_eq!((itself.median, itself.least, itself.most), (1.0, 1.0, 1.0));
        }

        #[test]
        fn every_target_has_its_turn_in_every_round(targets in 1usize..9, round in 1usize..100) {
            let mut turns: Vec<_> = order(round, targets).collect();
            prop_assert_eq!(turns[0], (round - 1) % targets);
            turns.sort_unstable();
            prop_assert_eq!(turns, (0..targets).collect::<Vec<_>>());
        }

        #[test]
        fn a_rise_and_its_mirror_drift_alike(rounds in prop::collection::vec(positive(), 2..8)) {
            let back: Vec<_> = rounds.iter().rev().copied().collect();
            let moved = |found: Option<Drift>| found.map(|drift| match drift {
                Drift::Moved(change) | Drift::Trend(change) => change > 0.0,
            });
            // The same change is another part of the other end; clear ones are seen from both.
            if let (Some(rose), Some(fell)) = (moved(drift(&rounds)), moved(drift(&back))) {
                prop_assert_ne!(rose, fell);
            }
            let steady = vec![rounds[0]; rounds.len()];
            prop_assert_eq!(drift(&steady), None);
        }
    }
}
