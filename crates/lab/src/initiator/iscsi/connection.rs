//! A connection in full feature phase: the table of commands, the command window, and what is sent.
//!
//! A command is a slot; its initiator task tag is the slot's index and generation, so that an answer finds it without
//! a search. Commands that the window has no room for wait in their slots.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ring::{Buffer, Instant, Notify, Ring, Shared, Socket};
use wire::iscsi::frame::BHS_LENGTH;
use wire::iscsi::{
    Bhs, DataOut, Final, Immediate, LogoutReason, LogoutRequest, Lun, NopIn, NopOut, R2t, RESERVED_TAG,
    ScsiCommand, ScsiCommandFlags, SerialNumber, TaskAttribute, TaskManagementFunction,
    TaskManagementRequest, U24,
};

use super::login::LoggedIn;
use super::outbox::Outbox;
use super::parameters::Parameters;
use crate::initiator::IoError;

/// Commands at once on one connection.
const MAX_SLOTS: usize = 16384;
/// How often overdue commands are looked for.
const WATCH: Duration = Duration::from_secs(1);

/// What a command moves.
pub(super) enum Transfer {
    Nothing,
    /// From the target; the buffer's length is what is expected.
    In(Buffer),
    /// To the target.
    Out(Shared),
}

/// What a slot stands for.
enum Request {
    Scsi([u8; 16]),
    TaskManagement { function: TaskManagementFunction, referenced: u32, ref_cmd_sn: SerialNumber },
    Logout,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Free,
    /// Waits for room in the window.
    Queued,
    Issued,
    Done,
}

pub(super) struct Slot {
    generation: u16,
    stage: Stage,
    /// Nobody waits for the result any more.
    abandoned: bool,
    waker: Option<Waker>,
    since: Instant,
    name: &'static str,
    request: Request,
    cmd_sn: SerialNumber,
    pub(super) buffer: Buffer,
    data: Option<Shared>,
    /// Bytes of input that have come, in order.
    pub(super) received: usize,
    result: Result<u32, IoError>,
}

pub(super) struct State {
    slots: Vec<Slot>,
    free: Vec<u16>,
    queued: VecDeque<u16>,
    cmd_sn: SerialNumber,
    max_cmd_sn: SerialNumber,
    exp_stat_sn: SerialNumber,
    pub(super) outbox: Outbox,
    lost: Option<Arc<str>>,
}

/// What tasks of a connection share.
pub(super) struct Inner {
    pub(super) socket: Socket,
    pub(super) parameters: Parameters,
    ring: Ring,
    lun: Lun,
    pub(super) state: RefCell<State>,
    outgoing: Notify,
    /// The sender waits for something to send.
    sender_idle: Cell<bool>,
    leaving: Cell<bool>,
    /// Data of reads is not put into their buffers: nobody looks at it.
    pub(super) forgets: Cell<bool>,
}

/// How a command ended.
pub(super) struct Finished {
    /// Bytes moved; for task management the response code.
    pub(super) result: Result<u32, IoError>,
    /// The buffer of [`Transfer::In`].
    pub(super) buffer: Buffer,
}

/// A command that was sent, or waits for it.
pub(super) struct Pending {
    inner: Rc<Inner>,
    index: u16,
    tag: u32,
    over: bool,
}

/// The peer broke the rules; the connection ends with this.
pub(super) type Violation = String;

impl Slot {
    /// Bytes of output data.
    pub(super) fn data_length(&self) -> u32 {
        self.data.as_ref().map_or(0, |data| data.len() as u32)
    }
}

impl State {
    fn tag(&self, index: u16) -> u32 {
        u32::from(self.slots[usize::from(index)].generation) << 16 | u32::from(index)
    }

    /// The issued command of a tag that came from the target.
    pub(super) fn slot(&mut self, tag: u32) -> Result<&mut Slot, Violation> {
        let slot = self.slots.get_mut(usize::from(tag as u16));
        let slot = slot.filter(|slot| slot.stage == Stage::Issued && u32::from(slot.generation) == tag >> 16);
        slot.ok_or_else(|| format!("it spoke of a task that is not there (tag {tag:#x})"))
    }

    fn allocate(
        &mut self,
        name: &'static str,
        request: Request,
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
            waker: None,
            since: now,
            name,
            request,
            cmd_sn: SerialNumber(0),
            buffer,
            data,
            received: 0,
            result: Ok(0),
        };
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[usize::from(index)];
            let generation = slot.generation.wrapping_add(1) & 0x7fff;
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

