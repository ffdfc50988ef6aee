//! NVMe/TCP on one core: connections come in, become queues, and end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use ring::{Buffer, Detached, Instant, Peer, PooledFuture, Socket};
use wire::nvme::fabrics::{
    CONNECT_DATA_LENGTH, CommandType, Connect, ConnectData, ConnectResult, InvalidParameter,
};
use wire::nvme::{
    CNTLID_DYNAMIC, CNTLID_STATIC, Command, Completion, DISCOVERY_NQN, DataPlace, Status, fabrics,
};

use super::change::channels;
use super::connection::Connection;
use super::controller::{Controller, Seat};
use super::counters::{Counters, Totals};
use super::link::{Kind, Link};
use super::node::{Node, Refused};
use super::queue::{Namespaces, Queue, Role};
use super::receive::{End, first_capsule, initialize, receive};
use super::seats::Taken;
use crate::limits::{CONNECTIONS_PER_SHARD, LOGIN_TIME, LOGINS_PER_SHARD, NVME_QUEUE_ENTRIES};
use crate::log::trouble;
use crate::session::notice::{self, Leaving, Notice, What};
use crate::session::traffic::{Guest, Ledger, Portal, Traffic, Venue};
use crate::shard::Shard;
use crate::spread::Welcome;
use crate::transport::{Gone, Reader, last_words};

/// What a refused or fatal answer gets to reach the host.
const PARTING: Duration = Duration::from_millis(100);

/// NVMe/TCP on one core.
pub struct Service {
    pub(super) shard: Rc<Shard>,
    node: Arc<Node>,
    started: Instant,
    counters: RefCell<BTreeMap<String, Rc<Counters>>>,
    controllers: RefCell<BTreeMap<u16, Rc<Controller>>>,
    queues: RefCell<BTreeMap<(u16, u16), Rc<Queue>>>,
    newcomers: RefCell<VecDeque<Weak<Connection>>>,
    connections: Cell<usize>,
    draining: Cell<bool>,
}

/// Why a Connect command is refused: status and dword 0.
type Refusal = (Status, u64);

fn refuse(parameter: InvalidParameter) -> Refusal {
    (Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), parameter.result())
}

impl Service {
    /// Starts NVMe/TCP on `shard`.
    pub fn install(shard: &Rc<Shard>, node: &Arc<Node>) -> Rc<Service> {
        let service = Rc::new(Service {
            shard: shard.clone(),
            node: node.clone(),
            started: shard.ring().now(),
            counters: RefCell::default(),
            controllers: RefCell::default(),
            queues: RefCell::default(),
            newcomers: RefCell::default(),
            connections: Cell::new(0),
            draining: Cell::new(false),
        });
        shard.install(service.clone());
        service
    }

    /// The node's side of it.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The I/O queue with this token that is on `shard`.
    pub fn queue_on(shard: &Shard, cntlid: u16, qid: u16, token: u64) -> Option<Rc<Queue>> {
        let service = shard.service::<Service>()?;
        let queue = service.queues.borrow().get(&(cntlid, qid)).cloned();
        queue.filter(|queue| queue.token == token)
    }

    /// The I/O queues that are on this core.
    pub(crate) fn queues(&self) -> Vec<Rc<Queue>> {
        self.queues.borrow().values().cloned().collect()
    }

    /// How long this core has been serving.
    pub fn uptime(&self) -> Duration {
        self.shard.ring().now().since(self.started)
    }

    /// What hosts have done with a subsystem on this core.
    pub fn totals(&self, nqn: &str) -> Totals {
        self.counters.borrow().get(nqn).map_or_else(Totals::default, |counters| counters.totals())
    }

    fn counters(&self, nqn: &str) -> Rc<Counters> {
        if let Some(counters) = self.counters.borrow().get(nqn) {
            return counters.clone();
        }
        self.counters.borrow_mut().entry(nqn.to_owned()).or_default().clone()
    }

    /// A controller whose admin queue is on this core.
    pub fn controller(&self, cntlid: u16) -> Option<Rc<Controller>> {
        self.controllers.borrow().get(&cntlid).cloned()
    }

    /// The controllers whose admin queues are on this core.
    pub fn controllers(&self) -> Vec<Rc<Controller>> {
        self.controllers.borrow().values().cloned().collect()
    }

    /// How many connections this core has.
    #[cfg(test)]
    pub fn connection_count(&self) -> usize {
        self.connections.get()
    }

