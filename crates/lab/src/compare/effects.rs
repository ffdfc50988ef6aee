//! What each factor does: pure, from what was measured on targets that differ in several.

use serde::Serialize;

use super::arithmetic::Spread;
use super::rows::{self, Direction, Measured};
use crate::load::Load;
use crate::target::Target;

/// One factor going from one value to another, everything else the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Which.
    pub factor: String,
    /// Its value before; of the targets in their order the first one.
    pub from: String,
    /// Its value after.
    pub to: String,
    /// The test.
    pub test: String,
    /// Of its operations.
    pub direction: Direction,
    /// Pairs of targets that differ in this alone.
    pub pairs: usize,
    /// IO/s after, divided by those before: over all pairs, each within a round.
    pub ratio: Spread,
}

/// The factors of a target, with their values.
pub(super) type Factors = Vec<(&'static str, String)>;

/// The factors of one that has some.
pub(super) fn factors(target: &Target) -> Factors {
    match target {
        Target::Pool(pool) => pool.spec().factors().to_vec(),
        _ => Vec::new(),
    }
}

/// Every effect that can be seen. `factors`: of each target.
pub(super) fn effects(
    tests: &[(&str, &Load)],
    targets: &[String],
    factors: &[Factors],
    measured: &[Measured],
) -> Vec<Effect> {
    let mut effects = Vec::new();
    let keys = factors.iter().max_by_key(|factors| factors.len()).cloned().unwrap_or_default();
    for (index, (key, _)) in keys.iter().enumerate() {
        let mut values: Vec<&str> = Vec::new();
        for (_, value) in factors.iter().filter_map(|factors| factors.get(index)) {
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        let Some((&from, others)) = values.split_first() else { continue };
        for &to in others {
            let pairs: Vec<_> = pairs(factors, index, from, to)
                .map(|(one, other)| (targets[one].as_str(), targets[other].as_str()))
                .collect();
            for (test, load) in tests {
                for direction in rows::directions(load) {
                    if let Some(ratio) = ratio(measured, test, direction, &pairs) {
                        effects.push(Effect {
                            factor: (*key).to_owned(),
                            from: from.to_owned(),
                            to: to.to_owned(),
                            test: (*test).to_owned(),
                            direction,
                            pairs: pairs.len(),
                            ratio,
                        });
                    }
                }
            }
        }
    }
    effects
}

/// Targets, by their places, of which the factor at `index` is `from` in the one and `to` in the other, and no other differs.
fn pairs<'a>(
    factors: &'a [Factors],
    index: usize,
    from: &'a str,
    to: &'a str,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let with = move |value: &'a str| {
        let has = move |factors: &Factors| factors.get(index).is_some_and(|(_, own)| own == value);
        factors.iter().enumerate().filter(move |(_, factors)| has(factors))
    };
    with(from).flat_map(move |(one, before)| {
        let alike = move |after: &Factors| {
            before.len() == after.len()
                && (0..before.len()).all(|other| other == index || before[other] == after[other])
        };
        with(to).filter(move |(_, after)| alike(after)).map(move |(other, _)| (one, other))
    })
}

fn ratio(measured: &[Measured], test: &str, direction: Direction, pairs: &[(&str, &str)]) -> Option<Spread> {
    let mut ratios = Vec::new();
    for (one, other) in pairs {
        let before = rows::figures(&rows::series(measured, test, one), direction);
        let after = rows::figures(&rows::series(measured, test, other), direction);
        for after in &after {
            let base = before.iter().find(|before| before.round == after.round && before.value > 0.0);
            ratios.extend(base.map(|before| after.value / before.value));
        }
    }
    Spread::of(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(round: usize, target: &str, reads: f64) -> Measured {
        Measured {
            round,
            test: "test".to_owned(),
            target: target.to_owned(),
            reads: 0,
            writes: 0,
            read_iops: reads,
            write_iops: 0.0,
            lab_us_per_io: None,
        }
    }

    #[test]
    fn an_effect_is_between_targets_that_differ_in_nothing_else() {
        let target = |level: &str, integrity: &str| {
            vec![("level", level.to_owned()), ("integrity", integrity.to_owned())]
        };
        let names = ["a", "b", "c", "d", "null"].map(str::to_owned);
        let factors = [
            target("raid10", "off"),
            target("raid10", "on"),
            target("raid6", "off"),
            target("raid6", "on"),
            Vec::new(),
        ];
        let mut all = Vec::new();
        for round in 1..=3 {
            let speed = 100.0 * round as f64;
            for (name, factor) in names.iter().zip([1.0, 0.9, 0.8, 0.6, 7.0]) {
                all.push(measured(round, name, speed * factor));
            }
        }
        let load = Load::default();
        let effects = effects(&[("test", &load)], &names, &factors, &all);
        let of = |factor: &str| effects.iter().find(|effect| effect.factor == factor).unwrap();
        assert_eq!(effects.len(), 2);
        let integrity = of("integrity");
        assert_eq!((integrity.from.as_str(), integrity.to.as_str(), integrity.pairs), ("off", "on", 2));
        assert!((integrity.ratio.least - 0.75).abs() < 1e-9 && (integrity.ratio.most - 0.9).abs() < 1e-9);
        assert!((integrity.ratio.median - 0.825).abs() < 1e-9, "of six ratios, three and three");
        let level = of("level");
        assert!((level.ratio.least - 0.6 / 0.9).abs() < 1e-9 && (level.ratio.most - 0.8).abs() < 1e-9);
        // A target that went away is no pair with anybody in the rounds that it lacks.
        all.retain(|one| one.target != "d" && one.target != "c");
        let left = super::effects(&[("test", &load)], &names, &factors, &all);
        assert_eq!(left.len(), 1);
    }
}
