//! What a verified load knows of every place it writes: which generation must be there.
//!
//! A place (slot) is as large as an operation. Operations on one slot never overlap, so that expectations are exact.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::stamp::{self, Expectation, Generation, Wrong};

/// Wrong blocks that are named.
pub const NAMED: usize = 100;
/// Wrong blocks that are told from one another; beyond it, one seen twice counts twice.
const DISTINCT: usize = 1 << 20;
const BUSY: u32 = 1 << 31;
const GENERATION: u32 = BUSY - 1;

/// One wrong block.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Its number on the volume.
    pub block: u64,
    /// The oldest generation that had to be there.
    pub expected: Generation,
    /// What is there, in words.
    pub found: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "block {}: expected generation {}, found {}", self.block, self.expected, self.found)
    }
}

/// All wrong blocks.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Findings {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Finding>,
    #[serde(skip)]
    seen: HashSet<u64>,
}

impl Findings {
    /// So many that somebody else has found and named.
    pub fn counted(count: u64) -> Findings {
        Findings { count, ..Findings::default() }
    }

    /// One more, if it is not known already.
    pub fn add(&mut self, block: u64, expected: Generation, wrong: Wrong) {
        if self.seen.len() < DISTINCT && !self.seen.insert(block) {
            return;
        }
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(Finding { block, expected, found: wrong.to_string() });
        }
    }

    /// Those of another job.
    pub fn merge(&mut self, other: Findings) {
        self.count += other.count;
        let room = NAMED - self.first.len();
        self.first.extend(other.first.into_iter().take(room));
    }
}

/// The slots of one job.
pub struct Ledger {
    run: u64,
    block_size: usize,
    slot_size: usize,
    first_block: u64,
    slots: Vec<u32>,
    /// Slots whose last writes did not end well, with the oldest generation that may be there.
    unsure: HashMap<u64, u32>,
    /// Wrong blocks.
    pub findings: Findings,
}

impl Ledger {
    /// Nothing is written yet.
    pub fn new(run: u64, block_size: u32, slot_size: u32, offset: u64, slots: u64) -> Ledger {
        Ledger {
            run,
            block_size: block_size as usize,
            slot_size: slot_size as usize,
            first_block: offset / u64::from(block_size),
            slots: vec![0; slots as usize],
            unsure: HashMap::new(),
            findings: Findings::default(),
        }
    }

    /// Takes a slot for one operation; false when another one has it.
    pub fn reserve(&mut self, slot: u64) -> bool {
        let entry = &mut self.slots[slot as usize];
        let free = *entry & BUSY == 0;
        *entry |= BUSY;
        free
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: u64) {
        self.slots[slot as usize] &= GENERATION;
    }

    /// The newest generation that was given out.
    pub fn generation(&self, slot: u64) -> u32 {
        self.slots[slot as usize] & GENERATION
    }

    /// Number of slots.
    pub fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn block_of(&self, slot: u64) -> u64 {
        self.first_block + slot * (self.slot_size / self.block_size) as u64
    }

    /// Stamps `data` as the next generation of a reserved slot.
    pub fn stamp(&mut self, slot: u64, data: &mut [u8]) -> u32 {
        let entry = &mut self.slots[slot as usize];
        let generation = (*entry & GENERATION) + 1;
        *entry = generation | BUSY;
        let first = self.block_of(slot);
        for (number, block) in (first..).zip(data.chunks_exact_mut(self.block_size)) {
            stamp::stamp(block, self.run, number, u64::from(generation));
        }
        generation
    }

    /// How the write of a reserved slot ended: one that failed may be there or not.
    pub fn written(&mut self, slot: u64, well: bool) {
        let newest = self.generation(slot);
        if well {
            self.unsure.remove(&slot);
        } else {
            self.unsure.entry(slot).or_insert(newest.saturating_sub(1));
        }
    }

    /// Checks the data of a slot.
    pub fn check(&mut self, slot: u64, data: &[u8]) {
        let newest = self.generation(slot);
        let oldest = self.unsure.get(&slot).copied().unwrap_or(newest);
        if newest == 0 {
            return;
        }
        let first = self.block_of(slot);
        for (number, block) in (first..).zip(data.chunks_exact(self.block_size)) {
            let expected =
                Expectation { run: self.run, block: number, oldest: oldest.into(), newest: newest.into() };
            if let Err(wrong) = stamp::check(block, &expected) {
                self.findings.add(number, oldest.into(), wrong);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(7, 512, 4096, 8192, 10)
    }

    #[test]
    fn operations_on_a_slot_do_not_overlap() {
        let mut ledger = ledger();
        assert!(ledger.reserve(3) && !ledger.reserve(3) && ledger.reserve(4));
        ledger.release(3);
        assert!(ledger.reserve(3));
    }

    #[test]
    fn a_lost_write_is_named() {
        let mut ledger = ledger();
        let (mut old, mut new) = (vec![0; 4096], vec![0; 4096]);
        ledger.reserve(2);
        ledger.stamp(2, &mut old);
        ledger.written(2, true);
        ledger.check(2, &old);
        assert_eq!(ledger.findings.count, 0);
        ledger.stamp(2, &mut new);
        ledger.written(2, true);
        new[512..1024].copy_from_slice(&old[512..1024]);
        ledger.check(2, &new);
        let finding = &ledger.findings.first[0];
        assert_eq!(finding.to_string(), "block 33: expected generation 2, found generation 1 (a lost write)");
        ledger.check(2, &new);
        assert_eq!(ledger.findings.count, 1, "a block is counted once");
    }

    #[test]
    fn a_failed_write_may_be_there_or_not() {
        let mut ledger = ledger();
        let (mut old, mut new) = (vec![0; 4096], vec![0; 4096]);
        ledger.stamp(0, &mut old);
        ledger.written(0, true);
        ledger.stamp(0, &mut new);
        ledger.written(0, false);
        ledger.check(0, &old);
        ledger.check(0, &new);
        assert_eq!(ledger.findings.count, 0);
        ledger.check(0, &[0; 4096]);
        assert_eq!(ledger.findings.count, 8);
    }

    #[test]
    fn many_findings_are_counted_and_the_first_named() {
        let mut findings = Findings::default();
        (0..1000).for_each(|block| findings.add(block, 1, Wrong::Zero));
        assert_eq!((findings.count, findings.first.len()), (1000, NAMED));
    }
}
