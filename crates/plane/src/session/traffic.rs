//! What comes by connections. Each counts for itself; a connection that ends leaves its numbers with its portal and with its
//! initiator, so that sums never lose anything.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use ring::Instant;

use crate::limits::PAST_INITIATORS;
use crate::meter::{Counter, Counts, Figures, Spread, VERBS, nanoseconds};
use crate::request::Verb;
use crate::shard::Shard;

/// An address on which the node listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Portal {
    /// `iscsi`, `nvme`, `nvme-discovery` or `nbd`.
    pub protocol: &'static str,
    /// An address with its port, or the path of a unix socket.
    pub address: String,
}

/// By [`Verb`].
pub type VerbCounts = [Counts; VERBS];

/// Adds what something else did.
pub(crate) fn add(mine: &mut VerbCounts, theirs: &VerbCounts) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += *theirs;
    }
}

/// What a core keeps of a portal.
struct Book {
    portal: Arc<Portal>,
    /// Somebody may come by it yet.
    is_open: Cell<bool>,
    /// Of connections that have ended.
    past: Cell<VerbCounts>,
    /// Of all connections: how the times of their operations were spread.
    spreads: [Spread; VERBS],
}

/// What one connection asked for: plain numbers of its core.
pub struct Traffic {
    number: u64,
    ledger: Rc<Ledger>,
    book: Rc<Book>,
    initiator: OnceCell<Rc<str>>,
    verbs: [Counter; VERBS],
}

impl Traffic {
    /// A connection of this core that came by a portal. It counts as open until the result is dropped.
    pub fn begin(shard: &Shard, portal: &Arc<Portal>) -> Rc<Traffic> {
        Traffic::of(&Ledger::of(shard), portal)
    }

    fn of(ledger: &Rc<Ledger>, portal: &Arc<Portal>) -> Rc<Traffic> {
        let (number, book) = (ledger.next.get(), ledger.book(portal));
        ledger.next.set(number + 1);
        let traffic = Rc::new(Traffic {
            number,
            ledger: ledger.clone(),
            book,
            initiator: OnceCell::new(),
            verbs: Default::default(),
        });
        ledger.open.borrow_mut().insert(number, Rc::downgrade(&traffic));
        traffic
    }

    /// It is known whose connection it is; said once.
    pub fn belongs_to(&self, initiator: &str) {
        self.initiator.get_or_init(|| initiator.into());
    }

    /// The portal by which it came.
    pub fn portal(&self) -> &Arc<Portal> {
        &self.book.portal
    }

    /// An operation was done at once, without an error.
    pub fn prompt(&self, verb: Verb, bytes: u64) {
        self.verbs[verb as usize].prompt(bytes);
    }

    /// An operation that began at `begun` has ended.
    pub fn done(&self, verb: Verb, bytes: u64, begun: Instant, now: Instant, failed: bool) {
        let nanoseconds = nanoseconds(begun, now);
        self.verbs[verb as usize].done(bytes, nanoseconds, failed);
        self.book.spreads[verb as usize].note(nanoseconds);
    }

    /// A copy.
    pub fn counts(&self) -> VerbCounts {
        self.verbs.each_ref().map(Counter::counts)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        let counts = self.counts();
        self.ledger.open.borrow_mut().remove(&self.number);
        let mut past = self.book.past.get();
        add(&mut past, &counts);
        self.book.past.set(past);
        if let Some(initiator) = self.initiator.get() {
            self.ledger.remember(self.book.portal.protocol, initiator, &counts);
        }
    }
}

/// What a core knows of portals and initiators.
#[derive(Default)]
pub struct Ledger {
    books: RefCell<Vec<Rc<Book>>>,
    /// Connections that are open, in the order in which they came.
    open: RefCell<BTreeMap<u64, Weak<Traffic>>>,
    /// What connections that have ended did, by protocol and initiator.
    past: RefCell<BTreeMap<(&'static str, Rc<str>), VerbCounts>>,
    next: Cell<u64>,
}

impl Ledger {
    /// The one of this core.
    pub fn of(shard: &Shard) -> Rc<Ledger> {
        shard.service::<Ledger>().unwrap_or_else(|| {
            let ledger = Rc::new(Ledger::default());
            shard.install(ledger.clone());
            ledger
        })
    }

