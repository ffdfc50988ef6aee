//! NBD on one core: connections come in, choose an export, and are served here until they leave.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use ring::{Detached, Peer, PooledFuture, Socket};

use super::connection::{Connection, Phase};
use super::execute::Transmission;
use super::export::{Exports, View};
use super::handshake::{Chosen, Failure, negotiate};
use super::receive::{End, receive};
use crate::latest::Latest;
use crate::limits::{CONNECTIONS_PER_SHARD, DRAIN_TIME, LOGINS_PER_SHARD};
use crate::log::trouble;
use crate::session::notice::{self, Leaving, Notice, What};
use crate::session::traffic::{Guest, Ledger, Portal, Traffic, Venue};
use crate::shard::Shard;
use crate::spread::Welcome;
use crate::transport::{Gone, Reader};

/// How often a node that stops looks whether its connections have come to rest.
const REST_POLL: Duration = Duration::from_millis(5);

/// What all cores of a node share.
pub struct Node {
    /// What can be chosen.
    pub exports: Latest<Exports>,
}

impl Node {
    /// A node with these exports.
    pub fn new(exports: Exports) -> Arc<Node> {
        Arc::new(Node { exports: Latest::new(exports) })
    }
}

/// NBD on one core.
pub struct Service {
    shard: Rc<Shard>,
    node: Arc<Node>,
    connections: RefCell<BTreeMap<u64, Rc<Connection>>>,
    handshakes: RefCell<VecDeque<Weak<Connection>>>,
    next: Cell<u64>,
    draining: Cell<bool>,
}

