//! One connection: how replies go out on it, and how much is under way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ring::{Buffer, Instant, Notify, Peer, Ring, Shared, Socket};
use wire::nbd::{SimpleReply, data_chunk, error_chunk, hole_chunk, none_chunk};

use super::errors::Refused;
use crate::limits::{NBD_BYTES_IN_FLIGHT, NBD_REQUESTS, RECEIVE_STALL};
use crate::session::traffic::{Pending, Traffic};
use crate::transport::{Outgoing, near};
use crate::watch::Watched;

/// Pieces of one reply at most: header and data.
const SEGMENTS: usize = 2;

/// What a connection is doing, for those who watch it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It has not chosen an export yet.
    Handshake,
    /// Nothing is owed: the next request may take its time.
    Idle,
    /// A request has begun to come.
    Receiving,
}

/// A connection of this core.
pub struct Connection {
    ring: Ring,
    socket: Socket,
    /// Who is at the other end.
    pub peer: Peer,
    /// What was done for it.
    pub traffic: Rc<Traffic>,
    /// What is sent.
    pub outgoing: Outgoing,
    /// When something last came.
    pub last_received: Rc<Cell<Instant>>,
    /// What it is doing.
    pub phase: Cell<Phase>,
    /// The place of the volume that it has chosen.
    pub volume: Cell<Option<usize>>,
    /// Replies are structured.
    pub structured: Cell<bool>,
    /// No further request is carried out.
    pub draining: Cell<bool>,
    requests: Cell<u32>,
    bytes: Cell<usize>,
    changed: Notify,
    reason: RefCell<Option<String>>,
}

/// A request in flight; its end, however it comes, makes room for another one.
pub struct Slot {
    connection: Rc<Connection>,
    bytes: usize,
    _pending: Pending,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.requests.set(connection.requests.get() - 1);
        connection.bytes.set(connection.bytes.get() - self.bytes);
        connection.changed.notify();
    }
}

/// Ends a connection whose peer hangs.
impl Watched for Connection {
    fn look(&self, now: Instant) -> Option<Instant> {
        if self.outgoing.is_closed() {
            return None;
        }
        let stalled = match self.outgoing.stall(now) {
            Ok(due) => due,
            Err(stall) => {
                self.close(stall.to_string());
                return None;
            }
        };
        if self.phase.get() != Phase::Receiving {
            return Some(stalled);
        }
        let due = self.last_received.get() + RECEIVE_STALL;
        if now > due {
            let seconds = RECEIVE_STALL.as_secs();
            self.close(format!("it has sent half a request and nothing more for {seconds} seconds"));
            return None;
        }
        Some(stalled.min(due))
    }
}

impl Connection {
    /// A connection that has just come.
    pub fn new(
        ring: Ring,
        socket: Socket,
        peer: Peer,
        last_received: Rc<Cell<Instant>>,
        traffic: Rc<Traffic>,
    ) -> Rc<Connection> {
        Rc::new(Connection {
            ring,
            socket,
            peer,
            traffic,
            outgoing: Outgoing::default(),
            last_received,
            phase: Cell::new(Phase::Handshake),
            volume: Cell::new(None),
            structured: Cell::new(false),
            draining: Cell::new(false),
            requests: Cell::new(0),
            bytes: Cell::new(0),
            changed: Notify::new(),
            reason: RefCell::new(None),
        })
    }

    /// The core's reactor.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether nothing is in flight and nothing waits to be sent.
    pub fn is_quiet(&self) -> bool {
        self.requests.get() == 0 && self.outgoing.bytes() == 0
    }

    /// Notes a request with `bytes` of buffers as in flight; waits while there are too many.
    pub async fn enter(self: &Rc<Self>, bytes: usize) -> Slot {
        if !self.has_room(bytes) {
            self.changed.until(|| self.has_room(bytes).then_some(())).await;
        }
        self.requests.set(self.requests.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        Slot { connection: self.clone(), bytes, _pending: self.traffic.pending() }
    }

    /// Whether a request with `bytes` of buffers would not wait.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let requests = self.requests.get();
        requests == 0 || requests < NBD_REQUESTS && self.bytes.get() + bytes <= NBD_BYTES_IN_FLIGHT
    }

