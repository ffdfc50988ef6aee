//! A controller: what its admin queue asks of it. Base 2.1 sections 3.1, 5 and 6. Lives on the admin queue's core.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::{Buffer, Notify};
use wire::nvme::admin::event::Event;
use wire::nvme::admin::features::EventConfiguration;
use wire::nvme::admin::log::LogPage;
use wire::nvme::admin::{Abort, Opcode};
use wire::nvme::fabrics::{
    Capabilities, CommandType, ControllerConfiguration, ControllerStatus, Property, PropertyGet, PropertySet,
    PropertySize, ShutdownStatus,
};
use wire::nvme::{Command, Status, VERSION_2_1, fabrics};

use super::connection::Outcome;
use super::events::Events;
use super::keep_alive::KeepAlive;
use super::link::Link;
use super::node::Node;
use super::queue::Queue;
use super::service::Service;
use super::slots::SlotId;
use super::{features, identify, logs};
use crate::limits::{NVME_QUEUE_ENTRIES, NVME_QUEUES, NVME_RESET_TIME};
use crate::shard::Shard;

const _: () = assert!(NVME_RESET_TIME.as_secs() * 2 < READY_HALF_SECONDS, "hosts wait longer than we need");

/// The time in which a command that is to be aborted has to end; after it the abort is said to have failed.
const ABORT_TIME: Duration = Duration::from_secs(10);
/// The longest time until a controller is ready or reset, in half seconds: it waits for commands that are with the volumes.
const READY_HALF_SECONDS: u64 = 60;
/// Idle time of a discovery connection without a keep alive timer: Base 2.1 section 3.1.3.4 allows two minutes.
const DISCOVERY_IDLE_MS: u32 = 120_000;

/// Where an I/O queue is.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Its core.
    pub shard: usize,
    /// Tells it from earlier and later queues of its number.
    pub token: u64,
}

