//! A pool as all cores share it, and as one core uses it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::{Buffer, PooledFuture, Ring, Sender};

use super::bitmap::Bitmap;
use super::erasing::Erasing;
use super::events::Counters;
use super::format::{BLOCK, Cause, Geometry, Id, LOST, UNWRITTEN, VolumeEntry, block_entry, copy_entry};
use super::gather::Gather;
use super::grown::Current;
use super::journal::Journal;
use super::keeper::Message;
use super::layout::Slots;
use super::locks::{RowLocks, Waiting, moment};
use super::maintain::ScrubReport;
use super::member::{Member, MemberError};
use super::segments::Segments;
use super::slots::{SlotStates, Spared};
use super::table::Table;
use super::watch::{Watch, kind_of};
use crate::error::Error;
use crate::latest::Latest;
use crate::layers::Stack;
use crate::limits::POOL_MEMBER_STALL;
use crate::meter::{Gauge, GaugeFigures};
use crate::request::{Completion, Extent, Io, Request, Verb};

/// How often something is looked at that another core does.
const LOOK: Duration = Duration::from_micros(100);

/// How often at least, when it takes longer.
const LOOK_AT_LEAST: Duration = Duration::from_millis(2);

/// What all cores share.
pub struct Shared {
    /// Its identity.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its arrangement.
    pub geometry: Current,
    /// Whether checksums are kept and verified.
    pub integrity: bool,
    pub(super) table: Table,
    pub(super) locks: RowLocks,
    pub(super) segments: Segments,
    pub(super) states: SlotStates,
    pub(super) bitmap: Bitmap,
    /// The volumes, as the catalogue has them.
    pub(super) volumes: Latest<Vec<VolumeEntry>>,
    /// What was noticed.
    pub counters: Counters,
    /// The number of the next transaction.
    pub(super) next: AtomicU64,
    /// Transactions with a lower number are of no use any more, and that is so on stable media.
    pub(super) retired: AtomicU64,
    /// For each core, the oldest transaction whose blocks are not all in their places.
    pub(super) oldest: Box<[AtomicU64]>,
    /// Slots whose members did not take the tail of a label, whoever kept the pool then.
    pub(super) without_tail: AtomicU64,
    /// Changes of slots' states, and how many of them the labels know.
    pub(super) changes: AtomicU64,
    pub(super) labelled: AtomicU64,
    pub(super) keeper: Sender<Message>,
    /// More failed than redundancy replaces: nothing is changed any more until the pool is opened again, which makes what
    /// the journal has.
    pub(super) failed: AtomicBool,
    /// The pool is being closed: nothing more is begun in the background.
    pub(super) closing: AtomicBool,
    /// Nothing that comes now is written any more: the labels are about to say that the journal holds nothing.
    pub(super) sealed: AtomicBool,
    /// The pool was closed in good order.
    pub(super) closed: AtomicBool,
    /// What the last scrub, or the one that runs, has found.
    pub scrub: ScrubReport,
    /// The members, and how often one of them was replaced.
    pub(super) members: Mutex<Vec<Option<Arc<Member>>>>,
    pub(super) replaced: AtomicU64,
    /// How long members take, and what is told of them.
    pub(super) watch: Watch,
    /// Volumes whose rows are being given back.
    pub(super) erasing: Erasing,
}

impl Shared {
    /// The transaction from which on a recovery would have to look now.
    pub(super) fn oldest(&self) -> u64 {
        // In this order: a core announces itself before it takes a number.
        let next = self.next.load(Ordering::SeqCst);
        self.oldest.iter().fold(next, |oldest, core| oldest.min(core.load(Ordering::SeqCst)))
    }

    /// The slots whose members are not used.
    pub fn out(&self) -> Slots {
        self.states.out()
    }

