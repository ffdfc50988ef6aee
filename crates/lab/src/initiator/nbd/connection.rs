//! A connection in transmission: the table of requests, and what is sent.
//!
//! A cookie is the index of the request's slot with its generation above it.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::{Notify, Ring, Socket};
use wire::nbd::{Command, CommandFlags, Request};

use crate::initiator::error::{Cause, IoError};
use crate::initiator::send_queue::SendQueue;
use crate::initiator::table::{Connection, Pending, Slot, Table, Transfer};

/// Requests at once on one connection.
const MAX_SLOTS: usize = 16384;
/// How often overdue requests are looked for.
const WATCH: Duration = Duration::from_secs(1);
/// Pieces of one request: header and data.
const SEGMENTS: usize = 2;
/// How long the word that we are leaving may take.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct State {
    pub(super) table: Table<Command>,
    queue: SendQueue,
    lost: Option<Arc<str>>,
}

/// What tasks of a connection share.
pub(in crate::initiator) struct Inner {
    pub(super) socket: Socket,
    pub(super) ring: Ring,
    pub(super) state: RefCell<State>,
    outgoing: Notify,
    /// The sender waits for something to send.
    sender_idle: Cell<bool>,
    leaving: Cell<bool>,
}

/// The server broke the rules; the connection ends with this.
pub(super) type Violation = String;

impl State {
    /// The request of a cookie that came from the server.
    pub(super) fn slot(&mut self, cookie: u64) -> Result<&mut Slot<Command>, Violation> {
        let (index, generation) = (cookie as u32 as usize, (cookie >> 32) as u32);
        let slot = self.table.issued(index, generation);
        slot.ok_or_else(|| format!("it answered a request that is not there (cookie {cookie:#x})"))
    }

    /// Ends a request.
    pub(super) fn finish(&mut self, cookie: u64, result: Result<(), IoError>) {
        self.table.finish(cookie as u16, result.map(|()| 0));
    }
}

impl Connection for Inner {
    type Request = Command;

    fn table(&self) -> RefMut<'_, Table<Command>> {
        RefMut::map(self.state.borrow_mut(), |state| &mut state.table)
    }

    /// A server that moves less says that it failed.
    fn moved(slot: &Slot<Command>, _result: u64) -> usize {
        slot.expected + slot.data.len()
    }
}

impl Inner {
    /// Starts the tasks of a connection whose handshake is over.
    pub(super) fn start(ring: &Ring, socket: Socket, timeout: Duration) -> Rc<Inner> {
        let table = Table::new(MAX_SLOTS, u32::BITS, ring.now());
        let state = State { table, queue: SendQueue::new(), lost: None };
        let inner = Rc::new(Inner {
            socket,
            ring: ring.clone(),
            state: RefCell::new(state),
            outgoing: Notify::new(),
            sender_idle: Cell::new(false),
            leaving: Cell::new(false),
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
            let mut waiting = state.table.waiting();
            waiting.find(|slot| now.since(slot.since) > timeout).map(|slot| slot.request.name())
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
        state.table.fail(&Cause::Connection(reason.clone()).into());
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
    ) -> Pending<Inner> {
        let mut state = self.state.borrow_mut();
        let Some(index) = state.table.add(command, transfer, self.ring.turn_time()) else {
            return Pending::without_slot(self);
        };
        let generation = state.table.generation(index);
        if let Some(reason) = state.lost.clone() {
            state.table.finish(index, Err(Cause::Connection(reason).into()));
        } else {
            let cookie = u64::from(generation) << 32 | u64::from(index);
            let request = Request { flags, command, cookie, offset, length };
            let State { table, queue, .. } = &mut *state;
            let list = queue.list(SEGMENTS);
            list.push_bytes(&request.encode());
            let slot = table.issue(index);
            if !slot.data.is_empty() {
                list.push(slot.data.clone());
            }
            self.wake_sender();
        }
        Pending::new(self, index, generation)
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
        list.give_back();
        if let Err(error) = sent {
            return inner.fail(&format!("the connection broke while sending: {error}"));
        }
    }
}
