//! Which slots can be used, as every request on every core sees it. What brings a slot from one state to the next is in
//! `keeper`; here are the few words that a request looks at.

use std::sync::atomic::{AtomicU64, Ordering};

use super::format::within;
use super::layout::{Slots, members};

/// Whether a slot is out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spared {
    /// From now on.
    Now,
    /// It was already.
    Before,
    /// It is not, as the others cannot do without it.
    No,
}

/// Shared by all cores.
pub struct SlotStates {
    /// Not to be read or written.
    out: AtomicU64,
    /// To be read and written below their cursor only.
    rebuilding: AtomicU64,
    cursors: Box<[AtomicU64]>,
    /// How often each was begun to be rebuilt.
    lives: Box<[AtomicU64]>,
}

impl SlotStates {
    /// All in sync.
    pub fn new(slots: usize) -> SlotStates {
        SlotStates {
            out: AtomicU64::new(0),
            rebuilding: AtomicU64::new(0),
            cursors: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            lives: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The slots that have nothing of `row` to read, and take no writes to it.
    pub fn gone(&self, row: u64) -> Slots {
        // Before and after: one that comes in is being rebuilt before it is out no more, and one that goes is out before it is
        // rebuilt no more. Whoever looks in between sees one of both.
        let before = self.out.load(Ordering::Acquire);
        let rebuilding = self.rebuilding.load(Ordering::Acquire);
        let out = before | self.out.load(Ordering::Acquire);
        if rebuilding == 0 {
            return out;
        }
        members(rebuilding).fold(out, |gone, slot| {
            if within(row) >= self.cursors[slot].load(Ordering::Acquire) { gone | 1 << slot } else { gone }
        })
    }

    /// The slots that are not used at all.
    pub fn out(&self) -> Slots {
        self.out.load(Ordering::Acquire)
    }

    /// The slots that are being rebuilt.
    pub fn rebuilding(&self) -> Slots {
        self.rebuilding.load(Ordering::Acquire)
    }

    /// Whether all slots are in sync.
    pub fn all_in_sync(&self) -> bool {
        self.out() | self.rebuilding() == 0
    }

    /// Takes a slot out. False when it was out already.
    pub fn take_out(&self, slot: usize) -> bool {
        let before = self.out.fetch_or(1 << slot, Ordering::AcqRel);
        self.rebuilding.fetch_and(!(1 << slot), Ordering::AcqRel);
        before & 1 << slot == 0
    }

    /// Takes a slot out if the others can do without: `survives` is asked about all slots that would not be good then.
    /// No two cores take out together what each of them alone could.
    pub fn spare(&self, slot: usize, survives: impl Fn(Slots) -> bool) -> Spared {
        let taken = self.out.fetch_update(Ordering::AcqRel, Ordering::Acquire, |out| {
            // Asked after: one that is out no more is being rebuilt.
            let gone = out | self.rebuilding() | 1 << slot;
            (out & 1 << slot == 0 && survives(gone)).then_some(out | 1 << slot)
        });
        match taken {
            Ok(_) => {
                self.rebuilding.fetch_and(!(1 << slot), Ordering::AcqRel);
                Spared::Now
            }
            Err(out) if out & 1 << slot != 0 => Spared::Before,
            Err(_) => Spared::No,
        }
    }

    /// A slot is rebuilt from row `cursor` of its set on.
    pub fn rebuild(&self, slot: usize, cursor: u64) {
        self.lives[slot].fetch_add(1, Ordering::AcqRel);
        self.cursors[slot].store(cursor, Ordering::Release);
        self.rebuilding.fetch_or(1 << slot, Ordering::AcqRel);
        self.out.fetch_and(!(1 << slot), Ordering::AcqRel);
    }

    /// Rows of its set below `cursor` are good. Only who holds the rows that are passed may say so.
    pub fn advance(&self, slot: usize, cursor: u64) {
        self.cursors[slot].store(cursor, Ordering::Release);
    }

    /// How often rebuilding of a slot was begun: what an earlier one has done says nothing of the member that is there now.
    pub fn life(&self, slot: usize) -> u64 {
        self.lives[slot].load(Ordering::Acquire)
    }

    /// Where the rebuilding of a slot is.
    pub fn cursor(&self, slot: usize) -> u64 {
        self.cursors[slot].load(Ordering::Acquire)
    }

    /// A slot is rebuilt.
    pub fn in_sync(&self, slot: usize) {
        self.rebuilding.fetch_and(!(1 << slot), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;

    /// One core takes a slot in and out, again and again, while another one does `look`, which says whether all is well. Nobody
    /// looks for longer than from one to the next.
    fn is_well_while_a_slot_comes_and_goes(look: impl Fn(&SlotStates) -> bool) -> bool {
        let (states, looks, over) = (SlotStates::new(3), AtomicU64::new(0), AtomicBool::new(false));
        states.take_out(1);
        let is_over = || over.load(Ordering::Relaxed);
        let let_look = || {
            let before = looks.load(Ordering::Acquire);
            while looks.load(Ordering::Acquire) < before + 2 && !is_over() {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over() {
                    states.rebuild(1, 0);
                    let_look();
                    states.take_out(1);
                    let_look();
                }
            });
            let until = Instant::now() + Duration::from_millis(500);
            let mut is_well = true;
            while is_well && Instant::now() < until {
                for _ in 0..1000 {
                    is_well &= look(&states);
                    looks.fetch_add(1, Ordering::AcqRel);
                }
            }
            over.store(true, Ordering::Relaxed);
            is_well
        })
    }

    /// A slot that came in was neither out nor being rebuilt for who looked at one, then at the other: of its member, which had
    /// nothing yet, zeroes were read.
    #[test]
    fn a_slot_that_comes_in_is_gone_at_any_moment() {
        assert!(is_well_while_a_slot_comes_and_goes(|states| states.gone(7) == 0b10));
    }

    /// The last member that had everything was taken out in the moment in which another one came in.
    #[test]
    fn no_slot_is_spared_for_one_that_is_just_coming_in() {
        let survives = |gone: Slots| gone.count_ones() < 2;
        assert!(is_well_while_a_slot_comes_and_goes(|states| states.spare(0, survives) == Spared::No));
    }
}
