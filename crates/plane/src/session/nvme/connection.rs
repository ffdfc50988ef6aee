//! One NVMe/TCP connection, which is one queue: how PDUs go out on it. TCP Transport 1.1 section 3.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use ring::{Instant, Peer, Ring, SendList, Shared, Socket};
use wire::nvme::tcp::{
    C2HData, CapsuleResp, FatalError, Framing, ICResp, MAX_TERM_REQ_DATA, PduFlags, PduType, R2T, TermReq,
    crc32c, header_digest,
};
use wire::nvme::{Completion, Status};

use crate::limits::SEND_DATA_SEGMENT_BYTES;
use crate::session::traffic::Traffic;
use crate::transport::{Outgoing, near};
use crate::watch::Watched;

/// Pieces of one PDU at most: header with digest and padding, data, digest.
const SEGMENTS: usize = 3;

/// A connection.
pub struct Connection {
    ring: Ring,
    socket: Socket,
    /// Who is at the other end.
    pub peer: Peer,
    framing: Cell<Framing>,
    /// What was done for it.
    pub traffic: Rc<Traffic>,
    /// What is sent.
    pub outgoing: Outgoing,
    /// When something last came.
    pub last_received: Rc<Cell<Instant>>,
    /// A PDU has begun to come.
    pub receiving: Cell<bool>,
    settled: Cell<bool>,
    reason: RefCell<Option<String>>,
    /// The reason is nothing that somebody has to know.
    quiet: Cell<bool>,
    /// The node does not want the host any more.
    kept_out: Cell<bool>,
}

/// Ends a connection whose host does not take what is sent.
impl Watched for Connection {
    fn look(&self, now: Instant) -> Option<Instant> {
        if self.outgoing.is_closed() {
            return None;
        }
        let due = self.outgoing.stall(now);
        due.inspect_err(|stall| self.close(stall.to_string())).ok()
    }
}

impl Connection {
    /// A connection that nothing has been agreed on yet.
    pub fn new(
        ring: Ring,
        socket: Socket,
        peer: Peer,
        last_received: Rc<Cell<Instant>>,
        traffic: Rc<Traffic>,
    ) -> Connection {
        Connection {
            ring,
            socket,
            peer,
            framing: Cell::default(),
            traffic,
            outgoing: Outgoing::default(),
            last_received,
            receiving: Cell::new(false),
            settled: Cell::new(false),
            reason: RefCell::default(),
            quiet: Cell::new(false),
            kept_out: Cell::new(false),
        }
    }

