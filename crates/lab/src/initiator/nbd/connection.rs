//! A connection in transmission: the table of requests, and what is sent.
//!
//! A request is a slot; its cookie is the slot's index and generation, so that an answer finds it without a search.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ring::{Buffer, Instant, Notify, Ring, Shared, Socket};
use wire::nbd::{Command, CommandFlags, Request};

use crate::initiator::IoError;
use crate::initiator::send_queue::SendQueue;

/// Requests at once on one connection.
const MAX_SLOTS: usize = 16384;
/// How often overdue requests are looked for.
const WATCH: Duration = Duration::from_secs(1);
/// Pieces of one request: header and data.
const SEGMENTS: usize = 2;
/// How long the word that we are leaving may take.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

/// What a request moves.
pub(super) enum Transfer {
    Nothing,
    /// From the server, as much as the buffer holds.
    In(Buffer),
    /// To the server.
    Out(Shared),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Free,
    Sent,
    Done,
}

pub(super) struct Slot {
    generation: u32,
    stage: Stage,
    /// Nobody waits for the result any more.
    abandoned: bool,
    waker: Option<Waker>,
    since: Instant,
    command: Command,
    pub(super) buffer: Buffer,
    result: Result<(), IoError>,
}

pub(super) struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: SendQueue,
    lost: Option<Arc<str>>,
}

/// What tasks of a connection share.
pub(super) struct Inner {
    pub(super) socket: Socket,
    ring: Ring,
    pub(super) state: RefCell<State>,
    outgoing: Notify,
    /// The sender waits for something to send.
    sender_idle: Cell<bool>,
    leaving: Cell<bool>,
    /// Data of reads is not put into their buffers: nobody looks at it.
    pub(super) forgets: Cell<bool>,
}

/// How a request ended.
pub(super) struct Finished {
    pub(super) result: Result<(), IoError>,
    /// The buffer of [`Transfer::In`].
    pub(super) buffer: Buffer,
}

/// A request that was sent.
pub(super) struct Pending {
    inner: Rc<Inner>,
    index: u32,
    over: bool,
}

/// The server broke the rules; the connection ends with this.
pub(super) type Violation = String;

impl State {
    /// The request of a cookie that came from the server.
    pub(super) fn slot(&mut self, cookie: u64) -> Result<&mut Slot, Violation> {
        let (index, generation) = (cookie as u32, (cookie >> 32) as u32);
        let slot = self.slots.get_mut(index as usize);
        let slot = slot.filter(|slot| slot.stage == Stage::Sent && slot.generation == generation);
        slot.ok_or_else(|| format!("it answered a request that is not there (cookie {cookie:#x})"))
    }

