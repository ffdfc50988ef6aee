//! A queue: one connection, its table of commands, and what is sent.
//!
//! A command is a slot; its CID is the slot's index with a generation above it, so that an answer finds it without a
//! search. Commands that the queue has no entry for wait in their slots.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ring::{Buffer, Instant, Notify, Ring, Shared, Socket};
use wire::nvme::tcp::{CapsuleCmd, H2CData, PduType, R2T};
use wire::nvme::{Command, SglDescriptor, Status, admin, fabrics};

use super::connect::Agreed;
use super::outbox::Outbox;
use crate::initiator::IoError;

/// Commands at once on one queue, with those that wait.
const MAX_SLOTS: usize = (1 << INDEX_BITS) - 1;
/// Bits of a CID that are the slot's index; the others are its generation.
const INDEX_BITS: u32 = 14;
/// How often overdue commands are looked for.
const WATCH: Duration = Duration::from_secs(1);

/// What a command moves.
pub(super) enum Transfer {
    Nothing,
    /// From the controller; the buffer's length is what is expected.
    In(Buffer),
    /// To the controller.
    Out(Shared),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Free,
    /// Waits for an entry of the queue.
    Queued,
    Issued,
    Done,
}

pub(super) struct Slot {
    generation: u16,
    stage: Stage,
    /// Nobody waits for the result any more.
    abandoned: bool,
    /// May take for ever: an Asynchronous Event Request.
    patient: bool,
    waker: Option<Waker>,
    since: Instant,
    name: &'static str,
    command: Command,
    pub(super) buffer: Buffer,
    data: Option<Shared>,
    /// Bytes of input that have come, in order.
    pub(super) received: usize,
    result: Result<u64, IoError>,
}

pub(super) struct State {
    slots: Vec<Slot>,
    free: Vec<u16>,
    queued: VecDeque<u16>,
    /// Commands that the controller has.
    issued: usize,
    /// Most of them: a queue takes one less than it has entries.
    limit: usize,
    /// Bytes of data that may go along with a command.
    in_capsule: usize,
    pub(super) outbox: Outbox,
    lost: Option<Arc<str>>,
}

/// What tasks of a queue share.
pub(super) struct Queue {
    pub(super) socket: Socket,
    pub(super) agreed: Agreed,
    ring: Ring,
    pub(super) state: RefCell<State>,
    outgoing: Notify,
    /// The sender waits for something to send.
    sender_idle: Cell<bool>,
    leaving: Cell<bool>,
    /// Data of reads is not put into their buffers: nobody looks at it.
    pub(super) forgets: Cell<bool>,
    /// Ends with this one.
    partner: RefCell<Weak<Queue>>,
}

/// How a command ended.
pub(super) struct Finished {
    /// Dwords 0 and 1 of the completion.
    pub(super) result: Result<u64, IoError>,
    /// Bytes of input that came.
    pub(super) received: usize,
    /// The buffer of [`Transfer::In`].
    pub(super) buffer: Buffer,
}

/// A command that was sent, or waits for it.
pub(super) struct Pending {
    queue: Rc<Queue>,
    index: u16,
    cid: u16,
    over: bool,
}

/// The peer broke the rules; the connection ends with this.
pub(super) type Violation = String;

impl State {
    fn cid(&self, index: u16) -> u16 {
        self.slots[usize::from(index)].generation << INDEX_BITS | index
    }

    /// Commands that the controller has.
    pub(super) fn issued(&self) -> usize {
        self.issued
    }

    /// The issued command of a CID that came from the controller.
    pub(super) fn slot(&mut self, cid: u16) -> Result<&mut Slot, Violation> {
        let slot = self.slots.get_mut(usize::from(cid) & MAX_SLOTS);
        let slot = slot.filter(|slot| slot.stage == Stage::Issued && slot.generation == cid >> INDEX_BITS);
        slot.ok_or_else(|| format!("it spoke of a command that is not there (CID {cid:#x})"))
    }

