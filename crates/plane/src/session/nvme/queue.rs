//! A queue: a connection after its Connect command. Commands come in, get their data, run, and are completed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::{Buffer, Instant, Notify, PooledFuture, Room, Soon};
use wire::nvme::admin::Opcode;
use wire::nvme::fabrics::{Connect, ConnectAttributes};
use wire::nvme::tcp::{FatalError, FatalStatus, H2CData};
use wire::nvme::{Command, Completion, DataPlace, Fuse, Status, fabrics};

use super::connection::{Connection, Outcome};
use super::controller::Controller;
use super::counters::Counters;
use super::io::{self, Channels};
use super::link::Link;
use super::slots::{Full, Slot, SlotId, Slots};
use crate::layers::while_wanted;
use crate::limits::{NVME_MAXH2CDATA, NVME_MEMORY_TIME, RECEIVE_STALL, SEND_QUEUE_BYTES, TRANSFER_BYTES};
use crate::memory_gate::{has_memory, wait_for_memory};
use crate::request::Verb;
use crate::shard::Shard;
use crate::transport::{Promise, Received};
use crate::watch::Watched;

/// Byte offsets in an H2CData header, for what is wrong with it.
const OFFSET_OF_CCCID: u32 = 8;
const OFFSET_OF_TTAG: u32 = 10;
const OFFSET_OF_DATAO: u32 = 12;
const OFFSET_OF_DATAL: u32 = 16;

/// Commands of a queue that ended before their data came and are remembered, so that the data is taken and dropped.
const FORGOTTEN: usize = 64;

/// Who carries out the commands of a queue.
pub enum Role {
    /// The admin queue: the controller itself lives here.
    Admin(Rc<Controller>),
    /// An I/O queue.
    Io(Namespaces),
}

/// What an I/O queue knows of its subsystem: changed only when what is offered changes.
pub struct Namespaces {
    channels: RefCell<Rc<Channels>>,
    /// What is done with them.
    pub counters: Rc<Counters>,
}

impl Namespaces {
    /// These channels, by NSID from 1 on.
    pub fn new(channels: Rc<Channels>, counters: Rc<Counters>) -> Namespaces {
        Namespaces { channels: RefCell::new(channels), counters }
    }

    /// The channels as they are now, for the whole life of a command.
    pub fn now(&self) -> Rc<Channels> {
        self.channels.borrow().clone()
    }

    /// They are others from now on.
    pub fn replace(&self, channels: Rc<Channels>) {
        self.channels.replace(channels);
    }
}

/// One queue of a controller.
pub struct Queue {
    /// QID; 0 is the admin queue.
    pub qid: u16,
    /// The controller it belongs to.
    pub link: Arc<Link>,
    /// The life of the controller in which it came in: after a reset nothing of it is begun any more.
    incarnation: u32,
    /// Tells it from earlier and later queues of its number.
    pub token: u64,
    /// Its core.
    pub shard: Rc<Shard>,
    /// Its connection.
    pub connection: Rc<Connection>,
    /// What it is for.
    pub role: Role,
    /// Entries.
    size: u16,
    sqhd: Cell<u16>,
    /// The host does without SQHD: successful reads need no completion.
    without_flow_control: bool,
    slots: RefCell<Slots>,
    /// The last command, if it is the first half of a fused operation.
    first: Cell<Option<SlotId>>,
    /// Tags of commands that ended before all data they had asked for came: it may be under way still.
    forgotten: RefCell<VecDeque<SlotId>>,
    changed: Notify,
    /// When data that was asked for last came, or some was last asked for.
    data_due_since: Cell<Instant>,
}

/// Ends the connection of a host that begins and does not go on.
impl Watched for Queue {
    fn look(&self, now: Instant) -> Option<Instant> {
        if !self.is_open() {
            return None;
        }
        let connection = &self.connection;
        let (since, what) = if connection.receiving.get() {
            (connection.last_received.get(), "it has sent half a request and nothing more")
        } else if connection.outgoing.bytes() == 0
            && self.slots.borrow().ids().any(|(_, slot)| slot.is_owed())
        {
            // Other commands of its do not count: memory is kept for this data.
            (self.data_due_since.get(), "it has not sent the data it was asked for")
        } else {
            return Some(now + RECEIVE_STALL);
        };
        let due = since + RECEIVE_STALL;
        if now > due {
            connection.close(format!("{what} for {} seconds", RECEIVE_STALL.as_secs()));
            return None;
        }
        Some(due)
    }
}