    /// The core's reactor.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The portal's address as the host used it.
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local().ok()
    }

    /// Whether its Connect command has come.
    pub fn is_settled(&self) -> bool {
        self.settled.get()
    }

    /// Its Connect command has come.
    pub fn settle(&self) {
        self.settled.set(true);
    }

    /// What was agreed.
    pub fn framing(&self) -> Framing {
        self.framing.get()
    }

    /// What was agreed, from the next PDU on.
    pub fn set_framing(&self, framing: Framing) {
        self.framing.set(framing);
    }

    /// Answers the first PDU; it has no digests.
    pub fn send_init(&self, response: &ICResp) {
        self.outgoing.push(1, |list| {
            list.push_header(|header| response.encode(header));
        });
    }

    /// Says how a command ended, in words that are made where they are sent.
    #[inline]
    pub fn send_completion(&self, completion: impl FnOnce() -> Completion) {
        self.send_head(|header| CapsuleResp::new(self.framing(), completion()).encode(header));
    }

    /// Asks for data of a command.
    pub fn send_r2t(&self, cid: u16, tag: u16, offset: u32, length: u32) {
        self.send_head(|header| R2T::new(self.framing(), cid, tag, offset, length).encode(header));
    }

    /// Sends all data of a command; `success`: no completion follows.
    pub fn send_data(&self, cid: u16, mut data: Shared, success: bool) {
        let framing = self.framing();
        let (mut offset, length) = (0, data.len());
        while offset < length {
            let end = (offset + SEND_DATA_SEGMENT_BYTES).min(length);
            let mut flags = PduFlags::empty();
            if end == length {
                flags |= PduFlags::LAST_PDU;
                flags.set(PduFlags::SUCCESS, success);
            }
            let pdu = C2HData::new(framing, flags, cid, offset as u32, (end - offset) as u32);
            let whole = end - offset == length;
            let part = if whole { std::mem::take(&mut data) } else { data.slice(offset..end) };
            self.send(|header| pdu.encode(header), pdu.header.pdo.into(), part);
            offset = end;
        }
    }

    /// Queues a PDU without data, whose header `encode` makes of zeroes. What it is made of is best made there: if it was stored
    /// in parts and handed on, its place would be loaded, and wait for what was written before.
    #[inline]
    fn send_head<const N: usize>(&self, encode: impl FnOnce(&mut [u8; N])) {
        self.outgoing.push(1, |list| self.push_head(list, encode));
    }

    #[inline]
    fn push_head<const N: usize>(&self, list: &mut SendList, encode: impl FnOnce(&mut [u8; N])) {
        let header = list.push_header(encode);
        if self.framing().header_digest {
            let digest = header_digest(header);
            list.push_bytes(&digest);
        }
    }

    /// The same of one whose data begins at byte `data_offset`.
    fn send<const N: usize>(&self, encode: impl FnOnce(&mut [u8; N]), data_offset: usize, data: Shared) {
        let framing = self.framing();
        self.outgoing.push(SEGMENTS, |list| {
            let before = list.len();
            self.push_head(list, encode);
            let padding = data_offset - (list.len() - before);
            list.push_bytes(&[0; 128][..padding]);
            if !framing.data_digest {
                return list.push(near(data));
            }
            let digest = crc32c(&data).to_le_bytes();
            list.push(data);
            list.push_bytes(&digest);
        });
    }

    /// Tells the host what was wrong with a PDU, of which `header` is the beginning; the connection ends after it
    /// (section 3.5).
    pub fn send_term(&self, error: FatalError, header: &[u8]) {
        let copied = &header[..header.len().min(MAX_TERM_REQ_DATA)];
        self.outgoing.push(1, |list| {
            list.push_header(|header| {
                TermReq::new(PduType::C2H_TERM_REQ, error, copied.len()).encode(header);
            });
            list.push_bytes(copied);
        });
    }

    /// Ends the connection: both directions, every wait. The first reason counts.
    pub fn close(&self, reason: impl Into<String>) {
        self.reason.borrow_mut().get_or_insert_with(|| reason.into());
        self.outgoing.close();
        self.socket.shutdown();
    }

    /// Ends the connection as hosts and nodes do when nothing is wrong.
    pub fn close_quietly(&self, reason: impl Into<String>) {
        if self.reason.borrow().is_none() {
            self.quiet.set(true);
        }
        self.close(reason);
    }

    /// The node will end it: the first reason counts, and is told in the end.
    pub fn keep_out(&self) {
        if self.reason.borrow().is_none() {
            self.kept_out.set(true);
        }
    }

    /// Whether the node ended it because it does not want the host any more.
    pub fn is_kept_out(&self) -> bool {
        self.kept_out.get()
    }

    /// Whether it ended as connections do when nothing is wrong.
    pub fn is_quiet(&self) -> bool {
        self.quiet.get()
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

/// How a command ended: what its completion says and the data that goes before it.
pub struct Outcome {
    /// Status.
    pub status: Status,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
    /// Data for the host.
    pub data: Option<Shared>,
}

impl Outcome {
    /// Done.
    pub fn done() -> Outcome {
        Outcome { status: Status::SUCCESSFUL_COMPLETION, result: 0, data: None }
    }

    /// Done, with something in the completion.
    pub fn with_result(result: u64) -> Outcome {
        Outcome { result, ..Outcome::done() }
    }

    /// Done, with data.
    pub fn with_data(data: Shared) -> Outcome {
        Outcome { data: Some(data), ..Outcome::done() }
    }

    /// Failed.
    pub fn failed(status: Status) -> Outcome {
        Outcome { status, ..Outcome::done() }
    }
}
