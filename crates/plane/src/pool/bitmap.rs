//! Which rows were changed while a member was out: all that it has to be given when it comes back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::format::Geometry;

/// Shared by all cores. A bit stands for neighbouring rows.
pub struct Bitmap {
    bits: Box<[AtomicU64]>,
    /// Those that are on stable media.
    durable: Box<[AtomicU64]>,
    /// Rows that were changed since the last checkpoint, and between that and the one before: what a member may lack
    /// that goes out now.
    recent: [Box<[AtomicU64]>; 2],
    rows_per_bit: u64,
}

impl Bitmap {
    /// Nothing was changed.
    pub fn new(geometry: &Geometry) -> Bitmap {
        let rows_per_bit = u64::from(geometry.rows_per_bit);
        let words = geometry.rows.div_ceil(rows_per_bit).div_ceil(64) as usize;
        let zeroes = || -> Box<[AtomicU64]> { (0..words).map(|_| AtomicU64::new(0)).collect() };
        Bitmap { bits: zeroes(), durable: zeroes(), recent: [zeroes(), zeroes()], rows_per_bit }
    }

    fn place(&self, row: u64) -> (usize, u64) {
        let bit = row / self.rows_per_bit;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    /// The row is changed. Gives whether that has to be made durable yet.
    pub fn set(&self, row: u64) -> bool {
        let (word, bit) = self.place(row);
        if self.bits[word].load(Ordering::Acquire) & bit == 0 {
            self.bits[word].fetch_or(bit, Ordering::AcqRel);
        }
        self.durable[word].load(Ordering::Acquire) & bit == 0
    }

    /// The row is changed; all members take part, so far.
    pub fn touch(&self, row: u64) {
        let (word, bit) = self.place(row);
        if self.recent[0][word].load(Ordering::Acquire) & bit == 0 {
            self.recent[0][word].fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// A checkpoint begins.
    pub fn turn(&self) {
        for (now, before) in self.recent[0].iter().zip(&self.recent[1]) {
            if now.load(Ordering::Relaxed) != 0 {
                before.fetch_or(now.swap(0, Ordering::AcqRel), Ordering::AcqRel);
            }
        }
    }

    /// A checkpoint has ended: what was changed before it began is on stable media.
    pub fn settle(&self) {
        for word in &self.recent[1] {
            word.store(0, Ordering::Release);
        }
    }

    /// A member went out: it may lack what was changed recently.
    pub fn keep_recent(&self) {
        for recent in &self.recent {
            for (bits, recent) in self.bits.iter().zip(recent) {
                bits.fetch_or(recent.load(Ordering::Acquire), Ordering::AcqRel);
            }
        }
    }

    /// Whether the row, or one near it, was changed.
    pub fn is_set(&self, row: u64) -> bool {
        let (word, bit) = self.place(row);
        self.bits[word].load(Ordering::Acquire) & bit != 0
    }

    /// Whether the row's bit is on stable media.
    pub fn is_durable(&self, row: u64) -> bool {
        let (word, bit) = self.place(row);
        self.durable[word].load(Ordering::Acquire) & bit != 0
    }

    /// All bits, 64 to a word.
    pub fn words(&self) -> Vec<u64> {
        self.bits.iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// Notes that `words` are on stable media.
    pub fn written(&self, words: &[u64]) {
        for (durable, word) in self.durable.iter().zip(words) {
            durable.store(*word, Ordering::Release);
        }
    }

    /// Takes in words that were found on a member, beside what was found on others. `first`: the number of the first one.
    pub fn load(&self, first: usize, words: impl Iterator<Item = u64>) {
        for (place, word) in self.bits.iter().skip(first).zip(words) {
            place.fetch_or(word, Ordering::AcqRel);
        }
    }

    /// Nobody needs it any more.
    pub fn clear(&self) {
        for word in &self.bits {
            word.store(0, Ordering::Release);
        }
    }
}
