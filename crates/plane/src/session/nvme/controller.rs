//! A controller: what its admin queue asks of it. Base 2.1 sections 3.1, 5 and 6. Lives on the admin queue's core.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ring::Buffer;
use wire::nvme::admin::event::Event;
use wire::nvme::admin::features::EventConfiguration;
use wire::nvme::admin::log::ErrorEntry;
use wire::nvme::admin::{Abort, Opcode};
use wire::nvme::fabrics::{
    Capabilities, CommandType, ControllerConfiguration, ControllerStatus, Property, PropertyGet, PropertySet,
    PropertySize, Shutdown, ShutdownStatus,
};
use wire::nvme::{Command, Status, VERSION_2_1, fabrics};

use super::connection::Outcome;
use super::node::{Kind, Link, Node};
use super::queue::Queue;
use super::service::Service;
use super::slots::SlotId;
use super::{features, identify, logs};
use crate::limits::{NVME_ERROR_ENTRIES, NVME_EVENT_REQUESTS, NVME_QUEUE_ENTRIES, NVME_QUEUES};
use crate::log::trouble;
use crate::request::Request;
use crate::shard::Shard;

/// The time in which a command that is to be aborted has to end; after it the abort is said to have failed.
const ABORT_TIME: Duration = Duration::from_secs(10);
/// The longest time until a controller is ready or reset, in half seconds: it waits for commands that are with the volumes.
const READY_HALF_SECONDS: u64 = 60;
/// Idle time of a discovery connection without a keep alive timer: Base 2.1 section 3.1.3.4 allows two minutes.
const DISCOVERY_IDLE_MS: u32 = 120_000;

/// How often a controller is looked at that waits for its keep alive time.
const KEEP_ALIVE_NAP: Duration = Duration::from_secs(1);

/// Notices that wait to be told, and the requests that wait for them.
#[derive(Default)]
struct Events {
    parked: VecDeque<SlotId>,
    pending: VecDeque<Event>,
    /// Told and not read yet: the same kind is not told again before.
    told: Vec<Event>,
}

/// A controller.
pub struct Controller {
    /// What its queues know of it.
    pub link: Arc<Link>,
    /// NVMe on all cores.
    pub node: Arc<Node>,
    /// Its core.
    pub shard: Rc<Shard>,
    cc: Cell<ControllerConfiguration>,
    csts: Cell<ControllerStatus>,
    keep_alive_ms: Cell<u32>,
    /// Which notices the host wants.
    pub configuration: Cell<EventConfiguration>,
    /// TMPTH of the composite temperature, in kelvin.
    pub temperature_threshold: Cell<u32>,
    /// I/O queues and their cores.
    queues: RefCell<BTreeMap<u16, usize>>,
    events: RefCell<Events>,
    /// Newest first.
    pub errors: RefCell<VecDeque<ErrorEntry>>,
    admin: RefCell<Option<Rc<Queue>>>,
}

/// The capabilities of every controller.
fn capabilities() -> Capabilities {
    Capabilities::default()
        .with_mqes(u64::from(NVME_QUEUE_ENTRIES - 1))
        .with_cqr(1)
        .with_to(READY_HALF_SECONDS)
        .with_css(1)
        .with_crms(1)
}

impl Controller {
    /// A controller that is not enabled yet.
    pub fn new(link: Arc<Link>, node: Arc<Node>, shard: Rc<Shard>, keep_alive_ms: u32) -> Rc<Controller> {
        Rc::new(Controller {
            link,
            node,
            shard,
            cc: Cell::default(),
            csts: Cell::default(),
            keep_alive_ms: Cell::new(keep_alive_ms),
            configuration: Cell::new(EventConfiguration::empty()),
            temperature_threshold: Cell::new(0),
            queues: RefCell::default(),
            events: RefCell::default(),
            errors: RefCell::default(),
            admin: RefCell::default(),
        })
    }

    /// Its admin queue, once there is one.
    pub fn set_admin(&self, queue: Rc<Queue>) {
        self.admin.replace(Some(queue));
    }

    /// The admin queue, until the end.
    pub fn admin(&self) -> Option<Rc<Queue>> {
        self.admin.borrow().clone()
    }

    /// The keep alive timeout, in milliseconds; 0 is none.
    pub fn keep_alive_ms(&self) -> u32 {
        self.keep_alive_ms.get()
    }

    /// Sets the keep alive timeout.
    pub fn set_keep_alive_ms(&self, milliseconds: u32) {
        self.keep_alive_ms.set(milliseconds);
    }

