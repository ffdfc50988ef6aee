//! One job: its tasks, of which each has one operation in flight.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ring::{Buffer, Instant, Notify, Ring, Shared};

use super::choose::{Choice, Chooser, Kind};
use super::job::{Extent, Load};
use super::schedule::Schedule;
use super::tally::Tallies;
use crate::initiator::{IoError, Session};
use crate::journal::Journal;
use crate::ledger::Ledger;

/// Errors after which a job stops.
const MAX_ERRORS: u64 = 100;
/// Errors that are told.
const TOLD: usize = 10;
/// Bytes of the random data that unstamped writes take theirs from.
const PATTERN: usize = 8 << 20;
/// Each of them takes it so many bytes further on than the one before.
const SHIFT: usize = 64;
/// How long a task that finds every place taken waits.
const TAKEN_PAUSE: Duration = Duration::from_micros(50);
/// Places that are tried before that.
const TRIES: u32 = 64;
/// The longest sleep of an open loop, so that it ends in time.
const NAP: Duration = Duration::from_millis(100);

/// What all jobs of a thread share.
pub(super) struct Common {
    pub(super) ring: Ring,
    pub(super) stop: Cell<bool>,
    pub(super) tallies: RefCell<Tallies>,
    /// Random bytes: each write takes another part of it, so that no two are alike and none can be compressed. It is near
    /// the one before, whose bytes are in the cache: fetching others from memory is not what is to be measured.
    pattern: Shared,
    pub(super) active: Cell<u32>,
    pub(super) idle: Notify,
    pub(super) errors: Cell<u64>,
    pub(super) told: RefCell<Vec<String>>,
}

impl Common {
    pub(super) fn new(ring: &Ring, seed: u64) -> Common {
        let mut pattern = Buffer::new(PATTERN);
        fastrand::Rng::with_seed(seed).fill(&mut pattern);
        Common {
            ring: ring.clone(),
            stop: Cell::new(false),
            tallies: RefCell::default(),
            pattern: pattern.share(),
            active: Cell::new(0),
            idle: Notify::new(),
            errors: Cell::new(0),
            told: RefCell::default(),
        }
    }
}

/// What is only there when a load is verified.
pub(super) struct Proof {
    pub(super) ledger: RefCell<Ledger>,
    /// Writes that were acknowledged and not flushed: slot and generation.
    unflushed: RefCell<Vec<(u64, u32)>>,
    pub(super) journal: Option<Journal>,
}

/// One job.
pub(super) struct Worker {
    pub(super) common: Rc<Common>,
    pub(super) session: Session,
    pub(super) load: Load,
    pub(super) extent: Extent,
    chooser: RefCell<Chooser>,
    pub(super) schedule: RefCell<Option<Schedule>>,
    pub(super) proof: Option<Proof>,
    writes: Cell<u64>,
    stop: Cell<bool>,
    /// Parts of the pattern that have been written.
    pattern: Cell<usize>,
}

impl Worker {
    pub(super) fn new(
        common: &Rc<Common>,
        session: Session,
        load: &Load,
        index: u32,
        start: Instant,
        proof: Option<(u64, Option<Journal>)>,
    ) -> Rc<Worker> {
        let geometry = session.geometry();
        let extent = load.extent(&geometry, index);
        let proof = proof.map(|(run, journal)| Proof {
            ledger: RefCell::new(Ledger::new(
                run,
                geometry.block_size,
                load.block_size,
                extent.offset,
                extent.slots,
            )),
            unflushed: RefCell::default(),
            journal,
        });
        let schedule = load.rate.map(|rate| Schedule::new(rate, start, load.jobs, index, load.seed));
        Rc::new(Worker {
            common: common.clone(),
            session,
            chooser: RefCell::new(Chooser::new(load, &extent, index)),
            load: load.clone(),
            extent,
            schedule: RefCell::new(schedule),
            proof,
            writes: Cell::new(0),
            stop: Cell::new(false),
            pattern: Cell::new(index as usize * PATTERN / SHIFT / load.jobs.max(1) as usize),
        })
    }

    /// Starts the tasks.
    pub(super) fn start(self: &Rc<Self>) {
        for _ in 0..self.load.depth {
            let worker = self.clone();
            self.common.active.set(self.common.active.get() + 1);
            self.common.ring.spawn_later(async move {
                if worker.load.rate.is_some() {
                    worker.open_loop().await;
                } else {
                    worker.closed_loop().await;
                }
                let common = &worker.common;
                common.active.set(common.active.get() - 1);
                if common.active.get() == 0 {
                    common.idle.notify();
                }
            });
        }
    }

    fn stopped(&self) -> bool {
        self.common.stop.get() || self.stop.get()
    }

    async fn closed_loop(&self) {
        let mut start = self.common.ring.now();
        while !self.stopped() {
            // The end of one operation is the start of the next.
            start = self.one(start).await;
        }
    }

    async fn open_loop(&self) {
        let ring = &self.common.ring;
        let mut now = ring.now();
        while !self.stopped() {
            let due = {
                let mut schedule = self.schedule.borrow_mut();
                let Some(schedule) = schedule.as_mut() else { return };
                schedule.next(now)
            };
            while now < due && !self.stopped() {
                ring.sleep_until(due.min(now + NAP)).await;
                now = ring.now();
            }
            if self.stopped() {
                return;
            }
            now = self.one(due).await;
        }
    }

