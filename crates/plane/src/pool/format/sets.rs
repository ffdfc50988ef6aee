//! Sets of slots: what a pool that was extended has several of. docs/formats/pool.md, "Extending".

use std::ops::Range;

/// Sets that a pool can have.
pub const MAX_SETS: usize = 16;

/// Bits of the number of a row that count within its set.
const ROW_BITS: u32 = 48;

/// The set that a row is in.
pub const fn set_of(row: u64) -> usize {
    (row >> ROW_BITS) as usize
}

/// Which row of its set a row is.
pub const fn within(row: u64) -> u64 {
    row & ((1 << ROW_BITS) - 1)
}

/// The number of a row of a set.
pub const fn row_of(set: usize, within: u64) -> u64 {
    (set as u64) << ROW_BITS | within
}

/// Where the sets begin. A pool that was not extended has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sets {
    /// How many there are beside the first one.
    further: u8,
    /// The first slot of each of those; zero behind them.
    begins: [u8; MAX_SETS - 1],
}

impl Sets {
    /// How many there are.
    pub const fn count(&self) -> usize {
        self.further as usize + 1
    }

    /// The slots of a set that there is, of so many in all.
    #[inline]
    pub fn slots(&self, set: usize, slots: u16) -> Range<usize> {
        let begin = if set == 0 { 0 } else { usize::from(self.begins[set - 1]) };
        let end = if set < usize::from(self.further) { self.begins[set].into() } else { slots.into() };
        begin..end
    }

    /// With one more, from slot `begin` on, as long as there is room.
    pub fn with(mut self, begin: u16) -> Option<Sets> {
        *self.begins.get_mut(usize::from(self.further))? = u8::try_from(begin).ok()?;
        self.further += 1;
        Some(self)
    }

    /// How many slots each has, of so many in all, as labels have it.
    pub(super) fn encode(&self, slots: u16) -> [u8; MAX_SETS] {
        std::array::from_fn(|set| {
            if self.further > 0 && set < self.count() { self.slots(set, slots).len() as u8 } else { 0 }
        })
    }

    /// As a label has them, which has several.
    pub(super) fn decode(bytes: &[u8; MAX_SETS]) -> Option<Sets> {
        let count = bytes.iter().take_while(|slots| **slots > 0).count();
        if count < 2 || bytes[count..].iter().any(|slots| *slots > 0) {
            return None;
        }
        let mut begin = 0_u16;
        bytes[..count - 1].iter().try_fold(Sets::default(), |sets, slots| {
            begin += u16::from(*slots);
            sets.with(begin)
        })
    }
}
