//! iSCSI on one core: connections come in, log in, and become part of a session, here or on another core.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use ring::{Detached, Peer, Socket};
use wire::iscsi::{AsyncEvent, LoginStatus, SerialNumber};

use super::claim::Claim;
use super::connection::Connection;
use super::enter::{self, Login};
use super::keepalive::Vigil;
use super::login::{LoginOutcome, SessionType};
use super::receive::receive;
use super::registry::{Place, Registry};
use super::session::{Attached, Session};
use super::target::{PORTAL_GROUP_TAG, Target, Targets};
use super::text::TextNegotiation;
use crate::latest::Latest;
use crate::limits::{CONNECTIONS_PER_SHARD, LOGINS_PER_SHARD};
use crate::log::trouble;
use crate::portals::reached;
use crate::session::notice::{Leaving, What};
use crate::session::scsi::{LogicalUnit, TargetPort, UnitAttention};
use crate::session::traffic::{Guest, Ledger, Portal, Traffic, Venue};
use crate::shard::Shard;
use crate::spread::Welcome;
use crate::transport::{Reader, last_words};

/// What a node is configured with.
#[derive(Clone, Copy, Debug)]
pub struct IscsiOptions {
    /// After so long without a word the initiator is asked whether it is there.
    pub nop_interval: Duration,
    /// In which time it has to answer.
    pub nop_timeout: Duration,
}

/// What all cores of a node share.
pub struct Node {
    /// What can be logged in to.
    pub targets: Latest<Targets>,
    /// Where each session is.
    pub registry: Registry,
    /// Timers.
    pub options: IscsiOptions,
    portals: Latest<Vec<SocketAddr>>,
}

impl Node {
    /// A node without portals yet.
    pub fn new(targets: Targets, options: IscsiOptions) -> Arc<Node> {
        Arc::new(Node {
            targets: Latest::new(targets),
            registry: Registry::default(),
            options,
            portals: Latest::default(),
        })
    }

    /// Where it listens.
    pub fn set_portals(&self, portals: Vec<SocketAddr>) {
        self.portals.set(portals);
    }

    /// The portals by which a peer that reached `local` can come; a portal that listens on every address is named
    /// by the one that was reached.
    pub fn addresses_for(&self, local: SocketAddr) -> Vec<SocketAddr> {
        // RFC 7143 section 13.8 has an IPv4 address in dotted decimal.
        self.portals.get().iter().filter_map(|portal| reached(*portal, local)).collect()
    }
}

/// A connection on its way into a session, perhaps on another core.
pub struct Entrance {
    /// The connection.
    pub socket: Detached,
    /// Both ends.
    pub ends: (SocketAddr, SocketAddr),
    /// By which it came.
    pub portal: Arc<Portal>,
    /// What came behind the last login request.
    pub rest: Vec<u8>,
    /// What the login came to.
    pub outcome: Box<LoginOutcome>,
    /// Its place in its session.
    pub claim: Claim,
    /// An earlier session of the same nexus was ended for it.
    pub again: bool,
}

/// iSCSI on one core.
pub struct Service {
    shard: Rc<Shard>,
    node: Arc<Node>,
    /// By volume; made when the first session needs one. In order, so that what they have open ends in one order too.
    units: RefCell<BTreeMap<usize, Rc<LogicalUnit>>>,
    sessions: RefCell<BTreeMap<u16, Rc<Session>>>,
    logins: RefCell<VecDeque<Weak<Login>>>,
    connections: Cell<usize>,
    draining: Cell<bool>,
}

