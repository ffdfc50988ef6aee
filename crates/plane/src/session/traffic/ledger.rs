//! What a core knows of its portals and initiators.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::guests::Guests;
use super::{LedgerFigures, Portal, PortalFigures, Spread, Traffic, VERBS, VerbCounts, add};
use crate::limits::PAST_INITIATORS;
use crate::shard::Shard;

/// What was settled of several connections, those that have ended too.
#[derive(Default)]
pub(super) struct Sum(Cell<VerbCounts>);

impl Sum {
    pub fn add(&self, counts: &VerbCounts) {
        let mut sum = self.0.get();
        add(&mut sum, counts);
        self.0.set(sum);
    }
}

/// What a core keeps of a portal.
pub(super) struct Book {
    pub portal: Arc<Portal>,
    /// Somebody may come by it yet.
    is_open: Cell<bool>,
    /// Connections that are there.
    connections: Cell<u64>,
    /// Operations of theirs that have not ended.
    pub in_flight: Cell<u64>,
    pub sum: Sum,
    /// Of all connections: how the times of their operations were spread.
    pub spreads: [Spread; VERBS],
}

impl Book {
    fn new(portal: &Arc<Portal>) -> Book {
        Book {
            portal: portal.clone(),
            is_open: Cell::new(true),
            connections: Cell::new(0),
            in_flight: Cell::new(0),
            sum: Sum::default(),
            spreads: Default::default(),
        }
    }

    fn figures(&self) -> PortalFigures {
        let counts = self.sum.0.get();
        PortalFigures {
            portal: (*self.portal).clone(),
            connections: self.connections.get(),
            in_flight: self.in_flight.get(),
            verbs: std::array::from_fn(|verb| self.spreads[verb].figures(counts[verb])),
        }
    }
}

/// Protocol and name.
type Initiator = (&'static str, Rc<str>);

/// What a core keeps of an initiator.
pub(super) struct Account {
    who: Initiator,
    /// Connections that are there.
    connections: Cell<u64>,
    pub sum: Sum,
}

/// What a core knows of portals and initiators.
#[derive(Default)]
pub struct Ledger {
    books: RefCell<Vec<Rc<Book>>>,
    accounts: RefCell<BTreeMap<Initiator, Rc<Account>>>,
    /// Accounts of initiators that have gone.
    past: Cell<usize>,
    /// Connections that are open, in the order in which they came.
    pub(super) open: RefCell<BTreeMap<u64, Weak<Traffic>>>,
    /// Those to which something came that is not settled.
    pub(super) stirred: RefCell<BTreeSet<u64>>,
    next: Cell<u64>,
    pub(super) guests: Guests,
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
        books.push(Rc::new(Book::new(portal)));
        books[books.len() - 1].clone()
    }

    /// A connection has come by a portal: `make` makes it of its number and the portal's book.
    pub(super) fn enter(
        &self,
        portal: &Arc<Portal>,
        make: impl FnOnce(u64, Rc<Book>) -> Traffic,
    ) -> Rc<Traffic> {
        let (number, book) = (self.next.get(), self.book(portal));
        self.next.set(number + 1);
        book.connections.set(book.connections.get() + 1);
        let traffic = Rc::new(make(number, book));
        self.open.borrow_mut().insert(number, Rc::downgrade(&traffic));
        traffic
    }

    /// A connection has gone, and has settled.
    pub(super) fn leave(&self, number: u64, book: &Book, account: Option<Rc<Account>>) {
        self.open.borrow_mut().remove(&number);
        self.stirred.borrow_mut().remove(&number);
        book.connections.set(book.connections.get() - 1);
        let Some(account) = account else { return };
        account.connections.set(account.connections.get() - 1);
        if account.connections.get() > 0 {
            return;
        }
        if account.sum.0.get() == VerbCounts::default() || self.past.get() >= PAST_INITIATORS {
            self.accounts.borrow_mut().remove(&account.who);
        } else {
            self.past.set(self.past.get() + 1);
        }
    }

    /// The account of an initiator for one connection more.
    pub(super) fn account(&self, protocol: &'static str, initiator: &str) -> Rc<Account> {
        let who = (protocol, Rc::from(initiator));
        let mut accounts = self.accounts.borrow_mut();
        if let Some(account) = accounts.get(&who) {
            if account.connections.get() == 0 {
                self.past.set(self.past.get() - 1);
            }
            account.connections.set(account.connections.get() + 1);
            return account.clone();
        }
        let account = Rc::new(Account { who: who.clone(), connections: Cell::new(1), sum: Sum::default() });
        accounts.insert(who, account.clone());
        account
    }

    /// Something came to a connection.
    pub(super) fn note_stirred(&self, number: u64) {
        self.stirred.borrow_mut().insert(number);
    }

    /// What is known on this core.
    pub fn figures(&self) -> LedgerFigures {
        for number in self.stirred.take() {
            let traffic = self.open.borrow().get(&number).and_then(Weak::upgrade);
            if let Some(traffic) = traffic {
                traffic.settle();
            }
        }
        let is_told = |book: &&Rc<Book>| book.is_open.get() || book.connections.get() > 0;
        let portals = self.books.borrow().iter().filter(is_told).map(|book| book.figures()).collect();
        let accounts = self.accounts.borrow();
        let told = |account: &Rc<Account>| {
            let (protocol, name) = &account.who;
            ((*protocol, name.to_string()), account.sum.0.get())
        };
        LedgerFigures { portals, initiators: accounts.values().map(told).collect() }
    }
}