    /// A connection from its first byte to its end.
    async fn live(&self, connection: &Rc<Connection>, reader: &mut Reader, seat: Taken) {
        let ring = self.shard.ring();
        ring.spawn_later(connection.clone().run_sender());
        self.shard.watch(connection);
        // Apart, as it is over soon and takes more memory than all that follows.
        let connect = PooledFuture::future(self.connect(connection, reader));
        let queue = match ring.timeout(LOGIN_TIME, connect).await {
            Some(Ok(queue)) => {
                connection.settle();
                queue
            }
            Some(Err(end)) => return say_goodbye(connection, reader, end).await,
            None => return connection.close(format!("no Connect within {} seconds", LOGIN_TIME.as_secs())),
        };
        let mut seat = Some(seat);
        let mut guest = None;
        if let Role::Admin(controller) = &queue.role {
            seat = None;
            guest = self.guest(controller);
            controller.begin_keep_alive();
        }
        self.shard.watch(&queue);
        if let Err(end) = receive(&queue, reader).await {
            say_goodbye(connection, reader, end).await;
        }
        connection.close_quietly("closed");
        queue.quiesce().await;
        self.remove(&queue).await;
        drop((seat, guest));
    }

    /// A controller counts among those who use its subsystem.
    fn guest(&self, controller: &Controller) -> Option<Guest> {
        let Kind::Io(subsystem) = controller.link.kind() else { return None };
        let venue = Venue::Subsystem(subsystem.nqn.as_str().into());
        Some(Guest::enter(Ledger::of(&self.shard), "nvme", &controller.link.host, venue))
    }

    pub(super) async fn remove(&self, queue: &Rc<Queue>) {
        let (cntlid, qid) = (queue.link.cntlid, queue.qid);
        match &queue.role {
            Role::Admin(controller) => {
                let (how, why) = leaving(controller, &queue.connection);
                self.tell(queue, What::Left(how, why));
                controller.end().await;
                self.controllers.borrow_mut().remove(&cntlid);
            }
            Role::Io(_) => {
                let mut queues = self.queues.borrow_mut();
                // After a reset there may be another one of this number.
                if queues.get(&(cntlid, qid)).is_some_and(|other| Rc::ptr_eq(other, queue)) {
                    queues.remove(&(cntlid, qid));
                }
                drop(queues);
                leave(&self.shard, &queue.link, qid, queue.token);
            }
        }
        let host = &queue.link.host;
        tracing::debug!(cntlid, qid, host, "{}: queue ended", queue.connection.peer);
    }

    /// The beginning of a connection: ICReq, then the Connect command (Base 2.1 section 6.3).
    async fn connect(&self, connection: &Rc<Connection>, reader: &mut Reader) -> Result<Rc<Queue>, End> {
        initialize(connection, reader).await?;
        let (command, data) = first_capsule(connection, reader).await?;
        match self.make_queue(connection, &command, &data).await {
            Ok(queue) => {
                let result = ConnectResult { cntlid: queue.link.cntlid, ..ConnectResult::default() };
                let completion = Completion {
                    result: result.result(),
                    sqhd: queue.first_sqhd(),
                    cid: command.cid,
                    ..Completion::default()
                };
                connection.send_completion(|| completion);
                let (cntlid, qid, host) = (queue.link.cntlid, queue.qid, queue.link.host.as_str());
                if qid == 0 {
                    tracing::info!(cntlid, host, shard = self.shard.index(), "{} connected", connection.peer);
                    self.tell(&queue, What::CameIn);
                } else {
                    connection.traffic.belongs_to(host);
                }
                Ok(queue)
            }
            Err((status, result)) => {
                connection.send_completion(|| Completion { result, sqhd: 1, cid: command.cid, status });
                Err(End::Refused(status))
            }
        }
    }

    async fn make_queue(
        &self,
        connection: &Rc<Connection>,
        command: &Command,
        data: &Buffer,
    ) -> Result<Rc<Queue>, Refusal> {
        let is_connect =
            command.opcode == fabrics::OPCODE && CommandType::of(command) == CommandType::CONNECT;
        if !is_connect {
            return Err((Status::COMMAND_SEQUENCE_ERROR.do_not_retry(), 0));
        }
        let whole = DataPlace::InCapsule { offset: 0, length: CONNECT_DATA_LENGTH as u32 };
        let place = command.data_place(data.len() as u32).map_err(|status| (status, 0))?;
        let Some(bytes) = data.first_chunk().filter(|_| place == whole) else {
            return Err((Status::DATA_SGL_LENGTH_INVALID.do_not_retry(), 0));
        };
        let (connect, data) = (Connect::of(command), ConnectData::decode(bytes));
        if connect.recfmt != 0 {
            return Err((Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry(), 0));
        }
        if connect.sqsize == 0 || connect.sqsize >= NVME_QUEUE_ENTRIES {
            return Err(refuse(InvalidParameter::SQSIZE));
        }
        let mut claim = None;
        let (identity, role) = if connect.qid == 0 {
            let controller = self.make_controller(connection, &connect, &data)?;
            ((controller.link.clone(), 0, self.node.token()), Role::Admin(controller))
        } else {
            let (entered, incarnation) = self.find_controller(&connect, &data).await?;
            let link = entered.link.clone();
            let Kind::Io(subsystem) = link.kind() else { return Err(refuse(InvalidParameter::QID)) };
            // Ended or reset since it let the queue in: that found no queue here to end.
            if link.incarnation() != incarnation {
                return Err((Status::COMMAND_SEQUENCE_ERROR, 0));
            }
            let counters = self.counters(&subsystem.nqn);
            let token = claim.insert(entered).token;
            let namespaces = Namespaces::new(channels(&self.shard, &subsystem), counters);
            ((link, incarnation, token), Role::Io(namespaces))
        };
        let queue = Queue::new(&connect, identity, self.shard.clone(), connection.clone(), role);
        self.enter(&queue);
        if let Some(claim) = &mut claim {
            claim.taken = true;
        }
        Ok(queue)
    }

