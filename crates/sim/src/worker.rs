//! A session at work: several commands at once, drawn from the seed, each written into the history.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use lab::initiator::{IoError, IscsiSession};
use ring::{Buffer, Notify};
use wire::scsi::cdb::{Transfer, WriteSame, encode};
use wire::scsi::{Sense, SenseKey};

use crate::client::Connector;
use crate::history::{History, Id, Place, Wish};
use crate::{Failure, SECTOR};

/// How often those who pause look whether they go on.
const PAUSE: Duration = Duration::from_millis(10);

/// Which sense data a scenario expects, and for which volume, sectors (first and count) and command.
pub type Tolerance = Rc<dyn Fn(&Sense, &Place, &Wish) -> bool>;

/// What workers share with the scenario.
pub struct Control {
    /// Nothing more is begun.
    pub stop: Cell<bool>,
    /// Nothing is begun for a while.
    pub pause: Cell<bool>,
    /// The first thing that was wrong.
    pub failure: RefCell<Option<Failure>>,
    /// What was done.
    pub history: RefCell<History>,
    /// Workers that have not ended.
    pub working: Cell<usize>,
    /// Errors that were expected.
    pub tolerated: Cell<u64>,
    /// Errors that are expected.
    pub tolerance: RefCell<Tolerance>,
}

impl Control {
    /// Keeps the first failure and stops everything.
    pub fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
        self.stop.set(true);
    }

    fn keep(&self, result: Result<(), Failure>) {
        if let Err(failure) = result {
            self.fail(failure);
        }
    }
}

/// One nexus: it logs in, works, and logs in again when its session is lost.
pub struct Worker {
    /// Shared with the scenario.
    pub control: Rc<Control>,
    /// The way to the volume.
    pub connector: Connector,
    /// Distinguishes nexuses in the history.
    pub session: u64,
    /// Which volume.
    pub volume: usize,
    /// Its block size in sectors.
    pub block: u64,
    /// Its size in sectors.
    pub sectors: u64,
    /// Commands at once.
    pub depth: usize,
    /// Where everything is drawn from.
    pub random: fastrand::Rng,
}

/// One of the commands at once.
struct Lane {
    control: Rc<Control>,
    session: IscsiSession,
    nexus: u64,
    volume: usize,
    block: u64,
    sectors: u64,
    random: fastrand::Rng,
}

impl Worker {
    /// Works until it is told to stop.
    pub async fn run(mut self) {
        let ring = self.connector.ring().clone();
        while !self.control.stop.get() {
            match self.connector.connect().await {
                Ok(session) => {
                    self.control.history.borrow_mut().reinstated(self.session);
                    self.work(&session).await;
                    if session.lost().is_none() {
                        session.logout().await;
                    }
                }
                Err(_) => ring.sleep(Duration::from_millis(self.random.u64(1..200))).await,
            }
        }
        self.control.working.set(self.control.working.get() - 1);
    }

    async fn work(&mut self, session: &IscsiSession) {
        let running = Rc::new((Cell::new(self.depth), Notify::new()));
        for _ in 0..self.depth {
            let mut lane = Lane {
                control: self.control.clone(),
                session: session.clone(),
                nexus: self.session,
                volume: self.volume,
                block: self.block,
                sectors: self.sectors,
                random: self.random.fork(),
            };
            let running = running.clone();
            self.connector.ring().spawn_later(async move {
                while !lane.control.stop.get() && lane.session.lost().is_none() {
                    if lane.control.pause.get() {
                        lane.session.ring().sleep(PAUSE).await;
                    } else {
                        lane.step().await;
                    }
                }
                running.0.set(running.0.get() - 1);
                running.1.notify();
            });
        }
        running.1.until(|| (running.0.get() == 0).then_some(())).await;
    }
}

impl Lane {
    async fn step(&mut self) {
        match self.random.u8(0..100) {
            0..35 => self.read().await,
            35..62 => self.write(false).await,
            62..72 => self.write(true).await,
            72..80 => self.flush().await,
            80..84 => self.discard().await,
            84..88 => self.zero().await,
            88..90 => self.write_same().await,
            90..96 => self.compare_and_write().await,
            _ => self.aborted_write().await,
        }
    }

    /// Some blocks, at most `most` bytes of them. Small ones meet often in the first few blocks.
    fn place(&mut self, most: u64) -> Place {
        let blocks = self.sectors / self.block;
        let limit = (most / (self.block * SECTOR as u64)).clamp(1, blocks);
        let count = match self.random.u8(0..100) {
            0..35 => 1,
            35..75 => self.random.u64(1..=16),
            75..96 => self.random.u64(1..=64),
            _ => self.random.u64(1..=blocks),
        };
        let count = count.min(limit);
        let last = blocks - count;
        let last = if count <= 16 && self.random.u8(0..10) < 4 { last.min(24) } else { last };
        let first = self.random.u64(0..=last) * self.block;
        Place { volume: self.volume, first, count: count * self.block }
    }

    fn begin(&self, place: Place, wish: Wish, durable: bool) -> (Id, Buffer) {
        let mut history = self.control.history.borrow_mut();
        let reads = wish == Wish::Read;
        let writes = !matches!(wish, Wish::Read | Wish::Zero);
        let id = history.begin(self.nexus, place, wish, durable);
        let length = place.count as usize * SECTOR;
        let data = match (reads, writes) {
            (true, _) => Buffer::new(length),
            (_, true) => history.data(id),
            _ => Buffer::empty(),
        };
        (id, data)
    }

