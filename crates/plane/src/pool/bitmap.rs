//! Which rows were changed while a member was out: all that it has to be given when it comes back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::format::{Geometry, within};
use super::grown::Grown;

/// Shared by all cores. A bit stands for neighbouring rows.
pub struct Bitmap {
    bits: Grown<AtomicU64>,
    /// Those that are on stable media.
    durable: Grown<AtomicU64>,
    /// Rows that were changed since the last checkpoint, between that and the one before, and between that and the one
    /// before it: what a member may lack that goes out now. The journal forgets what is two checkpoints old.
    recent: [Grown<AtomicU64>; 3],
    rows_per_bit: u64,
}

impl Bitmap {
    /// Nothing was changed.
    pub fn new(geometry: &Geometry) -> Bitmap {
        let none = || Grown::new(0);
        let rows_per_bit = u64::from(geometry.rows_per_bit);
        let bitmap = Bitmap { bits: none(), durable: none(), recent: [none(), none(), none()], rows_per_bit };
        bitmap.grow(geometry);
        bitmap
    }

    /// There are as many rows as `geometry` has, at least.
    pub fn grow(&self, geometry: &Geometry) {
        let words = geometry.rows.div_ceil(self.rows_per_bit).div_ceil(64) as usize;
        // What changes are noted in last is there first.
        for list in self.recent.iter().chain([&self.durable, &self.bits]) {
            list.extend_to(words);
        }
    }

    fn place(&self, row: u64) -> (usize, u64) {
        let bit = within(row) / self.rows_per_bit;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    /// The row is changed. Gives whether that has to be made durable yet.
    pub fn set(&self, row: u64) -> bool {
        let (word, bit) = self.place(row);
        if self.bits.at(word).load(Ordering::Acquire) & bit == 0 {
            self.bits.at(word).fetch_or(bit, Ordering::AcqRel);
        }
        self.durable.at(word).load(Ordering::Acquire) & bit == 0
    }

    /// The row is changed; all members take part, so far.
    pub fn touch(&self, row: u64) {
        let (word, bit) = self.place(row);
        if self.recent[0].at(word).load(Ordering::Acquire) & bit == 0 {
            self.recent[0].at(word).fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// A checkpoint begins.
    pub fn turn(&self) {
        for (now, before) in self.recent[0].from(0).zip(self.recent[1].from(0)) {
            if now.load(Ordering::Relaxed) != 0 {
                before.fetch_or(now.swap(0, Ordering::AcqRel), Ordering::AcqRel);
            }
        }
    }

    /// A checkpoint has ended: the journal forgets what was changed before the one before it.
    pub fn settle(&self) {
        for (before, oldest) in self.recent[1].from(0).zip(self.recent[2].from(0)) {
            oldest.store(before.swap(0, Ordering::AcqRel), Ordering::Release);
        }
    }

    /// A member went out: it may lack what was changed recently.
    pub fn keep_recent(&self) {
        for recent in &self.recent {
            for (bits, recent) in self.bits.from(0).zip(recent.from(0)) {
                bits.fetch_or(recent.load(Ordering::Acquire), Ordering::AcqRel);
            }
        }
    }

    /// Whether the row, or one near it, was changed.
    pub fn is_set(&self, row: u64) -> bool {
        let (word, bit) = self.place(row);
        self.bits.at(word).load(Ordering::Acquire) & bit != 0
    }

    /// Whether the row's bit is on stable media.
    pub fn is_durable(&self, row: u64) -> bool {
        let (word, bit) = self.place(row);
        self.durable.at(word).load(Ordering::Acquire) & bit != 0
    }

    /// All bits, 64 to a word.
    pub fn words(&self) -> Vec<u64> {
        self.bits.from(0).map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// Notes that `words` are on stable media.
    pub fn written(&self, words: &[u64]) {
        for (durable, word) in self.durable.from(0).zip(words) {
            durable.store(*word, Ordering::Release);
        }
    }

    /// Takes in words that were found on a member, beside what was found on others. `first`: the number of the first one.
    pub fn load(&self, first: usize, words: impl Iterator<Item = u64>) {
        for (place, word) in self.bits.from(first).zip(words) {
            place.fetch_or(word, Ordering::AcqRel);
        }
    }

    /// Nobody needs it any more.
    pub fn clear(&self) {
        for word in self.bits.from(0) {
            word.store(0, Ordering::Release);
        }
    }
}
