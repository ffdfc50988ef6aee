//! What each sector of the volumes may hold.
//!
//! A sector is a register: a write that is under way may have come into effect or not, an acknowledged one has, and what
//! it found there does not come back. That holds over power cuts as well: a pool acknowledges only what is on stable media.

use std::collections::BTreeSet;

use crate::{Failure, SECTOR};

/// Whose turn it was: every begin and every end of an operation has its own.
type Moment = u64;

/// One value that a sector may hold.
#[derive(Clone, Debug)]
struct Candidate {
    /// What it reads as: the number of its write, or 0 for zeroes.
    value: u64,
    begun: Moment,
    /// When it was answered, or its process ended.
    ended: Option<Moment>,
    /// Reads that begin after this cannot see it.
    over: Option<Moment>,
}

/// A run of sectors of all volumes, counted as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first one.
    pub first: usize,
    /// How many.
    pub count: usize,
}

/// All sectors of all volumes.
pub struct Model {
    sectors: Vec<Vec<Candidate>>,
    /// What each was written with since it was settled last.
    past: Vec<Vec<u64>>,
    now: Moment,
    values: u64,
    reads: BTreeSet<Moment>,
}

/// Puts the bytes of `value` into a sector.
pub fn fill(bytes: &mut [u8], sector: usize, value: u64) {
    if value == 0 {
        return bytes.fill(0);
    }
    let mixed =
        value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (sector as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let (words, _) = bytes.as_chunks_mut::<8>();
    for (index, word) in words.iter_mut().enumerate() {
        let content = match index {
            0 => value,
            1 => sector as u64,
            _ => mixed.wrapping_mul(2 * index as u64 + 1).rotate_left(index as u32),
        };
        *word = content.to_le_bytes();
    }
}

/// The value that a sector's bytes stand for; none when nobody wrote them there.
fn value_of(bytes: &[u8], sector: usize) -> Option<u64> {
    let value = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    let mut wanted = [0; SECTOR];
    fill(&mut wanted, sector, value);
    (wanted == bytes).then_some(value)
}

impl Model {
    /// So many sectors of zeroes.
    pub fn new(sectors: usize) -> Model {
        let zeroes = Candidate { value: 0, begun: 0, ended: Some(0), over: None };
        let past = vec![vec![0]; sectors];
        Model { sectors: vec![vec![zeroes]; sectors], past, now: 1, values: 0, reads: BTreeSet::new() }
    }

    /// There are so many more, of zeroes.
    pub fn extend(&mut self, sectors: usize) {
        let more = Model::new(sectors);
        self.sectors.extend(more.sectors);
        self.past.extend(more.past);
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// A write of new bytes, or of zeroes, begins. Gives the moment, by which it is known, and the value.
    pub fn begin_write(&mut self, run: Run, zeroes: bool) -> (Moment, u64) {
        let begun = self.tick();
        self.values += u64::from(!zeroes);
        let value = if zeroes { 0 } else { self.values };
        for sector in self.of(run) {
            sector.push(Candidate { value, begun, ended: None, over: None });
        }
        for past in &mut self.past[run.first..run.first + run.count] {
            past.push(value);
        }
        (begun, value)
    }

    /// A write has ended; unless it was acknowledged, it is there or not.
    pub fn end_write(&mut self, run: Run, begun: Moment, acknowledged: bool) {
        let now = self.tick();
        let oldest = self.reads.first().copied().unwrap_or(now);
        for sector in self.of(run) {
            for candidate in sector.iter_mut() {
                if candidate.begun == begun {
                    candidate.ended = Some(now);
                } else if acknowledged && candidate.ended.is_some_and(|ended| ended < begun) {
                    candidate.over.get_or_insert(now);
                }
            }
            sector.retain(|candidate| candidate.over.is_none_or(|over| over > oldest));
        }
    }

    fn of(&mut self, run: Run) -> &mut [Vec<Candidate>] {
        &mut self.sectors[run.first..run.first + run.count]
    }

    /// A read begins.
    pub fn begin_read(&mut self) -> Moment {
        let now = self.tick();
        self.reads.insert(now);
        now
    }

    /// A read has failed.
    pub fn give_up_read(&mut self, begun: Moment) {
        self.reads.remove(&begun);
    }

    /// A read has ended with these bytes. `stays`: what it saw is not gone after the next cut, as it may be of a pool that has
    /// failed.
    pub fn end_read(&mut self, run: Run, begun: Moment, bytes: &[u8], stays: bool) -> Result<(), Failure> {
        let now = self.tick();
        self.reads.remove(&begun);
        for (index, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
            let number = run.first + index;
            let value = value_of(bytes, number);
            let sector = &mut self.sectors[number];
            let mut fitting = sector.iter().filter(|candidate| {
                Some(candidate.value) == value && candidate.over.is_none_or(|over| over > begun)
            });
            let Some(seen) = fitting.next().map(|candidate| candidate.begun) else {
                return Err(Failure(format!(
                    "sector {number} has {}, but may only have {:?}",
                    describe(value, bytes),
                    sector
                )));
            };
            if stays && fitting.next().is_none() {
                for other in sector.iter_mut() {
                    if other.ended.is_some_and(|ended| ended < seen) {
                        other.over.get_or_insert(now);
                    }
                }
            }
        }
        Ok(())
    }

    /// The process has ended: whatever was under way is there or not.
    pub fn cut(&mut self) {
        let now = self.tick();
        self.reads.clear();
        for candidate in self.sectors.iter_mut().flatten() {
            candidate.ended.get_or_insert(now);
        }
    }

    /// More members than redundancy replaces have lost parts of the journal: nothing is left that says what was written
    /// after what. Each sector holds something that it was written with since it was settled and kept, and nothing older.
    pub fn doubt(&mut self) {
        let now = self.tick();
        for (sector, past) in self.sectors.iter_mut().zip(&self.past) {
            let values: BTreeSet<u64> = past.iter().copied().collect();
            *sector = values
                .into_iter()
                .map(|value| Candidate { value, begun: now, ended: Some(now), over: None })
                .collect();
        }
    }

    /// Whether a sector was written to since it was settled and kept.
    pub fn is_fresh(&self, sector: usize) -> bool {
        self.past[sector].len() > 1
    }

    /// The sectors were read of a pool that has failed: they hold something that they may hold. It may be gone again with the
    /// next cut, as such a pool could not make durable what its journal had.
    pub fn glance(&self, run: Run, bytes: &[u8]) -> Result<(), Failure> {
        for (index, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
            let number = run.first + index;
            let value = value_of(bytes, number);
            let sector = &self.sectors[number];
            if !sector.iter().any(|candidate| Some(candidate.value) == value && candidate.over.is_none()) {
                return Err(Failure(format!(
                    "sector {number} has {}, but may only have {sector:?}",
                    describe(value, bytes)
                )));
            }
        }
        Ok(())
    }

    /// Nothing is under way, and the sectors were read: from now on they hold that. `kept`: it is not only in the journal.
    pub fn settle(&mut self, run: Run, bytes: &[u8], kept: bool) -> Result<(), Failure> {
        let begun = self.begin_read();
        self.end_read(run, begun, bytes, true)?;
        for (index, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
            let number = run.first + index;
            let value = value_of(bytes, number).expect("it was recognised above");
            let now = self.now;
            self.sectors[number] = vec![Candidate { value, begun: now, ended: Some(now), over: None }];
            if kept {
                self.past[number] = vec![value];
            }
        }
        Ok(())
    }
}

fn describe(value: Option<u64>, bytes: &[u8]) -> String {
    match value {
        Some(0) => "zeroes".to_owned(),
        Some(value) => format!("value {value}"),
        None => format!("bytes that nobody wrote there, {:x?}...", &bytes[..16]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Run = Run { first: 0, count: 1 };

    fn bytes(value: u64) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        fill(&mut bytes, 0, value);
        bytes
    }

    fn read(model: &mut Model, value: u64) -> bool {
        let begun = model.begin_read();
        model.end_read(ONE, begun, &bytes(value), true).is_ok()
    }

    #[test]
    fn what_was_overwritten_does_not_come_back() {
        let mut model = Model::new(1);
        let (one, value) = model.begin_write(ONE, false);
        assert!(read(&mut model, 0) && read(&mut model, value), "under way: there or not");
        assert!(!read(&mut model, 0), "it was seen");
        let (other, newer) = model.begin_write(ONE, false);
        model.end_write(ONE, one, true);
        model.end_write(ONE, other, true);
        assert!(read(&mut model, value), "they were under way at once, in any order");
        assert!(read(&mut model, newer), "they were under way at once, in any order");
        let (last, zeroes) = model.begin_write(ONE, true);
        model.end_write(ONE, last, true);
        assert!(!read(&mut model, value) && !read(&mut model, newer) && read(&mut model, zeroes));
    }

    #[test]
    fn what_nobody_acknowledged_is_there_or_not() {
        let mut model = Model::new(1);
        let (one, value) = model.begin_write(ONE, false);
        model.end_write(ONE, one, false);
        model.cut();
        assert!(read(&mut model, 0));
        model.settle(ONE, &bytes(value), true).unwrap();
        assert!(!read(&mut model, 0));
    }

    #[test]
    fn what_is_in_doubt_is_not_older_than_what_was_settled() {
        let mut model = Model::new(1);
        let write = |model: &mut Model| {
            let (begun, value) = model.begin_write(ONE, false);
            model.end_write(ONE, begun, true);
            value
        };
        let old = write(&mut model);
        let settled = write(&mut model);
        model.settle(ONE, &bytes(settled), true).unwrap();
        let newer = write(&mut model);
        let newest = write(&mut model);
        assert!(!read(&mut model, settled) && !read(&mut model, newer) && read(&mut model, newest));
        model.doubt();
        assert!(!read(&mut model, 0) && !read(&mut model, old));
        assert!(read(&mut model, settled) && read(&mut model, newer) && read(&mut model, newest));
        model.settle(ONE, &bytes(newer), true).unwrap();
        assert!(!read(&mut model, settled) && !read(&mut model, newest));
    }

    #[test]
    fn a_sector_of_another_place_is_wrong() {
        let mut model = Model::new(2);
        let run = Run { first: 0, count: 2 };
        let (begun, value) = model.begin_write(run, false);
        model.end_write(run, begun, true);
        let begun = model.begin_read();
        assert!(model.end_read(Run { first: 1, count: 1 }, begun, &bytes(value), true).is_err());
    }
}
