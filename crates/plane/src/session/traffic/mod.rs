//! What comes by connections. Each counts for itself, and settles its numbers with its portal and its initiator when somebody
//! asks for the sums, or when it ends: those that did nothing meanwhile are not touched.

mod figures;
mod guests;
mod ledger;
#[cfg(test)]
mod tests;

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use ring::Instant;

use crate::meter::{Counter, Counts, Spread, VERBS, nanoseconds};
use crate::request::Verb;
use crate::shard::Shard;

pub use figures::{LedgerFigures, PortalFigures};
pub use guests::{Guest, Venue};
pub use ledger::Ledger;

use ledger::{Account, Book};

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

/// What one connection asked for: plain numbers of its core.
pub struct Traffic {
    number: u64,
    ledger: Rc<Ledger>,
    book: Rc<Book>,
    account: OnceCell<Rc<Account>>,
    verbs: [Counter; VERBS],
    /// What of it is settled.
    settled: Cell<VerbCounts>,
    /// Something came that is not settled.
    stirred: Cell<bool>,
}

/// An operation that has not ended, until it is dropped.
pub struct Pending(Rc<Book>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
    }
}

impl Traffic {
    /// A connection of this core that came by a portal. It counts as open until the result is dropped.
    pub fn begin(shard: &Shard, portal: &Arc<Portal>) -> Rc<Traffic> {
        Traffic::of(&Ledger::of(shard), portal)
    }

    fn of(ledger: &Rc<Ledger>, portal: &Arc<Portal>) -> Rc<Traffic> {
        ledger.enter(portal, |number, book| Traffic {
            number,
            ledger: ledger.clone(),
            book,
            account: OnceCell::new(),
            verbs: Default::default(),
            settled: Cell::default(),
            stirred: Cell::new(false),
        })
    }

    /// It is known whose connection it is; said once.
    pub fn belongs_to(&self, initiator: &str) {
        self.account.get_or_init(|| {
            let account = self.ledger.account(self.book.portal.protocol, initiator);
            // What came before is his, too.
            account.sum.add(&self.settled.get());
            account
        });
    }

    /// An operation has begun that takes some time.
    pub fn pending(&self) -> Pending {
        self.book.in_flight.set(self.book.in_flight.get() + 1);
        Pending(self.book.clone())
    }

    /// An operation was done at once, without an error.
    pub fn prompt(&self, verb: Verb, bytes: u64) {
        self.verbs[verb as usize].prompt(bytes);
        self.stir();
    }

    /// An operation that began at `begun` has ended.
    pub fn done(&self, verb: Verb, bytes: u64, begun: Instant, now: Instant, failed: bool) {
        let nanoseconds = nanoseconds(begun, now);
        self.verbs[verb as usize].done(bytes, nanoseconds, failed);
        self.book.spreads[verb as usize].note(nanoseconds);
        self.stir();
    }

    /// A copy.
    pub fn counts(&self) -> VerbCounts {
        self.verbs.each_ref().map(Counter::counts)
    }

    #[inline]
    fn stir(&self) {
        if !self.stirred.get() {
            self.stir_up();
        }
    }

    #[cold]
    #[inline(never)]
    fn stir_up(&self) {
        self.stirred.set(true);
        self.ledger.note_stirred(self.number);
    }

    /// Adds what came since the last time to what its portal and its initiator did.
    fn settle(&self) {
        self.stirred.set(false);
        let counts = self.counts();
        let before = self.settled.replace(counts);
        let mut since = counts;
        for (since, before) in since.iter_mut().zip(before) {
            *since -= before;
        }
        self.book.sum.add(&since);
        if let Some(account) = self.account.get() {
            account.sum.add(&since);
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.settle();
        self.ledger.leave(self.number, &self.book, self.account.take());
    }
}