impl Queue {
    /// Whether its connection goes on.
    pub fn is_open(&self) -> bool {
        !self.connection.outgoing.is_closed()
    }

    /// The command with this identifier.
    pub fn find(&self, cid: u16) -> Option<SlotId> {
        self.slots.borrow().find(cid)
    }

    /// A queue of a controller, as its Connect command wishes.
    pub fn new(
        connect: &Connect,
        (link, incarnation, token): (Arc<Link>, u32, u64),
        shard: Rc<Shard>,
        connection: Rc<Connection>,
        role: Role,
    ) -> Rc<Queue> {
        let size = connect.sqsize + 1;
        Rc::new(Queue {
            qid: connect.qid,
            link,
            incarnation,
            token,
            shard,
            connection,
            role,
            size,
            // The Connect command was the first entry.
            sqhd: Cell::new(1 % size),
            without_flow_control: connect.cattr.contains(ConnectAttributes::DISABLE_SQ_FLOW_CONTROL),
            slots: RefCell::new(Slots::new(usize::from(size))),
            first: Cell::new(None),
            forgotten: RefCell::default(),
            changed: Notify::new(),
            data_due_since: Cell::new(Instant::ZERO),
        })
    }

    fn slot<T>(&self, id: SlotId, work: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        self.slots.borrow_mut().get(id).map(work)
    }

    /// SQHD after one more entry has been taken.
    fn advance(&self) {
        self.sqhd.set((self.sqhd.get() + 1) % self.size);
    }

    /// A capsule has come: `data` came with it. The error ends the connection.
    pub fn take(self: &Rc<Self>, command: Command, data: Buffer) -> Result<(), FatalError> {
        self.advance();
        self.link.note_traffic();
        let pending = matches!(self.role, Role::Io(_)).then(|| self.connection.traffic.pending());
        let id = match self.slots.borrow_mut().insert(Slot::new(command, pending)) {
            Ok(id) => id,
            Err(Full::IdentifierInUse) => {
                self.complete(command.cid, Outcome::failed(Status::COMMAND_ID_CONFLICT));
                return Ok(());
            }
            Err(Full::QueueFull) => return Err(FatalError::SEQUENCE),
        };
        if let Err(status) = self.fuse(id, &command).and_then(|()| self.begin(id, &command, data)) {
            self.finish(id, Outcome::failed(status));
        }
        Ok(())
    }

    /// A short cut for a plain Read or Write of a volume in memory whose data, if any, came with it: it takes no slot,
    /// and its bytes are not copied on their way; and for Keep Alive. False: nothing was done, and [`Queue::take`] does it
    /// or tells why not.
    pub fn at_once(&self, command: &Command, data: &Received<'_>) -> bool {
        let Role::Io(namespaces) = &self.role else { return self.is_kept_alive(command, data) };
        let usual = command.fuse() == Fuse::Normal
            && self.first.get().is_none()
            && self.link.incarnation() == self.incarnation
            && self.slots.borrow().takes(command.cid)
            // A host that does not read is not to fill memory with answers.
            && self.connection.outgoing.has_room(SEND_QUEUE_BYTES)
            && has_memory(command.sgl.length as usize);
        if !usual {
            return false;
        }
        let channels = namespaces.channels.borrow();
        let Some((channel, verb, extent)) = io::prompt(command, &channels, data.len()) else { return false };
        let note = || {
            namespaces.counters.count(command.opcode, command.sgl.length);
            self.connection.traffic.prompt(verb, extent.length);
            self.advance();
            self.link.note_traffic();
        };
        // What was written is on its way to memory: an outcome that was handed on would wait for that.
        if verb == Verb::Write {
            let Some(writing) = channel.absorb(extent, data.pieces()) else { return false };
            note();
            self.succeed(command.cid);
            drop(writing);
            return true;
        }
        let Some(lent) = channel.lend(extent) else { return false };
        note();
        self.complete(command.cid, Outcome::with_data(lent));
        true
    }

