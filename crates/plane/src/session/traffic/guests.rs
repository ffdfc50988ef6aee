//! Who uses what: how many sessions each initiator has there. A session says so once, and nobody has to ask all of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Ledger;

/// Where a session is a guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Venue {
    /// At the volume of this place.
    Volume(usize),
    /// At the NVMe subsystem of this name, with all its volumes.
    Subsystem(Rc<str>),
}

/// Protocol, initiator and venue.
type Who = (&'static str, Rc<str>, Venue);

/// How many sessions use what on one core.
#[derive(Default)]
pub(super) struct Guests(RefCell<BTreeMap<Who, u64>>);

/// A session that uses something, until it is dropped.
pub struct Guest {
    ledger: Rc<Ledger>,
    who: Who,
}

impl Guest {
    /// A session of `initiator` at `venue`.
    pub fn enter(ledger: Rc<Ledger>, protocol: &'static str, initiator: &str, venue: Venue) -> Guest {
        let who = (protocol, Rc::from(initiator), venue);
        *ledger.guests.0.borrow_mut().entry(who.clone()).or_default() += 1;
        Guest { ledger, who }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut guests = self.ledger.guests.0.borrow_mut();
        let Some(sessions) = guests.get_mut(&self.who) else { return };
        *sessions -= 1;
        if *sessions == 0 {
            guests.remove(&self.who);
        }
    }
}

impl Ledger {
    /// Protocol, initiator, venue, and how many sessions: in this order.
    pub fn guests(&self) -> Vec<(&'static str, Rc<str>, Venue, u64)> {
        let guests = self.guests.0.borrow();
        guests
            .iter()
            .map(|((protocol, initiator, venue), sessions)| {
                (*protocol, initiator.clone(), venue.clone(), *sessions)
            })
            .collect()
    }
}
