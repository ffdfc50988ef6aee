//! The strip of an archive that is being filled, or that is being looked at.

use std::io;

use super::format::{BLOCK, Block, GROUP, Layout};
use super::medium::{Medium, Part};
use super::series::Directory;

/// What a series was in one slot. What is not known is NaN in all three.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The smallest value.
    pub min: f32,
    /// The mean.
    pub mean: f32,
    /// The largest value.
    pub max: f32,
}

impl Slot {
    /// Nobody knows.
    pub const UNKNOWN: Self = Self { min: f32::NAN, mean: f32::NAN, max: f32::NAN };

    /// One measurement.
    pub fn of(value: f32) -> Self {
        Self { min: value, mean: value, max: value }
    }

    /// Whether something is known.
    pub fn is_known(&self) -> bool {
        !self.mean.is_nan()
    }

    /// Several as one: the smallest, the mean of means, the largest of what is known.
    pub fn fold(slots: impl IntoIterator<Item = Self>) -> Self {
        let mut folded = Self::UNKNOWN;
        let (mut sum, mut count) = (0.0, 0u32);
        for slot in slots {
            if slot.is_known() {
                // `min` and `max` of a number and NaN are the number.
                folded.min = folded.min.min(slot.min);
                folded.max = folded.max.max(slot.max);
                sum += f64::from(slot.mean);
                count += 1;
            }
        }
        if count > 0 {
            folded.mean = (sum / f64::from(count)) as f32;
        }
        folded
    }
}

/// Two slots that are unknown are equal.
impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        same(self.min, other.min) && same(self.mean, other.mean) && same(self.max, other.max)
    }
}

/// All columns for the time of one strip.
#[derive(Clone, Debug)]
pub struct Strip {
    /// Of which archive.
    pub layout: &'static Layout,
    /// Which time.
    pub number: u64,
    values: Vec<f32>,
}

impl Strip {
    /// One of which nothing is known.
    pub fn fresh(layout: &'static Layout, number: u64) -> Self {
        Self { layout, number, values: Vec::new() }
    }

    /// What the file has of it.
    pub fn load(
        layout: &'static Layout,
        number: u64,
        medium: &dyn Medium,
        directory: &Directory,
    ) -> io::Result<Self> {
        let mut strip = Self::fresh(layout, number);
        let mut bytes = vec![0; GROUP * BLOCK];
        for group in 0..directory.groups() {
            medium.read(Part::Archive(layout.number), layout.offset(group, number), &mut bytes)?;
            for (column, bytes) in (group * GROUP..).zip(bytes.chunks_exact(BLOCK)) {
                for (slot, value) in
                    (layout.first(number)..).zip(read_block(layout, number, column, bytes, directory))
                {
                    if value.is_known() {
                        strip.set(column, slot, value);
                    }
                }
            }
        }
        Ok(strip)
    }

    fn index(&self, column: usize, slot: u64) -> usize {
        debug_assert_eq!(self.layout.strip(slot), self.number, "a slot of this strip");
        (column * self.layout.slots + slot as usize % self.layout.slots) * self.layout.width
    }

    /// What a series was.
    pub fn get(&self, column: usize, slot: u64) -> Slot {
        let index = self.index(column, slot);
        self.values.get(index..index + self.layout.width).map_or(Slot::UNKNOWN, slot_of)
    }

    /// Says what a series was.
    pub fn set(&mut self, column: usize, slot: u64, value: Slot) {
        let index = self.index(column, slot);
        let end = (column + 1) * self.layout.slots * self.layout.width;
        if self.values.len() < end {
            self.values.resize(end, f32::NAN);
        }
        match &mut self.values[index..index + self.layout.width] {
            [min, mean, max] => (*min, *mean, *max) = (value.min, value.mean, value.max),
            [mean] => *mean = value.mean,
            _ => {}
        }
    }

    /// Forgets a column: it is another series' now.
    pub fn clear_column(&mut self, column: usize) {
        let bytes = self.layout.slots * self.layout.width;
        if let Some(values) = self.values.get_mut(column * bytes..(column + 1) * bytes) {
            values.fill(f32::NAN);
        }
    }

    /// Forgets what ends later than this, in seconds since 1970.
    pub fn clear_after(&mut self, time_s: u64) {
        let first = self.layout.first(self.number);
        for slot in first..first + self.layout.slots as u64 {
            if (slot + 1) * self.layout.step_s > time_s {
                let columns = self.values.len() / (self.layout.slots * self.layout.width);
                for column in 0..columns {
                    self.set(column, slot, Slot::UNKNOWN);
                }
            }
        }
    }

    /// Writes it to its place, and has it on stable media.
    pub fn seal(&self, medium: &mut dyn Medium, directory: &Directory) -> io::Result<()> {
        let part = Part::Archive(self.layout.number);
        let each = self.layout.slots * self.layout.width;
        let mut bytes = vec![0; GROUP * BLOCK];
        for group in 0..directory.groups() {
            bytes.fill(0);
            for (column, bytes) in (group * GROUP..).zip(bytes.chunks_exact_mut(BLOCK)) {
                let values = self.values.get(column * each..(column + 1) * each);
                if let (Some(serial), Some(values)) = (directory.serial(column), values) {
                    let block = Block {
                        era: directory.era(),
                        strip: self.number,
                        serial,
                        column: column as u32,
                        archive: self.layout.number,
                        values: values.to_vec(),
                    };
                    block.encode(bytes);
                }
            }
            medium.write(part, self.layout.offset(group, self.number), &bytes)?;
        }
        medium.sync(part)
    }
}

fn slot_of(values: &[f32]) -> Slot {
    match *values {
        [min, mean, max] => Slot { min, mean, max },
        [mean] => Slot::of(mean),
        _ => Slot::UNKNOWN,
    }
}

/// What the block of a column says of a strip, slot by slot. Whatever else is in the block is unknown.
pub fn read_block(
    layout: &Layout,
    strip: u64,
    column: usize,
    bytes: &[u8],
    directory: &Directory,
) -> Vec<Slot> {
    let wanted = |block: &Block| {
        block.archive == layout.number
            && block.strip == strip
            && block.column as usize == column
            && directory.serial(column) == Some(block.serial)
    };
    let Some(block) = Block::decode(bytes).filter(wanted) else {
        return vec![Slot::UNKNOWN; layout.slots];
    };
    let limit_s = directory.limit_s(block.era);
    let slots = (layout.first(strip)..).zip(block.values.chunks_exact(layout.width));
    let slot = |(slot, values): (u64, &[f32])| {
        if (slot + 1) * layout.step_s <= limit_s { slot_of(values) } else { Slot::UNKNOWN }
    };
    slots.map(slot).collect()
}