    /// There is such a portal, whether anybody comes by it or not.
    pub fn know(&self, portal: &Arc<Portal>) {
        self.book(portal).is_open.set(true);
    }

    /// Nobody comes by a portal any more. It is told of for as long as there are connections that did.
    pub fn close(&self, portal: &Arc<Portal>) {
        self.book(portal).is_open.set(false);
    }

    /// There are as many as the configuration has.
    fn book(&self, portal: &Arc<Portal>) -> Rc<Book> {
        let mut books = self.books.borrow_mut();
        if let Some(book) = books.iter().find(|book| book.portal == *portal) {
            return book.clone();
        }
        let (past, spreads) = (Cell::default(), Default::default());
        books.push(Rc::new(Book { portal: portal.clone(), is_open: Cell::new(true), past, spreads }));
        books[books.len() - 1].clone()
    }

    fn remember(&self, protocol: &'static str, initiator: &Rc<str>, counts: &VerbCounts) {
        if *counts == VerbCounts::default() {
            return;
        }
        let mut past = self.past.borrow_mut();
        let has_room = past.len() < PAST_INITIATORS;
        match past.entry((protocol, initiator.clone())) {
            Entry::Occupied(mut known) => add(known.get_mut(), counts),
            Entry::Vacant(place) if has_room => drop(place.insert(*counts)),
            Entry::Vacant(_) => {}
        }
    }

    /// What is known on this core; what is in flight is known elsewhere.
    pub fn figures(&self) -> LedgerFigures {
        let open: Vec<Rc<Traffic>> = self.open.borrow().values().filter_map(Weak::upgrade).collect();
        let portal = |book: &Rc<Book>| {
            let its: Vec<_> = open.iter().filter(|traffic| Rc::ptr_eq(&traffic.book, book)).collect();
            let mut counts = book.past.get();
            for traffic in &its {
                add(&mut counts, &traffic.counts());
            }
            let verbs = std::array::from_fn(|verb| book.spreads[verb].figures(counts[verb]));
            let (portal, connections) = ((*book.portal).clone(), its.len() as u64);
            PortalFigures { portal, connections, in_flight: 0, verbs }
        };
        let is_told = |book: &&Rc<Book>| {
            book.is_open.get() || open.iter().any(|traffic| Rc::ptr_eq(&traffic.book, book))
        };
        let portals = self.books.borrow().iter().filter(is_told).map(portal).collect();
        let mut initiators: BTreeMap<_, _> =
            self.past.borrow().iter().map(|(who, counts)| (who.clone(), *counts)).collect();
        for traffic in &open {
            if let Some(initiator) = traffic.initiator.get() {
                let who = (traffic.book.portal.protocol, initiator.clone());
                add(initiators.entry(who).or_default(), &traffic.counts());
            }
        }
        let named = |((protocol, name), verbs): ((_, Rc<str>), _)| ((protocol, name.to_string()), verbs);
        LedgerFigures { portals, initiators: initiators.into_iter().map(named).collect() }
    }
}

/// What is known of a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalFigures {
    /// Which.
    pub portal: Portal,
    /// Connections that are open.
    pub connections: u64,
    /// Operations that have not ended.
    pub in_flight: u64,
    /// What came by it, by [`Verb`].
    pub verbs: Figures,
}

/// What is known of portals and initiators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFigures {
    /// In the order of the configuration.
    pub portals: Vec<PortalFigures>,
    /// What each initiator did, by protocol and name.
    pub initiators: BTreeMap<(&'static str, String), VerbCounts>,
}

impl LedgerFigures {
    /// So many operations that came by a portal have not ended.
    pub(crate) fn note_in_flight(&mut self, portal: &Portal, count: usize) {
        if let Some(figures) = self.portals.iter_mut().find(|figures| figures.portal == *portal) {
            figures.in_flight += count as u64;
        }
    }

