//! The part of time in which something of a volume was in flight.
//!
//! Each core knows its own. Which times of several cores were the same is not known: they are taken as independent.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use monitor::metric::{Snapshot, table};
use plane::volume::Figures;

/// What was known of a volume the last time.
#[derive(Debug, Default)]
struct Known {
    at: Duration,
    cores: BTreeMap<usize, Duration>,
    busy_s: f64,
}

/// By the places of volumes, which are not given again.
#[derive(Debug, Default)]
pub(super) struct Busy(HashMap<usize, Known>);

impl Busy {
    /// Adds the time of each volume until now.
    pub fn add(&mut self, snapshot: &mut Snapshot, volumes: &[Figures]) {
        self.0.retain(|place, _| volumes.iter().any(|figures| figures.place == *place));
        for figures in volumes {
            let busy_s = self.0.entry(figures.place).or_default().step(snapshot.at, &figures.busy);
            snapshot.push(&table::VOLUME_BUSY, &[&figures.name], busy_s);
        }
    }
}

impl Known {
    /// All of the time until `now`. Two that ask at once may come in any order.
    fn step(&mut self, now: Duration, cores: &BTreeMap<usize, Duration>) -> f64 {
        let elapsed_s = now.saturating_sub(self.at).as_secs_f64();
        if elapsed_s <= 0.0 {
            return self.busy_s;
        }
        let part = |(core, busy): (&usize, &Duration)| {
            let before = self.cores.get(core).copied().unwrap_or_default();
            (busy.saturating_sub(before).as_secs_f64() / elapsed_s).min(1.0)
        };
        let idle: f64 = cores.iter().map(part).map(|part| 1.0 - part).product();
        self.busy_s += elapsed_s * (1.0 - idle);
        (self.at, self.cores) = (now, cores.clone());
        self.busy_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(of: &[u64]) -> BTreeMap<usize, Duration> {
        of.iter().copied().map(Duration::from_secs).enumerate().collect()
    }

    #[test]
    fn one_core_is_exact_and_several_overlap() {
        let mut known = Known::default();
        let mut at = |second, cores: &[u64]| {
            let busy_s = known.step(Duration::from_secs(second), &seconds(cores));
            (busy_s * 1000.0).round() / 1000.0
        };
        assert_eq!(at(10, &[4, 0]).to_bits(), 4.0f64.to_bits());
        assert_eq!(at(20, &[9, 5]).to_bits(), 11.5f64.to_bits(), "half and half are three quarters");
        assert_eq!(at(20, &[9, 9]).to_bits(), 11.5f64.to_bits(), "no time has passed");
        assert_eq!(at(30, &[30, 9]).to_bits(), 21.5f64.to_bits(), "never more than all of it");
    }
}