    /// Keep Alive of a controller that is ready: most of what idle hosts send.
    #[cold]
    fn is_kept_alive(&self, command: &Command, data: &Received<'_>) -> bool {
        let usual = command.opcode == Opcode::KEEP_ALIVE.0
            && data.is_empty()
            && command.data_place(0).is_ok()
            && self.link.is_ready()
            && self.slots.borrow().takes(command.cid)
            && self.connection.outgoing.has_room(SEND_QUEUE_BYTES);
        if usual {
            self.advance();
            self.link.note_traffic();
            self.complete(command.cid, Outcome::done());
        }
        usual
    }

    /// Whether a command is a Write that [`Queue::at_once`] may carry out when all of its data has come.
    pub fn is_prompt_write(&self, command: &Command) -> bool {
        match &self.role {
            Role::Io(namespaces) => io::is_prompt_write(command, &namespaces.channels.borrow()),
            Role::Admin(_) => false,
        }
    }

    /// Joins the halves of a fused operation (Base 2.1 section 3.4.2): the second follows the first at once.
    fn fuse(&self, id: SlotId, command: &Command) -> Result<(), Status> {
        if matches!(self.role, Role::Admin(_)) {
            return Ok(());
        }
        let first = self.first.take();
        match (command.fuse(), first) {
            (Fuse::Second, Some(first)) => {
                if self.slot(first, |slot| slot.partner = Some(id)).is_none() {
                    return Err(Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND);
                }
                self.slot(id, |slot| slot.partner = Some(first));
            }
            (Fuse::Second, None) => return Err(Status::COMMAND_ABORTED_DUE_TO_MISSING_FUSED_COMMAND),
            (_, Some(first)) => {
                self.finish(first, Outcome::failed(Status::COMMAND_ABORTED_DUE_TO_MISSING_FUSED_COMMAND));
            }
            _ => {}
        }
        if command.fuse() == Fuse::First {
            self.first.set(Some(id));
        }
        Ok(())
    }

    /// Waits a while for memory for data that comes with a command: nothing more is received meanwhile. False when
    /// there is none.
    pub async fn wait_for_capsule(&self, bytes: usize) -> bool {
        let ring = self.shard.ring();
        ring.timeout(NVME_MEMORY_TIME, wait_for_memory(ring, bytes, || self.is_open())).await;
        has_memory(bytes)
    }

    /// A capsule whose data was dropped, because it came damaged or for want of memory: the host may send it again.
    pub fn refuse(&self, command: &Command, status: Status) {
        self.advance();
        self.link.note_traffic();
        if let Some(first) = self.first.take() {
            let status = if command.fuse() == Fuse::Second {
                Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND
            } else {
                Status::COMMAND_ABORTED_DUE_TO_MISSING_FUSED_COMMAND
            };
            self.finish(first, Outcome::failed(status));
        }
        self.note_failure(command, status);
        self.complete(command.cid, Outcome::failed(status));
    }

    /// The status for data that there is no memory for.
    pub fn no_memory(&self) -> Status {
        if self.qid == 0 { Status::TRANSIENT_TRANSPORT_ERROR } else { Status::NAMESPACE_NOT_READY }
    }

    /// A command that will come. Only a hint.
    #[inline]
    pub fn expect(&self, command: &Command, soon: Soon) {
        if let Role::Io(namespaces) = &self.role {
            io::expect(command, &namespaces.channels.borrow(), soon);
        }
    }

    fn begin(self: &Rc<Self>, id: SlotId, command: &Command, data: Buffer) -> Result<(), Status> {
        let place = command.data_place(data.len() as u32)?;
        let wanted = match &self.role {
            Role::Admin(_) => Controller::output(command),
            Role::Io(namespaces) => {
                if self.link.incarnation() != self.incarnation {
                    return Err(Status::COMMAND_SEQUENCE_ERROR);
                }
                io::output(command, &namespaces.channels.borrow())?
            }
        };
        if wanted == 0 {
            self.ready(id);
            return Ok(());
        }
        // Linux sends a whole page of ranges with Dataset Management, whatever their number. What is told in blocks is
        // told exactly.
        let exact = matches!(self.role, Role::Io(_)) && io::is_counted_in_blocks(command);
        if place.length() < wanted || (exact && place.length() > wanted) {
            return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
        }
        match place {
            DataPlace::InCapsule { offset: 0, .. } => {
                let mut data = data;
                data.set_len(wanted as usize);
                self.slot(id, |slot| slot.buffer = data);
                self.ready(id);
            }
            DataPlace::InCapsule { offset, .. } => {
                let (start, end) = (offset as usize, offset as usize + wanted as usize);
                let part = Buffer::copy_of(&data[start..end]);
                self.slot(id, |slot| slot.buffer = part);
                self.ready(id);
            }
            DataPlace::CommandBuffer { .. } => self.ask(id, command.cid, wanted),
        }
        Ok(())
    }