    /// Whether the pool is being closed.
    pub(super) fn stops(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether nothing may be changed any more.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Says that nothing may be changed any more.
    pub(super) fn fail_stop(&self, what: &str) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            tracing::error!(
                pool = self.name,
                "{what}: nothing is written any more; hint: bring the members back and start the node again"
            );
        }
    }

    /// The member of a slot, if it is there.
    pub(super) fn member(&self, slot: usize) -> Option<Arc<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)[slot].clone()
    }

    /// Another member takes a slot; every core opens it before its next request to it.
    pub(super) fn set_member(&self, slot: usize, member: Option<Arc<Member>>) {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)[slot] = member;
        self.replaced.fetch_add(1, Ordering::AcqRel);
    }

    /// There are members for further slots, from the next one on, or those are gone again.
    pub(super) fn set_members_from(&self, slot: usize, further: &[Arc<Member>]) {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.truncate(slot);
        members.extend(further.iter().cloned().map(Some));
        drop(members);
        self.replaced.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the labels say which slots are in use.
    pub(super) fn is_labelled(&self) -> bool {
        self.labelled.load(Ordering::Acquire) >= self.changes.load(Ordering::Acquire)
    }
}

/// A member, and this core's way to it.
type Opened = (Arc<Member>, Rc<Stack>);

/// A pool on one core.
pub struct PoolCore {
    pub(super) shared: Arc<Shared>,
    pub(super) index: usize,
    pub(super) ring: Ring,
    /// A stack for each slot that is there, with the member that it is of.
    members: RefCell<Vec<Option<Opened>>>,
    /// How many replacements it knows.
    replaced: Cell<u64>,
    /// What each slot was asked for, whichever member it had.
    asked: RefCell<Vec<Rc<Gauge>>>,
    /// What volumes asked for.
    pub(super) gauge: Gauge,
    pub(super) waiting: Waiting,
    pub(super) journal: Journal,
    pub(super) gather: Gather,
    /// Changes that are acknowledged and not yet in their places.
    pub(super) under_way: Cell<usize>,
    /// A slot whose member did not answer and cannot be spared: what was to be read of it is not known.
    pub(super) silent: Cell<Option<usize>>,
}

impl PoolCore {
    /// Opens the members on this core.
    pub(super) fn new(shared: Arc<Shared>, index: usize, ring: Ring) -> Result<Rc<PoolCore>, MemberError> {
        let core = Rc::new(PoolCore {
            members: RefCell::default(),
            replaced: Cell::new(0),
            asked: RefCell::default(),
            gauge: Gauge::default(),
            shared,
            index,
            ring,
            waiting: Waiting::default(),
            journal: Journal::default(),
            gather: Gather::default(),
            under_way: Cell::new(0),
            silent: Cell::new(None),
        });
        core.open_members()?;
        Ok(core)
    }