    fn allocate(&mut self, command: Command, buffer: Buffer, now: Instant) -> Option<u32> {
        let fresh = Slot {
            generation: 0,
            stage: Stage::Sent,
            abandoned: false,
            waker: None,
            since: now,
            command,
            buffer,
            result: Ok(()),
        };
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            *slot = Slot { generation: slot.generation.wrapping_add(1), ..fresh };
            return Some(index);
        }
        if self.slots.len() >= MAX_SLOTS {
            return None;
        }
        self.slots.push(fresh);
        Some((self.slots.len() - 1) as u32)
    }

    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.stage = Stage::Free;
        slot.buffer = Buffer::empty();
        self.free.push(index);
    }

    /// Ends a request.
    pub(super) fn finish(&mut self, index: u32, result: Result<(), IoError>) {
        let slot = &mut self.slots[index as usize];
        slot.stage = Stage::Done;
        slot.result = result;
        if slot.abandoned {
            self.release(index);
        } else if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl Inner {
    /// Starts the tasks of a connection whose handshake is over.
    pub(super) fn start(ring: &Ring, socket: Socket, timeout: Duration) -> Rc<Inner> {
        let state = State { slots: Vec::new(), free: Vec::new(), queue: SendQueue::new(), lost: None };
        let inner = Rc::new(Inner {
            socket,
            ring: ring.clone(),
            state: RefCell::new(state),
            outgoing: Notify::new(),
            sender_idle: Cell::new(false),
            leaving: Cell::new(false),
            forgets: Cell::new(false),
        });
        ring.spawn_later(send(inner.clone()));
        ring.spawn_later(super::receive::receive(inner.clone()));
        let (watched, clock) = (Rc::downgrade(&inner), ring.clone());
        ring.spawn_later(async move {
            loop {
                clock.sleep(WATCH).await;
                let Some(inner) = watched.upgrade() else { return };
                if inner.lost().is_some() {
                    return;
                }
                inner.give_up_overdue(timeout);
            }
        });
        inner
    }

    fn give_up_overdue(&self, timeout: Duration) {
        let now = self.ring.now();
        let overdue = {
            let state = self.state.borrow();
            let mut sent = state.slots.iter().filter(|slot| slot.stage == Stage::Sent);
            sent.find(|slot| now.since(slot.since) > timeout).map(|slot| slot.command.name())
        };
        if let Some(name) = overdue {
            let seconds = timeout.as_secs();
            self.fail(&format!("{name} was not answered within {seconds} s; the connection was given up"));
        }
    }

    /// Ends the connection and every request on it.
    pub(super) fn fail(&self, reason: &str) {
        let mut state = self.state.borrow_mut();
        if state.lost.is_some() {
            return;
        }
        let reason: Arc<str> = reason.into();
        state.lost = Some(reason.clone());
        for index in 0..state.slots.len() {
            if state.slots[index].stage == Stage::Sent {
                state.finish(index as u32, Err(IoError::Connection(reason.clone())));
            }
        }
        drop(state);
        self.socket.shutdown();
        self.outgoing.notify();
    }

    /// Why the connection is gone, if it is.
    pub(super) fn lost(&self) -> Option<Arc<str>> {
        self.state.borrow().lost.clone()
    }

    /// Whether the end of the connection is ours to cause.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// Sends a request.
    pub(super) fn request(
        self: &Rc<Self>,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u32,
        transfer: Transfer,
    ) -> Pending {
        let mut state = self.state.borrow_mut();
        let (buffer, data) = match transfer {
            Transfer::Nothing => (Buffer::empty(), None),
            Transfer::In(buffer) => (buffer, None),
            Transfer::Out(data) => (Buffer::empty(), Some(data)),
        };
        let Some(index) = state.allocate(command, buffer, self.ring.turn_time()) else {
            return Pending { inner: self.clone(), index: 0, over: true };
        };
        if let Some(reason) = state.lost.clone() {
            state.finish(index, Err(IoError::Connection(reason)));
        } else {
            let generation = state.slots[index as usize].generation;
            let cookie = u64::from(generation) << 32 | u64::from(index);
            let request = Request { flags, command, cookie, offset, length };
            let list = state.queue.list(SEGMENTS);
            list.push_bytes(&request.encode());
            if let Some(data) = data {
                list.push(data);
            }
            self.wake_sender();
        }
        Pending { inner: self.clone(), index, over: false }
    }

    fn wake_sender(&self) {
        if self.sender_idle.replace(false) {
            self.outgoing.notify();
        }
    }

    /// `NBD_CMD_DISC`, and the end.
    pub(super) async fn leave(&self) {
        if self.lost().is_none() {
            self.leaving.set(true);
            let request = Request {
                flags: CommandFlags::empty(),
                command: Command::DISC,
                cookie: 0,
                offset: 0,
                length: 0,
            };
            self.state.borrow_mut().queue.list(1).push_bytes(&request.encode());
            self.wake_sender();
            // The server closes; until then what was sent is under way.
            let gone = self.outgoing.until(|| self.lost().map(drop));
            self.ring.timeout(LEAVE_PATIENCE, gone).await;
        }
        self.fail("the session was closed");
    }
}

/// Sends what gathers in the queue, until the connection is gone.
async fn send(inner: Rc<Inner>) {
    loop {
        let next = inner.outgoing.until(|| {
            let mut state = inner.state.borrow_mut();
            if state.lost.is_some() {
                return Some(None);
            }
            let list = state.queue.take();
            inner.sender_idle.set(list.is_none());
            list.map(Some)
        });
        let Some(list) = next.await else { return };
        let (sent, list) = inner.socket.send(list).await;
        inner.state.borrow_mut().queue.give(list);
        if let Err(error) = sent {
            return inner.fail(&format!("the connection broke while sending: {error}"));
        }
    }
}

impl Future for Pending {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        if self.over {
            let result = Err(IoError::Unsupported("more than 16384 requests at once"));
            return Poll::Ready(Finished { result, buffer: Buffer::empty() });
        }
        let finished = {
            let mut state = self.inner.state.borrow_mut();
            let slot = &mut state.slots[self.index as usize];
            if slot.stage != Stage::Done {
                slot.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            let result = std::mem::replace(&mut slot.result, Ok(()));
            let buffer = std::mem::take(&mut slot.buffer);
            state.release(self.index);
            Finished { result, buffer }
        };
        self.over = true;
        Poll::Ready(finished)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut state = self.inner.state.borrow_mut();
        let slot = &mut state.slots[self.index as usize];
        if slot.stage == Stage::Done {
            state.release(self.index);
        } else {
            slot.abandoned = true;
        }
    }
}