    /// Requests that have not ended.
    pub fn in_flight(&self) -> usize {
        self.requests.get() as usize
    }

    /// Waits until nothing is in flight.
    pub async fn at_rest(&self) {
        self.changed.until(|| (self.requests.get() == 0).then_some(())).await;
    }

    /// The rest of a request is awaited from now on.
    pub fn receiving(&self) {
        self.last_received.set(self.ring.recent_time());
        self.phase.set(Phase::Receiving);
    }

    /// Queues bytes of the handshake.
    pub fn send_bytes(&self, bytes: &[u8]) {
        self.outgoing.push(1, |list| list.push_bytes(bytes));
    }

    fn send<const N: usize>(&self, head: impl FnOnce() -> [u8; N], data: Shared) {
        self.outgoing.push(SEGMENTS, |list| {
            list.push_header(|bytes| *bytes = head());
            list.push(near(data));
        });
    }

    /// A reply without data. None is handed on either: its place would be loaded, and wait for what was written before.
    #[inline]
    fn send_head<const N: usize>(&self, head: impl FnOnce() -> [u8; N]) {
        self.outgoing.push(1, |list| {
            list.push_header(|bytes| *bytes = head());
        });
    }

    #[inline]
    fn send_simple(&self, error: wire::nbd::Errno, cookie: u64) {
        self.send_head(|| SimpleReply { error, cookie }.encode());
    }

    /// A request is done that is no read. Its reply is a simple one even where replies are structured ("a simple reply
    /// MAY be used as a reply to any request other than `NBD_CMD_READ`"): clients take a structured one in two receives.
    pub fn done(&self, cookie: u64) {
        self.send_simple(wire::nbd::Errno::OK, cookie);
    }

    /// A read of nothing is done.
    pub fn nothing_read(&self, cookie: u64) {
        if self.structured.get() {
            self.send_head(|| none_chunk(cookie));
        } else {
            self.done(cookie);
        }
    }

    /// A request has failed, or will not be carried out.
    pub fn refuse(&self, cookie: u64, refused: Refused) {
        let Refused { error, why } = refused;
        if self.structured.get() {
            self.outgoing.push(1, |list| {
                list.push_bytes(&error_chunk(cookie, error, why));
                list.push_bytes(why.as_bytes());
            });
        } else {
            self.send_simple(error, cookie);
        }
    }

    /// All the data of a read.
    pub fn send_data(&self, cookie: u64, offset: u64, data: Shared) {
        if self.structured.get() {
            self.send_part(cookie, offset, data, true);
        } else {
            self.send(|| SimpleReply { error: wire::nbd::Errno::OK, cookie }.encode(), data);
        }
    }

    /// Some of the data of a read whose reply is structured.
    pub fn send_part(&self, cookie: u64, offset: u64, data: Shared, done: bool) {
        let length = data.len() as u32;
        self.send(|| data_chunk(cookie, offset, length, done), data);
    }

    /// Zeroes of a read whose reply is structured.
    pub fn send_hole(&self, cookie: u64, offset: u64, length: u32, done: bool) {
        self.send_head(|| hole_chunk(cookie, offset, length, done));
    }

    /// A chunk and its payload.
    pub fn send_chunk<const N: usize>(&self, head: [u8; N], payload: Buffer) {
        self.send(|| head, payload.share());
    }

    /// Ends the connection: both directions, every wait. The first reason counts.
    pub fn close(&self, reason: impl Into<String>) {
        self.reason.borrow_mut().get_or_insert_with(|| reason.into());
        self.outgoing.close();
        self.socket.shutdown();
    }

    /// Why it was closed by us.
    pub fn close_reason(&self) -> Option<String> {
        self.reason.borrow().clone()
    }

    /// Sends what is queued until the connection ends.
    pub async fn run_sender(self: Rc<Self>) {
        if let Err(error) = self.outgoing.run(&self.ring, &self.socket).await {
            self.close(format!("sending failed: {error}"));
        }
    }
}
