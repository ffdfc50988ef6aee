//! A SCSI command from its delivery to its response.

use std::rc::Rc;

use ring::{Buffer, PooledFuture, Shared};
use wire::iscsi::{DataOut, Lun as WireLun, R2t, ScsiCommand, ScsiCommandFlags, SerialNumber};
use wire::scsi::luns::Lun;
use wire::scsi::{AdditionalSense, Sense};

use super::connection::Connection;
use super::respond::{Asked, Reply, Wanted};
use super::session::Session;
use super::tasks::TaskId;
use super::transfer::TransferError;
use super::window::CommandWindow;
use crate::layers::while_wanted;
use crate::limits::SEND_QUEUE_BYTES;
use crate::memory_gate::{POLL, has_memory, wait_for_memory};
use crate::request::Verb;
use crate::session::scsi::{Prepared, Response};
use crate::transport::Received;

impl Session {
    /// The turn of a SCSI command has come: the device server judges it, then its data is awaited or it runs.
    pub fn begin(self: &Rc<Self>, id: TaskId) {
        let Some(attached) = &self.attached else { return };
        let Some((lun, cdb, expected, turned_away)) = self.tasks(|tasks| {
            let task = tasks.get(id)?;
            task.delivered = true;
            Some((task.lun, task.cdb, if task.writes { task.expected } else { 0 }, task.turned_away))
        }) else {
            // Aborted while it was held; its place in the window is free again.
            return self.done(true);
        };
        if turned_away {
            return self.finish(id, Reply { response: Response::busy(), wanted: Wanted::Nothing });
        }
        let judged = attached.unit.prepare(&attached.nexus, decode_lun(lun), &cdb, expected);
        match judged {
            Ok(prepared) => {
                let wanted = prepared.data_out().min(expected);
                self.tasks(|tasks| {
                    if let Some(task) = tasks.get(id) {
                        task.prepared = Some(prepared);
                        task.transfer.want(wanted);
                    }
                });
                self.advance(id);
            }
            Err(response) => self.finish(id, Reply { response, wanted: Wanted::Nothing }),
        }
    }

    /// A short cut for a read or write of a volume in memory whose turn it is and whose data, if any, came with it: it
    /// becomes no task, and its bytes are not copied on their way. False: nothing was done, and a task does it or tells
    /// why not.
    pub fn at_once(&self, connection: &Connection, command: &ScsiCommand, data: &Received<'_>) -> bool {
        let Some(attached) = self.attached.as_ref().filter(|attached| attached.unit.is_prompt()) else {
            return false;
        };
        let both = ScsiCommandFlags::READ | ScsiCommandFlags::WRITE;
        let expected = command.expected_data_transfer_length;
        let whole = data.is_empty() || expected as usize == data.len();
        let usual = whole
            && !command.immediate.0
            && !command.flags.contains(both)
            && self.window(|window| window.is_due(command.cmd_sn))
            && !self.tasks(|tasks| tasks.has_tag(command.initiator_task_tag))
            // An initiator that does not read is not to fill memory with responses.
            && connection.outgoing.has_room(SEND_QUEUE_BYTES)
            && has_memory(expected as usize);
        if !usual {
            return false;
        }
        let asked = Asked {
            connection,
            initiator_task_tag: command.initiator_task_tag,
            expected,
            writes: command.flags.contains(ScsiCommandFlags::WRITE),
            reads: command.flags.contains(ScsiCommandFlags::READ),
            requests: 0,
        };
        let done = |verb, bytes| {
            connection.traffic.prompt(verb, bytes as u64);
            self.window(CommandWindow::pass);
        };
        let read = |lent: Shared| {
            done(Verb::Read, lent.len());
            self.respond(&asked, Reply { response: Response::shared(lent), wanted: Wanted::Input });
        };
        let written = || {
            done(Verb::Write, data.len());
            self.respond_to_write(&asked, data.len() as u32);
        };
        let lun = decode_lun(command.lun);
        attached.unit.at_once(&attached.nexus, lun, &command.cdb, data, read, written)
    }