    fn enter(&self, queue: &Rc<Queue>) {
        match &queue.role {
            Role::Admin(controller) => {
                controller.set_admin(queue.clone());
                self.controllers.borrow_mut().insert(queue.link.cntlid, controller.clone());
            }
            Role::Io(_) => {
                self.queues.borrow_mut().insert((queue.link.cntlid, queue.qid), queue.clone());
            }
        }
    }

    /// Something that people are to know of the controller of this admin queue; of discovery nothing is.
    fn tell(&self, admin: &Queue, what: What) {
        let Kind::Io(subsystem) = admin.link.kind() else { return };
        let (initiator, target) = (admin.link.host.clone(), subsystem.nqn.clone());
        let from = admin.connection.peer.to_string();
        notice::tell(&self.shard, Notice { protocol: "nvme", initiator, from, target, what });
    }

    fn make_controller(
        &self,
        connection: &Connection,
        connect: &Connect,
        data: &ConnectData,
    ) -> Result<Rc<Controller>, Refusal> {
        if data.cntlid != CNTLID_DYNAMIC && data.cntlid != CNTLID_STATIC {
            return Err(refuse(InvalidParameter::CNTLID));
        }
        let host = data.hostnqn.name().map_err(|_| refuse(InvalidParameter::HOSTNQN))?;
        let name = data.subnqn.text().map_err(|_| refuse(InvalidParameter::SUBNQN))?;
        let link = self.node.allocate(self.shard.index(), name, host, data.hostid);
        let link = link.inspect_err(|refused| {
            let (initiator, target) = (host.to_owned(), name.to_owned());
            let (from, what) = (connection.peer.to_string(), What::Refused(refused.to_string()));
            notice::tell(&self.shard, Notice { protocol: "nvme", initiator, from, target, what });
        });
        let link = link.map_err(|refused| match refused {
            Refused::NoSubsystem => refuse(InvalidParameter::SUBNQN),
            Refused::Host => (Status::CONNECT_INVALID_HOST.do_not_retry(), 0),
            // "There is no available controller": the host may come again.
            Refused::TooMany => (Status::CONNECT_CONTROLLER_BUSY, 0),
        })?;
        Ok(Controller::new(link, self.node.clone(), self.shard.clone(), connect.kato))
    }

    /// Enters an I/O queue at its controller; gives the place there, and the life of the controller that it is of.
    pub(super) async fn find_controller(
        &self,
        connect: &Connect,
        data: &ConnectData,
    ) -> Result<(Claim, u32), Refusal> {
        let link = self.node.find(data.cntlid).ok_or(refuse(InvalidParameter::CNTLID))?;
        if data.hostnqn.name().ok() != Some(link.host.as_str()) {
            return Err(refuse(InvalidParameter::HOSTNQN));
        }
        if data.hostid != link.host_id {
            return Err(refuse(InvalidParameter::HOSTID));
        }
        let kind = link.kind();
        let name = match &kind {
            Kind::Io(subsystem) => subsystem.nqn.as_str(),
            Kind::Discovery => DISCOVERY_NQN,
        };
        if data.subnqn.text().ok() != Some(name) {
            return Err(refuse(InvalidParameter::SUBNQN));
        }
        let claim = Claim {
            shard: self.shard.clone(),
            link,
            qid: connect.qid,
            token: self.node.token(),
            taken: false,
        };
        let (cntlid, qid) = (claim.link.cntlid, claim.qid);
        let seat = Seat { shard: self.shard.index(), token: claim.token };
        let enter = move |shard: Rc<Shard>| async move {
            match shard.service::<Service>().and_then(|service| service.controller(cntlid)) {
                Some(controller) => controller.enter(qid, seat),
                None => Err(Status::CONNECT_INVALID_PARAMETERS.do_not_retry()),
            }
        };
        let incarnation = self.shard.call(claim.link.shard, enter).await.map_err(|status| {
            let queue = status == Status::INVALID_QUEUE_IDENTIFIER.do_not_retry();
            if queue { refuse(InvalidParameter::QID) } else { (status, 0) }
        })?;
        Ok((claim, incarnation))
    }

