//! Watching a connection: an initiator that says nothing is asked, one that does not answer or does not take what is
//! sent is dead.

use std::cell::Cell;
use std::rc::Rc;

use ring::Instant;

use super::connection::Connection;
use super::session::Session;
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

    fn ask(&self, now: Instant) {
        let tag = self.tag.get().wrapping_add(1) & 0x7fff_ffff;
        self.tag.set(tag);
        self.connection.ping.set(Some(tag));
        self.session.send_ping(&self.connection, tag);
        self.asked.set(Some(now));
    }
}

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
        Some(due.min(stalled))
    }
}