    /// Opens those members that are others than they were. The error is that of the last one that cannot be opened.
    fn open_members(&self) -> Result<(), MemberError> {
        self.replaced.set(self.shared.replaced.load(Ordering::Acquire));
        let wanted = self.shared.members.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut result = Ok(());
        let mut members = self.members.borrow_mut();
        members.resize_with(wanted.len(), || None);
        self.asked.borrow_mut().resize_with(wanted.len(), Rc::default);
        for (mine, wanted) in members.iter_mut().zip(wanted) {
            let same = match (&mine, &wanted) {
                (Some((mine, _)), Some(wanted)) => Arc::ptr_eq(mine, wanted),
                (None, None) => true,
                _ => false,
            };
            if same {
                continue;
            }
            *mine = None;
            let Some(member) = wanted else { continue };
            match member.stack(&self.ring) {
                Ok(stack) => *mine = Some((member, Rc::new(stack))),
                // The others are opened all the same: one that was replaced is not to be used any more.
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// What all cores share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// What each slot was asked for on this core.
    pub fn asked(&self) -> Vec<GaugeFigures> {
        self.asked.borrow().iter().map(|gauge| gauge.figures()).collect()
    }

    /// What volumes asked the pool for on this core.
    pub fn figures(&self) -> GaugeFigures {
        self.gauge.figures()
    }

    /// Whether another member has the slot by now than the one that was asked.
    fn is_replaced(&self, slot: usize, asked: &Rc<Stack>) -> bool {
        self.member(slot).is_none_or(|stack| !Rc::ptr_eq(&stack, asked))
    }

    fn member(&self, slot: usize) -> Option<Rc<Stack>> {
        if self.replaced.get() != self.shared.replaced.load(Ordering::Acquire)
            && let Err(error) = self.open_members()
        {
            tracing::error!(pool = self.shared.name, "core {}: {error}", self.index);
        }
        self.members.borrow()[slot].as_ref().map(|(_, stack)| stack.clone())
    }

    /// Takes a row, as soon as nobody else has it.
    pub(super) async fn lock(self: &Rc<Self>, row: u64) -> Locked {
        let mut attempts = 0;
        while !self.shared.locks.try_lock(row) {
            self.waiting.wait(&self.ring, attempts).await;
            attempts += 1;
        }
        Locked { core: self.clone(), row }
    }

    /// Waits for something that another task or core does.
    pub(super) async fn until(&self, condition: impl Fn() -> bool) {
        let mut attempts = 0;
        while !condition() {
            self.ring.sleep(moment(LOOK, LOOK_AT_LEAST, attempts)).await;
            attempts += 1;
        }
    }

    /// One request to a member, to be waited for with others.
    pub(super) fn ask(&self, slot: usize, request: Request) -> PooledFuture<'_, Answer> {
        PooledFuture::future(self.ask_one(slot, request))
    }

    /// One request to a member. A member that does not answer in time has failed.
    pub(super) async fn ask_one(&self, slot: usize, request: Request) -> Answer {
        let Some(member) = self.member(slot) else {
            return Answer { result: Err(Trouble::Away), buffer: Buffer::empty() };
        };
        let (verb, bytes, begun) = (request.verb, request.extent.length, self.ring.turn_time());
        let gauge = self.asked.borrow()[slot].clone();
        let under_way = gauge.begin();
        let completion = match member.submit(request) {
            // Memory answers at once.
            Io::Ready(Some(completion)) => Some(completion),
            waits => self.ring.timeout(POOL_MEMBER_STALL, waits).await,
        };
        drop(under_way);
        let now = self.ring.turn_time();
        let failed = completion.as_ref().is_none_or(|completion| completion.result.is_err());
        gauge.meter.done(verb, bytes, begun, now, failed);
        if failed && self.is_replaced(slot, &member) {
            return Answer { result: Err(Trouble::Replaced), buffer: Buffer::empty() };
        }
        let Some(Completion { result, buffer }) = completion else {
            return Answer { result: Err(Trouble::Stall), buffer: Buffer::empty() };
        };
        if let Some(kind) = kind_of(verb) {
            self.shared.watch.latencies.note(self.index, slot, kind, now.since(begun));
        }
        Answer { result: result.map_err(Trouble::Error), buffer }
    }

    /// Reads the blocks of a slot's unit from `position` on.
    pub(super) fn read_unit(
        &self,
        slot: usize,
        row: u64,
        position: usize,
        buffer: Buffer,
    ) -> PooledFuture<'_, Answer> {
        self.ask(slot, Request::read(self.place(row, position), buffer))
    }

    /// Writes the blocks of a slot's unit from `position` on.
    pub(super) fn write_unit(
        &self,
        slot: usize,
        row: u64,
        position: usize,
        blocks: Buffer,
    ) -> PooledFuture<'_, Answer> {
        self.ask(slot, Request::write(self.place(row, position), blocks))
    }

