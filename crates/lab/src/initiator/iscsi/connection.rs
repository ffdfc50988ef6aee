//! A connection in full feature phase: the table of commands, the command window, and what is sent.
//!
//! An initiator task tag is the index of the command's slot with its generation above it. Commands that the window has no
//! room for wait in their slots.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::{Notify, Ring, Shared, Socket};
use wire::iscsi::frame::BHS_LENGTH;
use wire::iscsi::{
    Bhs, DataOut, Final, Immediate, LogoutReason, LogoutRequest, Lun, NopIn, NopOut, R2t, RESERVED_TAG,
    ScsiCommand, ScsiCommandFlags, SerialNumber, TaskAttribute, TaskManagementFunction,
    TaskManagementRequest, U24,
};

use super::login::LoggedIn;
use super::outbox::Outbox;
use super::parameters::Parameters;
use crate::initiator::error::{Cause, IoError};
use crate::initiator::table::{Connection, Pending, Slot, Table, Transfer};

/// Commands at once on one connection.
const MAX_SLOTS: usize = 16384;
/// Bits of a generation: no tag is the reserved one.
const GENERATIONS: u32 = 15;
/// How often overdue commands are looked for.
const WATCH: Duration = Duration::from_secs(1);

/// What a slot stands for.
#[derive(Clone, Copy)]
pub(super) enum Request {
    Scsi([u8; 16]),
    TaskManagement { function: TaskManagementFunction, referenced: u32, ref_cmd_sn: SerialNumber },
    Logout,
}

/// A request as it was asked for.
#[derive(Clone, Copy)]
pub(in crate::initiator) struct Asked {
    pub(super) name: &'static str,
    pub(super) request: Request,
    /// Once it was sent.
    cmd_sn: SerialNumber,
}

pub(super) struct State {
    pub(super) table: Table<Asked>,
    queued: VecDeque<u16>,
    cmd_sn: SerialNumber,
    max_cmd_sn: SerialNumber,
    exp_stat_sn: SerialNumber,
    pub(super) outbox: Outbox,
    lost: Option<Arc<str>>,
}

/// What tasks of a connection share.
pub(in crate::initiator) struct Inner {
    pub(super) socket: Socket,
    pub(super) parameters: Parameters,
    pub(super) ring: Ring,
    lun: Lun,
    pub(super) state: RefCell<State>,
    outgoing: Notify,
    /// The sender waits for something to send.
    sender_idle: Cell<bool>,
    leaving: Cell<bool>,
}

/// The peer broke the rules; the connection ends with this.
pub(super) type Violation = String;

/// The initiator task tag of a slot.
fn tag((index, generation): (u16, u32)) -> u32 {
    generation << u16::BITS | u32::from(index)
}

impl State {
    /// The issued command of a tag that came from the target.
    pub(super) fn slot(&mut self, tag: u32) -> Result<&mut Slot<Asked>, Violation> {
        let slot = self.table.issued(usize::from(tag as u16), tag >> u16::BITS);
        slot.ok_or_else(|| format!("it spoke of a task that is not there (tag {tag:#x})"))
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
        let asked = self.table.slot(tag as u16).request;
        let Request::TaskManagement { function, referenced, .. } = asked.request else { return };
        let aborted = |index, slot: &Slot<Asked>| {
            let Asked { request, cmd_sn, .. } = slot.request;
            let named = function != TaskManagementFunction::ABORT_TASK
                || self::tag((index, self.table.generation(index))) == referenced;
            named && matches!(request, Request::Scsi(_)) && cmd_sn.precedes(asked.cmd_sn)
        };
        let all = self.table.all_issued().filter(|(index, slot)| aborted(*index, slot));
        let aborted: Vec<u16> = all.map(|(index, _)| index).collect();
        for index in aborted {
            self.table.finish(index, Err(Cause::Aborted.into()));
        }
    }

    /// Ends a command.
    pub(super) fn finish(&mut self, tag: u32, result: Result<u64, IoError>) {
        self.table.finish(tag as u16, result);
    }
}

impl Connection for Inner {
    type Request = Asked;

