//! Where the bytes of a pool lie: from its own bytes to rows, and from data units to slots. Pure arithmetic, drawn in
//! docs/formats/pool.md.

use std::ops::Range;

use super::format::{BLOCK, Geometry, set_of};
use super::level::Level;

/// A set of slots, a bit each.
pub type Slots = u64;

/// A part of one data unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Which row.
    pub row: u64,
    /// Which data unit of it.
    pub unit: usize,
    /// Where in the unit, in bytes.
    pub offset: usize,
    /// Bytes, not beyond the unit's end.
    pub length: usize,
}

impl Piece {
    /// The blocks of the unit that it touches.
    pub fn positions(&self) -> Range<usize> {
        self.offset / BLOCK..(self.offset + self.length).div_ceil(BLOCK)
    }

    /// Whether it has whole blocks only.
    pub fn is_whole(&self) -> bool {
        self.offset.is_multiple_of(BLOCK) && self.length.is_multiple_of(BLOCK)
    }
}

/// The pieces of a run of the bytes of the first set, in order.
pub fn pieces(geometry: &Geometry, offset: u64, length: u64) -> impl Iterator<Item = Piece> + use<> {
    pieces_from(geometry, 0, offset, length)
}

/// The pieces of a run of bytes, in order; `offset` counts from the begin of row `first`, in whose set the run lies.
pub fn pieces_from(
    geometry: &Geometry,
    first: u64,
    mut offset: u64,
    mut length: u64,
) -> impl Iterator<Item = Piece> + use<> {
    let (unit, units) = (u64::from(geometry.unit), u64::from(geometry.data_units_of(first)));
    std::iter::from_fn(move || {
        if length == 0 {
            return None;
        }
        let (index, within) = (offset / unit, offset % unit);
        let count = length.min(unit - within);
        offset += count;
        length -= count;
        Some(Piece {
            row: first + index / units,
            unit: (index % units) as usize,
            offset: within as usize,
            length: count as usize,
        })
    })
}

/// What lies in one slot of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A data unit, or a copy of one.
    Data(usize),
    /// The exclusive or of the data units.
    P,
    /// Their weighted sum.
    Q,
}

/// The arrangement of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    level: Level,
    /// The first slot of its set; 0 of levels that have but one.
    first: usize,
    /// How many slots that has.
    slots: usize,
    /// Where parity begins, for levels that have one.
    parity: usize,
}

impl Row {
    /// Of row `row`.
    pub fn new(geometry: &Geometry, row: u64) -> Row {
        let slots = geometry.set_slots(set_of(row));
        Row { first: slots.start, ..Row::of(geometry.level, slots.len(), row) }
    }

    /// Of row `row` of so many slots, at least one.
    pub fn of(level: Level, slots: usize, row: u64) -> Row {
        Row { level, first: 0, slots, parity: slots - 1 - (row % slots as u64) as usize }
    }

    /// The slots in which it lies.
    pub fn slots(&self) -> Slots {
        set(self.first..self.end())
    }

    /// The slot behind its last one.
    pub fn end(&self) -> usize {
        self.first + self.slots
    }

    /// Whether a slot lies before its first one.
    pub fn is_behind(&self, slot: usize) -> bool {
        slot < self.first
    }

    /// Data units.
    pub fn units(&self) -> usize {
        match self.level {
            Level::Single | Level::Raid1 => 1,
            Level::Raid0 => self.slots,
            Level::Raid10 => self.slots / 2,
            Level::Raid5 => self.slots - 1,
            Level::Raid6 => self.slots - 2,
        }
    }

    /// Blocks of a column that hold what is computed from the data.
    pub fn parities(&self) -> usize {
        match self.level {
            Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }

    /// The slots that hold data unit `unit`: several alike where there are copies.
    pub fn copies(&self, unit: usize) -> Range<usize> {
        match self.level {
            Level::Single => 0..1,
            Level::Raid0 => self.first + unit..self.first + unit + 1,
            Level::Raid1 => 0..self.slots,
            Level::Raid10 => self.first + 2 * unit..self.first + 2 * unit + 2,
            Level::Raid5 | Level::Raid6 => {
                let slot = (self.parity + self.parities() + unit) % self.slots;
                slot..slot + 1
            }
        }
    }

    /// The slot of P.
    pub fn p(&self) -> Option<usize> {
        (self.parities() > 0).then_some(self.parity)
    }

    /// The slot of Q.
    pub fn q(&self) -> Option<usize> {
        (self.parities() > 1).then(|| (self.parity + 1) % self.slots)
    }

    /// The slots of P and Q.
    pub fn parity_slots(&self) -> Slots {
        [self.p(), self.q()].into_iter().flatten().fold(0, |slots, slot| slots | 1 << slot)
    }

    /// What lies in `slot`, which is one of its slots.
    pub fn role(&self, slot: usize) -> Role {
        match self.level {
            Level::Single | Level::Raid1 => Role::Data(0),
            Level::Raid0 => Role::Data(slot - self.first),
            Level::Raid10 => Role::Data((slot - self.first) / 2),
            Level::Raid5 | Level::Raid6 => match (slot + self.slots - self.parity) % self.slots {
                0 => Role::P,
                1 if self.parities() == 2 => Role::Q,
                place => Role::Data(place - self.parities()),
            },
        }
    }

    /// The slots of which any one can stand for `slot` (its copies), or together with which it makes up a column.
    pub fn group(&self, slot: usize) -> Slots {
        match (self.level, self.role(slot)) {
            (Level::Raid5 | Level::Raid6, _) => self.slots(),
            (_, Role::Data(unit)) => set(self.copies(unit)),
            (_, Role::P | Role::Q) => unreachable!("only levels with parity have it"),
        }
    }

    /// Whether all of the row can be had while the slots of `gone` cannot.
    pub fn survives(&self, gone: Slots) -> bool {
        match self.level {
            Level::Raid5 | Level::Raid6 => gone.count_ones() as usize <= self.parities(),
            _ => (0..self.units()).all(|unit| set(self.copies(unit)) & !gone != 0),
        }
    }
}

/// The set of `slots`.
pub fn set(slots: Range<usize>) -> Slots {
    slots.fold(0, |set, slot| set | 1 << slot)
}

/// The members of a set, ascending.
pub fn members(mut set: Slots) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let slot = set.trailing_zeros() as usize;
        set &= set - 1;
        Some(slot)
    })
}

#[cfg(test)]
mod tests;
