//! Which rows were changed while a member was out: all that it has to be given when it comes back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::format::Geometry;

/// Shared by all cores. A bit stands for neighbouring rows.
pub struct Bitmap {
    bits: Box<[AtomicU64]>,
    /// Those that are on stable media.
    durable: Box<[AtomicU64]>,
    rows_per_bit: u64,
}

impl Bitmap {
    /// Nothing was changed.
    pub fn new(geometry: &Geometry) -> Bitmap {
        let rows_per_bit = u64::from(geometry.rows_per_bit);
        let words = geometry.rows.div_ceil(rows_per_bit).div_ceil(64) as usize;
        let zeroes = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Bitmap { bits: zeroes(), durable: zeroes(), rows_per_bit }
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

    /// Takes in what was found on a member, beside what was found on others.
    pub fn load(&self, first_bit: usize, bits: &[u64]) {
        for (index, word) in bits.iter().enumerate() {
            for bit in (0..64).filter(|bit| word & 1 << bit != 0) {
                let bit = first_bit + index * 64 + bit;
                if let Some(word) = self.bits.get(bit / 64) {
                    word.fetch_or(1 << (bit % 64), Ordering::AcqRel);
                }
            }
        }
    }

    /// Nobody needs it any more.
    pub fn clear(&self) {
        for word in &self.bits {
            word.store(0, Ordering::Release);
        }
    }
}
