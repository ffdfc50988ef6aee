//! What a connection sends: frames gather in lists while a send is under way, and go out together.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;

use ring::{Instant, MAX_SEGMENTS, Notify, Ring, SendList, Socket};

use crate::limits::SEND_STALL;

/// Bytes of one send at which another list is begun, so that memory returns step by step.
const LIST_BYTES: usize = 1 << 20;

/// The peer takes nothing of what is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it has not taken what is sent for {} seconds", SEND_STALL.as_secs())]
pub struct Stalled;

/// The sending half of a connection.
#[derive(Default)]
pub struct Outgoing {
    lists: RefCell<VecDeque<Box<SendList>>>,
    bytes: Cell<usize>,
    /// Bytes that are being made and will be appended.
    promised: Cell<usize>,
    /// When the send under way began.
    since: Cell<Option<Instant>>,
    closed: Cell<bool>,
    changed: Notify,
    drained: Notify,
}

impl Outgoing {
    /// Appends one frame of at most `segments` pieces. What is appended after [`Outgoing::close`] is forgotten.
    pub fn push(&self, segments: usize, write: impl FnOnce(&mut SendList)) {
        if self.closed.get() {
            return;
        }
        let mut lists = self.lists.borrow_mut();
        let room = |list: &SendList| list.segments() + segments <= MAX_SEGMENTS && list.len() < LIST_BYTES;
        if !lists.back().is_some_and(|list| room(list)) {
            lists.push_back(SendList::new());
        }
        if let Some(list) = lists.back_mut() {
            let before = list.len();
            write(list);
            self.bytes.set(self.bytes.get() + list.len() - before);
        }
        drop(lists);
        self.changed.notify();
    }

    /// Bytes appended and not sent yet.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Whether the peer takes what is sent. Gives when to ask again.
    pub fn stall(&self, now: Instant) -> Result<Instant, Stalled> {
        match self.since.get() {
            Some(since) if now.since(since) > SEND_STALL => Err(Stalled),
            Some(since) => Ok(since + SEND_STALL),
            None => Ok(now + SEND_STALL),
        }
    }

    /// Whether less than `limit` bytes wait to be sent or are promised.
    pub fn has_room(&self, limit: usize) -> bool {
        self.bytes.get() + self.promised.get() < limit
    }

    /// Waits until less than `limit` bytes wait to be sent, or the connection is closed.
    pub async fn below(&self, limit: usize) {
        self.drained.until(|| (self.bytes.get() < limit || self.closed.get()).then_some(())).await;
    }

    /// Waits until less than `limit` bytes wait to be sent or are promised, or the connection is closed; then promises
    /// `bytes` more, until the result is dropped.
    pub async fn promise(&self, bytes: usize, limit: usize) -> Promise<'_> {
        let room = || self.has_room(limit) || self.closed.get();
        self.drained.until(|| room().then(|| self.promised.set(self.promised.get() + bytes))).await;
        Promise { outgoing: self, bytes }
    }

    /// Ends [`Outgoing::run`] and every wait.
    pub fn close(&self) {
        self.closed.set(true);
        self.changed.notify();
        self.drained.notify();
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Sends what is appended until the connection is closed or breaks.
    pub async fn run(&self, ring: &Ring, socket: &Socket) -> io::Result<()> {
        loop {
            let next = || {
                if self.closed.get() {
                    return Some(None);
                }
                self.lists.borrow_mut().pop_front().map(Some)
            };
            let Some(list) = self.changed.until(next).await else { return Ok(()) };
            let length = list.len();
            self.since.set(Some(ring.recent_time()));
            let (sent, list) = socket.send(list).await;
            self.since.set(None);
            self.bytes.set(self.bytes.get() - length);
            list.give_back();
            self.drained.notify();
            sent?;
        }
    }
}

/// Bytes that will be appended.
pub struct Promise<'a> {
    outgoing: &'a Outgoing,
    bytes: usize,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.outgoing.promised.set(self.outgoing.promised.get() - self.bytes);
        self.outgoing.drained.notify();
    }
}
