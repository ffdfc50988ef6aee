//! Watching a connection: an initiator that says nothing is asked; one that does not answer, does not take what is sent, or
//! does not send the data of its writes, is dead.

use std::cell::Cell;
use std::rc::Rc;

use ring::Instant;

use super::connection::Connection;
use super::session::Session;
use crate::limits::RECEIVE_STALL;
use crate::watch::Watched;

/// Watches a connection of a session.
pub struct Vigil {
    session: Rc<Session>,
    connection: Rc<Connection>,
    /// When the initiator was asked, until it has said something.
    asked: Cell<Option<Instant>>,
    tag: Cell<u32>,
}

impl Vigil {
    /// Nothing has been asked yet.
    pub fn new(session: &Rc<Session>, connection: &Rc<Connection>) -> Rc<Vigil> {
        let (session, connection) = (session.clone(), connection.clone());
        Rc::new(Vigil { session, connection, asked: Cell::new(None), tag: Cell::new(0) })
    }

    /// Whether the data that the initiator owes comes, pings or not. Gives when to ask again.
    fn due_of_data(&self, now: Instant) -> Result<Instant, Owing> {
        let connection = &self.connection;
        // It may not have been asked yet as long as something waits to be sent.
        if connection.outgoing.bytes() > 0 || !self.session.is_owed_data(connection) {
            return Ok(now + RECEIVE_STALL);
        }
        // A piece that is coming in slowly comes in.
        let is_coming = self.session.is_receiving_data(connection);
        let since = if is_coming { connection.last_received.get() } else { connection.data_due_since() };
        let due = since + RECEIVE_STALL;
        if now > due { Err(Owing) } else { Ok(due) }
    }

    fn ask(&self, now: Instant) {
        let tag = self.tag.get().wrapping_add(1) & 0x7fff_ffff;
        self.tag.set(tag);
        self.connection.ping.set(Some(tag));
        self.session.send_ping(&self.connection, tag);
        self.asked.set(Some(now));
    }
}

/// The peer does not send the data of its writes: the memory for it is kept from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it has not sent the data it was asked for for {} seconds", RECEIVE_STALL.as_secs())]
struct Owing;

impl Watched for Vigil {
    fn look(&self, now: Instant) -> Option<Instant> {
        let (connection, options) = (&self.connection, self.session.node.options);
        if connection.outgoing.is_closed() {
            return None;
        }
        let stalled = match connection.outgoing.stall(now) {
            Ok(due) => due,
            Err(stall) => {
                connection.close(stall.to_string());
                return None;
            }
        };
        let due_of_data = match self.due_of_data(now) {
            Ok(due) => due,
            Err(stall) => {
                connection.close(stall.to_string());
                return None;
            }
        };
        let last = connection.last_received.get();
        if self.asked.get().is_some_and(|since| last >= since) {
            self.asked.set(None);
        }
        let due = match self.asked.get() {
            Some(since) if now.since(since) > options.nop_timeout => {
                let seconds = now.since(last).as_secs_f32();
                connection
                    .close(format!("it has said nothing for {seconds:.0} seconds, not even to a NOP-In"));
                return None;
            }
            Some(since) => since + options.nop_timeout,
            None if now.since(last) > options.nop_interval => {
                self.ask(now);
                now + options.nop_timeout
            }
            None => last + options.nop_interval,
        };
        Some(due.min(stalled).min(due_of_data))
    }
}