    /// Bytes that the host sends with an admin command.
    pub fn output(command: &Command) -> u32 {
        match Opcode(command.opcode) {
            Opcode::SET_FEATURES => features::output(command),
            _ => 0,
        }
    }

    /// Whether it is an Asynchronous Event Request, which is completed by an event.
    pub fn is_event_request(command: &Command) -> bool {
        command.opcode == Opcode::ASYNCHRONOUS_EVENT_REQUEST.0
    }

    /// Carries out a command of the admin queue.
    pub async fn execute(self: &Rc<Self>, queue: &Rc<Queue>, command: &Command, data: &Buffer) -> Outcome {
        let result = match Opcode(command.opcode) {
            Opcode::FABRICS => self.fabrics(command).await,
            _ if !self.link.ready.load(Ordering::Acquire) => Err(Status::COMMAND_SEQUENCE_ERROR),
            Opcode::IDENTIFY => identify::identify(self, command),
            Opcode::GET_LOG_PAGE => logs::get(self, command),
            Opcode::KEEP_ALIVE => Ok(Outcome::done()),
            Opcode::SET_FEATURES => features::set(self, command, data),
            Opcode::GET_FEATURES => features::get(self, command),
            Opcode::ABORT if matches!(self.link.kind, Kind::Io(_)) => Ok(self.abort(queue, command).await),
            _ => Err(Status::INVALID_COMMAND_OPCODE.do_not_retry()),
        };
        let result = result.and_then(|outcome| match &outcome.data {
            Some(data) if data.len() > command.sgl.length as usize => {
                Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())
            }
            _ => Ok(outcome),
        });
        result.unwrap_or_else(|status| {
            self.note_error(command, status);
            Outcome::failed(status)
        })
    }

    fn note_error(&self, command: &Command, status: Status) {
        let mut errors = self.errors.borrow_mut();
        let entry = ErrorEntry {
            error_count: errors.front().map_or(1, |newest| newest.error_count + 1),
            sqid: 0,
            cid: command.cid,
            status,
            parameter_error_location: u16::MAX,
            nsid: command.nsid,
            opcode: command.opcode,
            trtype: 3,
            version: 1,
            ..ErrorEntry::default()
        };
        errors.push_front(entry);
        errors.truncate(NVME_ERROR_ENTRIES);
    }

    async fn fabrics(self: &Rc<Self>, command: &Command) -> Result<Outcome, Status> {
        match CommandType::of(command) {
            CommandType::PROPERTY_GET => self.property_get(PropertyGet::of(command)),
            CommandType::PROPERTY_SET => self.property_set(PropertySet::of(command)).await,
            CommandType::CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
            CommandType::DISCONNECT => Err(Status::DISCONNECT_INVALID_QUEUE_TYPE.do_not_retry()),
            // Authentication comes with a later version.
            _ => Err(Status::INVALID_COMMAND_OPCODE.do_not_retry()),
        }
    }

    fn property_get(&self, get: PropertyGet) -> Result<Outcome, Status> {
        let (value, size) = match get.offset {
            Property::CAP => (capabilities().0, PropertySize::EIGHT),
            Property::VS => (u64::from(VERSION_2_1), PropertySize::FOUR),
            Property::CC => (u64::from(self.cc.get().0), PropertySize::FOUR),
            Property::CSTS => (u64::from(self.csts.get().0), PropertySize::FOUR),
            // Ready times as CAP.TO, both without and with media.
            Property::CRTO => (READY_HALF_SECONDS << 16 | READY_HALF_SECONDS, PropertySize::FOUR),
            _ => return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry()),
        };
        if get.size != size {
            return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
        }
        Ok(Outcome::with_result(value))
    }

    async fn property_set(self: &Rc<Self>, set: PropertySet) -> Result<Outcome, Status> {
        if set.offset != Property::CC || set.size != PropertySize::FOUR {
            return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
        }
        let (old, new) = (self.cc.get(), ControllerConfiguration(set.value as u32));
        self.cc.set(new);
        if new.shutdown() != Shutdown::None && old.shutdown() == Shutdown::None {
            self.link.ready.store(false, Ordering::Release);
            self.end_queues("the host has shut the controller down").await;
            self.flush().await;
            self.csts.set(self.csts.get().with_shutdown(ShutdownStatus::Complete));
        }
        match (old.en(), new.en()) {
            (0, 1) => self.enable(new),
            (1, 0) => self.disable().await,
            _ => {}
        }
        Ok(Outcome::done())
    }

    /// Makes durable what the host has written: it may take the power away after a shutdown (Base 2.1 section 3.6).
    async fn flush(&self) {
        let Kind::Io(subsystem) = &self.link.kind else { return };
        for namespace in &subsystem.namespaces {
            let channel = self.shard.volume(namespace.volume);
            if let Err(error) = channel.submit(Request::flush()).await.result {
                trouble!("volume {}: the flush of a shutdown failed: {error}", channel.volume().name());
            }
        }
    }

    fn enable(&self, cc: ControllerConfiguration) {
        // Sizes of entries and pages that are not those of fabrics: the controller does not become ready.
        let io = matches!(self.link.kind, Kind::Io(_));
        let sizes = !io || (cc.iosqes() == 6 && cc.iocqes() == 4);
        if cc.mps() != 0 || cc.ams() != 0 || !matches!(cc.css(), 0 | 6) || !sizes {
            self.csts.set(self.csts.get().with_cfs(1));
            return;
        }
        self.csts.set(ControllerStatus::default().with_rdy(1));
        self.link.ready.store(true, Ordering::Release);
    }

    /// Controller level reset: afterwards no command of an I/O queue is under way.
    async fn disable(self: &Rc<Self>) {
        self.link.ready.store(false, Ordering::Release);
        self.end_queues("the host has reset the controller").await;
        self.csts.set(ControllerStatus::default());
        self.configuration.set(EventConfiguration::empty());
        self.link.write_cache.store(true, Ordering::Release);
        let parked = {
            let mut events = self.events.borrow_mut();
            let parked = std::mem::take(&mut events.parked);
            *events = Events::default();
            parked
        };
        if let Some(admin) = self.admin() {
            for id in parked {
                admin.finish(id, Outcome::failed(Status::COMMAND_ABORT_REQUESTED));
            }
        }
    }

    /// Enters an I/O queue that connects on `shard`.
    pub fn enter(&self, qid: u16, shard: usize) -> Result<(), Status> {
        let mut queues = self.queues.borrow_mut();
        if !self.link.ready.load(Ordering::Acquire) {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        if qid > NVME_QUEUES || queues.contains_key(&qid) {
            return Err(Status::INVALID_QUEUE_IDENTIFIER.do_not_retry());
        }
        queues.insert(qid, shard);
        Ok(())
    }

    /// An I/O queue is no more.
    pub fn leave(&self, qid: u16) {
        self.queues.borrow_mut().remove(&qid);
    }

    /// Ends every I/O queue, and waits until nothing of them is under way.
    pub async fn end_queues(&self, reason: &'static str) {
        let queues: Vec<(u16, usize)> =
            self.queues.borrow().iter().map(|(qid, shard)| (*qid, *shard)).collect();
        let cntlid = self.link.cntlid;
        for (qid, shard) in queues {
            let end = move |shard: Rc<Shard>| async move {
                if let Some(queue) = shard.service::<Service>().and_then(|service| service.queue(cntlid, qid))
                {
                    queue.connection.close(reason);
                    queue.quiesce().await;
                }
            };
            self.shard.call(shard, end).await;
            self.leave(qid);
        }
    }

    async fn abort(self: &Rc<Self>, admin: &Rc<Queue>, command: &Command) -> Outcome {
        let Abort { sqid, cid } = Abort::of(command);
        let aborted = if sqid == 0 {
            // An abort of itself would wait for itself.
            let other = cid != command.cid;
            other && self.unpark(admin, cid)
        } else {
            let shard = self.queues.borrow().get(&sqid).copied();
            match shard {
                Some(shard) => self.abort_on(shard, sqid, cid).await,
                None => false,
            }
        };
        Outcome::with_result(Abort::result(aborted))
    }

    async fn abort_on(&self, shard: usize, sqid: u16, cid: u16) -> bool {
        let cntlid = self.link.cntlid;
        let abort = move |shard: Rc<Shard>| async move {
            let queue = shard.service::<Service>().and_then(|service| service.queue(cntlid, sqid));
            match queue {
                Some(queue) => shard.ring().timeout(ABORT_TIME, queue.abort(cid)).await == Some(true),
                None => false,
            }
        };
        self.shard.call(shard, abort).await
    }

    /// Keeps an Asynchronous Event Request until there is an event.
    pub fn park(&self, admin: &Rc<Queue>, id: SlotId) {
        if self.events.borrow().parked.len() >= NVME_EVENT_REQUESTS {
            let status = Status::ASYNCHRONOUS_EVENT_REQUEST_LIMIT_EXCEEDED.do_not_retry();
            return admin.finish(id, Outcome::failed(status));
        }
        self.events.borrow_mut().parked.push_back(id);
        self.tell(admin);
    }

    fn unpark(&self, admin: &Rc<Queue>, cid: u16) -> bool {
        let Some(id) = admin.find(cid) else { return false };
        let mut events = self.events.borrow_mut();
        let before = events.parked.len();
        events.parked.retain(|parked| *parked != id);
        let found = events.parked.len() < before;
        drop(events);
        if found {
            admin.finish(id, Outcome::failed(Status::COMMAND_ABORT_REQUESTED));
        }
        found
    }

    /// Something happened that a host may want to know.
    pub fn notify(&self, event: Event) {
        let wanted = match event {
            Event::NAMESPACE_ATTRIBUTE_CHANGED => EventConfiguration::NAMESPACE_ATTRIBUTE,
            Event::ANA_CHANGE => EventConfiguration::ANA_CHANGE,
            Event::DISCOVERY_LOG_PAGE_CHANGE => EventConfiguration::DISCOVERY_LOG_PAGE,
            _ => EventConfiguration::empty(),
        };
        if !self.configuration.get().contains(wanted) {
            return;
        }
        let mut events = self.events.borrow_mut();
        if events.told.contains(&event) || events.pending.contains(&event) {
            return;
        }
        events.pending.push_back(event);
        drop(events);
        if let Some(admin) = self.admin() {
            self.tell(&admin);
        }
    }

    fn tell(&self, admin: &Rc<Queue>) {
        loop {
            let mut events = self.events.borrow_mut();
            if events.parked.is_empty() || events.pending.is_empty() {
                return;
            }
            if let (Some(id), Some(event)) = (events.parked.pop_front(), events.pending.pop_front()) {
                events.told.push(event);
                drop(events);
                admin.finish(id, Outcome::with_result(event.result()));
            }
        }
    }

    /// The host has read the log page of an event: the next one of its kind is told again.
    pub fn clear_event(&self, page: wire::nvme::admin::log::LogPage) {
        self.events.borrow_mut().told.retain(|event| event.log_page != page);
    }

    /// Ends the association when the host says nothing for the keep alive timeout. Traffic counts (TBKAS): a timer
    /// that finds some begins anew.
    pub async fn keep_alive(self: Rc<Self>) {
        loop {
            let milliseconds = match (self.keep_alive_ms.get(), &self.link.kind) {
                (0, Kind::Discovery) => DISCOVERY_IDLE_MS,
                (0, Kind::Io(_)) => 0,
                (milliseconds, _) => milliseconds,
            };
            // In short naps: a controller that has ended must not live on for a timeout of weeks.
            let mut left = Duration::from_millis(u64::from(milliseconds)).max(KEEP_ALIVE_NAP);
            let admin = loop {
                let Some(admin) = self.admin().filter(|admin| !admin.connection.outgoing.is_closed()) else {
                    return;
                };
                if left.is_zero() {
                    break admin;
                }
                drop(admin);
                let nap = left.min(KEEP_ALIVE_NAP);
                self.shard.ring().sleep(nap).await;
                left -= nap;
            };
            if milliseconds > 0 && !self.link.traffic.swap(false, Ordering::Relaxed) {
                self.csts.set(self.csts.get().with_cfs(1));
                admin
                    .connection
                    .close(format!("the host said nothing for its keep alive time of {milliseconds} ms"));
                return;
            }
        }
    }

    /// The end of the association: nothing of it is under way afterwards.
    pub async fn end(&self) {
        self.link.ready.store(false, Ordering::Release);
        self.end_queues("the admin queue has ended").await;
        self.admin.take();
        self.node.release(self.link.cntlid);
    }
}

/// A fabrics command on an I/O queue.
pub fn on_io_queue(command: &Command) -> Outcome {
    debug_assert_eq!(command.opcode, fabrics::OPCODE);
    match CommandType::of(command) {
        // Individual deletion of queues is not offered (OFCS).
        CommandType::CONNECT => Outcome::failed(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        CommandType::PROPERTY_GET | CommandType::PROPERTY_SET => {
            Outcome::failed(Status::INVALID_FIELD_IN_COMMAND.do_not_retry())
        }
        _ => Outcome::failed(Status::INVALID_COMMAND_OPCODE.do_not_retry()),
    }
}