    /// Gets room and asks the host for the data.
    fn ask(self: &Rc<Self>, id: SlotId, cid: u16, wanted: u32) {
        if has_memory(wanted as usize) {
            return self.send_r2t(id, cid, wanted);
        }
        let queue = self.clone();
        self.shard.ring().spawn(async move {
            wait_for_memory(queue.shard.ring(), wanted as usize, || queue.is_open()).await;
            queue.send_r2t(id, cid, wanted);
        });
    }

    fn send_r2t(&self, id: SlotId, cid: u16, wanted: u32) {
        let known = self.slot(id, |slot| {
            slot.room = Some(Room::new(wanted as usize));
            slot.wanted = wanted;
        });
        if known.is_some() {
            self.data_due_since.set(self.shard.ring().turn_time());
            self.connection.send_r2t(cid, id.tag(), 0, wanted);
        }
    }

    /// Where the bytes of an H2CData go: the buffer is lent until [`Queue::take_data`].
    pub fn expect_data(&self, pdu: &H2CData, last: bool) -> Result<(SlotId, Buffer, usize), FatalError> {
        let id = SlotId::of_tag(pdu.ttag);
        let mut slots = self.slots.borrow_mut();
        if slots.get(id).is_none() && pdu.datal <= NVME_MAXH2CDATA && self.forgotten.borrow().contains(&id) {
            // Received, and dropped by `take_data`, which finds no command.
            return Ok((id, Buffer::new(pdu.datal as usize), 0));
        }
        let slot = slots.get(id).filter(|slot| slot.wanted > 0 && !slot.running);
        let slot = slot.ok_or(FatalError::field(OFFSET_OF_TTAG))?;
        if slot.command.cid != pdu.cccid {
            return Err(FatalError::field(OFFSET_OF_CCCID));
        }
        if pdu.datao != slot.received {
            return Err(FatalError::out_of_range(OFFSET_OF_DATAO));
        }
        let end = slot.received.checked_add(pdu.datal).filter(|end| *end <= slot.wanted);
        let end = end.ok_or(FatalError::out_of_range(OFFSET_OF_DATAL))?;
        if pdu.datal > NVME_MAXH2CDATA {
            return Err(FatalError { fes: FatalStatus::DATA_TRANSFER_LIMIT_EXCEEDED, fei: OFFSET_OF_DATAL });
        }
        if last != (end == slot.wanted) || pdu.datal == 0 {
            return Err(FatalError::field(1));
        }
        let start = std::mem::replace(&mut slot.received, end) as usize;
        let buffer = match slot.room.take() {
            Some(room) => room.into_buffer(),
            None => std::mem::take(&mut slot.buffer),
        };
        Ok((id, buffer, start))
    }

    /// The bytes of [`Queue::expect_data`] are in the buffer; `intact` unless their digest is wrong.
    pub fn take_data(self: &Rc<Self>, id: SlotId, buffer: Buffer, intact: bool) {
        self.data_due_since.set(self.shard.ring().turn_time());
        let complete = self.slot(id, |slot| {
            slot.buffer = buffer;
            slot.received == slot.wanted
        });
        if !intact {
            self.finish(id, Outcome::failed(Status::TRANSIENT_TRANSPORT_ERROR));
        } else if complete == Some(true) {
            self.ready(id);
        }
    }

