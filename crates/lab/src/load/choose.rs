//! Which operation comes next.

use super::job::{Extent, Load};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What it does.
    pub kind: Kind,
    /// Its place within the extent.
    pub slot: u64,
}

/// The operations of one job, one after the other.
pub struct Chooser {
    random: fastrand::Rng,
    /// Below this of 2^32, an operation reads.
    read: u64,
    /// Below this of 2^32, an operation goes to a random place.
    jump: u64,
    slots: u64,
    next: u64,
}

fn share(percent: u8) -> u64 {
    (u64::from(percent) << 32) / 100
}

impl Chooser {
    /// The operations of job `index`.
    pub fn new(load: &Load, extent: &Extent, index: u32) -> Chooser {
        Chooser {
            random: fastrand::Rng::with_seed(
                load.seed ^ (u64::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ),
            read: share(load.read_percent),
            jump: share(load.random_percent),
            slots: extent.slots,
            next: extent.first,
        }
    }

    /// The next operation. One that is not random follows the one before, be that read or write, random or not.
    #[inline]
    pub fn choose(&mut self) -> Choice {
        let draw = self.random.u64(..);
        let kind = if draw >> 32 < self.read { Kind::Read } else { Kind::Write };
        let slot = if draw & 0xffff_ffff < self.jump {
            ((u128::from(self.random.u64(..)) * u128::from(self.slots)) >> 64) as u64
        } else {
            self.next
        };
        self.next = if slot + 1 >= self.slots { 0 } else { slot + 1 };
        Choice { kind, slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(load: &Load, count: usize) -> Vec<Choice> {
        let extent = Extent { offset: 0, slots: 1000, first: 990 };
        let mut chooser = Chooser::new(load, &extent, 0);
        (0..count).map(|_| chooser.choose()).collect()
    }

    #[test]
    fn sequential_goes_round() {
        let load = Load { random_percent: 0, ..Load::default() };
        let slots: Vec<_> = choices(&load, 12).iter().map(|choice| choice.slot).collect();
        assert_eq!(slots, [990, 991, 992, 993, 994, 995, 996, 997, 998, 999, 0, 1]);
    }

    #[test]
    fn shares_are_kept() {
        let load = Load { random_percent: 60, read_percent: 65, ..Load::default() };
        let choices = choices(&load, 100_000);
        let reads = choices.iter().filter(|choice| choice.kind == Kind::Read).count();
        let follows = choices.windows(2).filter(|pair| pair[1].slot == (pair[0].slot + 1) % 1000).count();
        assert!((64_000..66_000).contains(&reads), "{reads}");
        assert!((39_000..41_500).contains(&follows), "{follows}");
        let never = Load { read_percent: 0, ..load };
        assert!(self::choices(&never, 1000).iter().all(|choice| choice.kind == Kind::Write));
    }

    #[test]
    fn a_seed_repeats_the_operations() {
        let load = Load::default();
        assert_eq!(choices(&load, 100), choices(&load, 100));
        assert_ne!(choices(&load, 100), choices(&Load { seed: 2, ..load.clone() }, 100));
    }
}
