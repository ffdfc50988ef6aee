//! Requests carried out: what needs no waiting at once, everything else as a task of its own, answered when it ends.

use std::rc::Rc;

use ring::{Buffer, Instant, PooledFuture, Shared, Soon};
use wire::nbd::{Command, CommandFlags, Request as WireRequest};

use super::connection::{Connection, Slot};
use super::errors::{Refused, errno};
use super::handshake::Entry;
use super::receive::judge;
use crate::error::{Error, ErrorKind};
use crate::layers::while_wanted;
use crate::limits::{FILL_BYTES, NBD_SPARSE_READ_BYTES, NBD_ZERO_BYTES, SEND_QUEUE_BYTES};
use crate::log::trouble;
use crate::request::{Completion, Extent, Flags, Request, Verb};
use crate::transport::Received;
use crate::volume::Channel;

/// A connection and the export that it has chosen.
pub struct Transmission {
    /// The connection.
    pub connection: Rc<Connection>,
    /// The export's volume.
    pub channel: Rc<Channel>,
    /// Block status may be asked for.
    pub base_allocation: bool,
}

impl Transmission {
    /// After the handshake.
    pub fn new(connection: Rc<Connection>, channel: Rc<Channel>, entry: Entry) -> Rc<Transmission> {
        connection.structured.set(entry.structured);
        Rc::new(Transmission { connection, channel, base_allocation: entry.base_allocation })
    }

    /// Whether a request may be carried out.
    pub fn judge(&self, request: &WireRequest) -> Result<(), Refused> {
        judge(request, &self.channel.geometry(), self.connection.structured.get(), self.base_allocation)
    }

    /// A request that will come. Only a hint.
    #[inline]
    pub fn expect(&self, request: &WireRequest, soon: Soon) {
        let verb = match request.command {
            Command::READ => Verb::Read,
            Command::WRITE => Verb::Write,
            _ => return,
        };
        self.channel.expect(verb, Extent::new(request.offset, request.length.into()), soon);
    }

    /// A short cut for a plain read or write of a volume in memory whose data, if any, came with it: it takes no slot and
    /// no task, and its bytes are not copied on their way. False: nothing was done, and [`Transmission::start`] does it.
    pub fn at_once(&self, request: &WireRequest, data: &Received<'_>) -> bool {
        let connection = &self.connection;
        let usual = self.channel.is_prompt()
            && request.length > 0
            && !connection.draining.get()
            // A client that does not read is not to fill memory with answers.
            && connection.outgoing.has_room(SEND_QUEUE_BYTES)
            && !self.is_in_parts(request)
            && self.judge(request).is_ok();
        if !usual {
            return false;
        }
        let extent = Extent::new(request.offset, request.length.into());
        match request.command {
            Command::READ => {
                let Some(data) = self.channel.lend(extent) else { return false };
                connection.traffic.prompt(Verb::Read, extent.length);
                connection.send_data(request.cookie, request.offset, data);
            }
            Command::WRITE => {
                let Some(writing) = self.channel.absorb(extent, data.pieces()) else { return false };
                connection.traffic.prompt(Verb::Write, extent.length);
                connection.done(request.cookie);
                drop(writing);
            }
            _ => return false,
        }
        true
    }

    /// A read that is answered in parts, as what lies there may be holes.
    fn is_in_parts(&self, request: &WireRequest) -> bool {
        request.length >= NBD_SPARSE_READ_BYTES
            && self.connection.structured.get()
            && !request.flags.contains(CommandFlags::DF)
    }

    /// Begins a request that was judged; `buffer` has the payload of a write.
    pub fn start(self: &Rc<Self>, request: &WireRequest, buffer: Buffer, slot: Slot) {
        let (transmission, request) = (self.clone(), *request);
        let ring = self.connection.ring();
        if self.channel.is_limited() {
            return ring.spawn(async move {
                let is_wanted = || !transmission.connection.outgoing.is_closed();
                // Apart, so that the task of all others stays small.
                PooledFuture::future(while_wanted(is_wanted, transmission.carry_out(&request, buffer))).await;
                drop(slot);
            });
        }
        let in_parts = self.is_in_parts(&request);
        // One kind of task for each kind of request: what is frequent is small.
        match request.command {
            Command::READ if !in_parts => ring.spawn(async move {
                transmission.read(&request).await;
                drop(slot);
            }),
            Command::WRITE => ring.spawn(async move {
                transmission.write(&request, buffer).await;
                drop(slot);
            }),
            _ => ring.spawn(async move {
                transmission.other(&request).await;
                drop(slot);
            }),
        }
    }

    /// Carries out a request of any kind.
    async fn carry_out(&self, request: &WireRequest, buffer: Buffer) {
        match request.command {
            Command::READ if !self.is_in_parts(request) => self.read(request).await,
            Command::WRITE => self.write(request, buffer).await,
            _ => self.other(request).await,
        }
    }

    /// What is neither a plain read nor a write.
    async fn other(&self, request: &WireRequest) {
        match request.command {
            Command::READ => self.read_sparse(request).await,
            Command::BLOCK_STATUS => self.block_status(request),
            _ => self.rest(request).await,
        }
    }

    /// Answers a failure of the volume.
    pub(super) fn fail(&self, request: &WireRequest, error: &Error) {
        if error.kind() == ErrorKind::GivenUp {
            // The client is gone.
            return;
        }
        trouble!(
            "{}: {} of {} bytes at {} of volume {} failed: {error}",
            self.connection.peer,
            request.command.name(),
            request.length,
            request.offset,
            self.channel.volume().name()
        );
        self.connection.refuse(request.cookie, errno(error.kind()));
    }

