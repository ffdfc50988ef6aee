//! The RAID levels: their names, codes and what they ask for.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::layout::{Row, Slots};

/// How the members of a pool are arranged: `docs/formats/pool.md`, terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// One member.
    Single,
    /// Units in turn on all members, without redundancy.
    Raid0,
    /// The same on all members.
    Raid1,
    /// Units in turn on pairs.
    Raid10,
    /// One parity in each row.
    Raid5,
    /// Two parities in each row.
    Raid6,
}

/// A name that is no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no RAID level; hint: one of single, raid0, raid1, raid10, raid5, raid6")]
pub struct LevelError(pub String);

impl Level {
    /// Every level, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Single, Self::Raid0, Self::Raid1, Self::Raid10, Self::Raid5, Self::Raid6];

    /// As labels have it.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The level of a label.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// As the configuration has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid10 => "raid10",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
        }
    }

    /// The numbers of slots that it can have; of raid10 only the even ones.
    pub const fn slots(self) -> RangeInclusive<u16> {
        match self {
            Self::Single => 1..=1,
            Self::Raid0 => 2..=64,
            Self::Raid1 => 2..=4,
            Self::Raid10 | Self::Raid6 => 4..=64,
            Self::Raid5 => 3..=64,
        }
    }

    /// As many slots as a pool of this level can ever have.
    pub const fn most_slots(self) -> usize {
        *self.slots().end() as usize
    }

    /// Whether it can have so many slots.
    pub fn takes(self, slots: u16) -> bool {
        self.slots().contains(&slots) && (self != Self::Raid10 || slots.is_multiple_of(2))
    }

    /// Units of a row of `slots` that hold data.
    pub const fn data_units(self, slots: u16) -> u16 {
        match self {
            Self::Single | Self::Raid1 => 1,
            Self::Raid0 => slots,
            Self::Raid10 => slots / 2,
            Self::Raid5 => slots.saturating_sub(1),
            Self::Raid6 => slots.saturating_sub(2),
        }
    }

    /// Whether `slots` slots have all data while those of `gone` have nothing.
    pub fn survives(self, slots: usize, gone: Slots) -> bool {
        Row::of(self, slots, 0).survives(gone)
    }

    /// Slots that may be out without loss, whichever they are; of raid10 one of each pair.
    pub const fn redundancy(self, slots: u16) -> u16 {
        match self {
            Self::Single | Self::Raid0 => 0,
            Self::Raid1 => slots.saturating_sub(1),
            Self::Raid10 | Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| LevelError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_go_both_ways() {
        for (code, level) in Level::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(level.code()), code);
            assert_eq!(Level::from_code(level.code()), Some(level));
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert_eq!(Level::from_code(6), None);
        assert!("RAID6".parse::<Level>().unwrap_err().to_string().contains("hint: one of single"));
    }

    #[test]
    fn units_and_redundancy() {
        let of = |level: Level, slots| (level.takes(slots), level.data_units(slots), level.redundancy(slots));
        assert_eq!(of(Level::Single, 1), (true, 1, 0));
        assert_eq!(of(Level::Raid0, 3), (true, 3, 0));
        assert_eq!(of(Level::Raid1, 3), (true, 1, 2));
        assert_eq!(of(Level::Raid10, 6), (true, 3, 1));
        assert_eq!(of(Level::Raid5, 3), (true, 2, 1));
        assert_eq!(of(Level::Raid6, 64), (true, 62, 2));
        let refused = [
            (Level::Single, [0, 2]),
            (Level::Raid0, [1, 65]),
            (Level::Raid1, [1, 5]),
            (Level::Raid10, [2, 5]),
            (Level::Raid5, [2, 65]),
            (Level::Raid6, [3, 65]),
        ];
        for (level, slots) in refused {
            assert!(slots.iter().all(|&slots| !level.takes(slots)), "{level}");
        }
    }
}
