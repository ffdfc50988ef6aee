//! Full-feature phase: what comes on a connection, PDU by PDU. RFC 7143 section 4.

use std::rc::Rc;

use ring::{Buffer, Soon};
use wire::iscsi::digest::Crc32c;
use wire::iscsi::frame::{BHS_LENGTH, DIGEST_LENGTH, ahs_length, data_segment_length, padding};
use wire::iscsi::{
    Bhs, DataOut, Framing, InitiatorPdu, NopOut, RESERVED_TAG, RejectReason, ScsiCommand, ScsiCommandFlags,
    SerialNumber, TextRequest, UnknownOpcode, cdb_of,
};

use super::command::Destination;
use super::connection::Connection;
use super::session::{Item, Session};
use super::tasks::Task;
use super::transfer::Transfer;
use crate::limits::{
    ANSWER_QUEUE_BYTES, IMMEDIATE_COMMANDS, ISCSI_MEMORY_TIME, TEXT_SEGMENT_BYTES, TRANSFER_BYTES,
};
use crate::log::trouble;
use crate::memory_gate::{has_memory, wait_for_memory};
use crate::transport::{Gone, Reader};

/// Why a connection ended. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The peer or the network.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// A digest did not fit; at error recovery level 0 nothing after it can be trusted.
    #[error("the {0} digest of a PDU is wrong: the network or the initiator changes bytes")]
    Digest(&'static str),
    /// An opcode that no initiator may send here.
    #[error(transparent)]
    Opcode(#[from] UnknownOpcode),
    /// More data in a PDU than was agreed.
    #[error("a PDU with {found} bytes of data, at most {limit} were agreed")]
    TooLong {
        /// Bytes announced.
        found: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Anything else that the standard forbids.
    #[error("{0}")]
    Protocol(&'static str),
    /// No memory for data that has to be taken.
    #[error("the memory for data in flight is used up")]
    Memory,
}

/// Receives until the connection ends.
pub async fn receive(
    session: &Rc<Session>,
    connection: &Rc<Connection>,
    reader: &mut Reader,
) -> Result<(), End> {
    let framing = connection.framing();
    let limit = connection.parameters.target_max_recv_data_segment_length as usize;
    let is_plain = !framing.header_digest && !framing.data_digest;
    loop {
        reader.ready().await?;
        let is_done = is_plain
            && (at_once(session, connection, reader, limit)
                || gather(session, connection, reader, limit).await?
                    && at_once(session, connection, reader, limit));
        if !is_done {
            let mut bhs: Bhs = [0; 48];
            header(reader, framing, &mut bhs).await?;
            let length = data_segment_length(&bhs);
            if length > limit {
                session.reject(connection, &bhs, RejectReason::INVALID_PDU_FIELD);
                return Err(End::TooLong { found: length, limit });
            }
            look_ahead(session, reader, framing, framing.data_length(&bhs));
            let mut incoming = Incoming { session, connection, reader, bhs: &bhs, length };
            incoming.dispatch().await?;
            if connection.outgoing.bytes() >= ANSWER_QUEUE_BYTES {
                reader.put_aside();
            }
        }
        // Some answers wait for nothing: who sends what causes them and does not read is not read from either.
        connection.outgoing.below(ANSWER_QUEUE_BYTES).await;
        if connection.outgoing.is_closed() {
            return Ok(());
        }
    }
}

/// Receives a header to `bhs`, checks its digest, and forgets its additional segments: no command that is supported has any.
async fn header(reader: &mut Reader, framing: Framing, bhs: &mut Bhs) -> Result<(), End> {
    reader.exact(bhs).await?;
    let mut crc = Crc32c::new();
    if framing.header_digest {
        crc.update(bhs);
    }
    // Word by word, as they are rare: a connection has no memory for them.
    for _ in 0..ahs_length(bhs) / 4 {
        let mut word = [0; 4];
        reader.exact(&mut word).await?;
        crc.update(&word);
    }
    if framing.header_digest {
        let mut digest = [0; 4];
        reader.exact(&mut digest).await?;
        if digest != crc.wire() {
            return Err(End::Digest("header"));
        }
    }
    Ok(())
}

/// Carries out a SCSI command that has come whole, with at most `limit` bytes of data, where that can be done at once, on a
/// connection without digests: most are such. False: nothing was taken, and the PDU is received part by part.
fn at_once(session: &Rc<Session>, connection: &Connection, reader: &mut Reader, limit: usize) -> bool {
    let Some((command, length, whole)) = usual_command(session, connection, reader, limit) else {
        return false;
    };
    if reader.gathered(0, whole).is_none() {
        return false;
    }
    if reader.is_unforeseen()
        && let Some(bhs) = reader.begin()
    {
        session.expect(bhs, Soon::Now);
    }
    look_ahead(session, reader, Framing::default(), whole);
    let data = reader.gathered(BHS_LENGTH, length);
    let done = data.as_ref().is_some_and(|data| session.at_once(connection, &command, data));
    if done {
        reader.consume(whole);
        session.deliver_held();
    }
    done
}

/// The command that comes next, how much data it brings, and the length of all, if nothing about it is out of the ordinary.
#[inline]
fn usual_command(
    session: &Session,
    connection: &Connection,
    reader: &Reader,
    limit: usize,
) -> Option<(ScsiCommand, usize, usize)> {
    let bhs = reader.begin().filter(|bhs| cdb_of(bhs).is_some() && ahs_length(bhs) == 0)?;
    let (command, length) = (ScsiCommand::decode(bhs), data_segment_length(bhs));
    let usual = length <= limit
        && command.flags.contains(ScsiCommandFlags::FINAL)
        && unasked(session, &command, length).is_ok()
        && !connection.logged_out.get()
        && !session.is_closing();
    usual.then(|| (command, length, Framing::default().total_length(bhs)))
}

/// Waits for the rest of a write that can be carried out at once when it is there, on a connection without digests. False
/// where there is none to be waited for, and the PDU is received part by part.
async fn gather(
    session: &Session,
    connection: &Connection,
    reader: &mut Reader,
    limit: usize,
) -> Result<bool, End> {
    let Some((_, length, whole)) = usual_command(session, connection, reader, limit) else {
        return Ok(false);
    };
    let is_one = length > 0 && session.is_prompt() && reader.gathered(0, whole).is_none();
    Ok(is_one && reader.gather(whole).await?)
}

/// Whether a command may send these `length` bytes with it, and announce more that nobody asks for; otherwise why not.
fn unasked(session: &Session, command: &ScsiCommand, length: usize) -> Result<(), &'static str> {
    let parameters = &session.parameters;
    let writes = command.flags.contains(ScsiCommandFlags::WRITE);
    if length > 0 && !(writes && parameters.immediate_data) {
        return Err("immediate data that was not agreed or that the command does not send");
    }
    if length > command.expected_data_transfer_length.min(parameters.first_burst_length) as usize {
        return Err("more immediate data than FirstBurstLength or the command itself");
    }
    if !command.flags.contains(ScsiCommandFlags::FINAL) && (!writes || parameters.initial_r2t) {
        return Err("a command that announces data which may only be sent when asked for");
    }
    Ok(())
}

/// While one PDU is worked on, of which `rest` bytes have still to be taken, the memory for the next ones comes nearer.
fn look_ahead(session: &Session, reader: &mut Reader, framing: Framing, rest: usize) {
    reader.look_ahead(rest, |bhs, soon| {
        session.expect(bhs, soon);
        Some(framing.total_length(bhs))
    });
}

struct Incoming<'a> {
    session: &'a Rc<Session>,
    connection: &'a Rc<Connection>,
    reader: &'a mut Reader,
    bhs: &'a Bhs,
    length: usize,
}

impl Incoming<'_> {
    async fn dispatch(&mut self) -> Result<(), End> {
        let pdu = match InitiatorPdu::decode(self.bhs) {
            Ok(pdu) => pdu,
            Err(unknown) => {
                self.reject(RejectReason::COMMAND_NOT_SUPPORTED);
                return Err(unknown.into());
            }
        };
        if self.session.attached.is_none()
            && !matches!(
                pdu,
                InitiatorPdu::TextRequest(_) | InitiatorPdu::LogoutRequest(_) | InitiatorPdu::NopOut(_)
            )
        {
            self.reject(RejectReason::PROTOCOL_ERROR);
            return Err(End::Protocol("a discovery session that wants more than text, ping and logout"));
        }
        if self.connection.logged_out.get() {
            // Nothing follows a logout (section 11.14).
            return self.skip().await;
        }
        match pdu {
            InitiatorPdu::ScsiCommand(command) => self.command(&command).await,
            InitiatorPdu::DataOut(data) => self.data(&data).await,
            InitiatorPdu::NopOut(nop) => self.ping(&nop).await,
            InitiatorPdu::TaskManagementRequest(request) => {
                self.skip().await?;
                let item = Item::Management(self.connection.clone(), request);
                if request.immediate.0 && !self.session.enter_immediate(IMMEDIATE_COMMANDS) {
                    self.reject(RejectReason::IMMEDIATE_COMMAND_REJECT);
                    return Ok(());
                }
                self.order(request.immediate.0, request.cmd_sn, item);
                Ok(())
            }
            InitiatorPdu::TextRequest(request) => self.text(&request).await,
            InitiatorPdu::LogoutRequest(request) => {
                self.skip().await?;
                let item = Item::Logout(self.connection.clone(), request);
                if request.immediate.0 && !self.session.enter_immediate(IMMEDIATE_COMMANDS) {
                    self.reject(RejectReason::IMMEDIATE_COMMAND_REJECT);
                    return Ok(());
                }
                self.order(request.immediate.0, request.cmd_sn, item);
                Ok(())
            }
            InitiatorPdu::SnackRequest(_) => {
                self.skip().await?;
                // Error recovery level 0: nothing is kept that could be sent again.
                self.reject(RejectReason::SNACK_REJECT);
                Ok(())
            }
            InitiatorPdu::LoginRequest(_) => {
                self.reject(RejectReason::PROTOCOL_ERROR);
                Err(End::Protocol("a login request after login"))
            }
        }
    }

    fn reject(&self, reason: RejectReason) {
        self.session.reject(self.connection, self.bhs, reason);
    }

    /// Delivers at once what is immediate, in its turn what is not.
    fn order(&self, immediate: bool, number: SerialNumber, item: Item) {
        if immediate {
            self.session.deliver(item, false);
        } else {
            self.session.arrive(number, item);
        }
    }

    /// Receives the data segment to `start` in `buffer` and checks its digest, unless that `is_checked`.
    async fn receive_data(&mut self, buffer: Buffer, start: usize, is_checked: bool) -> Result<Buffer, End> {
        let end = start + self.length;
        let buffer = self.reader.fill(buffer, start, end).await?;
        let mut pad = [0; 3];
        let pad = &mut pad[..padding(self.length)];
        self.reader.exact(pad).await?;
        if self.connection.framing().data_digest && self.length > 0 {
            let mut digest = [0; 4];
            self.reader.exact(&mut digest).await?;
            if !is_checked {
                let mut crc = Crc32c::new();
                crc.update(&buffer[start..end]);
                crc.update(pad);
                self.check_digest(&crc, &digest)?;
            }
        }
        Ok(buffer)
    }

    /// Whether all of the data segment and its digest, which it has, have been received already; that is right then.
    #[inline(never)]
    fn is_checked(&self) -> Result<bool, End> {
        let padded = self.length + padding(self.length);
        let Some(received) = self.reader.received(padded + DIGEST_LENGTH) else { return Ok(false) };
        let (data, digest) = received.split_at(padded);
        let mut crc = Crc32c::new();
        crc.update(data);
        self.check_digest(&crc, digest)?;
        Ok(true)
    }

    fn check_digest(&self, crc: &Crc32c, digest: &[u8]) -> Result<(), End> {
        if digest == crc.wire() {
            return Ok(());
        }
        self.reject(RejectReason::DATA_DIGEST_ERROR);
        Err(End::Digest("data"))
    }

    /// Takes the data segment and forgets it.
    async fn skip(&mut self) -> Result<(), End> {
        let digest = self.connection.framing().data_digest_length(self.length);
        Ok(self.reader.skip(self.length + padding(self.length) + digest).await?)
    }

    /// Waits a moment for memory for data that comes unasked; nothing more is received meanwhile. False when there is none.
    async fn gets_memory(&mut self, bytes: usize) -> bool {
        if bytes == 0 || has_memory(bytes) {
            return true;
        }
        self.reader.put_aside();
        let (ring, outgoing) = (self.connection.ring(), &self.connection.outgoing);
        ring.timeout(ISCSI_MEMORY_TIME, wait_for_memory(ring, bytes, || !outgoing.is_closed())).await;
        has_memory(bytes)
    }

    async fn command(&mut self, command: &ScsiCommand) -> Result<(), End> {
        let session = self.session;
        let writes = command.flags.contains(ScsiCommandFlags::WRITE);
        let is_final = command.flags.contains(ScsiCommandFlags::FINAL);
        let expected = command.expected_data_transfer_length;
        if let Err(why) = unasked(session, command, self.length) {
            self.reject(RejectReason::PROTOCOL_ERROR);
            return Err(End::Protocol(why));
        }
        let ignored = !command.immediate.0 && !session.window(|window| window.accepts(command.cmd_sn));
        if ignored || session.is_closing() {
            return self.skip().await;
        }
        // Without a digest there is nothing to check; data with one that has not all come is received first.
        let has_digest = self.length > 0 && self.connection.framing().data_digest;
        let is_checked = is_final && has_digest && self.is_checked()?;
        if is_final
            && is_checked == has_digest
            && let Some(data) = self.reader.received(self.length)
            && session.at_once(self.connection, command, &data.into())
        {
            self.skip().await?;
            session.deliver_held();
            return Ok(());
        }
        let unsolicited = (!is_final).then(|| expected.min(session.parameters.first_burst_length));
        let unasked = if writes { self.length.max(unsolicited.unwrap_or(0) as usize) } else { 0 };
        let turned_away = !self.gets_memory(unasked).await;
        let buffer = if turned_away {
            self.skip().await?;
            Buffer::empty()
        } else {
            let size = if writes { first_buffer(unasked, expected) } else { 0 };
            self.receive_data(Buffer::new(size), 0, is_checked).await?
        };
        if session.tasks(|tasks| tasks.has_tag(command.initiator_task_tag)) {
            self.reject(RejectReason::TASK_IN_PROGRESS);
            if !command.immediate.0 {
                session.pass_over(command.cmd_sn);
            }
            return Ok(());
        }
        if command.immediate.0 && !session.enter_immediate(IMMEDIATE_COMMANDS) {
            self.reject(RejectReason::IMMEDIATE_COMMAND_REJECT);
            return Ok(());
        }
        let task = Task {
            initiator_task_tag: command.initiator_task_tag,
            lun: command.lun,
            cdb: command.cdb,
            cmd_sn: command.cmd_sn,
            immediate: command.immediate.0,
            connection: self.connection.clone(),
            expected,
            writes,
            reads: command.flags.contains(ScsiCommandFlags::READ),
            prepared: None,
            transfer: Transfer::new(self.length as u32, unsolicited),
            buffer,
            turned_away,
            lent: false,
            growing: false,
            delivered: false,
            started: false,
            running: false,
            aborted: false,
            pending: self.connection.traffic.pending(),
        };
        if !is_final {
            self.connection.note_data_due();
        }
        let id = session.tasks(|tasks| tasks.insert(task));
        if command.immediate.0 {
            session.deliver(Item::Command(id), false);
        } else if !session.arrive(command.cmd_sn, Item::Command(id)) {
            // The same number came over another connection while the data was being received.
            session.tasks(|tasks| tasks.remove(id));
        }
        Ok(())
    }

    async fn data(&mut self, pdu: &DataOut) -> Result<(), End> {
        match self.session.expect_data(self.connection, pdu, self.length) {
            Ok(Some(Destination { id, buffer, start })) => {
                let buffer = self.receive_data(buffer, start, false).await?;
                self.connection.note_data_due();
                self.session.take_data(id, buffer);
                Ok(())
            }
            // Data of a task that was aborted or has been answered already: section 11.5.1 lets it come.
            Ok(None) => self.skip().await,
            Err((id, error)) => {
                trouble!("{}: a command was ended: {error}", self.connection.peer);
                self.skip().await?;
                self.session.spoil(id);
                Ok(())
            }
        }
    }

    async fn ping(&mut self, nop: &NopOut) -> Result<(), End> {
        if nop.initiator_task_tag == RESERVED_TAG {
            self.skip().await?;
            if self.connection.ping.get() == Some(nop.target_transfer_tag) {
                self.connection.ping.set(None);
            }
            return Ok(());
        }
        // Short ones are taken whatever is under way, as text is.
        if self.length > TEXT_SEGMENT_BYTES && !has_memory(self.length) {
            return Err(End::Memory);
        }
        let data = self.receive_data(Buffer::new(self.length), 0, false).await?;
        let item = Item::Ping(self.connection.clone(), *nop, data);
        self.order(nop.immediate.0, nop.cmd_sn, item);
        Ok(())
    }

    async fn text(&mut self, request: &TextRequest) -> Result<(), End> {
        if self.length > TEXT_SEGMENT_BYTES {
            self.reject(RejectReason::INVALID_PDU_FIELD);
            return Err(End::TooLong { found: self.length, limit: TEXT_SEGMENT_BYTES });
        }
        let text = self.receive_data(Buffer::new(self.length), 0, false).await?;
        let item = Item::Text(self.connection.clone(), *request, text.to_vec());
        self.order(request.immediate.0, request.cmd_sn, item);
        Ok(())
    }
}

/// Bytes of the buffer that a write begins with: all of its data when there is memory and the length makes sense,
/// else what comes unasked; that has to be taken.
fn first_buffer(unasked: usize, expected: u32) -> usize {
    let expected = expected as usize;
    if expected <= TRANSFER_BYTES && has_memory(expected) { expected } else { unasked }
}