    /// One operation, timed from `start`. Gives the time of its end.
    async fn one(&self, start: Instant) -> Instant {
        let (result, kind) = match &self.proof {
            None => self.plain().await,
            Some(proof) => self.proven(proof).await,
        };
        let end = self.session.heard();
        match result {
            Ok(()) => {
                let latency = end.since(start).as_nanos() as u64;
                let mut tallies = self.common.tallies.borrow_mut();
                let bytes = u64::from(self.load.block_size);
                match kind {
                    Kind::Read => tallies.reads.add(bytes, latency),
                    Kind::Write => tallies.writes.add(bytes, latency),
                }
            }
            Err(error) => self.failed(kind, &error),
        }
        if kind == Kind::Write && self.load.flush_every > 0 {
            self.writes.set(self.writes.get() + 1);
            if self.writes.get().is_multiple_of(self.load.flush_every) && !self.stopped() {
                self.flush().await;
                return self.common.ring.now();
            }
        }
        end
    }

    fn failed(&self, kind: Kind, error: &IoError) {
        self.tell(format!("{}: {error}", if kind == Kind::Read { "read" } else { "write" }));
        if error.is_final() || self.common.errors.get() >= MAX_ERRORS {
            self.stop.set(true);
        }
    }

    fn tell(&self, error: String) {
        self.common.errors.set(self.common.errors.get() + 1);
        let mut told = self.common.told.borrow_mut();
        if told.len() < TOLD && !told.contains(&error) {
            told.push(error);
        }
    }

    fn offset(&self, slot: u64) -> u64 {
        self.extent.offset + slot * u64::from(self.load.block_size)
    }

    /// An operation whose data nobody looks at.
    async fn plain(&self) -> (Result<(), IoError>, Kind) {
        let Choice { kind, slot } = self.chooser.borrow_mut().choose();
        let offset = self.offset(slot);
        let operation = match kind {
            Kind::Read => self.session.read_unseen(offset, self.load.block_size as usize),
            Kind::Write => self.session.write(offset, self.random_data(), self.load.fua),
        };
        (operation.await, kind)
    }

    /// A part of the pattern that differs from write to write.
    fn random_data(&self) -> Shared {
        let length = self.load.block_size as usize;
        let part = self.pattern.replace(self.pattern.get() + 1);
        if length >= PATTERN {
            // As long as the pattern, or longer: such large operations can afford a buffer of their own. It begins elsewhere in
            // the pattern each time, and goes round.
            let mut data = Buffer::new(length);
            let (mut filled, mut from) = (0, part * SHIFT % PATTERN);
            while filled < length {
                let count = (length - filled).min(PATTERN - from);
                data[filled..filled + count].copy_from_slice(&self.common.pattern[from..from + count]);
                (filled, from) = (filled + count, 0);
            }
            return data.share();
        }
        let place = part % ((PATTERN - length) / SHIFT + 1) * SHIFT;
        self.common.pattern.slice(place..place + length)
    }

    /// An operation on a place that it has for itself, stamped or checked.
    async fn proven(&self, proof: &Proof) -> (Result<(), IoError>, Kind) {
        let Choice { kind, slot } = self.reserve(proof).await;
        let offset = self.offset(slot);
        if kind == Kind::Read {
            let buffer = Buffer::new(self.load.block_size as usize);
            let (result, buffer) = self.session.read(offset, buffer).await;
            let mut ledger = proof.ledger.borrow_mut();
            if result.is_ok() {
                ledger.check(slot, &buffer);
            }
            ledger.release(slot);
            return (result, kind);
        }
        let mut data = Buffer::new(self.load.block_size as usize);
        let generation = proof.ledger.borrow_mut().stamp(slot, &mut data);
        let result = self.session.write(offset, data.share(), self.load.fua).await;
        {
            let mut ledger = proof.ledger.borrow_mut();
            ledger.written(slot, result.is_ok());
            ledger.release(slot);
        }
        if result.is_ok() && proof.journal.is_some() {
            if self.load.fua {
                self.durable(proof, &[(slot, generation)]).await;
            } else {
                proof.unflushed.borrow_mut().push((slot, generation));
            }
        }
        (result, kind)
    }

    async fn reserve(&self, proof: &Proof) -> Choice {
        let mut tries = 0;
        loop {
            let choice = self.chooser.borrow_mut().choose();
            if proof.ledger.borrow_mut().reserve(choice.slot) {
                return choice;
            }
            tries += 1;
            if tries % TRIES == 0 {
                self.common.ring.sleep(TAKEN_PAUSE).await;
            }
        }
    }

    /// A flush; what was acknowledged before it began is durable when it ends well.
    pub(super) async fn flush(&self) {
        let covered = self.proof.as_ref().map(|proof| std::mem::take(&mut *proof.unflushed.borrow_mut()));
        let start = self.common.ring.now();
        match self.session.flush().await {
            Ok(()) => {
                let latency = self.common.ring.now().since(start).as_nanos() as u64;
                self.common.tallies.borrow_mut().flushes.add(0, latency);
                if let (Some(proof), Some(covered)) = (&self.proof, covered) {
                    self.durable(proof, &covered).await;
                }
            }
            Err(error) => {
                self.tell(format!("flush: {error}"));
                if error.is_final() {
                    self.stop.set(true);
                }
            }
        }
    }

    async fn durable(&self, proof: &Proof, writes: &[(u64, u32)]) {
        let Some(journal) = &proof.journal else { return };
        // The journal counts from the start of the load's range, a verified job from its own part of it.
        let first = (self.extent.offset - self.load.offset) / u64::from(self.load.block_size);
        for &(slot, generation) in writes {
            journal.note(first + slot, u64::from(generation));
        }
        if let Err(error) = journal.write().await {
            self.tell(format!("journal: {error}"));
            self.stop.set(true);
        }
    }
}
