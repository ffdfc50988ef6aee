//! What a pool can do without, in words.

use plane::pool::Level;
use plane::pool::layout::Slots;

/// What is left of a pool's redundancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survival {
    /// Slots.
    pub slots: usize,
    /// Slots that do not have everything.
    pub gone: usize,
    /// Whether all data is there without them.
    pub is_whole: bool,
    /// Of the others, those of which any one may be gone too.
    pub spared: usize,
    /// How many of the others may be gone at once, whichever they are.
    pub any: usize,
}

impl Survival {
    /// Of a pool whose slots have everything, or not.
    pub fn of(level: Level, good: &[bool]) -> Survival {
        let slots = good.len().min(64);
        let gone = (0..slots).filter(|slot| !good[*slot]).fold(0, |set: Slots, slot| set | 1 << slot);
        let others = || (0..slots).filter(|slot| gone & 1 << slot == 0);
        let spared = others().filter(|slot| level.survives(slots, gone | 1 << slot)).count();
        let lacking = gone.count_ones() as usize;
        let any = if spared < slots - lacking {
            0
        } else {
            usize::from(level.redundancy(slots as u16)).saturating_sub(if level == Level::Raid10 {
                0
            } else {
                lacking
            })
        };
        Survival { slots, gone: lacking, is_whole: level.survives(slots, gone), spared, any }
    }

    /// As a sentence, without its full stop.
    pub fn sentence(&self) -> String {
        let Survival { slots, gone, is_whole, spared, any } = *self;
        let are = |count: usize, what: &str| match count {
            1 => format!("1 {what} is"),
            count => format!("{count} {what}s are"),
        };
        if !is_whole {
            return format!("{} missing or incomplete of {slots}: too many", are(gone, "member"));
        }
        let further = if gone == 0 { "" } else { " further" };
        let may_go = match (any, spared, slots - gone) {
            (_, 0, _) => format!("no{further} member may fail"),
            (any, spared, others) if spared == others && any > 1 => {
                format!("any {any}{further} members may fail")
            }
            (_, spared, others) if spared == others => format!("any one{further} member may fail"),
            (_, spared, others) => format!("one of {spared} of the {others} others may fail"),
        };
        match (gone, slots) {
            (0, 1) => format!("its member is in sync; {may_go}"),
            (0, slots) => format!("all {slots} members are in sync; {may_go}"),
            (gone, slots) => {
                let of = if gone == 1 {
                    format!("1 of {slots} members does")
                } else {
                    format!("{gone} of {slots} members do")
                };
                format!("{of} not have everything; all data is there; {may_go}")
            }
        }
    }
}

/// An identity as people see it.
pub fn hex(id: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(level: Level, good: &[bool]) -> String {
        Survival::of(level, good).sentence()
    }

    #[test]
    fn what_may_fail_is_said_for_each_level() {
        let all = |count| vec![true; count];
        assert_eq!(said(Level::Single, &all(1)), "its member is in sync; no member may fail");
        assert_eq!(said(Level::Raid0, &all(2)), "all 2 members are in sync; no member may fail");
        assert_eq!(said(Level::Raid1, &all(3)), "all 3 members are in sync; any 2 members may fail");
        assert_eq!(said(Level::Raid10, &all(4)), "all 4 members are in sync; any one member may fail");
        assert_eq!(said(Level::Raid6, &all(6)), "all 6 members are in sync; any 2 members may fail");
    }

    #[test]
    fn what_is_left_is_said_when_members_are_gone() {
        let without =
            |count: usize, gone: &[usize]| (0..count).map(|slot| !gone.contains(&slot)).collect::<Vec<_>>();
        assert_eq!(
            said(Level::Raid6, &without(6, &[3])),
            "1 of 6 members does not have everything; all data is there; any one further member may fail"
        );
        assert_eq!(
            said(Level::Raid5, &without(3, &[0])),
            "1 of 3 members does not have everything; all data is there; no further member may fail"
        );
        assert_eq!(
            said(Level::Raid10, &without(4, &[0])),
            "1 of 4 members does not have everything; all data is there; one of 2 of the 3 others may fail"
        );
        assert_eq!(
            said(Level::Raid10, &without(4, &[0, 1])),
            "2 members are missing or incomplete of 4: too many"
        );
        assert_eq!(
            said(Level::Raid5, &without(4, &[0, 1])),
            "2 members are missing or incomplete of 4: too many"
        );
    }
}