    /// All data of a command is there. Halves of a fused operation run when both have theirs.
    fn ready(self: &Rc<Self>, id: SlotId) {
        let Some((fuse, partner)) = self.slot(id, |slot| {
            slot.ready = true;
            (slot.command.fuse(), slot.partner)
        }) else {
            return;
        };
        let paired = partner.filter(|partner| self.slot(*partner, |slot| slot.ready) == Some(true));
        match (&self.role, fuse, paired) {
            (Role::Io(_), Fuse::First, Some(second)) => self.run_pair(id, second),
            (Role::Io(_), Fuse::Second, Some(first)) => self.run_pair(first, id),
            (Role::Io(_), Fuse::First | Fuse::Second, None) => {}
            _ => self.run(id),
        }
    }

    /// Takes command and data of a slot, which runs from now on.
    pub fn start(&self, id: SlotId) -> Option<(Command, Buffer)> {
        self.slot(id, |slot| {
            slot.running = true;
            (slot.command, std::mem::take(&mut slot.buffer))
        })
    }

    fn run(self: &Rc<Self>, id: SlotId) {
        if let Role::Admin(controller) = &self.role
            && self.slot(id, |slot| Controller::is_event_request(&slot.command)) == Some(true)
        {
            return controller.park(self, id);
        }
        let Some((command, buffer)) = self.start(id) else { return };
        let (queue, begun) = (self.clone(), self.shard.ring().turn_time());
        self.shard.ring().spawn(async move {
            let promise = queue.promise(queue.input(&command)).await;
            if !queue.is_open() {
                // The host was let go while this waited for it: nobody takes what it would give.
                return queue.leave(id);
            }
            let outcome = match &queue.role {
                Role::Admin(controller) => {
                    drop(promise);
                    controller.execute(&queue, &command, &buffer).await
                }
                Role::Io(namespaces) => {
                    let _promise = promise;
                    let is_limited = io::is_limited(&command, &namespaces.channels.borrow());
                    let outcome = if is_limited {
                        let work = io::execute(&queue, namespaces, &command, buffer);
                        // Apart, so that the future of all others stays small.
                        PooledFuture::future(while_wanted(|| queue.wants(id), work)).await
                    } else {
                        io::execute(&queue, namespaces, &command, buffer).await
                    };
                    if let Some(verb) = io::verb(&command) {
                        queue.count(verb, command.sgl.length.into(), begun, &outcome);
                    }
                    outcome
                }
            };
            queue.finish(id, outcome);
        });
    }

    fn run_pair(self: &Rc<Self>, first: SlotId, second: SlotId) {
        let (Some((compare, expected)), Some((write, data))) = (self.start(first), self.start(second)) else {
            return;
        };
        let (queue, begun) = (self.clone(), self.shard.ring().turn_time());
        self.shard.ring().spawn(async move {
            let Role::Io(namespaces) = &queue.role else { return };
            let work = io::compare_and_write(&queue, namespaces, (&compare, &expected), (&write, data));
            let (one, two) = while_wanted(|| queue.wants(first) && queue.wants(second), work).await;
            let bytes = u64::from(compare.sgl.length) + u64::from(write.sgl.length);
            queue.count(Verb::Write, bytes, begun, &two);
            queue.finish(first, one);
            queue.finish(second, two);
        });
    }

    /// Whether the host still wants the end of a command.
    fn wants(&self, id: SlotId) -> bool {
        self.is_open() && self.slot(id, |slot| slot.aborts == 0) == Some(true)
    }

    /// A command has ended that began at `begun`.
    fn count(&self, verb: Verb, bytes: u64, begun: Instant, outcome: &Outcome) {
        let failed = outcome.status != Status::SUCCESSFUL_COMPLETION;
        self.connection.traffic.done(verb, bytes, begun, self.shard.ring().turn_time(), failed);
    }

    /// Commands that have not been answered.
    pub fn in_flight(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Waits until the host has taken some of what we send, and until there is memory for `bytes`; they count as sent
    /// until the result is dropped, so that commands that come together do not all begin.
    async fn promise(&self, bytes: usize) -> Promise<'_> {
        let promise = self.connection.outgoing.promise(bytes, SEND_QUEUE_BYTES).await;
        if !has_memory(bytes) {
            wait_for_memory(self.shard.ring(), bytes.min(TRANSFER_BYTES), || self.is_open()).await;
        }
        promise
    }

    /// Bytes that a command will give.
    fn input(&self, command: &Command) -> usize {
        match self.role {
            Role::Admin(_) => (command.sgl.length as usize).min(TRANSFER_BYTES),
            Role::Io(_) => io::input(command),
        }
    }

