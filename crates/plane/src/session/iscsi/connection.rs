//! One connection in full-feature phase: who it belongs to and how frames go out on it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use ring::{Instant, Ring, SendList, Shared, Socket};
use wire::iscsi::digest::{data_digest, header_digest};
use wire::iscsi::frame::padding;
use wire::iscsi::{Bhs, Framing, SerialNumber};

use super::login::{ConnectionParameters, LoginOutcome};
use super::text::TextNegotiation;
use crate::limits::SEND_DATA_SEGMENT_BYTES;
use crate::session::traffic::Traffic;
use crate::transport::{Outgoing, near};

/// Pieces of one frame at most: header, data, padding and digest.
const SEGMENTS: usize = 3;

/// A connection of a session.
pub struct Connection {
    ring: Ring,
    socket: Socket,
    /// Who is at the other end.
    pub peer: SocketAddr,
    /// The portal's address as the peer used it.
    pub local: SocketAddr,
    /// CID.
    pub cid: u16,
    /// What was agreed at login.
    pub parameters: ConnectionParameters,
    /// What the initiator takes in one PDU now, in bytes.
    segment: Cell<u32>,
    stat_sn: Cell<SerialNumber>,
    /// Text exchange of full-feature phase.
    pub text: RefCell<TextNegotiation>,
    /// What was done for it.
    pub traffic: Rc<Traffic>,
    /// What is sent.
    pub outgoing: Outgoing,
    /// When something last came.
    pub last_received: Rc<Cell<Instant>>,
    data_due_since: Cell<Instant>,
    /// The NOP-In that waits for its answer.
    pub ping: Cell<Option<u32>>,
    /// The initiator logged it out.
    pub logged_out: Cell<bool>,
    reason: RefCell<Option<String>>,
}

impl Connection {
    /// A connection that has just logged in; `ends` are its peer and its own address.
    pub fn new(
        ring: Ring,
        socket: Socket,
        (peer, local): (SocketAddr, SocketAddr),
        outcome: &LoginOutcome,
        text: TextNegotiation,
        last_received: Rc<Cell<Instant>>,
        traffic: Rc<Traffic>,
    ) -> Connection {
        Connection {
            ring,
            socket,
            peer,
            local,
            cid: outcome.cid,
            segment: Cell::new(outcome.connection.initiator_max_recv_data_segment_length),
            parameters: outcome.connection,
            stat_sn: Cell::new(outcome.next_stat_sn),
            text: RefCell::new(text),
            traffic,
            outgoing: Outgoing::default(),
            data_due_since: Cell::new(last_received.get()),
            last_received,
            ping: Cell::new(None),
            logged_out: Cell::new(false),
            reason: RefCell::new(None),
        }
    }

    /// When output data last came, or the initiator was last asked for some.
    pub fn data_due_since(&self) -> Instant {
        self.data_due_since.get()
    }

    /// Output data has come, or the initiator is asked for some.
    pub fn note_data_due(&self) {
        self.data_due_since.set(self.ring.turn_time());
    }

    /// Digests in use.
    pub fn framing(&self) -> Framing {
        self.parameters.framing
    }

    /// The core's reactor.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The socket, for the one who sends.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Bytes of data in one PDU to the initiator.
    pub fn segment(&self) -> usize {
        (self.segment.get() as usize).min(SEND_DATA_SEGMENT_BYTES)
    }

    /// The initiator declared anew how much it takes.
    pub fn set_segment(&self, bytes: u32) {
        self.segment.set(bytes);
    }

    /// The number of the next response, not used up.
    pub fn stat_sn(&self) -> SerialNumber {
        self.stat_sn.get()
    }

    /// The number of this response.
    pub fn next_stat_sn(&self) -> SerialNumber {
        let number = self.stat_sn.get();
        self.stat_sn.set(number.next());
        number
    }

    /// Queues a frame whose header, which `encode` makes of zeroes, says how much data it has.
    pub fn send(&self, encode: impl FnOnce(&mut Bhs), data: Option<Shared>) {
        let framing = self.framing();
        let header = |list: &mut SendList| {
            let bhs = list.push_header(encode);
            if framing.header_digest {
                let digest = header_digest(bhs);
                list.push_bytes(&digest);
            }
        };
        // Data that is not there is not handed on either: its place would be loaded, and wait for what was written before.
        let Some(data) = data.filter(|data| !data.is_empty()) else { return self.outgoing.push(1, header) };
        self.outgoing.push(SEGMENTS, |list| {
            header(list);
            let digest = framing.data_digest.then(|| data_digest(&data));
            let pad = padding(data.len());
            list.push(if digest.is_some() { data } else { near(data) });
            list.push_bytes(&[0; 3][..pad]);
            if let Some(digest) = digest {
                list.push_bytes(&digest);
            }
        });
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
