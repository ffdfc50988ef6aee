//! A queue: one connection, its table of commands, and what is sent.
//!
//! A CID is the index of the command's slot with its generation above it. Commands that the queue has no entry for wait in
//! their slots.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use ring::{Notify, Ring, Socket};
use wire::nvme::tcp::{CapsuleCmd, H2CData, PduType, R2T};
use wire::nvme::{Command, SglDescriptor, Status, admin, fabrics};

use super::connect::Agreed;
use super::outbox::Outbox;
use crate::initiator::error::Cause;
use crate::initiator::table::{Connection, Pending, Slot, Table, Transfer};

/// Commands at once on one queue, with those that wait.
const MAX_SLOTS: usize = (1 << INDEX_BITS) - 1;
/// Bits of a CID that are the slot's index; the others are its generation.
const INDEX_BITS: u32 = 14;
/// How often overdue commands are looked for.
const WATCH: Duration = Duration::from_secs(1);

/// A command as it was asked for.
#[derive(Clone, Copy)]
pub(in crate::initiator) struct Asked {
    pub(super) name: &'static str,
    pub(super) command: Command,
    /// May take for ever: an Asynchronous Event Request.
    patient: bool,
}

pub(super) struct State {
    pub(super) table: Table<Asked>,
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
pub(in crate::initiator) struct Queue {
    pub(super) socket: Socket,
    pub(super) agreed: Agreed,
    pub(super) ring: Ring,
    pub(super) state: RefCell<State>,
    outgoing: Notify,
    /// The sender waits for something to send.
    sender_idle: Cell<bool>,
    leaving: Cell<bool>,
    /// Ends with this one.
    partner: RefCell<Weak<Queue>>,
}

/// The peer broke the rules; the connection ends with this.
pub(super) type Violation = String;

impl State {
    /// Commands that the controller has.
    pub(super) fn issued(&self) -> usize {
        self.issued
    }

    /// The issued command of a CID that came from the controller.
    pub(super) fn slot(&mut self, cid: u16) -> Result<&mut Slot<Asked>, Violation> {
        let slot = self.table.issued(usize::from(cid) & MAX_SLOTS, u32::from(cid >> INDEX_BITS));
        slot.ok_or_else(|| format!("it spoke of a command that is not there (CID {cid:#x})"))
    }

    /// Ends a command of which the controller has spoken.
    pub(super) fn complete(&mut self, cid: u16, status: Status, result: u64) -> Result<(), Violation> {
        self.slot(cid)?;
        self.issued -= 1;
        let ending =
            if status.is_success() { Ok(result) } else { Err(Cause::Nvme { status, result }.into()) };
        self.table.finish(cid & MAX_SLOTS as u16, ending);
        Ok(())
    }
}

/// The CID of a slot.
fn cid((index, generation): (u16, u32)) -> u16 {
    (generation as u16) << INDEX_BITS | index
}

impl Connection for Queue {
    type Request = Asked;

    fn table(&self) -> RefMut<'_, Table<Asked>> {
        RefMut::map(self.state.borrow_mut(), |state| &mut state.table)
    }

    /// What is sent is taken in as a whole.
    fn moved(slot: &Slot<Asked>, _result: u64) -> usize {
        slot.received + slot.data.len()
    }
}

impl Queue {
    /// Starts the tasks of a connection whose start is done. Until the controller has been asked, the queue takes one
    /// command at a time, and no data with it.
    pub(super) fn start(ring: &Ring, socket: Socket, agreed: Agreed, timeout: Duration) -> Rc<Queue> {
        let state = State {
            table: Table::new(MAX_SLOTS, u16::BITS - INDEX_BITS, ring.now()),
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
            let mut waiting = state.table.waiting().filter(|slot| !slot.request.patient);
            waiting.find(|slot| now.since(slot.since) > timeout).map(|slot| slot.request.name)
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
        state.table.fail(&Cause::Connection(reason.clone()).into());
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
    ) -> Pending<Queue> {
        self.send(Asked { name, command, patient: false }, transfer)
    }

    /// Sends an Asynchronous Event Request, which may wait for ever.
    pub(super) fn event_request(self: &Rc<Self>) -> Pending<Queue> {
        let command = admin::asynchronous_event_request(0);
        let asked = Asked { name: "Asynchronous Event Request", command, patient: true };
        self.send(asked, Transfer::Nothing)
    }

    fn send(self: &Rc<Self>, asked: Asked, transfer: Transfer) -> Pending<Queue> {
        let mut state = self.state.borrow_mut();
        let pending = self.submit(&mut state, asked, transfer);
        self.issue_queued(&mut state);
        pending
    }

    /// Sends two commands that have to stand side by side.
    pub(super) fn pair(
        self: &Rc<Self>,
        commands: [(&'static str, Command, Transfer); 2],
    ) -> [Pending<Queue>; 2] {
        let mut state = self.state.borrow_mut();
        let both = commands.map(|(name, command, transfer)| {
            self.submit(&mut state, Asked { name, command, patient: false }, transfer)
        });
        self.issue_queued(&mut state);
        both
    }

    fn submit(self: &Rc<Self>, state: &mut State, asked: Asked, transfer: Transfer) -> Pending<Queue> {
        let Some(index) = state.table.add(asked, transfer, self.ring.turn_time()) else {
            return Pending::without_slot(self);
        };
        let pending = Pending::new(self, index, state.table.generation(index));
        if let Some(reason) = state.lost.clone() {
            state.table.finish(index, Err(Cause::Connection(reason).into()));
        } else {
            state.queued.push_back(index);
        }
        pending
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
        let State { table, outbox, issued, in_capsule, .. } = state;
        let generation = table.generation(index);
        let slot = table.issue(index);
        *issued += 1;
        let mut command = slot.request.command;
        command.cid = cid((index, generation));
        // The data of fabrics commands always goes along.
        let goes_along = slot.data.len() <= *in_capsule || command.opcode == fabrics::OPCODE;
        let along = (goes_along && !slot.data.is_empty()).then(|| slot.data.clone());
        command.sgl = match &along {
            Some(data) => SglDescriptor::in_capsule(0, data.len() as u32),
            None => SglDescriptor::transport((slot.expected + slot.data.len()) as u32),
        };
        let length = along.as_ref().map_or(0, |data| data.len() as u32);
        let mut header = [0; CapsuleCmd::LENGTH];
        CapsuleCmd::new(self.agreed.framing, command, length).encode(&mut header);
        outbox.push(PduType::CAPSULE_CMD, &header, along);
    }

    /// Answers an R2T with its data.
    pub(super) fn ready_to_transfer(&self, state: &mut State, r2t: &R2T) -> Result<(), Violation> {
        let data = state.slot(r2t.cccid)?.data.clone();
        let (mut start, length) = (r2t.r2to, r2t.r2tl);
        let end = start.checked_add(length).filter(|&end| length > 0 && end as usize <= data.len());
        let end = end.ok_or_else(|| {
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
        list.give_back();
        if let Err(error) = sent {
            return queue.fail(&format!("the connection broke while sending: {error}"));
        }
    }
}

impl Pending<Queue> {
    /// The command's identifier; 0 when it has no slot.
    pub(super) fn cid(&self) -> u16 {
        self.name().map_or(0, cid)
    }
}
