//! Further members for a pool that there is: docs/formats/pool.md, "Extending".

use super::Geometry;
use crate::pool::Level;

/// Why a pool can have no further members. Sentences' ends, with a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionError {
    /// None at all.
    #[error("{level} takes no further members; hint: {}", instead(*.level))]
    Level {
        /// The level.
        level: Level,
    },
    /// Not so many.
    #[error("{level} has at most {most} members, and it would have {slots}; hint: {}", instead(*.level))]
    TooMany {
        /// The level.
        level: Level,
        /// As many as it can have.
        most: usize,
        /// As many as it would have.
        slots: usize,
    },
    /// Of raid10 there is an even number.
    #[error("raid10 takes further members in pairs; hint: give an even number of them")]
    Pairs,
    /// It was extended as often as can be.
    #[error("it has {sets} sets of members, and can have no more; hint: {}", instead(Level::Raid0))]
    Sets {
        /// As many as it has.
        sets: usize,
    },
    /// A segment has to hold a row.
    #[error(
        "the segments of its journal are too small for rows of {slots} members; hint: give fewer at once, or make another pool with so many"
    )]
    Journal {
        /// As many as it would have.
        slots: usize,
    },
}

/// What can be done instead.
fn instead(level: Level) -> &'static str {
    match level {
        Level::Single => "make a pool of several members, raid1 for copies, and move its volumes there",
        _ => "replace its members by larger ones, one by one, and let it grow",
    }
}

impl Geometry {
    /// The arrangement with so many further members, which are as large as the others are: everything stays where it is.
    pub fn extended(&self, further: usize) -> Result<Geometry, ExtensionError> {
        let (level, slots) = (self.level, usize::from(self.slots) + further);
        let has_sets = matches!(level, Level::Raid0 | Level::Raid10);
        if level != Level::Raid1 && !has_sets {
            return Err(ExtensionError::Level { level });
        }
        if level == Level::Raid10 && !further.is_multiple_of(2) {
            return Err(ExtensionError::Pairs);
        }
        let most = level.most_slots();
        if slots > most {
            return Err(ExtensionError::TooMany { level, most, slots });
        }
        let sets = if has_sets { self.sets.with(self.slots) } else { Some(self.sets) };
        let sets = sets.ok_or(ExtensionError::Sets { sets: self.sets.count() })?;
        let extended = Geometry { slots: slots as u16, sets, ..*self };
        if extended.check().is_err() {
            // All that has to be larger for more slots.
            return Err(ExtensionError::Journal { slots: extended.widest().into() });
        }
        Ok(extended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(level: Level, slots: u16, unit: u32) -> Geometry {
        Geometry::plan(level, slots, unit, 8 << 30, 1, 1 << 20).unwrap()
    }

    #[test]
    fn copies_are_added_up_to_four() {
        for unit in [4096, 64 << 10, 1 << 20] {
            let two = plan(Level::Raid1, 2, unit);
            let four = two.extended(2).unwrap();
            assert_eq!(four, Geometry { slots: 4, ..two });
            assert_eq!(two.extended(1).unwrap().extended(1), Ok(four));
            let refused = ExtensionError::TooMany { level: Level::Raid1, most: 4, slots: 5 };
            assert_eq!(two.extended(3), Err(refused));
        }
    }

    #[test]
    fn sets_are_added_behind_one_another() {
        let two = plan(Level::Raid0, 2, 4096);
        let five = two.extended(1).unwrap().extended(2).unwrap();
        let sets =
            |pool: &Geometry| (0..pool.sets.count()).map(|set| pool.set_slots(set)).collect::<Vec<_>>();
        assert_eq!(sets(&two), vec![0..2]);
        assert_eq!(sets(&five), vec![0..2, 2..3, 3..5]);
        assert_eq!(five.pool_bytes(), two.rows * 5 * 4096);
        assert_eq!((0..5).map(|slot| five.set_of_slot(slot)).collect::<Vec<_>>(), [0, 0, 1, 2, 2]);
        let mut all = plan(Level::Raid10, 4, 4096);
        assert_eq!(all.extended(3), Err(ExtensionError::Pairs));
        for sets in 1..16 {
            assert_eq!(all.sets.count(), sets);
            all = all.extended(2).unwrap();
        }
        assert_eq!(all.extended(2), Err(ExtensionError::Sets { sets: 16 }));
        let wide = two.extended(62).unwrap();
        let refused = ExtensionError::TooMany { level: Level::Raid0, most: 64, slots: 65 };
        assert_eq!(wide.extended(1), Err(refused));
    }

    #[test]
    fn a_journal_that_holds_no_wider_row_is_left_as_it_is() {
        let mut two = plan(Level::Raid1, 2, 1 << 20);
        // As pools of this level were planned once.
        two.segment_bytes = two.row_transaction_blocks() * 4096;
        assert!(two.check().is_ok() && two.extended(1).is_ok());
        assert_eq!(two.extended(2), Err(ExtensionError::Journal { slots: 4 }));
    }

    #[test]
    fn what_cannot_be_extended_says_what_can_be_done() {
        for (level, slots, word) in
            [(Level::Single, 1, "raid1"), (Level::Raid5, 3, "grow"), (Level::Raid6, 4, "grow")]
        {
            let refused = plan(level, slots, 4096).extended(1).unwrap_err();
            assert_eq!(refused, ExtensionError::Level { level });
            let text = refused.to_string();
            assert!(text.split_once("; hint: ").is_some_and(|(_, hint)| hint.contains(word)), "{text}");
        }
    }
}