    /// Takes in the window and the status number that nearly every PDU brings.
    pub(super) fn advance(&mut self, max_cmd_sn: SerialNumber, stat_sn: Option<SerialNumber>) {
        if self.max_cmd_sn.precedes(max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
        if let Some(stat_sn) = stat_sn {
            self.exp_stat_sn = stat_sn.next();
        }
    }

    /// A task management function is complete: the commands that it aborted have no answer of their own (section
    /// 11.6.1). `tag` is that of the request.
    pub(super) fn end_aborted(&mut self, tag: u32) {
        let slot = &self.slots[usize::from(tag as u16)];
        let Request::TaskManagement { function, referenced, .. } = slot.request else { return };
        let before = slot.cmd_sn;
        let aborted = |slot: &Slot| {
            let scsi = matches!(slot.request, Request::Scsi(_));
            scsi && slot.stage == Stage::Issued && slot.cmd_sn.precedes(before)
        };
        for index in 0..self.slots.len() {
            let tag = self.tag(index as u16);
            let named = function != TaskManagementFunction::ABORT_TASK || tag == referenced;
            if named && aborted(&self.slots[index]) {
                self.finish(tag, Err(IoError::Aborted));
            }
        }
    }

    /// Ends a command.
    pub(super) fn finish(&mut self, tag: u32, result: Result<u32, IoError>) {
        let index = tag as u16;
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

impl Inner {
    /// Starts the tasks of a connection that has logged in.
    pub(super) fn start(
        ring: &Ring,
        socket: Socket,
        logged_in: LoggedIn,
        lun: Lun,
        timeout: Duration,
    ) -> Rc<Inner> {
        let state = State {
            slots: Vec::new(),
            free: Vec::new(),
            queued: VecDeque::new(),
            cmd_sn: logged_in.cmd_sn,
            max_cmd_sn: logged_in.max_cmd_sn,
            exp_stat_sn: logged_in.exp_stat_sn,
            outbox: Outbox::new(logged_in.parameters.framing),
            lost: None,
        };
        let inner = Rc::new(Inner {
            socket,
            parameters: logged_in.parameters,
            ring: ring.clone(),
            lun,
            state: RefCell::new(state),
            outgoing: Notify::new(),
            sender_idle: Cell::new(false),
            leaving: Cell::new(false),
            forgets: Cell::new(false),
        });
        ring.spawn_later(send(inner.clone()));
        ring.spawn_later(super::receive::receive(inner.clone(), logged_in.rest));
        let watched = Rc::downgrade(&inner);
        let clock = ring.clone();
        ring.spawn_later(async move {
            loop {
                clock.sleep(WATCH).await;
                let Some(inner) = watched.upgrade() else { return };
                if inner.state.borrow().lost.is_some() {
                    return;
                }
                inner.give_up_overdue(timeout);
            }
        });
        inner
    }

    fn give_up_overdue(&self, timeout: Duration) {
        let now = self.ring.now();
        let overdue = {
            let state = self.state.borrow();
            let waits = |slot: &&Slot| matches!(slot.stage, Stage::Issued | Stage::Queued);
            state
                .slots
                .iter()
                .filter(waits)
                .find(|slot| now.since(slot.since) > timeout)
                .map(|slot| slot.name)
        };
        if let Some(name) = overdue {
            let seconds = timeout.as_secs();
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
        for index in 0..state.slots.len() {
            if matches!(state.slots[index].stage, Stage::Queued | Stage::Issued) {
                state.finish(index as u32, Err(IoError::Connection(reason.clone())));
            }
        }
        drop(state);
        self.socket.shutdown();
        self.outgoing.notify();
    }

    /// Why the connection is gone, if it is.
    pub(super) fn lost(&self) -> Option<Arc<str>> {
        self.state.borrow().lost.clone()
    }

    /// Sends a SCSI command, at once or when the window has room.
    pub(super) fn command(self: &Rc<Self>, name: &'static str, cdb: [u8; 16], transfer: Transfer) -> Pending {
        self.submit(name, Request::Scsi(cdb), transfer)
    }

    /// Sends a task management request, past the window. `referenced` is a [`Pending::tag`].
    pub(super) fn task_management(
        self: &Rc<Self>,
        function: TaskManagementFunction,
        referenced: Option<u32>,
    ) -> Pending {
        let ref_cmd_sn = referenced
            .and_then(|tag| self.state.borrow_mut().slot(tag).ok().map(|slot| slot.cmd_sn))
            .unwrap_or_default();
        let referenced = referenced.unwrap_or(RESERVED_TAG);
        let request = Request::TaskManagement { function, referenced, ref_cmd_sn };
        self.submit("task management", request, Transfer::Nothing)
    }

    /// Asks to close the session.
    pub(super) fn logout(self: &Rc<Self>) -> Pending {
        self.leaving.set(true);
        self.submit("logout", Request::Logout, Transfer::Nothing)
    }

    /// Whether the end of the connection is ours to cause.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    fn submit(self: &Rc<Self>, name: &'static str, request: Request, transfer: Transfer) -> Pending {
        let mut state = self.state.borrow_mut();
        let passes_window = !matches!(request, Request::Scsi(_));
        let Some(index) = state.allocate(name, request, transfer, self.ring.turn_time()) else {
            return Pending { inner: self.clone(), index: u16::MAX, tag: RESERVED_TAG, over: true };
        };
        let tag = state.tag(index);
        if let Some(reason) = state.lost.clone() {
            state.finish(tag, Err(IoError::Connection(reason)));
        } else if passes_window {
            self.issue_immediate(&mut state, index);
        } else {
            state.queued.push_back(index);
            self.issue_queued(&mut state);
        }
        Pending { inner: self.clone(), index, tag, over: false }
    }

    /// Sends what the window has room for.
    pub(super) fn issue_queued(&self, state: &mut State) {
        while let Some(&index) = state.queued.front() {
            if !state.cmd_sn.precedes_or_equals(state.max_cmd_sn) {
                break;
            }
            state.queued.pop_front();
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
        let tag = state.tag(index);
        let State { slots, outbox, cmd_sn, exp_stat_sn, .. } = state;
        let slot = &mut slots[usize::from(index)];
        let Request::Scsi(cdb) = slot.request else { return };
        slot.stage = Stage::Issued;
        slot.cmd_sn = *cmd_sn;
        let mut command = ScsiCommand {
            flags: ScsiCommandFlags::FINAL,
            attribute: TaskAttribute::SIMPLE,
            lun: self.lun,
            initiator_task_tag: tag,
            expected_data_transfer_length: slot.buffer.len() as u32,
            cmd_sn: *cmd_sn,
            exp_stat_sn: *exp_stat_sn,
            cdb,
            ..ScsiCommand::default()
        };
        *cmd_sn = cmd_sn.next();
        if !slot.buffer.is_empty() {
            command.flags |= ScsiCommandFlags::READ;
        }
        let mut bhs: Bhs = [0; BHS_LENGTH];
        let Some(data) = slot.data.as_ref().filter(|data| !data.is_empty()) else {
            command.encode(&mut bhs);
            outbox.push(&bhs, None);
            return;
        };
        let length = data.len() as u32;
        let immediate = self.parameters.immediate_length(length);
        let unsolicited = self.parameters.unsolicited_length(length);
        command.flags |= ScsiCommandFlags::WRITE;
        command.flags.set(ScsiCommandFlags::FINAL, unsolicited == immediate);
        command.expected_data_transfer_length = length;
        command.data_segment_length = U24::saturating(immediate as usize);
        command.encode(&mut bhs);
        outbox.push(&bhs, (immediate > 0).then(|| data.slice(0..immediate as usize)));
        if unsolicited > immediate {
            let sequence = DataOut { target_transfer_tag: RESERVED_TAG, ..data_out(tag, *exp_stat_sn) };
            self.send_sequence(outbox, data, sequence, immediate..unsolicited);
        }
    }

    /// Data-Out PDUs for a run of bytes: one sequence.
    fn send_sequence(&self, outbox: &mut Outbox, data: &Shared, head: DataOut, run: std::ops::Range<u32>) {
        let mut data_sn = SerialNumber(0);
        let mut start = run.start;
        while start < run.end {
            let length = (run.end - start).min(self.parameters.send_limit);
            let pdu = DataOut {
                is_final: Final(start + length == run.end),
                data_segment_length: U24::saturating(length as usize),
                data_sn,
                buffer_offset: start,
                ..head
            };
            let mut bhs: Bhs = [0; BHS_LENGTH];
            pdu.encode(&mut bhs);
            outbox.push(&bhs, Some(data.slice(start as usize..(start + length) as usize)));
            data_sn = data_sn.next();
            start += length;
        }
    }

    fn issue_immediate(&self, state: &mut State, index: u16) {
        let tag = state.tag(index);
        let slot = &mut state.slots[usize::from(index)];
        slot.stage = Stage::Issued;
        slot.cmd_sn = state.cmd_sn;
        let mut bhs: Bhs = [0; BHS_LENGTH];
        match slot.request {
            Request::Scsi(_) => return,
            Request::TaskManagement { function, referenced, ref_cmd_sn } => TaskManagementRequest {
                immediate: Immediate(true),
                function,
                lun: self.lun,
                initiator_task_tag: tag,
                referenced_task_tag: referenced,
                cmd_sn: state.cmd_sn,
                exp_stat_sn: state.exp_stat_sn,
                ref_cmd_sn,
                exp_data_sn: SerialNumber(0),
            }
            .encode(&mut bhs),
            Request::Logout => LogoutRequest {
                immediate: Immediate(true),
                reason: LogoutReason::CLOSE_SESSION,
                initiator_task_tag: tag,
                cid: 0,
                cmd_sn: state.cmd_sn,
                exp_stat_sn: state.exp_stat_sn,
            }
            .encode(&mut bhs),
        }
        state.outbox.push(&bhs, None);
        self.wake_sender(state);
    }

    /// Answers an R2T with its data.
    pub(super) fn ready_to_transfer(&self, state: &mut State, r2t: &R2t) -> Result<(), Violation> {
        let exp_stat_sn = state.exp_stat_sn;
        let data = state.slot(r2t.initiator_task_tag)?.data.clone();
        let (start, length) = (r2t.buffer_offset, r2t.desired_data_transfer_length);
        let run = data.and_then(|data| {
            let end = start.checked_add(length).filter(|&end| end as usize <= data.len())?;
            (length > 0).then_some((data, start..end))
        });
        let (data, run) = run.ok_or_else(|| {
            format!("it asked for {length} bytes from {start}, which its command does not have")
        })?;
        let head = DataOut {
            lun: r2t.lun,
            target_transfer_tag: r2t.target_transfer_tag,
            ..data_out(r2t.initiator_task_tag, exp_stat_sn)
        };
        self.send_sequence(&mut state.outbox, &data, head, run);
        self.wake_sender(state);
        Ok(())
    }

    /// Answers the target's ping.
    pub(super) fn answer_ping(&self, state: &mut State, ping: &NopIn) {
        let answer = NopOut {
            immediate: Immediate(true),
            lun: ping.lun,
            initiator_task_tag: RESERVED_TAG,
            target_transfer_tag: ping.target_transfer_tag,
            cmd_sn: state.cmd_sn,
            exp_stat_sn: state.exp_stat_sn,
            ..NopOut::default()
        };
        let mut bhs: Bhs = [0; BHS_LENGTH];
        answer.encode(&mut bhs);
        state.outbox.push(&bhs, None);
        self.wake_sender(state);
    }
}

/// The head of a Data-Out sequence.
fn data_out(tag: u32, exp_stat_sn: SerialNumber) -> DataOut {
    DataOut { initiator_task_tag: tag, exp_stat_sn, ..DataOut::default() }
}

/// Sends what gathers in the outbox, until the connection is gone.
async fn send(inner: Rc<Inner>) {
    loop {
        let next = inner.outgoing.until(|| {
            let mut state = inner.state.borrow_mut();
            if state.lost.is_some() {
                return Some(None);
            }
            let list = state.outbox.take();
            inner.sender_idle.set(list.is_none());
            list.map(Some)
        });
        let Some(list) = next.await else { return };
        let (sent, list) = inner.socket.send(list).await;
        inner.state.borrow_mut().outbox.give(list);
        if let Err(error) = sent {
            return inner.fail(&format!("the connection broke while sending: {error}"));
        }
    }
}

impl Pending {
    /// The initiator task tag.
    pub(super) fn tag(&self) -> u32 {
        self.tag
    }
}

impl Future for Pending {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        if self.over {
            let result = Err(IoError::Unsupported("more than 16384 commands at once"));
            return Poll::Ready(Finished { result, buffer: Buffer::empty() });
        }
        let finished = {
            let mut state = self.inner.state.borrow_mut();
            let index = self.index;
            let slot = &mut state.slots[usize::from(index)];
            if slot.stage != Stage::Done {
                slot.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let result = std::mem::replace(&mut slot.result, Ok(0));
            let buffer = std::mem::take(&mut slot.buffer);
            state.release(index);
            Finished { result, buffer }
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
        let mut state = self.inner.state.borrow_mut();
        let slot = &mut state.slots[usize::from(self.index)];
        if slot.stage == Stage::Done {
            state.release(self.index);
        } else {
            slot.abandoned = true;
        }
    }
}
