//! Writes that wait for their row. Those that come while a row is being changed are made together, as one change: so
//! neighbours gather into stripes, and writes of one row do not wait for one another.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use ring::{Buffer, Notify};

use super::format::{BLOCK, Geometry};
use super::layout::{self, Piece};
use crate::error::Error;

/// Parts of one change at most: what they are together is found by comparing each with each.
const PARTS: usize = 64;

/// A write, or a request for zeroes, whose rows are being changed.
#[derive(Default)]
pub(super) struct Job {
    /// What is to be written; empty for zeroes.
    buffer: RefCell<Buffer>,
    /// Parts that are not done.
    parts: Cell<usize>,
    error: RefCell<Option<Error>>,
    done: Notify,
}

impl Job {
    /// How many parts are not done.
    pub(super) fn parts(&self) -> usize {
        self.parts.get()
    }

    /// Waits until all parts are done. Gives what went wrong first.
    pub(super) async fn wait(&self) -> Result<(), Error> {
        self.done.until(|| (self.parts.get() == 0).then_some(())).await;
        self.error.take().map_or(Ok(()), Err)
    }
}

/// What one request changes in one row.
pub(super) struct Part {
    job: Rc<Job>,
    /// Its place in the job's bytes.
    at: usize,
    /// Its place in the row's bytes.
    offset: usize,
    length: usize,
    zeroes: bool,
}

impl Part {
    /// `length` bytes of a row from `offset` on become those of the job from `at` on.
    pub(super) fn new(job: &Rc<Job>, at: usize, offset: usize, length: usize) -> Part {
        job.parts.set(job.parts.get() + 1);
        let zeroes = job.buffer.borrow().is_empty();
        Part { job: job.clone(), at, offset, length, zeroes }
    }

    /// The bytes of the row whose blocks change: whole blocks, as one that is changed in part has no old bytes that may be
    /// read while it is written.
    pub(super) fn bytes(&self) -> Range<usize> {
        self.offset / BLOCK * BLOCK..(self.offset + self.length).next_multiple_of(BLOCK)
    }

    /// Whether it makes zeroes.
    pub(super) fn zeroes(&self) -> bool {
        self.zeroes
    }

    /// The pieces of the row that change.
    pub(super) fn pieces(&self, geometry: &Geometry, row: u64) -> impl Iterator<Item = Piece> + use<> {
        layout::pieces_from(geometry, row, self.offset as u64, self.length as u64)
    }

    /// Puts the bytes for those blocks of `unit` which stand at `positions` into `out`, which has those blocks. Gives which
    /// bytes of `out` are new.
    pub(super) fn put(
        &self,
        geometry: &Geometry,
        unit: usize,
        positions: &Range<usize>,
        out: &mut [u8],
    ) -> Option<Range<usize>> {
        // All in bytes of the row.
        let first = unit * geometry.unit as usize + positions.start * BLOCK;
        let from = self.offset.max(first);
        let to = (self.offset + self.length).min(first + positions.len() * BLOCK);
        if from >= to {
            return None;
        }
        let place = from - first..to - first;
        if self.zeroes {
            out[place.clone()].fill(0);
        } else {
            let at = self.at + from - self.offset;
            out[place.clone()].copy_from_slice(&self.job.buffer.borrow()[at..at + to - from]);
        }
        Some(place)
    }

    /// Its request hears of it.
    pub(super) fn end(self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.job.error.borrow_mut().get_or_insert(error);
        }
        self.job.parts.set(self.job.parts.get() - 1);
        if self.job.parts.get() == 0 {
            self.job.done.notify();
        }
    }
}

/// The parts that wait on one core, by row.
#[derive(Default)]
pub(super) struct Gather {
    /// Rows of which a task makes the changes.
    rows: RefCell<HashMap<u64, Vec<Part>>>,
    /// Empty lists and jobs that have ended, to be used again.
    spare: RefCell<Vec<Vec<Part>>>,
    spare_jobs: RefCell<Vec<Rc<Job>>>,
}

impl Gather {
    /// A job that writes `buffer`, or zeroes when it is empty.
    pub(super) fn begin(&self, buffer: Buffer) -> Rc<Job> {
        let job = self.spare_jobs.borrow_mut().pop().unwrap_or_default();
        job.buffer.replace(buffer);
        job
    }

    /// A job that was waited for: gives its buffer back.
    pub(super) fn end(&self, job: Rc<Job>) -> Buffer {
        let buffer = job.buffer.take();
        if Rc::strong_count(&job) == 1 {
            self.spare_jobs.borrow_mut().push(job);
        }
        buffer
    }

    /// Adds a part. True when nobody makes the changes of the row yet: the caller has to see to it.
    pub(super) fn push(&self, row: u64, part: Part) -> bool {
        let mut begins = false;
        let mut rows = self.rows.borrow_mut();
        let parts = rows.entry(row).or_insert_with(|| {
            begins = true;
            self.spare.borrow_mut().pop().unwrap_or_default()
        });
        parts.push(part);
        begins
    }

    /// Takes what is to be changed in one go, in its order: parts that write, or parts that make zeroes. Nothing is left to
    /// be done when it is empty, and the row is nobody's any more.
    pub(super) fn take(&self, row: u64) -> Vec<Part> {
        let mut rows = self.rows.borrow_mut();
        let waiting = rows.get_mut(&row).expect("somebody makes its changes");
        let mut taken = self.spare.borrow_mut().pop().unwrap_or_default();
        match waiting.first().map(Part::zeroes) {
            None => self.give_back(rows.remove(&row).unwrap_or_default()),
            Some(zeroes) => {
                let alike = waiting.iter().take(PARTS).take_while(|part| part.zeroes == zeroes).count();
                taken.extend(waiting.drain(..alike));
            }
        }
        taken
    }

    /// A list that is empty again.
    pub(super) fn give_back(&self, list: Vec<Part>) {
        debug_assert!(list.is_empty());
        self.spare.borrow_mut().push(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_keeps_readers_off_the_whole_of_its_blocks() {
        let gather = Gather::default();
        let job = gather.begin(Buffer::zeroed(512));
        assert_eq!(Part::new(&job, 0, BLOCK + 512, 512).bytes(), BLOCK..2 * BLOCK);
        assert_eq!(Part::new(&job, 0, BLOCK - 256, 512).bytes(), 0..2 * BLOCK);
        assert_eq!(Part::new(&job, 0, BLOCK, BLOCK).bytes(), BLOCK..2 * BLOCK);
    }
}