    fn end(&self, request: &WireRequest, result: Result<(), Error>) {
        match result {
            Ok(()) => self.connection.done(request.cookie),
            Err(error) => self.fail(request, &error),
        }
    }

    async fn read(&self, request: &WireRequest) {
        if request.length == 0 {
            return self.connection.nothing_read(request.cookie);
        }
        let extent = Extent::new(request.offset, request.length.into());
        if let Some(data) = self.channel.lend(extent) {
            self.connection.traffic.prompt(Verb::Read, extent.length);
            return self.connection.send_data(request.cookie, request.offset, data);
        }
        let begun = self.connection.ring().turn_time();
        let read = self.fill(extent).await;
        self.count(Verb::Read, extent.length, begun, read.is_err());
        match read {
            Ok(data) => self.connection.send_data(request.cookie, request.offset, data),
            Err(error) => self.fail(request, &error),
        }
    }

    /// An operation has ended that began at `begun`.
    pub(super) fn count(&self, verb: Verb, bytes: u64, begun: Instant, failed: bool) {
        let connection = &self.connection;
        connection.traffic.done(verb, bytes, begun, connection.ring().turn_time(), failed);
    }

    /// The bytes of an extent, lent where that is possible.
    pub(super) async fn bytes(&self, extent: Extent) -> Result<Shared, Error> {
        match self.channel.lend(extent) {
            Some(data) => Ok(data),
            None => self.fill(extent).await,
        }
    }

    async fn fill(&self, extent: Extent) -> Result<Shared, Error> {
        let buffer = Buffer::new(extent.length as usize);
        let Completion { result, buffer } = self.channel.submit(Request::read(extent.offset, buffer)).await;
        result.map(|()| buffer.share())
    }

    async fn write(&self, request: &WireRequest, buffer: Buffer) {
        if buffer.is_empty() {
            return self.connection.done(request.cookie);
        }
        let write = Request::write(request.offset, buffer).with(durability(request.flags));
        let (bytes, begun) = (request.length.into(), self.connection.ring().turn_time());
        let Completion { result, .. } = self.channel.submit(write).await;
        self.count(Verb::Write, bytes, begun, result.is_err());
        self.end(request, result);
    }

    /// What moves no data.
    async fn rest(&self, request: &WireRequest) {
        let begun = self.connection.ring().turn_time();
        let result = match request.command {
            Command::FLUSH => self.channel.submit(Request::flush()).await.result,
            Command::TRIM => self.trim(request).await,
            Command::WRITE_ZEROES => self.write_zeroes(request).await,
            _ => self.cache(request).await,
        };
        if let Err(error) = &result
            && request.flags.contains(CommandFlags::FAST_ZERO)
            && error.kind() == ErrorKind::Unsupported
        {
            // Nothing has gone wrong: the client asked whether there is a fast way.
            return self.connection.refuse(request.cookie, errno(error.kind()));
        }
        if let Some(verb) = verb(request.command) {
            self.count(verb, request.length.into(), begun, result.is_err());
        }
        self.end(request, result);
    }

    async fn trim(&self, request: &WireRequest) -> Result<(), Error> {
        self.in_pieces(request, Verb::Discard, Flags::empty()).await?;
        if request.flags.contains(CommandFlags::FUA) && request.length > 0 {
            return self.channel.submit(Request::flush()).await.result;
        }
        Ok(())
    }

    async fn write_zeroes(&self, request: &WireRequest) -> Result<(), Error> {
        let mut flags = durability(request.flags);
        flags.set(Flags::MAY_UNMAP, !request.flags.contains(CommandFlags::NO_HOLE));
        flags.set(Flags::FAST, request.flags.contains(CommandFlags::FAST_ZERO));
        self.in_pieces(request, Verb::WriteZeroes, flags).await
    }

    /// Carries out a request without data, with a pause after each piece.
    async fn in_pieces(&self, request: &WireRequest, verb: Verb, flags: Flags) -> Result<(), Error> {
        let (mut at, end) = (request.offset, request.offset + u64::from(request.length));
        while at < end {
            let extent = Extent::new(at, (end - at).min(NBD_ZERO_BYTES));
            self.channel.submit(Request::plain(verb, extent).with(flags)).await.result?;
            at += extent.length;
            if at < end {
                self.connection.ring().next_turn().await;
            }
        }
        Ok(())
    }

    /// Reads what the page cache would keep; where there is none, nothing is to be gained.
    async fn cache(&self, request: &WireRequest) -> Result<(), Error> {
        if self.channel.volume().is_direct() != Some(false) {
            return Ok(());
        }
        let mut left = request.length as usize;
        let mut at = request.offset;
        let mut buffer = Buffer::new(left.min(FILL_BYTES));
        while left > 0 {
            buffer.set_len(left.min(FILL_BYTES));
            let completion = self.channel.submit(Request::read(at, buffer)).await;
            completion.result?;
            buffer = completion.buffer;
            left -= buffer.len();
            at += buffer.len() as u64;
        }
        Ok(())
    }
}

/// What a request that moves no data is among the operations of a client.
fn verb(command: Command) -> Option<Verb> {
    match command {
        Command::FLUSH => Some(Verb::Flush),
        Command::TRIM => Some(Verb::Discard),
        Command::WRITE_ZEROES => Some(Verb::WriteZeroes),
        _ => None,
    }
}

fn durability(flags: CommandFlags) -> Flags {
    if flags.contains(CommandFlags::FUA) { Flags::FUA } else { Flags::empty() }
}
