//! What is wrong with a file of a simulated disk, or waits to be.

use std::ops::Range;

/// A way in which a disk fails its users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// [`Node::fail_reads`](super::Node::fail_reads)
    FailReads,
    /// [`Node::fail_reads_until_written`](super::Node::fail_reads_until_written)
    FailReadsUntilWritten,
    /// [`Node::fail_writes`](super::Node::fail_writes)
    FailWrites,
    /// [`Node::fail_flushes`](super::Node::fail_flushes)
    FailFlushes,
    /// [`Node::drop_writes`](super::Node::drop_writes)
    DropWrites,
    /// [`Node::misdirect_writes`](super::Node::misdirect_writes)
    MisdirectWrites {
        /// How far from where they belong, in bytes.
        distance: i64,
    },
    /// [`Node::misread`](super::Node::misread)
    Misread,
    /// [`Node::flip_bit`](super::Node::flip_bit)
    FlipBit {
        /// Which one of the byte, 0 to 7.
        bit: u8,
    },
    /// [`Node::corrupt`](super::Node::corrupt)
    Corrupt,
}

/// A fault that was planted in a file, and what has come of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plant {
    /// What it does.
    pub fault: Fault,
    /// The bytes of the file whose operations it befalls. Of [`Fault::FailReadsUntilWritten`] what is not written yet:
    /// a write into its middle makes two of one.
    pub range: Range<u64>,
    /// How many more operations it befalls, 0 when it is over; `None`: all that come.
    pub left: Option<u32>,
    /// How many operations it has befallen.
    pub struck: u32,
}

#[derive(Default)]
pub(super) struct Faults {
    /// Oldest first; the oldest that fits strikes.
    pub(super) plants: Vec<Plant>,
    pub(super) stalled: bool,
    pub(super) detached: bool,
    /// How many times as long as usual operations take; 0 is 1.
    pub(super) slowness: u32,
    /// [`Node::make_device`](super::Node::make_device); 0: it is a file.
    pub(super) device_block: u64,
}

impl Faults {
    pub(super) fn plant(&mut self, fault: Fault, range: Range<u64>, left: Option<u32>) {
        self.plants.push(Plant { fault, range, left, struck: 0 });
    }

    /// Keeps a fault in mind that has done its work at once.
    pub(super) fn done(&mut self, fault: Fault, range: Range<u64>) {
        self.plants.push(Plant { fault, range, left: Some(0), struck: 1 });
    }

    /// Ends what waits; what has struck stays on record.
    pub(super) fn end(&mut self) {
        for plant in &mut self.plants {
            plant.left = Some(0);
        }
    }

    /// The fault among those that `fits` tells which an operation on `length` bytes from `offset` meets, counted.
    pub(super) fn strike(
        &mut self,
        offset: u64,
        length: u64,
        fits: impl Fn(Fault) -> bool,
    ) -> Option<(Fault, Range<u64>)> {
        let end = offset.saturating_add(length);
        let met = self.plants.iter_mut().find(|plant| {
            let touches = offset < plant.range.end && plant.range.start < end;
            touches && plant.left != Some(0) && fits(plant.fault)
        })?;
        met.struck += 1;
        if let Some(left) = &mut met.left {
            *left -= 1;
        }
        Some((met.fault, met.range.clone()))
    }

    /// Sectors that were written whole can be read again.
    pub(super) fn written(&mut self, range: Range<u64>, sector: usize) {
        if self.plants.is_empty() {
            return;
        }
        let sector = sector as u64;
        let whole = range.start.div_ceil(sector) * sector..range.end / sector * sector;
        let mut rests = Vec::new();
        for plant in &mut self.plants {
            let Range { start, end } = plant.range;
            let is_pending = plant.fault == Fault::FailReadsUntilWritten && plant.left != Some(0);
            if !is_pending || whole.end <= start || end <= whole.start || whole.is_empty() {
                continue;
            }
            match (start < whole.start, whole.end < end) {
                (true, true) => {
                    rests.push(Plant { range: whole.end..end, ..plant.clone() });
                    plant.range.end = whole.start;
                }
                (true, false) => plant.range.end = whole.start,
                (false, true) => plant.range.start = whole.end,
                (false, false) => {
                    plant.range.end = start;
                    plant.left = Some(0);
                }
            }
        }
        self.plants.extend(rests);
    }
}