impl Service {
    /// Starts NBD on `shard`.
    pub fn install(shard: &Rc<Shard>, node: &Arc<Node>) -> Rc<Service> {
        let service = Rc::new(Service {
            shard: shard.clone(),
            node: node.clone(),
            connections: RefCell::default(),
            handshakes: RefCell::default(),
            next: Cell::new(0),
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

    /// The exports as this core knows them.
    pub fn view(&self) -> View<'_> {
        View { exports: self.node.exports.get(), shard: &self.shard }
    }

    /// The connections of this core that have chosen an export, and the places of their volumes.
    pub fn users(&self) -> Vec<(Rc<Connection>, usize)> {
        let connections = self.connections.borrow();
        connections.values().filter_map(|one| Some((one.clone(), one.volume.get()?))).collect()
    }

    /// Something that people are to know of a client.
    pub(super) fn tell(&self, connection: &Connection, export: &str, what: What) {
        let (from, target) = (connection.peer.to_string(), export.to_owned());
        let initiator = initiator(connection.peer);
        notice::tell(&self.shard, Notice { protocol: "nbd", initiator, from, target, what });
    }

    /// Connections on this core.
    pub fn connection_count(&self) -> usize {
        self.connections.borrow().len()
    }

    /// A connection from its first byte to its end.
    async fn serve(self: &Rc<Self>, connection: &Rc<Connection>, reader: &mut Reader) {
        self.shard.ring().spawn_later(connection.clone().run_sender());
        // Apart, as it is over soon and takes more memory than all that follows.
        let handshake = PooledFuture::future(negotiate(self, connection, reader));
        let Chosen { entry, name, channel } = match handshake.await {
            Ok(Some(chosen)) => chosen,
            Ok(None) => return connection.close("it left"),
            Err(failure) => return end_handshake(connection, &failure),
        };
        let peer = connection.peer;
        let who = initiator(peer);
        connection.traffic.belongs_to(&who);
        let venue = connection.volume.get().map(Venue::Volume);
        let _guest = venue.map(|venue| Guest::enter(Ledger::of(&self.shard), "nbd", &who, venue));
        self.tell(connection, &name, What::CameIn);
        tracing::info!(export = name, shard = self.shard.index(), "{peer} connected");
        let transmission = Transmission::new(connection.clone(), channel, entry);
        let end = receive(&transmission, reader).await;
        connection.phase.set(Phase::Idle);
        let (how, why) = leaving(connection, &end);
        match (connection.close_reason(), end) {
            (None, Ok(())) => {
                // Section "Terminating the transmission phase": what was asked for is carried out first.
                self.shard.ring().timeout(DRAIN_TIME, connection.at_rest()).await;
                tracing::info!(export = name, "{peer} disconnected");
            }
            (Some(reason), _) => trouble!("{peer} ({name}): connection closed: {reason}"),
            (None, Err(end)) => trouble!("{peer} ({name}): connection closed: {end}"),
        }
        connection.close("it ended");
        // It counts until the last of its requests has given its memory back.
        connection.at_rest().await;
        self.tell(connection, &name, What::Left(how, why));
    }

    /// Takes no more connections and no more requests, lets those in flight end for at most `grace`, and ends.
    pub async fn drain(self: Rc<Self>, grace: Duration) {
        self.draining.set(true);
        self.dismiss(|_| true, grace, "the node is stopping").await;
    }

    /// Takes no more requests of the connections that `chosen` picks, lets those in flight end for at most `grace`, and ends
    /// them. At the end nothing of them is under way.
    pub(super) async fn dismiss(
        &self,
        chosen: impl Fn(&Connection) -> bool,
        grace: Duration,
        reason: &'static str,
    ) {
        let connections: Vec<_> =
            self.connections.borrow().values().filter(|connection| chosen(connection)).cloned().collect();
        for connection in &connections {
            connection.draining.set(true);
            if connection.phase.get() == Phase::Handshake {
                connection.close(reason);
            }
        }
        let deadline = self.shard.ring().now() + grace;
        while !connections.iter().all(|connection| connection.is_quiet()) {
            if self.shard.ring().now() >= deadline {
                break;
            }
            self.shard.ring().sleep(REST_POLL).await;
        }
        for connection in connections {
            connection.close(reason);
            connection.at_rest().await;
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
        let count = self.connection_count();
        if self.draining.get() || count >= CONNECTIONS_PER_SHARD {
            trouble!("{peer}: closed, this core has {count} NBD connections already");
            return;
        }
        let ring = self.shard.ring();
        let socket = Socket::attach(ring, socket);
        let mut reader = Reader::new(ring.clone(), socket.clone());
        let traffic = Traffic::begin(&self.shard, &portal);
        let connection = Connection::new(ring.clone(), socket, peer, reader.last_received(), traffic);
        let mut handshakes = self.handshakes.borrow_mut();
        let unfinished = |connection: &Weak<Connection>| {
            connection.upgrade().is_some_and(|connection| connection.phase.get() == Phase::Handshake)
        };
        handshakes.retain(unfinished);
        if handshakes.len() >= LOGINS_PER_SHARD
            && let Some(oldest) = handshakes.pop_front().and_then(|connection| connection.upgrade())
        {
            // Who has been dawdling longest goes; a newcomer may be somebody with a purpose.
            oldest.close("too many connections are in their handshake");
        }
        handshakes.push_back(Rc::downgrade(&connection));
        drop(handshakes);
        let number = self.next.get();
        self.next.set(number + 1);
        self.shard.watch(&connection);
        self.connections.borrow_mut().insert(number, connection.clone());
        let service = self.clone();
        ring.spawn_later(async move {
            service.serve(&connection, &mut reader).await;
            drop((connection, reader));
            service.connections.borrow_mut().remove(&number);
        });
    }
}

/// Who somebody is whom nobody asks: where he comes from, whichever connection it is.
pub(crate) fn initiator(peer: Peer) -> String {
    peer.address().map_or_else(|| peer.to_string(), |address| address.ip().to_string())
}

/// How and why a connection ends.
fn leaving(connection: &Connection, end: &Result<(), End>) -> (Leaving, String) {
    match (connection.close_reason(), end) {
        (Some(reason), _) if connection.draining.get() => (Leaving::KeptOut, reason),
        (Some(reason), _) => (Leaving::Lost, reason),
        (None, Ok(())) => (Leaving::Orderly, String::new()),
        (None, Err(end)) => (Leaving::Lost, end.to_string()),
    }
}

/// Says why a handshake failed; a peer that just went away (a port scan, a health check) is not worth a line.
fn end_handshake(connection: &Connection, failure: &Failure) {
    let ours = connection.close_reason();
    if !matches!(failure, Failure::Gone(Gone::Closed)) || ours.is_some() {
        let reason = ours.unwrap_or_else(|| failure.to_string());
        trouble!("{}: closed during the NBD handshake: {reason}", connection.peer);
    }
    connection.close(failure.to_string());
}