    /// Whether [`Session::at_once`] is worth a try.
    pub fn is_prompt(&self) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.unit.is_prompt())
    }

    /// Goes on with a delivered command: asks for data, or runs it when all is there.
    pub fn advance(self: &Rc<Self>, id: TaskId) {
        let step = self.tasks(|tasks| {
            let task = tasks.get(id)?;
            let prepared = task.prepared?;
            if task.started || task.aborted || task.lent || task.growing {
                return None;
            }
            if task.transfer.is_complete() {
                task.started = true;
                return Some(Step::Run(prepared, std::mem::take(&mut task.buffer), task.connection.clone()));
            }
            let wanted = (prepared.data_out().min(task.expected)) as usize;
            task.growing = task.buffer.len() < wanted;
            Some(if task.growing { Step::Grow(wanted) } else { Step::Ask })
        });
        match step {
            Some(Step::Run(prepared, buffer, connection)) => self.run(id, prepared, buffer, connection),
            Some(Step::Ask) => self.ask(id),
            Some(Step::Grow(wanted)) => self.grow(id, wanted),
            None => {}
        }
    }

    fn run(self: &Rc<Self>, id: TaskId, prepared: Prepared, mut buffer: Buffer, connection: Rc<Connection>) {
        let (session, begun) = (self.clone(), self.shard.ring().turn_time());
        self.shard.ring().spawn(async move {
            let Some(attached) = &session.attached else { return };
            let wanted = (prepared.data_out() as usize).min(buffer.len());
            buffer.set_len(wanted);
            let bytes = prepared.data_in() as usize;
            let _promise = connection.outgoing.promise(bytes, SEND_QUEUE_BYTES).await;
            wait_for_memory(connection.ring(), bytes, || session.is_wanted(id)).await;
            if connection.outgoing.is_closed() {
                // The initiator was let go while this waited for it: nobody takes what it would give.
                session.retire(id);
                return;
            }
            // Aborted while it waited: then it is gone already.
            if !session.set_running(id) {
                return;
            }
            let response = if attached.unit.is_limited() {
                let work = attached.unit.execute(&attached.nexus, prepared, buffer);
                // Apart, so that the future of all others stays small.
                PooledFuture::future(while_wanted(|| !session.is_aborted(id), work)).await
            } else {
                attached.unit.execute(&attached.nexus, prepared, buffer).await
            };
            if let Some(verb) = prepared.verb() {
                let failed = response.sense.is_some();
                let bytes = wanted.max(response.data_in.len()) as u64;
                connection.traffic.done(verb, bytes, begun, connection.ring().turn_time(), failed);
            }
            session.finish(id, Reply { response, wanted: Wanted::of(&prepared) });
        });
    }

    fn is_wanted(&self, id: TaskId) -> bool {
        self.tasks(|tasks| tasks.get(id).is_some())
    }

    fn is_aborted(&self, id: TaskId) -> bool {
        self.tasks(|tasks| tasks.get(id).is_none_or(|task| task.aborted))
    }

    fn set_running(&self, id: TaskId) -> bool {
        self.tasks(|tasks| tasks.get(id).map(|task| task.running = true)).is_some()
    }

    /// Gets a buffer for all of the data; what is there already moves into it.
    fn grow(self: &Rc<Self>, id: TaskId, wanted: usize) {
        let session = self.clone();
        self.shard.ring().spawn(async move {
            wait_for_memory(session.shard.ring(), wanted, || session.is_wanted(id)).await;
            // Not while the smaller one is being received into: its bytes have to move.
            while session.tasks(|tasks| tasks.get(id).is_some_and(|task| task.lent)) {
                session.shard.ring().sleep(POLL).await;
            }
            session.tasks(|tasks| {
                let Some(task) = tasks.get(id) else { return };
                let mut larger = Buffer::new(wanted);
                let received = (task.transfer.received() as usize).min(wanted).min(task.buffer.len());
                larger[..received].copy_from_slice(&task.buffer[..received]);
                task.buffer = larger;
                task.growing = false;
            });
            session.advance(id);
        });
    }

    /// Sends the R2Ts that are due.
    pub fn ask(self: &Rc<Self>, id: TaskId) {
        let (burst, outstanding) =
            (self.parameters.max_burst_length, u32::from(self.parameters.max_outstanding_r2t));
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        self.tasks(|tasks| {
            let Some(task) = tasks.get(id) else { return };
            while let Some(solicit) = task.transfer.solicit(burst, outstanding) {
                let r2t = R2t {
                    lun: task.lun,
                    initiator_task_tag: task.initiator_task_tag,
                    target_transfer_tag: id.transfer_tag(solicit.number),
                    stat_sn: task.connection.stat_sn(),
                    exp_cmd_sn,
                    max_cmd_sn,
                    r2t_sn: SerialNumber(solicit.number),
                    buffer_offset: solicit.offset,
                    desired_data_transfer_length: solicit.length,
                };
                task.connection.send(|header| r2t.encode(header), None);
                task.connection.note_data_due();
            }
        });
    }

    /// Finds the task that a Data-Out belongs to and checks that the piece fits. `None`: the task is gone, the
    /// data is to be forgotten. Gives where in which buffer it goes; the buffer comes back by
    /// [`Session::take_data`].
    pub fn expect_data(
        &self,
        connection: &Rc<Connection>,
        pdu: &DataOut,
        length: usize,
    ) -> Result<Option<Destination>, (TaskId, TransferError)> {
        let burst = self.parameters.max_burst_length;
        self.tasks(|tasks| {
            let solicited = pdu.target_transfer_tag != wire::iscsi::RESERVED_TAG;
            let (id, request) = if solicited {
                let Some((id, request)) = tasks.by_transfer_tag(pdu.target_transfer_tag) else {
                    return Ok(None);
                };
                (id, Some(request))
            } else {
                let Some(id) = tasks.by_tag(pdu.initiator_task_tag) else { return Ok(None) };
                (id, None)
            };
            let Some(task) = tasks.get(id) else { return Ok(None) };
            // Data comes on the connection of its command (section 4.2.5.1), in one order therefore.
            let is_its =
                task.initiator_task_tag == pdu.initiator_task_tag && Rc::ptr_eq(&task.connection, connection);
            if !is_its || task.started || task.turned_away {
                return Ok(None);
            }
            // The tag has the low byte of the R2T's number; fewer than 256 are ever outstanding.
            let request = request.map(|low| {
                let newest = task.transfer.requests().wrapping_sub(1);
                newest.wrapping_sub(newest.wrapping_sub(u32::from(low)) & 0xff)
            });
            let start = task.transfer.received() as usize;
            task.transfer.accept(pdu, length as u32, request, burst).map_err(|error| (id, error))?;
            if task.buffer.len() < start + length {
                // Held back until there was memory for all; unsolicited data always has its place.
                return Err((id, TransferError::TooLong));
            }
            task.lent = true;
            Ok(Some(Destination { id, buffer: std::mem::take(&mut task.buffer), start }))
        })
    }

    /// The bytes of [`Session::expect_data`] are in the buffer.
    pub fn take_data(self: &Rc<Self>, id: TaskId, buffer: Buffer) {
        let known = self.tasks(|tasks| match tasks.get(id) {
            Some(task) => {
                task.buffer = buffer;
                task.lent = false;
                true
            }
            None => false,
        });
        if known {
            self.advance(id);
        }
    }

    /// Ends a command whose data did not come as it should; what still comes of it is forgotten. The session goes
    /// on: the frames around the data were whole.
    pub fn spoil(self: &Rc<Self>, id: TaskId) {
        let Some(attached) = &self.attached else { return };
        let response = attached.unit.refuse(Sense::aborted_command(AdditionalSense::DATA_PHASE_ERROR));
        self.finish(id, Reply { response, wanted: Wanted::Nothing });
    }

    /// A command is done: its response goes out unless it was aborted.
    pub fn finish(self: &Rc<Self>, id: TaskId, reply: Reply) {
        let Some(task) = self.retire(id) else { return };
        if !task.aborted {
            self.respond(&Asked::by(&task), reply);
        }
    }
}

/// Where the bytes of a Data-Out go.
pub struct Destination {
    /// The task they belong to.
    pub id: TaskId,
    /// Its buffer, lent.
    pub buffer: Buffer,
    /// Where in it they begin.
    pub start: usize,
}

enum Step {
    Run(Prepared, Buffer, Rc<Connection>),
    Grow(usize),
    Ask,
}

fn decode_lun(lun: WireLun) -> Option<Lun> {
    Lun::decode(lun.0.to_be_bytes())
}
