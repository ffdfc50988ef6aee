//! What the server sends: replies out of the received bytes, data straight into the buffers of their requests.

use std::io;
use std::rc::Rc;

use wire::nbd::{Errno, SIMPLE_REPLY_LENGTH, SimpleReply};

use super::connection::{Inner, Violation};
use crate::initiator::error::Cause;
use crate::initiator::receive::{self, Intake};

/// From this many missing bytes on, a receive goes straight into the request's buffer: below, one receive that brings
/// several replies is cheaper.
const DIRECT: usize = 16 << 10;

struct Receiver {
    inner: Rc<Inner>,
    header: [u8; SIMPLE_REPLY_LENGTH],
    /// Bytes in `header`.
    have: usize,
    /// The read whose data comes, and how much of it has.
    data: Option<(u64, usize)>,
}

/// Receives until the connection is gone.
pub(super) async fn receive(inner: Rc<Inner>) {
    let mut receiver =
        Receiver { inner: inner.clone(), header: [0; SIMPLE_REPLY_LENGTH], have: 0, data: None };
    let reason = receive::receive(inner.socket.clone(), &[], &mut receiver).await;
    inner.fail(&reason);
}

impl Intake for Receiver {
    const PEER: &'static str = "server";

    fn is_leaving(&self) -> bool {
        self.inner.is_leaving()
    }

    fn take_in(&mut self, mut bytes: &[u8]) -> Result<u32, Violation> {
        self.inner.state.borrow_mut().table.heard = self.inner.ring.turn_time();
        let mut ended = 0;
        while !bytes.is_empty() {
            ended += u32::from(self.data.is_none());
            bytes = match self.data {
                None => self.take_header(bytes)?,
                Some((cookie, done)) => self.take_data(cookie, done, bytes)?,
            };
        }
        Ok(ended)
    }

    fn is_direct(&self) -> Result<bool, Violation> {
        Ok(self.direct()?.is_some())
    }

    async fn receive_direct(&mut self) -> Result<io::Result<usize>, Violation> {
        let Some((cookie, done)) = self.direct()? else { return Ok(Ok(0)) };
        let buffer = std::mem::take(&mut self.inner.state.borrow_mut().slot(cookie)?.buffer);
        let end = buffer.len();
        let (received, buffer) = self.inner.socket.receive_range(buffer, done..end).await;
        self.inner.state.borrow_mut().table.heard = self.inner.ring.turn_time();
        let mut state = self.inner.state.borrow_mut();
        state.slot(cookie)?.buffer = buffer;
        let count = *received.as_ref().unwrap_or(&0);
        self.data = (done + count < end).then_some((cookie, done + count));
        if self.data.is_none() {
            state.finish(cookie, Ok(()));
        }
        Ok(received)
    }
}

impl Receiver {
    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        if self.have == 0
            && let Some((header, rest)) = bytes.split_first_chunk::<SIMPLE_REPLY_LENGTH>()
        {
            self.begin(*header)?;
            return Ok(rest);
        }
        let count = (SIMPLE_REPLY_LENGTH - self.have).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        self.header[self.have..self.have + count].copy_from_slice(taken);
        self.have += count;
        if self.have == SIMPLE_REPLY_LENGTH {
            self.have = 0;
            self.begin(self.header)?;
        }
        Ok(rest)
    }

    /// A header is complete.
    fn begin(&mut self, header: [u8; SIMPLE_REPLY_LENGTH]) -> Result<(), Violation> {
        let reply = SimpleReply::decode(&header).map_err(|error| error.to_string())?;
        let mut state = self.inner.state.borrow_mut();
        let slot = state.slot(reply.cookie)?;
        if reply.error != Errno::OK {
            state.finish(reply.cookie, Err(Cause::Nbd(reply.error).into()));
        } else if slot.expected == 0 {
            state.finish(reply.cookie, Ok(()));
        } else {
            self.data = Some((reply.cookie, 0));
        }
        Ok(())
    }

    fn take_data<'a>(&mut self, cookie: u64, done: usize, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        let mut state = self.inner.state.borrow_mut();
        let slot = state.slot(cookie)?;
        let count = (slot.expected - done).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        if slot.is_seen() {
            slot.buffer[done..done + count].copy_from_slice(taken);
        }
        let complete = done + count == slot.expected;
        self.data = if complete { None } else { Some((cookie, done + count)) };
        if complete {
            state.finish(cookie, Ok(()));
        }
        Ok(rest)
    }

    /// The request whose data is to be received directly, and how much of that has come.
    fn direct(&self) -> Result<Option<(u64, usize)>, Violation> {
        let Some((cookie, done)) = self.data else { return Ok(None) };
        let mut state = self.inner.state.borrow_mut();
        let slot = state.slot(cookie)?;
        Ok((slot.is_seen() && slot.expected - done >= DIRECT).then_some((cookie, done)))
    }
}