    fn allocate(
        &mut self,
        name: &'static str,
        command: Command,
        transfer: Transfer,
        now: Instant,
    ) -> Option<u16> {
        let (buffer, data) = match transfer {
            Transfer::Nothing => (Buffer::empty(), None),
            Transfer::In(buffer) => (buffer, None),
            Transfer::Out(data) => (Buffer::empty(), Some(data)),
        };
        let fresh = Slot {
            generation: 0,
            stage: Stage::Queued,
            abandoned: false,
            patient: false,
            waker: None,
            since: now,
            name,
            command,
            buffer,
            data,
            received: 0,
            result: Ok(0),
        };
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[usize::from(index)];
            let generation = (slot.generation + 1) & (u16::MAX >> INDEX_BITS);
            *slot = Slot { generation, ..fresh };
            return Some(index);
        }
        if self.slots.len() >= MAX_SLOTS {
            return None;
        }
        self.slots.push(fresh);
        Some((self.slots.len() - 1) as u16)
    }

    fn release(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        slot.stage = Stage::Free;
        slot.data = None;
        slot.buffer = Buffer::empty();
        self.free.push(index);
    }

    /// Ends a command of which the controller has spoken.
    pub(super) fn complete(&mut self, cid: u16, status: Status, result: u64) -> Result<(), Violation> {
        self.slot(cid)?;
        self.issued -= 1;
        let ending = if status.is_success() { Ok(result) } else { Err(IoError::Nvme { status, result }) };
        self.finish(cid & MAX_SLOTS as u16, ending);
        Ok(())
    }

    fn finish(&mut self, index: u16, result: Result<u64, IoError>) {
        let slot = &mut self.slots[usize::from(index)];
        slot.stage = Stage::Done;
        slot.data = None;
        slot.result = result;
        if slot.abandoned {
            self.release(index);
        } else if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl Queue {
    /// Starts the tasks of a connection whose start is done. Until the controller has been asked, the queue takes one
    /// command at a time, and no data with it.
    pub(super) fn start(ring: &Ring, socket: Socket, agreed: Agreed, timeout: Duration) -> Rc<Queue> {
        let state = State {
            slots: Vec::new(),
            free: Vec::new(),
            queued: VecDeque::new(),
            issued: 0,
            limit: 1,
            in_capsule: 0,
            outbox: Outbox::new(agreed.framing),
            lost: None,
        };
        let queue = Rc::new(Queue {
            socket,
            agreed,
            ring: ring.clone(),
            state: RefCell::new(state),
            outgoing: Notify::new(),
            sender_idle: Cell::new(false),
            leaving: Cell::new(false),
            forgets: Cell::new(false),
            partner: RefCell::new(Weak::new()),
        });
        ring.spawn_later(send(queue.clone()));
        ring.spawn_later(super::receive::receive(queue.clone()));
        let watched = Rc::downgrade(&queue);
        let clock = ring.clone();
        ring.spawn_later(async move {
            loop {
                clock.sleep(WATCH.min(timeout)).await;
                let Some(queue) = watched.upgrade() else { return };
                if queue.lost().is_some() {
                    return;
                }
                queue.give_up_overdue(timeout);
            }
        });
        queue
    }

    /// Commands the controller may have at once, and bytes of data that may go along with one.
    pub(super) fn set_limits(&self, commands: usize, in_capsule: usize) {
        let mut state = self.state.borrow_mut();
        state.limit = commands;
        state.in_capsule = in_capsule;
        self.issue_queued(&mut state);
    }

    /// Commands the controller may have at once.
    pub(super) fn limit(&self) -> usize {
        self.state.borrow().limit
    }

    /// When one of the two ends, so does the other.
    pub(super) fn join(self: &Rc<Self>, other: &Rc<Queue>) {
        *self.partner.borrow_mut() = Rc::downgrade(other);
        *other.partner.borrow_mut() = Rc::downgrade(self);
    }

    /// Undoes [`Queue::join`].
    pub(super) fn part(&self, other: &Queue) {
        self.partner.take();
        other.partner.take();
    }

    fn give_up_overdue(&self, timeout: Duration) {
        let now = self.ring.now();
        let overdue = {
            let state = self.state.borrow();
            let waits = |slot: &&Slot| matches!(slot.stage, Stage::Issued | Stage::Queued) && !slot.patient;
            let mut waiting = state.slots.iter().filter(waits);
            waiting.find(|slot| now.since(slot.since) > timeout).map(|slot| slot.name)
        };
        if let Some(name) = overdue {
            let seconds = timeout.as_secs_f64();
            self.fail(&format!("{name} was not answered within {seconds} s; the connection was given up"));
        }
    }

    /// Ends the connection and every command on it.
    pub(super) fn fail(&self, reason: &str) {
        let mut state = self.state.borrow_mut();
        if state.lost.is_some() {
            return;
        }
        let reason: Arc<str> = reason.into();
        state.lost = Some(reason.clone());
        state.queued.clear();
        state.issued = 0;
        for index in 0..state.slots.len() {
            if matches!(state.slots[index].stage, Stage::Queued | Stage::Issued) {
                state.finish(index as u16, Err(IoError::Connection(reason.clone())));
            }
        }
        drop(state);
        self.socket.shutdown();
        self.outgoing.notify();
        let partner = self.partner.borrow().upgrade();
        if let Some(partner) = partner {
            partner.fail(&reason);
        }
    }

    /// Why the connection is gone, if it is.
    pub(super) fn lost(&self) -> Option<Arc<str>> {
        self.state.borrow().lost.clone()
    }

    /// From now on, the end of the connection is ours to cause.
    pub(super) fn leave(&self) {
        self.leaving.set(true);
    }

    /// Whether the end of the connection is ours to cause.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// Sends a command, at once or when the queue has an entry for it. CID and SGL1 are set here.
    pub(super) fn command(
        self: &Rc<Self>,
        name: &'static str,
        command: Command,
        transfer: Transfer,
    ) -> Pending {
        let mut state = self.state.borrow_mut();
        let pending = self.submit(&mut state, name, command, transfer);
        self.issue_queued(&mut state);
        pending
    }

    /// Sends two commands that have to stand side by side.
    pub(super) fn pair(self: &Rc<Self>, commands: [(&'static str, Command, Transfer); 2]) -> [Pending; 2] {
        let mut state = self.state.borrow_mut();
        let both = commands.map(|(name, command, transfer)| self.submit(&mut state, name, command, transfer));
        self.issue_queued(&mut state);
        both
    }

    /// Sends an Asynchronous Event Request, which may wait for ever.
    pub(super) fn event_request(self: &Rc<Self>) -> Pending {
        let mut state = self.state.borrow_mut();
        let command = admin::asynchronous_event_request(0);
        let pending = self.submit(&mut state, "Asynchronous Event Request", command, Transfer::Nothing);
        if !pending.over {
            state.slots[usize::from(pending.index)].patient = true;
        }
        self.issue_queued(&mut state);
        pending
    }

    fn submit(
        self: &Rc<Self>,
        state: &mut State,
        name: &'static str,
        command: Command,
        transfer: Transfer,
    ) -> Pending {
        let Some(index) = state.allocate(name, command, transfer, self.ring.turn_time()) else {
            return Pending { queue: self.clone(), index: 0, cid: 0, over: true };
        };
        let cid = state.cid(index);
        if let Some(reason) = state.lost.clone() {
            state.finish(index, Err(IoError::Connection(reason)));
        } else {
            state.queued.push_back(index);
        }
        Pending { queue: self.clone(), index, cid, over: false }
    }

    /// Sends what the queue has entries for.
    pub(super) fn issue_queued(&self, state: &mut State) {
        while state.issued < state.limit {
            let Some(index) = state.queued.pop_front() else { break };
            self.issue(state, index);
        }
        self.wake_sender(state);
    }

    fn wake_sender(&self, state: &State) {
        if self.sender_idle.get() && !state.outbox.is_empty() {
            self.sender_idle.set(false);
            self.outgoing.notify();
        }
    }

    fn issue(&self, state: &mut State, index: u16) {
        let cid = state.cid(index);
        let State { slots, outbox, issued, in_capsule, .. } = state;
        let slot = &mut slots[usize::from(index)];
        slot.stage = Stage::Issued;
        *issued += 1;
        slot.command.cid = cid;
        let mut along = None;
        slot.command.sgl = match &slot.data {
            // The data of fabrics commands always goes along.
            Some(data) if data.len() <= *in_capsule || slot.command.opcode == fabrics::OPCODE => {
                along = Some(data.clone());
                SglDescriptor::in_capsule(0, data.len() as u32)
            }
            Some(data) => SglDescriptor::transport(data.len() as u32),
            None => SglDescriptor::transport(slot.buffer.len() as u32),
        };
        let length = along.as_ref().map_or(0, |data| data.len() as u32);
        let mut header = [0; CapsuleCmd::LENGTH];
        CapsuleCmd::new(self.agreed.framing, slot.command, length).encode(&mut header);
        outbox.push(PduType::CAPSULE_CMD, &header, along);
    }

    /// Answers an R2T with its data.
    pub(super) fn ready_to_transfer(&self, state: &mut State, r2t: &R2T) -> Result<(), Violation> {
        let data = state.slot(r2t.cccid)?.data.clone();
        let (mut start, length) = (r2t.r2to, r2t.r2tl);
        let run = data.and_then(|data| {
            let end = start.checked_add(length).filter(|&end| end as usize <= data.len())?;
            (length > 0).then_some((data, end))
        });
        let (data, end) = run.ok_or_else(|| {
            format!("it asked for {length} bytes from {start}, which its command does not have")
        })?;
        while start < end {
            let length = (end - start).min(self.agreed.maxh2cdata);
            let last = start + length == end;
            let mut header = [0; H2CData::LENGTH];
            H2CData::new(self.agreed.framing, r2t.cccid, r2t.ttag, start, length, last).encode(&mut header);
            let part = data.slice(start as usize..(start + length) as usize);
            state.outbox.push(PduType::H2C_DATA, &header, Some(part));
            start += length;
        }
        self.wake_sender(state);
        Ok(())
    }
}

/// Sends what gathers in the outbox, until the connection is gone.
async fn send(queue: Rc<Queue>) {
    loop {
        let next = queue.outgoing.until(|| {
            let mut state = queue.state.borrow_mut();
            if state.lost.is_some() {
                return Some(None);
            }
            let list = state.outbox.take();
            queue.sender_idle.set(list.is_none());
            list.map(Some)
        });
        let Some(list) = next.await else { return };
        let (sent, list) = queue.socket.send(list).await;
        queue.state.borrow_mut().outbox.give(list);
        if let Err(error) = sent {
            return queue.fail(&format!("the connection broke while sending: {error}"));
        }
    }
}

impl Pending {
    /// The command's identifier.
    pub(super) fn cid(&self) -> u16 {
        self.cid
    }
}

impl Future for Pending {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        if self.over {
            let result = Err(IoError::Unsupported("more than 16383 commands at once"));
            return Poll::Ready(Finished { result, received: 0, buffer: Buffer::empty() });
        }
        let finished = {
            let mut state = self.queue.state.borrow_mut();
            let index = self.index;
            let slot = &mut state.slots[usize::from(index)];
            if slot.stage != Stage::Done {
                slot.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let result = std::mem::replace(&mut slot.result, Ok(0));
            let buffer = std::mem::take(&mut slot.buffer);
            let received = slot.received;
            state.release(index);
            Finished { result, received, buffer }
        };
        self.over = true;
        Poll::Ready(finished)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut state = self.queue.state.borrow_mut();
        let slot = &mut state.slots[usize::from(self.index)];
        if slot.stage == Stage::Done {
            state.release(self.index);
        } else {
            slot.abandoned = true;
        }
    }
}