    /// A command that nobody waits for any more ends without an answer.
    fn leave(&self, id: SlotId) {
        self.slots.borrow_mut().remove(id);
        self.changed.notify();
    }

    /// A command is done: its completion goes out.
    pub fn finish(&self, id: SlotId, outcome: Outcome) {
        let Some(slot) = self.slots.borrow_mut().remove(id) else { return };
        if self.first.get() == Some(id) {
            self.first.set(None);
        }
        if slot.is_owed() {
            self.forget(id);
        }
        // A half that fails before both run takes the other one with it.
        if let Some(partner) = slot.partner.filter(|_| !slot.running) {
            let failed = Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND;
            if self.slot(partner, |other| other.partner = None).is_some() {
                self.finish(partner, Outcome::failed(failed));
            }
        }
        let aborted = slot.aborts > 0 && slot.command.opcode != fabrics::OPCODE;
        let outcome = if aborted { Outcome::failed(Status::COMMAND_ABORT_REQUESTED) } else { outcome };
        if outcome.status != Status::SUCCESSFUL_COMPLETION {
            self.note_failure(&slot.command, outcome.status);
        }
        self.complete(slot.command.cid, outcome);
        self.changed.notify();
    }

    #[cold]
    fn note_failure(&self, command: &Command, status: Status) {
        self.link.note_error(self.qid, command, status);
        if let Role::Io(namespaces) = &self.role {
            namespaces.counters.note_failure(status);
        }
    }

    fn forget(&self, id: SlotId) {
        let mut forgotten = self.forgotten.borrow_mut();
        if forgotten.len() >= FORGOTTEN {
            forgotten.pop_front();
        }
        forgotten.push_back(id);
    }

    /// SQHD of the answer to Connect: all ones agree to do without it (Base 2.1 section 6.3).
    pub fn first_sqhd(&self) -> u16 {
        if self.without_flow_control { u16::MAX } else { self.sqhd.get() }
    }

    /// A command that gives nothing has been carried out.
    #[inline]
    fn succeed(&self, cid: u16) {
        let (sqhd, status) = (self.sqhd.get(), Status::SUCCESSFUL_COMPLETION);
        self.connection.send_completion(|| Completion { result: 0, sqhd, cid, status });
    }

    fn complete(&self, cid: u16, outcome: Outcome) {
        let succeeded = outcome.status == Status::SUCCESSFUL_COMPLETION;
        if let Some(data) = outcome.data.filter(|data| succeeded && !data.is_empty()) {
            let alone = self.without_flow_control && outcome.result == 0;
            self.connection.send_data(cid, data, alone);
            if alone {
                return;
            }
        }
        let (result, status, sqhd) = (outcome.result, outcome.status, self.sqhd.get());
        self.connection.send_completion(|| Completion { result, sqhd, cid, status });
    }

    /// Aborts the command `cid`: what waits for data ends at once, what runs is waited for, because a write that still
    /// came after its abort could overwrite newer data. False when there is no such command, or when it does not end in
    /// this time: then it ends as if nobody had wanted it to.
    pub async fn abort(&self, cid: u16, time: Duration) -> bool {
        let Some(id) = self.slots.borrow().find(cid) else { return false };
        let running = self.slot(id, |slot| {
            slot.aborts += 1;
            slot.running
        });
        if running == Some(false) {
            self.finish(id, Outcome::failed(Status::COMMAND_ABORT_REQUESTED));
            return true;
        }
        let end = self.changed.until(|| self.slots.borrow_mut().get(id).is_none().then_some(()));
        let is_over = self.shard.ring().timeout(time, end).await.is_some();
        if !is_over {
            self.slot(id, |slot| slot.aborts -= 1);
        }
        is_over
    }

    /// Waits until no command of the queue is with a volume any more. What waits for data is forgotten.
    pub async fn quiesce(&self) {
        let waiting: Vec<SlotId> =
            self.slots.borrow().ids().filter(|(_, slot)| !slot.running).map(|(id, _)| id).collect();
        for id in waiting {
            self.slots.borrow_mut().remove(id);
        }
        self.changed.until(|| (self.slots.borrow().len() == 0).then_some(())).await;
    }
}
