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
        let rebuilding = self.rebuilding.load(Ordering::Acquire);
        let out = self.out.load(Ordering::Acquire);
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
        let rebuilding = self.rebuilding();
        let taken = self.out.fetch_update(Ordering::AcqRel, Ordering::Acquire, |out| {
            let gone = out | rebuilding | 1 << slot;
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