    /// Adds what is known on another core.
    pub fn add(&mut self, other: LedgerFigures) {
        for theirs in other.portals {
            match self.portals.iter_mut().find(|mine| mine.portal == theirs.portal) {
                Some(mine) => {
                    mine.connections += theirs.connections;
                    mine.in_flight += theirs.in_flight;
                    crate::meter::add_figures(&mut mine.verbs, theirs.verbs);
                }
                None => self.portals.push(theirs),
            }
        }
        for (who, counts) in other.initiators {
            add(self.initiators.entry(who).or_default(), &counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection of a core that is no shard.
    fn connection(ledger: &Rc<Ledger>, portal: &Arc<Portal>, initiator: &str) -> Rc<Traffic> {
        let traffic = Traffic::of(ledger, portal);
        traffic.belongs_to(initiator);
        traffic
    }

    fn portal(address: &str) -> Arc<Portal> {
        Arc::new(Portal { protocol: "iscsi", address: address.to_owned() })
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn a_connection_that_ends_takes_nothing_with_it() {
        let ledger = Rc::new(Ledger::default());
        let (one, other) = (portal("one"), portal("other"));
        ledger.know(&one);
        ledger.know(&other);
        let (first, second) = (connection(&ledger, &one, "a"), connection(&ledger, &one, "a"));
        first.prompt(Verb::Read, 4096);
        second.done(Verb::Write, 512, at(0), at(50), false);
        second.done(Verb::Write, 512, at(0), at(70), true);
        let before = ledger.figures();
        let figures = &before.portals[0];
        assert_eq!((figures.connections, before.portals[1].connections), (2, 0));
        let [read, write] = [Verb::Read, Verb::Write].map(|verb| &figures.verbs[verb as usize]);
        assert_eq!((read.requests, read.bytes, write.requests, write.bytes), (1, 4096, 2, 512));
        assert_eq!(write.times.as_ref().unwrap().sum, 120_000);
        drop(second);
        let mut after = ledger.figures();
        assert_eq!((after.portals[0].connections, &after.initiators), (1, &before.initiators));
        after.portals[0].connections = 2;
        assert_eq!(after, before);
        let again = connection(&ledger, &other, "a");
        again.prompt(Verb::Read, 1);
        let who = ("iscsi", "a".to_owned());
        let read = ledger.figures().initiators[&who][Verb::Read as usize];
        assert_eq!((read.requests, read.bytes), (2, 4097), "of both portals");
    }

    #[test]
    fn a_portal_that_is_closed_is_told_of_until_the_last_one_has_gone() {
        let ledger = Rc::new(Ledger::default());
        let portal = portal("one");
        ledger.know(&portal);
        let last = connection(&ledger, &portal, "a");
        last.prompt(Verb::Read, 1);
        ledger.close(&portal);
        assert_eq!(ledger.figures().portals[0].connections, 1);
        drop(last);
        assert!(ledger.figures().portals.is_empty());
        ledger.know(&portal);
        assert_eq!(ledger.figures().portals[0].verbs[0].requests, 1, "opened again it goes on");
    }

    #[test]
    fn whoever_comes_and_goes_only_so_many_are_remembered() {
        let ledger = Rc::new(Ledger::default());
        let portal = portal("one");
        for number in 0..PAST_INITIATORS + 10 {
            // Who did nothing needs no room.
            drop(connection(&ledger, &portal, &format!("idle-{number}")));
            connection(&ledger, &portal, &format!("name-{number:05}")).prompt(Verb::Read, 1);
        }
        assert_eq!(ledger.figures().initiators.len(), PAST_INITIATORS);
        let read = ledger.figures().portals[0].verbs[Verb::Read as usize].requests;
        assert_eq!(read, PAST_INITIATORS as u64 + 10, "the portal forgets nobody");
        assert!(ledger.open.borrow().is_empty());
    }

    #[test]
    fn cores_are_added_up() {
        let portal = portal("one");
        let core = |requests: u64, initiator: &str| {
            let ledger = Rc::new(Ledger::default());
            let traffic = connection(&ledger, &portal, initiator);
            for _ in 0..requests {
                traffic.done(Verb::Write, 10, at(0), at(2), false);
            }
            ledger.figures()
        };
        let mut sum = core(3, "a");
        sum.add(core(4, "b"));
        sum.add(core(5, "a"));
        let write = &sum.portals[0].verbs[Verb::Write as usize];
        assert_eq!((sum.portals.len(), write.requests, write.bytes), (1, 12, 120));
        assert_eq!(write.times.as_ref().unwrap().buckets.iter().sum::<u64>(), 12);
        let counts: Vec<_> = sum.initiators.values().map(|verbs| verbs[1].requests).collect();
        assert_eq!(counts, [8, 4]);
    }
}