    fn table(&self) -> RefMut<'_, Table<Asked>> {
        RefMut::map(self.state.borrow_mut(), |state| &mut state.table)
    }

    fn moved(_slot: &Slot<Asked>, result: u64) -> usize {
        result as usize
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
            table: Table::new(MAX_SLOTS, GENERATIONS, ring.now()),
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
            let mut waiting = state.table.waiting();
            waiting.find(|slot| now.since(slot.since) > timeout).map(|slot| slot.request.name)
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
        state.table.fail(&Cause::Connection(reason.clone()).into());
        drop(state);
        self.socket.shutdown();
        self.outgoing.notify();
    }

    /// Commands that the window has room for.
    pub(super) fn room(&self) -> u32 {
        let state = self.state.borrow();
        state.max_cmd_sn.next().since(state.cmd_sn)
    }

    /// Why the connection is gone, if it is.
    pub(super) fn lost(&self) -> Option<Arc<str>> {
        self.state.borrow().lost.clone()
    }

    /// Sends a SCSI command, at once or when the window has room.
    pub(super) fn command(
        self: &Rc<Self>,
        name: &'static str,
        cdb: [u8; 16],
        transfer: Transfer,
    ) -> Pending<Inner> {
        self.submit(name, Request::Scsi(cdb), transfer)
    }

    /// Sends a task management request, past the window. `referenced` is a task's tag.
    pub(super) fn task_management(
        self: &Rc<Self>,
        function: TaskManagementFunction,
        referenced: Option<u32>,
    ) -> Pending<Inner> {
        let ref_cmd_sn = referenced
            .and_then(|tag| self.state.borrow_mut().slot(tag).ok().map(|slot| slot.request.cmd_sn))
            .unwrap_or_default();
        let referenced = referenced.unwrap_or(RESERVED_TAG);
        let request = Request::TaskManagement { function, referenced, ref_cmd_sn };
        self.submit("task management", request, Transfer::Nothing)
    }

    /// Asks to close the session.
    pub(super) fn logout(self: &Rc<Self>) -> Pending<Inner> {
        self.leaving.set(true);
        self.submit("logout", Request::Logout, Transfer::Nothing)
    }

    /// Whether the end of the connection is ours to cause.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    fn submit(self: &Rc<Self>, name: &'static str, request: Request, transfer: Transfer) -> Pending<Inner> {
        let mut state = self.state.borrow_mut();
        let passes_window = !matches!(request, Request::Scsi(_));
        let asked = Asked { name, request, cmd_sn: SerialNumber(0) };
        let Some(index) = state.table.add(asked, transfer, self.ring.turn_time()) else {
            return Pending::without_slot(self);
        };
        let pending = Pending::new(self, index, state.table.generation(index));
        if let Some(reason) = state.lost.clone() {
            state.table.finish(index, Err(Cause::Connection(reason).into()));
        } else if passes_window {
            self.issue_immediate(&mut state, index);
        } else {
            state.queued.push_back(index);
            self.issue_queued(&mut state);
        }
        pending
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
        let State { table, outbox, cmd_sn, exp_stat_sn, .. } = state;
        let tag = tag((index, table.generation(index)));
        let slot = table.issue(index);
        let Request::Scsi(cdb) = slot.request.request else { return };
        slot.request.cmd_sn = *cmd_sn;
        let mut command = ScsiCommand {
            flags: ScsiCommandFlags::FINAL,
            attribute: TaskAttribute::SIMPLE,
            lun: self.lun,
            initiator_task_tag: tag,
            expected_data_transfer_length: slot.expected as u32,
            cmd_sn: *cmd_sn,
            exp_stat_sn: *exp_stat_sn,
            cdb,
            ..ScsiCommand::default()
        };
        *cmd_sn = cmd_sn.next();
        if slot.expected > 0 {
            command.flags |= ScsiCommandFlags::READ;
        }
        let mut bhs: Bhs = [0; BHS_LENGTH];
        let data = &slot.data;
        if data.is_empty() {
            command.encode(&mut bhs);
            return outbox.push(&bhs, None);
        }
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
        let tag = tag((index, state.table.generation(index)));
        let slot = state.table.issue(index);
        slot.request.cmd_sn = state.cmd_sn;
        let mut bhs: Bhs = [0; BHS_LENGTH];
        match slot.request.request {
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
        let end = start.checked_add(length).filter(|&end| length > 0 && end as usize <= data.len());
        let end = end.ok_or_else(|| {
            format!("it asked for {length} bytes from {start}, which its command does not have")
        })?;
        let head = DataOut {
            lun: r2t.lun,
            target_transfer_tag: r2t.target_transfer_tag,
            ..data_out(r2t.initiator_task_tag, exp_stat_sn)
        };
        self.send_sequence(&mut state.outbox, &data, head, start..end);
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
        list.give_back();
        if let Err(error) = sent {
            return inner.fail(&format!("the connection broke while sending: {error}"));
        }
    }
}

impl Pending<Inner> {
    /// The initiator task tag; the reserved one when it has no slot.
    pub(super) fn tag(&self) -> u32 {
        self.name().map_or(RESERVED_TAG, tag)
    }
}