/// A controller.
pub struct Controller {
    /// What its queues know of it.
    pub link: Arc<Link>,
    /// NVMe on all cores.
    pub node: Arc<Node>,
    /// Its core.
    pub shard: Rc<Shard>,
    pub(super) cc: Cell<ControllerConfiguration>,
    pub(super) csts: Cell<ControllerStatus>,
    keep_alive_ms: Cell<u32>,
    /// The timer that runs.
    keep_alive: RefCell<Option<Rc<KeepAlive>>>,
    /// Which notices the host wants.
    pub configuration: Cell<EventConfiguration>,
    /// TMPTH of the composite temperature, in kelvin.
    pub temperature_threshold: Cell<u32>,
    /// I/O queues.
    pub(super) queues: RefCell<BTreeMap<u16, Seat>>,
    pub(super) events: RefCell<Events>,
    /// NSIDs for the log page of changed namespaces.
    pub(super) changed: RefCell<BTreeSet<u32>>,
    pub(super) admin: RefCell<Option<Rc<Queue>>>,
    /// A reset or a shutdown goes on.
    pub(super) in_transition: Cell<bool>,
    /// Resets and shutdowns that are not over, those that have not begun to do anything included.
    pub(super) transitions: Cell<u32>,
    pub(super) transition_ended: Notify,
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
    /// A controller that is not enabled yet, and whose keep alive timer [does not run](Self::begin_keep_alive) yet.
    pub fn new(link: Arc<Link>, node: Arc<Node>, shard: Rc<Shard>, keep_alive_ms: u32) -> Rc<Controller> {
        Rc::new(Controller {
            link,
            node,
            shard,
            cc: Cell::default(),
            csts: Cell::default(),
            keep_alive_ms: Cell::new(keep_alive_ms),
            keep_alive: RefCell::default(),
            configuration: Cell::new(EventConfiguration::empty()),
            temperature_threshold: Cell::new(0),
            queues: RefCell::default(),
            events: RefCell::default(),
            changed: RefCell::default(),
            admin: RefCell::default(),
            in_transition: Cell::new(false),
            transitions: Cell::new(0),
            transition_ended: Notify::new(),
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

    /// It has no admin queue any more.
    pub fn forget_admin(&self) {
        self.admin.take();
    }

    /// The keep alive timeout, in milliseconds; 0 is none.
    pub fn keep_alive_ms(&self) -> u32 {
        self.keep_alive_ms.get()
    }

    /// Sets the keep alive timeout, which begins anew.
    pub fn set_keep_alive_ms(self: &Rc<Self>, milliseconds: u32) {
        self.keep_alive_ms.set(milliseconds);
        self.begin_keep_alive();
    }

    /// Begins the keep alive timer, in the place of one that runs; without a timeout there is none, and nobody is woken.
    pub fn begin_keep_alive(self: &Rc<Self>) {
        let milliseconds = match (self.keep_alive_ms.get(), self.link.is_discovery()) {
            (0, true) => DISCOVERY_IDLE_MS,
            (milliseconds, _) => milliseconds,
        };
        let timer = (milliseconds > 0).then(|| KeepAlive::new(self, milliseconds));
        if let Some(timer) = &timer {
            self.shard.watch(timer);
        }
        self.keep_alive.replace(timer);
    }

    /// Whether its host has told it that it goes.
    pub fn was_shut_down(&self) -> bool {
        self.csts.get().shst() != ShutdownStatus::Normal as u32
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
            Opcode::FABRICS => self.fabrics(command),
            _ if !self.link.is_ready() => Err(Status::COMMAND_SEQUENCE_ERROR),
            Opcode::IDENTIFY => identify::identify(self, command),
            Opcode::GET_LOG_PAGE => Box::pin(logs::get(self, command)).await,
            Opcode::KEEP_ALIVE => Ok(Outcome::done()),
            Opcode::SET_FEATURES => features::set(self, command, data),
            Opcode::GET_FEATURES => features::get(self, command),
            Opcode::ABORT if !self.link.is_discovery() => Ok(self.abort(queue, command).await),
            _ => Err(Status::INVALID_COMMAND_OPCODE.do_not_retry()),
        };
        let result = result.and_then(|outcome| match &outcome.data {
            Some(data) if data.len() > command.sgl.length as usize => {
                Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())
            }
            _ => Ok(outcome),
        });
        result.unwrap_or_else(Outcome::failed)
    }

    fn fabrics(self: &Rc<Self>, command: &Command) -> Result<Outcome, Status> {
        match CommandType::of(command) {
            CommandType::PROPERTY_GET => self.property_get(PropertyGet::of(command)),
            CommandType::PROPERTY_SET => self.property_set(PropertySet::of(command)),
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

    /// Enters an I/O queue that connects; gives the life of the controller that it belongs to.
    pub fn enter(&self, qid: u16, seat: Seat) -> Result<u32, Status> {
        let mut queues = self.queues.borrow_mut();
        if !self.link.is_ready() {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        if qid > NVME_QUEUES || queues.contains_key(&qid) {
            return Err(Status::INVALID_QUEUE_IDENTIFIER.do_not_retry());
        }
        queues.insert(qid, seat);
        Ok(self.link.incarnation())
    }

    /// An I/O queue is no more.
    pub fn leave(&self, qid: u16, token: u64) {
        let mut queues = self.queues.borrow_mut();
        if queues.get(&qid).is_some_and(|seat| seat.token == token) {
            queues.remove(&qid);
        }
    }

    async fn abort(self: &Rc<Self>, admin: &Rc<Queue>, command: &Command) -> Outcome {
        let Abort { sqid, cid } = Abort::of(command);
        let aborted = if sqid == 0 {
            // An abort of itself would wait for itself.
            let other = cid != command.cid;
            other && self.unpark(admin, cid)
        } else {
            let seat = self.queues.borrow().get(&sqid).copied();
            match seat {
                Some(seat) => self.abort_on(seat, sqid, cid).await,
                None => false,
            }
        };
        Outcome::with_result(Abort::result(aborted))
    }

    async fn abort_on(&self, seat: Seat, sqid: u16, cid: u16) -> bool {
        let cntlid = self.link.cntlid;
        let abort = move |shard: Rc<Shard>| async move {
            match Service::queue_on(&shard, cntlid, sqid, seat.token) {
                Some(queue) => queue.abort(cid, ABORT_TIME).await,
                None => false,
            }
        };
        self.shard.call(seat.shard, abort).await
    }

    /// Keeps an Asynchronous Event Request until there is an event.
    pub fn park(&self, admin: &Rc<Queue>, id: SlotId) {
        if !self.link.is_ready() {
            return admin.finish(id, Outcome::failed(Status::COMMAND_SEQUENCE_ERROR));
        }
        if !self.events.borrow_mut().park(id) {
            let status = Status::ASYNCHRONOUS_EVENT_REQUEST_LIMIT_EXCEEDED.do_not_retry();
            return admin.finish(id, Outcome::failed(status));
        }
        self.tell(admin);
    }

    fn unpark(&self, admin: &Rc<Queue>, cid: u16) -> bool {
        let found = admin.find(cid).filter(|id| self.events.borrow_mut().unpark(*id));
        if let Some(id) = found {
            admin.finish(id, Outcome::failed(Status::COMMAND_ABORT_REQUESTED));
        }
        found.is_some()
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
        self.events.borrow_mut().add(event);
        if let Some(admin) = self.admin() {
            self.tell(&admin);
        }
    }

    /// Namespaces have come, gone, or become others.
    pub fn note_changed(&self, nsids: &[u32]) {
        self.changed.borrow_mut().extend(nsids);
        self.notify(Event::NAMESPACE_ATTRIBUTE_CHANGED);
    }

    fn tell(&self, admin: &Rc<Queue>) {
        loop {
            let Some((id, event)) = self.events.borrow_mut().next() else { return };
            admin.finish(id, Outcome::with_result(event.result()));
        }
    }

    /// The host has read a log page: what it told of it is known.
    pub fn note_read(&self, page: LogPage) {
        self.events.borrow_mut().read(page);
        if page == LogPage::CHANGED_NAMESPACES {
            self.changed.borrow_mut().clear();
        }
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