    fn end(&self, id: Id, place: &Place, wish: &Wish, result: Result<(), IoError>, bytes: &[u8]) {
        let control = &self.control;
        let mut history = control.history.borrow_mut();
        let error = match result {
            Ok(()) => return control.keep(history.done(id, bytes)),
            // It may still come into effect, until the nexus is there again.
            Err(IoError::Connection(_)) => return,
            Err(error) => error,
        };
        if let IoError::Scsi { sense: Some(sense), .. } = &error
            && sense.key == SenseKey::Miscompare
        {
            let offset = sense.information.unwrap_or(u64::MAX);
            return control.keep(history.miscompared(id, offset));
        }
        history.failed(id);
        drop(history);
        self.judge(&error, place, wish);
    }

    /// Whether an error is one that the scenario expects.
    fn judge(&self, error: &IoError, place: &Place, wish: &Wish) {
        let expected = match error {
            IoError::Aborted | IoError::Connection(_) => return,
            IoError::Scsi { sense: Some(sense), .. } if sense.key == SenseKey::UnitAttention => return,
            IoError::Scsi { sense: Some(sense), .. } => {
                if sense.key == SenseKey::HardwareError {
                    self.control.history.borrow_mut().volume_failed(place.volume);
                }
                (self.control.tolerance.borrow())(sense, place, wish)
            }
            _ => false,
        };
        if expected {
            self.control.tolerated.set(self.control.tolerated.get() + 1);
        } else {
            self.control.fail(Failure(format!("{wish:?} of {place:?} ended with: {error}")));
        }
    }

    fn offset(place: &Place) -> u64 {
        place.first * SECTOR as u64
    }

    fn transfer(&self, place: &Place, fua: bool) -> Transfer {
        let blocks = (place.count / self.block) as u32;
        Transfer { lba: place.first / self.block, blocks, dpo: false, fua }
    }

    async fn read(&mut self) {
        let place = self.place(1 << 20);
        let (id, buffer) = self.begin(place, Wish::Read, false);
        let (result, buffer) = self.session.read(Self::offset(&place), buffer).await;
        self.end(id, &place, &Wish::Read, result, &buffer);
    }

    async fn write(&mut self, fua: bool) {
        let place = self.place(1 << 20);
        let (id, data) = self.begin(place, Wish::Write, fua);
        let result = self.session.write(Self::offset(&place), data.share(), fua).await;
        self.end(id, &place, &Wish::Write, result, &[]);
    }

    /// A write whose abort is asked for while it is under way.
    async fn aborted_write(&mut self) {
        let place = self.place(1 << 17);
        let fua = self.random.bool();
        let (id, data) = self.begin(place, Wish::Write, fua);
        let cdb = encode::write_16(self.transfer(&place, fua)).padded();
        let command = self.session.begin(cdb, data.share());
        let ring = self.session.ring().clone();
        ring.sleep(Duration::from_micros(self.random.u64(0..2000))).await;
        // What the function answers is of no interest: when it has, the command has ended too or will with GOOD.
        let answer = self.session.abort(&command).await;
        if answer.is_err() {
            return;
        }
        let result = command.end().await.0;
        self.end(id, &place, &Wish::Write, result, &[]);
        // What comes after an abort is what a late write would destroy.
        let (id, data) = self.begin(place, Wish::Write, false);
        let result = self.session.write(Self::offset(&place), data.share(), false).await;
        self.end(id, &place, &Wish::Write, result, &[]);
    }

    async fn flush(&mut self) {
        let begin = self.control.history.borrow_mut().begin_flush();
        match self.session.flush().await {
            Ok(()) => {
                let flushed = self.control.history.borrow_mut().flushed(self.volume, begin);
                self.control.keep(flushed);
            }
            Err(error) => {
                let place = Place { volume: self.volume, first: 0, count: 0 };
                self.judge(&error, &place, &Wish::Zero);
            }
        }
    }

    async fn discard(&mut self) {
        let place = self.place(1 << 18);
        let (id, _) = self.begin(place, Wish::Zero, false);
        let result = self.session.discard(Self::offset(&place), place.count * SECTOR as u64).await;
        self.end(id, &place, &Wish::Zero, result, &[]);
    }

    /// WRITE SAME of zeroes: with or without data, with or without giving space back.
    async fn zero(&mut self) {
        let place = self.place(1 << 18);
        let (id, _) = self.begin(place, Wish::Zero, false);
        let Transfer { lba, blocks, .. } = self.transfer(&place, false);
        let (unmap, ndob) = (self.random.bool(), self.random.bool());
        let cdb = encode::write_same_16(WriteSame { lba, blocks, unmap, ndob }).padded();
        let zeroes = if ndob { Buffer::empty() } else { Buffer::zeroed(self.block as usize * SECTOR) };
        let (result, _) = self.session.raw(cdb, Buffer::empty(), zeroes.share()).await;
        self.end(id, &place, &Wish::Zero, result.map(|_| ()), &[]);
    }

    async fn write_same(&mut self) {
        let place = self.place(1 << 17);
        let wish = Wish::WriteSame { block: self.block };
        let (id, data) = self.begin(place, wish.clone(), false);
        let length = place.count * SECTOR as u64;
        let result = self.session.write_same(Self::offset(&place), length, data.share()).await;
        self.end(id, &place, &wish, result, &[]);
    }

    async fn compare_and_write(&mut self) {
        let place = self.place(self.block * SECTOR as u64 * 4);
        let fua = self.random.bool();
        let guess = self.control.history.borrow().guess(place);
        let wish = Wish::CompareAndWrite(guess);
        let (id, data) = self.begin(place, wish.clone(), fua);
        let cdb = encode::compare_and_write(self.transfer(&place, fua)).expect("a few blocks").padded();
        let (result, _) = self.session.raw(cdb, Buffer::empty(), data.share()).await;
        self.end(id, &place, &wish, result.map(|_| ()), &[]);
    }
}