    /// Takes no more connections, ends the controllers, and waits until nothing of them is under way.
    pub async fn drain(self: Rc<Self>) {
        self.draining.set(true);
        for newcomer in self.newcomers.borrow_mut().drain(..).filter_map(|newcomer| newcomer.upgrade()) {
            newcomer.close_quietly("the node is stopping");
        }
        for controller in self.controllers() {
            if let Some(admin) = controller.admin() {
                admin.connection.keep_out();
                admin.connection.close_quietly("the node is stopping");
            }
        }
        for queue in self.queues() {
            queue.connection.close_quietly("the node is stopping");
        }
        while self.connections.get() > 0 {
            self.shard.ring().sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Service {
    /// Controllers and their admin queues hold each other; those that were in the middle of anything at the end of the
    /// shard would stay with all that they had to send.
    fn drop(&mut self) {
        for controller in self.controllers.get_mut().values() {
            controller.forget_admin();
        }
    }
}

impl Welcome for Service {
    fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    fn is_draining(&self) -> bool {
        self.draining.get()
    }

    fn next_core(&self, last: usize) -> usize {
        self.node.seats().choose(self.shard.count(), last)
    }

    fn welcome(self: &Rc<Self>, socket: Detached, peer: Peer, portal: Arc<Portal>) {
        let seat = Taken::new(&self.node, self.shard.index());
        if self.draining.get() || self.connections.get() >= CONNECTIONS_PER_SHARD {
            trouble!("{peer}: closed, this core has {} connections already", self.connections.get());
            return;
        }
        let ring = self.shard.ring();
        let socket = Socket::attach(ring, socket);
        let mut reader = Reader::new(ring.clone(), socket.clone());
        let traffic = Traffic::begin(&self.shard, &portal);
        let last = reader.last_received();
        let connection = Rc::new(Connection::new(ring.clone(), socket, peer, last, traffic));
        let mut newcomers = self.newcomers.borrow_mut();
        newcomers.retain(|newcomer| newcomer.upgrade().is_some_and(|newcomer| !newcomer.is_settled()));
        if newcomers.len() >= LOGINS_PER_SHARD
            && let Some(oldest) = newcomers.pop_front().and_then(|newcomer| newcomer.upgrade())
        {
            oldest.close("too many connections are beginning");
        }
        newcomers.push_back(Rc::downgrade(&connection));
        drop(newcomers);
        self.connections.set(self.connections.get() + 1);
        let service = self.clone();
        ring.spawn_later(async move {
            service.live(&connection, &mut reader, seat).await;
            drop(reader);
            service.connections.set(service.connections.get() - 1);
            let reason = connection.close_reason().unwrap_or_default();
            if connection.is_quiet() {
                tracing::debug!("{}: connection closed: {reason}", connection.peer);
            } else {
                trouble!("{}: connection closed: {reason}", connection.peer);
            }
        });
    }
}

/// A queue's place at its controller, given back when the queue does not come to be: its Connect command is refused, or
/// given up for taking too long.
pub(super) struct Claim {
    shard: Rc<Shard>,
    link: Arc<Link>,
    qid: u16,
    token: u64,
    taken: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.taken {
            leave(&self.shard, &self.link, self.qid, self.token);
        }
    }
}

/// Tells a controller that a queue is no more.
fn leave(shard: &Rc<Shard>, link: &Link, qid: u16, token: u64) {
    let cntlid = link.cntlid;
    shard.tell(link.shard, move |shard| {
        if let Some(controller) = shard.service::<Service>().and_then(|service| service.controller(cntlid)) {
            controller.leave(qid, token);
        }
    });
}

/// How and why a controller ends whose admin queue's connection is closed.
fn leaving(controller: &Controller, admin: &Connection) -> (Leaving, String) {
    let why = admin.close_reason().unwrap_or_default();
    if admin.is_kept_out() {
        (Leaving::KeptOut, why)
    } else if controller.was_shut_down() {
        (Leaving::Orderly, String::new())
    } else {
        (Leaving::Lost, why)
    }
}

/// Tells the host what was wrong, if that is to be told, and closes.
async fn say_goodbye(connection: &Rc<Connection>, reader: &mut Reader, end: End) {
    if let End::Fatal(error, header) = &end {
        connection.send_term(*error, header);
    }
    if !matches!(end, End::Gone(_)) {
        connection.ring().timeout(PARTING, last_words(&connection.outgoing, reader)).await;
    }
    // Between two PDUs hosts end connections when nothing is wrong.
    match end {
        End::Gone(Gone::Closed) => connection.close_quietly(end.to_string()),
        end => connection.close(end.to_string()),
    }
}