impl Service {
    /// Starts iSCSI on `shard`.
    pub fn install(shard: &Rc<Shard>, node: &Arc<Node>) -> Rc<Service> {
        let service = Rc::new(Service {
            shard: shard.clone(),
            node: node.clone(),
            units: RefCell::default(),
            sessions: RefCell::default(),
            logins: RefCell::default(),
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

    /// Its core.
    pub fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    /// The sessions on this core.
    pub fn sessions(&self) -> Vec<Rc<Session>> {
        self.sessions.borrow().values().cloned().collect()
    }

    /// How many connections this core has, logged in or not.
    pub fn connection_count(&self) -> usize {
        self.connections.get()
    }

    /// The session with this handle, if it is here.
    pub fn session(&self, tsih: u16) -> Option<Rc<Session>> {
        self.sessions.borrow().get(&tsih).cloned()
    }

    /// A connection that has logged in arrives where its session lives.
    pub fn admit(self: &Rc<Self>, entrance: Entrance) {
        let Entrance { socket, ends, portal, rest, outcome, claim, again } = entrance;
        let ring = self.shard.ring();
        let socket = Socket::attach(ring, socket);
        let Some(session) = self.session_of(&claim, &outcome, again) else {
            trouble!("{}: closed, its session ended while it logged in", ends.0);
            return;
        };
        let target = session.attached.as_ref().map(|attached| attached.target.name.as_str().to_owned());
        tracing::info!(
            initiator = outcome.initiator_name.as_str(),
            target = target.as_deref().unwrap_or("(discovery)"),
            tsih = session.place.tsih,
            cid = outcome.cid,
            shard = self.shard.index(),
            "{} logged in",
            ends.0
        );
        let mut reader = Reader::resume(ring.clone(), socket.clone(), &rest);
        let text = TextNegotiation::new(
            outcome.session_type,
            target,
            outcome.connection.initiator_max_recv_data_segment_length,
        );
        let last = reader.last_received();
        let traffic = Traffic::begin(&self.shard, &portal);
        if session.attached.is_some() {
            traffic.belongs_to(outcome.initiator_name.as_str());
        }
        let connection = Rc::new(Connection::new(ring.clone(), socket, ends, &outcome, text, last, traffic));
        if claim.is_leading() {
            session.tell(ends.0, What::CameIn);
        }
        self.connections.set(self.connections.get() + 1);
        session.add(connection.clone(), claim);
        let service = self.clone();
        ring.spawn_later(async move {
            let alone = service.serve(&session, &connection, &mut reader).await;
            drop(reader);
            session.remove(&connection, alone).await;
            service.connections.set(service.connections.get() - 1);
        });
    }

    /// The session in which a place was claimed: made for the leading connection, found for others. None when it
    /// has ended meanwhile.
    fn session_of(&self, claim: &Claim, outcome: &LoginOutcome, again: bool) -> Option<Rc<Session>> {
        let place = claim.place();
        // Another login of the same name may have taken its place before it was there.
        if self.draining.get() || self.node.registry.find(place.tsih).as_ref() != Some(place) {
            return None;
        }
        if claim.is_leading() {
            return self.make_session(place, outcome, again);
        }
        self.session(place.tsih).filter(|session| session.place == *place && !session.is_closing())
    }

    fn make_session(&self, place: &Place, outcome: &LoginOutcome, again: bool) -> Option<Rc<Session>> {
        let attached = match outcome.session_type {
            SessionType::Discovery => None,
            SessionType::Normal => {
                let target = self.node.targets.get().find(outcome.target.as_ref()?)?.clone();
                // What is offered, and to whom, may have changed since the login was answered.
                if !target.admits(&outcome.initiator_name) {
                    return None;
                }
                let unit = self.unit(&target)?;
                let port = TargetPort { relative: PORTAL_GROUP_TAG, group: PORTAL_GROUP_TAG };
                let attention = if again { UnitAttention::NexusLoss } else { UnitAttention::PowerOnOrReset };
                let nexus = target.unit.attach(port, Some(attention));
                let (ledger, initiator) = (Ledger::of(&self.shard), outcome.initiator_name.as_str());
                let guest = Guest::enter(ledger, "iscsi", initiator, Venue::Volume(target.volume));
                Some(Attached { target, unit, nexus, guest })
            }
        };
        let (node, shard) = (self.node.clone(), self.shard.clone());
        let session = Session::new(place.clone(), node, shard, attached, outcome.session, outcome.cmd_sn);
        self.sessions.borrow_mut().insert(place.tsih, session.clone());
        Some(session)
    }

    /// The device server of a target's volume on this core.
    fn unit(&self, target: &Target) -> Option<Rc<LogicalUnit>> {
        if let Some(unit) = self.units.borrow().get(&target.volume) {
            return Some(unit.clone());
        }
        let channel = self.shard.find_volume(target.volume)?;
        let unit = Rc::new(LogicalUnit::new(target.unit.clone(), self.shard.clone(), channel));
        self.units.borrow_mut().insert(target.volume, unit.clone());
        Some(unit)
    }

    /// Lets go of a volume that no session uses any more.
    pub(crate) fn forget_volume(&self, volume: usize) {
        self.units.borrow_mut().remove(&volume);
    }

    /// A connection from its login to its end. Whether it goes alone, its session staying.
    async fn serve(&self, session: &Rc<Session>, connection: &Rc<Connection>, reader: &mut Reader) -> bool {
        let ring = self.shard.ring();
        ring.spawn_later(connection.clone().run_sender());
        let vigil = Vigil::new(session, connection);
        self.shard.watch(&vigil);
        let end = receive(session, connection, reader).await;
        let reason = match end {
            Ok(()) => connection.close_reason().unwrap_or_else(|| "closed".into()),
            Err(end) => {
                let ours = connection.close_reason();
                // What is queued (a Reject) is worth a moment.
                ring.timeout(Duration::from_millis(100), last_words(&connection.outgoing, reader)).await;
                ours.unwrap_or_else(|| end.to_string())
            }
        };
        connection.close(reason.clone());
        let initiator = session.place.key.initiator.as_str();
        if connection.logged_out.get() {
            tracing::info!(initiator, tsih = session.place.tsih, "{} logged out", connection.peer);
        } else {
            trouble!("{} ({initiator}): connection closed: {reason}", connection.peer);
        }
        let alone = connection.logged_out.get();
        session.note_end(connection, alone, &reason);
        alone
    }

    /// A session has come to its end.
    pub fn forget(&self, session: &Rc<Session>) {
        self.sessions.borrow_mut().retain(|_, other| !Rc::ptr_eq(other, session));
    }

    /// Promises a place in the session to a connection with this CID; a connection that has the CID already ends
    /// for it (connection reinstatement, RFC 7143 section 6.3.4). Gives the place, `ExpCmdSN` and `MaxCmdSN`.
    pub async fn make_room(
        self: Rc<Self>,
        place: Place,
        cid: u16,
    ) -> Result<(Claim, (SerialNumber, SerialNumber)), LoginStatus> {
        let session = self.session(place.tsih);
        let session = session.filter(|session| session.place == place && !session.is_closing());
        let session = session.ok_or(LoginStatus::SESSION_DOES_NOT_EXIST)?;
        if !session.promise_place(cid) {
            return Err(LoginStatus::TOO_MANY_CONNECTIONS);
        }
        let claim = Claim::joining(self.node.clone(), self.shard.peers().clone(), place);
        if let Some(old) = session.connection(cid) {
            session.end_alone(&old, "reinstated by a new connection").await;
        }
        // That may have taken long.
        if session.is_closing() {
            return Err(LoginStatus::SESSION_DOES_NOT_EXIST);
        }
        Ok((claim, session.numbers()))
    }

    /// Ends a session of this core; afterwards nothing of it is under way.
    pub async fn end_session(self: Rc<Self>, tsih: u16, reason: &'static str) {
        match self.session(tsih) {
            Some(session) => session.close(reason).await,
            // Between its login and its first moment here; `admit` finds the registry without it.
            None => self.node.registry.leave(tsih),
        }
    }

    /// Takes no more connections, asks initiators to go, and ends what is left after `grace`.
    pub async fn drain(self: Rc<Self>, grace: Duration) {
        self.draining.set(true);
        for login in self.logins.borrow_mut().drain(..).filter_map(|login| login.upgrade()) {
            login.give_up("the node is stopping");
        }
        self.dismiss(|_| true, grace, "the node is stopping").await;
    }

    /// Asks the initiators of the sessions that `chosen` picks to go, and ends what is left of them after `grace`. At the end
    /// nothing of them is under way.
    pub(super) async fn dismiss(
        &self,
        chosen: impl Fn(&Session) -> bool,
        grace: Duration,
        reason: &'static str,
    ) {
        let picked = || self.sessions().into_iter().filter(|session| chosen(session));
        let ring = self.shard.ring();
        for session in picked() {
            session.leave(Leaving::KeptOut, reason);
            if let Some(connection) = session.connections().first() {
                session.send_async(connection, AsyncEvent::LOGOUT_REQUESTED, [0, 0, grace.as_secs() as u16]);
            }
        }
        let deadline = ring.now() + grace;
        while picked().next().is_some() && ring.now() < deadline {
            ring.sleep(Duration::from_millis(10)).await;
        }
        // All at once: one that waits for a slow disk does not keep the others.
        for session in picked() {
            ring.spawn_later(async move { session.close(reason).await });
        }
        while picked().next().is_some() {
            ring.sleep(Duration::from_millis(10)).await;
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

    fn welcome(self: &Rc<Self>, socket: Detached, peer: Peer, portal: Arc<Portal>) {
        let Some(peer) = peer.address() else { return };
        if self.draining.get() || self.connections.get() >= CONNECTIONS_PER_SHARD {
            trouble!("{peer}: closed, this core has {} connections already", self.connections.get());
            return;
        }
        let socket = Socket::attach(self.shard.ring(), socket);
        let login = Login::new(socket.clone(), peer, portal);
        let mut logins = self.logins.borrow_mut();
        logins.retain(|login| login.strong_count() > 0);
        if logins.len() >= LOGINS_PER_SHARD
            && let Some(oldest) = logins.pop_front().and_then(|login| login.upgrade())
        {
            // Who has been dawdling longest goes; a newcomer may be somebody with a purpose.
            oldest.give_up("too many connections are logging in");
        }
        logins.push_back(Rc::downgrade(&login));
        drop(logins);
        self.connections.set(self.connections.get() + 1);
        let service = self.clone();
        self.shard.ring().spawn_later(async move {
            enter::log_in(&service, login, socket).await;
            service.connections.set(service.connections.get() - 1);
        });
    }
}
