//! A session at work: several commands at once, drawn from the seed, each written into the history.

mod operations;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use lab::initiator::{IoError, Session};
use ring::{Buffer, Notify};

use crate::client::Connector;
use crate::history::{History, Id, Place, Wish};
use crate::transport::Transport;
use crate::trouble::Trouble;
use crate::{Failure, SECTOR};

/// How often those who pause look whether they go on.
const PAUSE: Duration = Duration::from_millis(10);

/// Between the numbers of one worker's sessions in the history.
const NEXT: u64 = 1 << 48;

/// Which trouble a scenario expects, and for which volume, sectors (first and count) and command.
pub type Tolerance = Rc<dyn Fn(Trouble, &Place, &Wish) -> bool>;

/// What workers share with the scenario.
pub struct Control {
    /// Nothing more is begun.
    pub stop: Cell<bool>,
    /// Nothing is begun for a while.
    pub pause: Cell<bool>,
    /// The node is being stopped in good order.
    pub stopping: Cell<bool>,
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
    /// One of so many NVMe hosts resets its controller.
    pub resets_one_of: Cell<u8>,
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
    /// What way that is.
    pub transport: Transport,
    /// Distinguishes nexuses in the history.
    pub session: u64,
    /// Which volume.
    pub volume: usize,
    /// Its block size in sectors.
    pub block: u64,
    /// Its size in sectors.
    pub sectors: u64,
    /// Everything that is acknowledged is durable: it lives on a pool.
    pub is_durable: bool,
    /// Commands at once.
    pub depth: usize,
    /// Where everything is drawn from.
    pub random: fastrand::Rng,
}

/// One of the commands at once.
struct Lane {
    control: Rc<Control>,
    session: Session,
    nexus: u64,
    volume: usize,
    block: u64,
    sectors: u64,
    /// Everything that is acknowledged is durable.
    write_through: bool,
    /// The host has begun to reset its controller.
    resets: Rc<Cell<bool>>,
    random: fastrand::Rng,
}

impl Worker {
    /// Works until it is told to stop.
    pub async fn run(mut self) {
        let ring = self.connector.ring().clone();
        while !self.control.stop.get() {
            match self.connector.connect().await {
                Ok(session) => {
                    if self.transport == Transport::Iscsi {
                        self.control.history.borrow_mut().over(self.session);
                    } else {
                        // Only iSCSI knows of a session that is the same again: what was lost with others may still come.
                        self.session += NEXT;
                    }
                    self.work(&session).await;
                    if session.lost().is_none() {
                        session.close().await;
                    }
                }
                Err(_) => ring.sleep(Duration::from_millis(self.random.u64(1..200))).await,
            }
        }
        self.control.working.set(self.control.working.get() - 1);
    }

    async fn work(&mut self, session: &Session) {
        let running = Rc::new((Cell::new(self.depth), Notify::new()));
        let resets = Rc::new(Cell::new(false));
        let write_through = self.configure(session, &resets).await || self.is_durable;
        for _ in 0..self.depth {
            let mut lane = Lane {
                control: self.control.clone(),
                session: session.clone(),
                nexus: self.session,
                volume: self.volume,
                block: self.block,
                sectors: self.sectors,
                write_through,
                resets: resets.clone(),
                random: self.random.fork(),
            };
            let (running, ring) = (running.clone(), self.connector.ring().clone());
            self.connector.ring().spawn_later(async move {
                while !lane.control.stop.get() && lane.session.lost().is_none() {
                    if lane.control.pause.get() {
                        ring.sleep(PAUSE).await;
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

    /// What some NVMe hosts do with their controller: they switch its write cache off, which is told; they reset it in
    /// the middle of everything, which `resets` tells.
    async fn configure(&mut self, session: &Session, resets: &Rc<Cell<bool>>) -> bool {
        let Session::Nvme(session) = session else { return false };
        let write_through = self.random.u8(0..4) == 0 && session.set_write_cache(false).await.is_ok();
        if self.random.u8(0..self.control.resets_one_of.get()) == 0 {
            let (session, control, nexus) = (session.clone(), self.control.clone(), self.session);
            let resets = resets.clone();
            let ring = self.connector.ring().clone();
            let span = Duration::from_micros(self.random.u64(500..15_000));
            ring.clone().spawn_later(async move {
                ring.sleep(span).await;
                if session.lost().is_some() || control.stop.get() {
                    return;
                }
                resets.set(true);
                if session.reset().await.is_ok() {
                    control.history.borrow_mut().over(nexus);
                }
            });
        }
        write_through
    }
}

impl Lane {
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
        let id = history.begin(self.nexus, place, wish, durable || self.write_through);
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
            Err(error) => error,
        };
        match Trouble::of(&error) {
            // It may still come into effect, until the session is known to be over.
            Trouble::Gone => {}
            Trouble::Differs(offset) => control.keep(history.differed(id, offset)),
            _ => {
                history.failed(id);
                drop(history);
                self.judge(&error, place, wish);
            }
        }
    }

    /// Whether an error is one that the scenario expects.
    fn judge(&self, error: &IoError, place: &Place, wish: &Wish) {
        let trouble = Trouble::of(error);
        if trouble == Trouble::Failed {
            self.control.history.borrow_mut().volume_failed(place.volume);
        }
        let expected = match trouble {
            Trouble::Gone | Trouble::Aborted | Trouble::Attention => return,
            Trouble::Stopping if self.control.stopping.get() => return,
            Trouble::Resetting if self.resets.get() => return,
            other => (self.control.tolerance.borrow())(other, place, wish),
        };
        if expected {
            self.control.tolerated.set(self.control.tolerated.get() + 1);
        } else {
            self.control.fail(Failure(format!("{wish:?} of {place:?} ended with: {error}")));
        }
    }
}
