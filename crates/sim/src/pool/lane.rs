//! One lane of a history: requests one after the other, each held against the model.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use plane::disk::Disk;
use plane::pool::PoolDisk;
use plane::pool::layout::Slots;
use plane::{Extent, Flags, Request, Verb};
use ring::Buffer;

use super::atlas::Atlas;
use super::model::{Model, Run, fill};
use super::roster::Roster;
use crate::{Failure, SECTOR};

/// What lanes and the scenario share.
pub struct Control {
    pub roster: Rc<Roster>,
    pub model: RefCell<Model>,
    pub atlas: RefCell<Atlas>,
    /// Slots that an administrator took out since the pool was opened.
    pub unwanted: Cell<Slots>,
    /// Requests that may still begin.
    pub budget: Cell<u32>,
    /// Lanes at work.
    pub working: Cell<u32>,
    /// Requests that were acknowledged.
    pub done: Cell<u64>,
    /// Errors that were right.
    pub tolerated: Cell<u64>,
    /// What has befallen the pool, for people.
    pub story: RefCell<Vec<String>>,
    /// The first thing that was wrong.
    pub failure: RefCell<Option<Failure>>,
}

impl Control {
    /// The first failure counts.
    pub fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
        self.budget.set(0);
    }

    /// Whether an error is one that redundancy does not prevent.
    fn tolerates(&self, volume: usize, bytes: &std::ops::Range<u64>, is_read: bool) -> bool {
        let mut atlas = self.atlas.borrow_mut();
        atlas.look(&self.roster);
        if is_read { atlas.may_fail_read(volume, bytes) } else { atlas.may_fail_write(volume, bytes) }
    }
}

/// Who asks.
pub struct Lane {
    pub control: Rc<Control>,
    pub disk: Rc<PoolDisk>,
    pub volume: usize,
    /// The number of the volume's first sector in the model.
    pub base: usize,
    pub sectors: usize,
    /// Sectors of what is written as a whole.
    pub block: usize,
    /// Sectors of a row.
    pub row: usize,
    /// Where most requests go.
    pub hot: usize,
    pub random: fastrand::Rng,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Read,
    Write,
    WriteThrough,
    Zeroes,
    Discard,
    Flush,
}

fn bytes_of(first: usize, count: usize) -> std::ops::Range<u64> {
    (first * SECTOR) as u64..((first + count) * SECTOR) as u64
}

impl Lane {
    /// Works until the budget is used up.
    pub async fn run(mut self) {
        let control = self.control.clone();
        while control.budget.get() > 0 {
            control.budget.set(control.budget.get() - 1);
            let (wish, first, count) = self.draw();
            let result = match wish {
                Wish::Read => self.read(first, count).await,
                Wish::Flush => self.flush().await,
                _ => self.write(wish, first, count).await,
            };
            if let Err(failure) = result {
                control.fail(failure);
            }
        }
        control.working.set(control.working.get() - 1);
    }

    fn draw(&mut self) -> (Wish, usize, usize) {
        let random = &mut self.random;
        let wish = match random.u8(0..20) {
            0..6 => Wish::Read,
            6..13 => Wish::Write,
            13..16 => Wish::WriteThrough,
            16 => Wish::Zeroes,
            17..19 => Wish::Discard,
            _ => Wish::Flush,
        };
        let most = match random.u8(0..12) {
            0..5 => 8,
            5..9 => 24,
            9..11 => self.row,
            _ => 3 * self.row,
        };
        let mut count = random.usize(1..=most.min(self.sectors));
        let mut first = if random.bool() {
            (self.hot + random.usize(0..64)) % self.sectors
        } else {
            random.usize(0..self.sectors)
        };
        let aligned = if random.bool() { 8 } else { self.block };
        first = first / aligned * aligned;
        count = count.next_multiple_of(aligned);
        (wish, first, count.min(self.sectors - first))
    }

    async fn read(&self, first: usize, count: usize) -> Result<(), Failure> {
        let (bytes, run) = (bytes_of(first, count), Run { first: self.base + first, count });
        let begun = self.control.model.borrow_mut().begin_read();
        let completion = self.disk.submit(Request::read(bytes.start, Buffer::new(count * SECTOR))).await;
        match completion.result {
            Ok(()) => {
                self.control.done.set(self.control.done.get() + 1);
                let stays = !self.control.atlas.borrow().is_broken();
                let end = self.control.model.borrow_mut().end_read(run, begun, &completion.buffer, stays);
                end.map_err(|Failure(why)| {
                    Failure(format!("a read of volume {} at {}: {why}", self.volume, bytes.start))
                })
            }
            Err(error) => {
                self.control.model.borrow_mut().give_up_read(begun);
                self.judge("read", &bytes, true, &error)
            }
        }
    }

    fn judge(
        &self,
        what: &str,
        bytes: &std::ops::Range<u64>,
        is_read: bool,
        error: &plane::Error,
    ) -> Result<(), Failure> {
        if self.control.tolerates(self.volume, bytes, is_read) {
            self.control.tolerated.set(self.control.tolerated.get() + 1);
            return Ok(());
        }
        let volume = self.volume;
        Err(Failure(format!(
            "{what} of volume {volume} at {bytes:?} fails, though redundancy suffices: {error}"
        )))
    }

    async fn write(&self, wish: Wish, first: usize, count: usize) -> Result<(), Failure> {
        let (bytes, run) = (bytes_of(first, count), Run { first: self.base + first, count });
        let zeroes = matches!(wish, Wish::Zeroes | Wish::Discard);
        let (begun, value) = self.control.model.borrow_mut().begin_write(run, zeroes);
        let extent = Extent::new(bytes.start, bytes.end - bytes.start);
        let request = match wish {
            Wish::Zeroes => Request::plain(Verb::WriteZeroes, extent),
            Wish::Discard => Request::plain(Verb::Discard, extent),
            _ => {
                let mut buffer = Buffer::new(count * SECTOR);
                for (index, sector) in buffer.chunks_exact_mut(SECTOR).enumerate() {
                    fill(sector, run.first + index, value);
                }
                let request = Request::write(bytes.start, buffer);
                if wish == Wish::WriteThrough { request.with(Flags::FUA) } else { request }
            }
        };
        let result = self.disk.submit(request).await.result;
        self.control.model.borrow_mut().end_write(run, begun, result.is_ok());
        match result {
            Ok(()) => {
                self.control.done.set(self.control.done.get() + 1);
                Ok(())
            }
            Err(error) => self.judge("a write", &bytes, false, &error),
        }
    }

    async fn flush(&self) -> Result<(), Failure> {
        match self.disk.submit(Request::flush()).await.result {
            Ok(()) => Ok(()),
            Err(_) if self.control.atlas.borrow().is_broken() => Ok(()),
            Err(error) => Err(Failure(format!("a flush fails, though redundancy suffices: {error}"))),
        }
    }
}