    /// Says that blocks of a member are of no use; what comes of it does not matter.
    pub(super) fn discard_unit(
        &self,
        slot: usize,
        row: u64,
        position: usize,
        blocks: usize,
    ) -> PooledFuture<'_, Answer> {
        let extent = Extent::new(self.place(row, position), (blocks * BLOCK) as u64);
        self.ask(slot, Request::plain(Verb::Discard, extent))
    }

    pub(super) fn place(&self, row: u64, position: usize) -> u64 {
        self.geometry().unit_place(row) + (position * BLOCK) as u64
    }

    /// What `block`, just read, is.
    pub(super) fn judge(&self, slot: usize, row: u64, position: usize, block: &[u8]) -> Judged {
        self.judge_by(slot, row, position, || block_entry(block))
    }

    /// The same, and copies it on the way. What `to` has is only of use when the block is good.
    pub(super) fn judge_copied(
        &self,
        slot: usize,
        row: u64,
        position: usize,
        block: &[u8],
        to: &mut [u8],
    ) -> Judged {
        if !self.shared.integrity {
            to.copy_from_slice(block);
        }
        self.judge_by(slot, row, position, || copy_entry(block, to))
    }

    fn judge_by(&self, slot: usize, row: u64, position: usize, entry: impl FnOnce() -> u32) -> Judged {
        match self.shared.table.entry(slot, row, position) {
            UNWRITTEN => Judged::Unwritten,
            LOST => Judged::Lost,
            _ if !self.shared.integrity => Judged::Good,
            noted if entry() == noted => Judged::Good,
            _ => Judged::Wrong,
        }
    }

    /// The entry of the table for new bytes of a block, whose checksum is `entry`.
    pub(super) fn table_entry(&self, entry: u32) -> u32 {
        if self.shared.integrity || entry == UNWRITTEN || entry == LOST { entry } else { NO_CHECKSUM }
    }

    /// A member failed a request: it is taken out, unless the pool cannot do without. Gives whether it is out now.
    pub(super) fn fail(&self, slot: usize, cause: Cause, trouble: &Trouble) -> bool {
        let shared = &self.shared;
        // That one is out, and the one that has its place by now has done nothing wrong.
        if matches!(trouble, Trouble::Replaced) {
            return true;
        }
        let survives = |gone| shared.geometry.survives(gone);
        let gone = shared.states.out() | shared.states.rebuilding() | 1 << slot;
        if shared.states.out() & 1 << slot == 0 && !survives(gone) {
            return false;
        }
        // Before: whoever sees that it is out waits for the labels to say so.
        shared.changes.fetch_add(1, Ordering::AcqRel);
        let spared = shared.states.spare(slot, survives);
        if spared == Spared::Now {
            tracing::error!(pool = shared.name, "member {slot} is faulted: {cause}: {trouble}");
        }
        // Once more: who looked at the states between the two did not see it.
        shared.changes.fetch_add(1, Ordering::AcqRel);
        // In any case: the labels follow the states.
        shared.keeper.send(Message::Out { slot, cause }).ok();
        spared != Spared::No
    }

    /// A member did not answer a read: it is out, or noted as silent.
    pub(super) fn note_silence(&self, slot: usize, trouble: &Trouble) {
        if !self.fail(slot, Cause::Stall, trouble) {
            self.silent.set(Some(slot));
        }
    }

    /// How many members have come in so far. When that is another number after a read, the bytes may be of a member that has gone
    /// meanwhile, and the table that of the one in its place, which has nothing yet.
    pub(super) fn newcomers(&self) -> u64 {
        self.shared.replaced.load(Ordering::Acquire)
    }

    /// The slots of `row` of which nothing can be had on this core.
    pub(super) fn gone(&self, row: u64) -> Slots {
        self.shared.states.gone(row)
    }
}

/// A row that is ours until this is dropped.
pub(super) struct Locked {
    core: Rc<PoolCore>,
    row: u64,
}

impl Locked {
    /// Only these parts of the row are going to change.
    pub(super) fn narrow(&self, parts: u64) {
        self.core.shared.locks.narrow(self.row, parts);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.core.shared.locks.unlock(self.row);
        self.core.waiting.released();
    }
}

/// The entry of a block that was written to a pool without checksums.
pub(super) const NO_CHECKSUM: u32 = 2;

/// What a member said to a request.
pub(super) struct Answer {
    pub(super) result: Result<(), Trouble>,
    pub(super) buffer: Buffer,
}

/// Why a member did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// It is not there.
    #[error("it is not there")]
    Away,
    /// Another one has its place since it was asked.
    #[error("it was replaced meanwhile")]
    Replaced,
    /// Somebody wants it so.
    #[error("it is not to be used")]
    Unwanted,
    /// It does not answer.
    #[error("no answer for {} seconds", POOL_MEMBER_STALL.as_secs())]
    Stall,
    /// It said why.
    #[error(transparent)]
    Error(Error),
}

/// What a block that was read turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judged {
    /// As it was written.
    Good,
    /// Never written: zeroes, whatever lies there.
    Unwritten,
    /// Known not to be had any more.
    Lost,
    /// Not what was written.
    Wrong,
}
