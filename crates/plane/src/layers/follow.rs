//! Requests that are followed: how long each was under way, and how much of that each level took for itself. A few at once; what a
//! request has to carry for it is the number of its slot.

use std::cell::{Cell, OnceCell};
use std::time::Duration;

use crate::buckets::{BUCKETS, bucket};
use crate::request::Flags;

/// Requests that are followed at once on a core, of one volume. One more goes its way unseen.
const SLOTS: usize = 16;
/// Where [`Flags::SLOT`] begins.
const SHIFT: u32 = Flags::SLOT.bits().trailing_zeros();

const _: () = assert!(SLOTS - 1 == (Flags::SLOT.bits() >> SHIFT) as usize);

/// What is known of followed requests that took about as long as each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    /// The bucket of their time.
    pub bucket: usize,
    /// How many they are.
    pub requests: u64,
    /// Nanoseconds that each level took for itself, of all of them together; top first, the disk last.
    pub own: Vec<u64>,
}

/// What is known of all that were followed, the quickest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed(pub Vec<Alike>);

/// The book of a stack.
#[derive(Default)]
pub(super) struct Book {
    /// A bit for each slot that is taken.
    taken: Cell<u16>,
    /// Made with the first request that is followed: most volumes are idle on most cores.
    pages: OnceCell<Pages>,
}

struct Pages {
    levels: usize,
    /// The time of the request of each slot at each level, all below it included.
    times: Box<[Cell<u64>]>,
    /// For each bucket how many requests there were, and the own time of each level.
    rows: Box<[Cell<u64>]>,
}

/// A slot, until the request has ended or was given up.
pub(super) struct Slot<'a> {
    book: &'a Book,
    number: usize,
}

impl Book {
    /// Takes a slot for a request through so many levels, if one is free.
    pub fn open(&self, levels: usize) -> Option<Slot<'_>> {
        let number = self.taken.get().trailing_ones() as usize;
        if number >= SLOTS {
            return None;
        }
        self.taken.set(self.taken.get() | 1 << number);
        let zeroes = |count| (0..count).map(|_| Cell::new(0)).collect();
        let pages = self.pages.get_or_init(|| Pages {
            levels,
            times: zeroes(SLOTS * levels),
            rows: zeroes(BUCKETS * (levels + 1)),
        });
        pages.of_slot(number).iter().for_each(|time| time.set(0));
        Some(Slot { book: self, number })
    }

    /// A request, by its flags, was so long at a level.
    pub fn add(&self, flags: Flags, level: usize, time: Duration) {
        let number = usize::from((flags & Flags::SLOT).bits() >> SHIFT);
        if let Some(cell) = self.pages.get().and_then(|pages| pages.of_slot(number).get(level)) {
            cell.set(cell.get() + nanoseconds(time));
        }
    }

    /// A copy.
    pub fn followed(&self) -> Followed {
        let Some(pages) = self.pages.get() else { return Followed::default() };
        let rows = pages.rows.chunks(pages.levels + 1).enumerate();
        let rows = rows.filter_map(|(bucket, row)| {
            let (requests, own) = row.split_first()?;
            let alike =
                || Alike { bucket, requests: requests.get(), own: own.iter().map(Cell::get).collect() };
            (requests.get() > 0).then(alike)
        });
        Followed(rows.collect())
    }
}

impl Pages {
    fn of_slot(&self, number: usize) -> &[Cell<u64>] {
        &self.times[number * self.levels..(number + 1) * self.levels]
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Slot<'_> {
    /// What the request carries.
    pub fn flags(&self) -> Flags {
        Flags::TRACED | Flags::from_bits_retain((self.number as u8) << SHIFT)
    }

    /// The request has ended after so long.
    pub fn end(self, time: Duration) {
        let Some(pages) = self.book.pages.get() else { return };
        let times = pages.of_slot(self.number);
        times[0].set(nanoseconds(time));
        let first = bucket(nanoseconds(time)) * (pages.levels + 1);
        let row = &pages.rows[first..=first + pages.levels];
        let add = |cell: &Cell<u64>, more: u64| cell.set(cell.get().wrapping_add(more));
        add(&row[0], 1);
        let below = times.iter().skip(1).map(Cell::get).chain([0]);
        for ((own, time), below) in row[1..].iter().zip(times).zip(below) {
            add(own, time.get().saturating_sub(below));
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.book.taken.set(self.book.taken.get() & !(1 << self.number));
    }
}

impl Followed {
    /// Adds what another core has of the same levels.
    pub fn add(&mut self, other: Followed) {
        for theirs in other.0 {
            match self.0.binary_search_by_key(&theirs.bucket, |alike| alike.bucket) {
                Ok(at) => {
                    let mine = &mut self.0[at];
                    mine.requests += theirs.requests;
                    mine.own.iter_mut().zip(theirs.own).for_each(|(mine, theirs)| *mine += theirs);
                }
                Err(at) => self.0.insert(at, theirs),
            }
        }
    }

    /// What came since `earlier`; all of it if that is not an earlier state of the same book.
    #[must_use]
    pub fn since(&self, earlier: &Followed) -> Followed {
        let before = |bucket| earlier.0.iter().find(|alike| alike.bucket == bucket);
        let later = |alike: &Alike| {
            let Some(before) = before(alike.bucket) else { return Some(alike.clone()) };
            let own = alike.own.iter().zip(&before.own).map(|(now, then)| now.checked_sub(*then));
            let own = own.collect::<Option<_>>()?;
            Some(Alike { requests: alike.requests.checked_sub(before.requests)?, own, ..*alike })
        };
        let is_gone = |alike: &Alike| !self.0.iter().any(|mine| mine.bucket == alike.bucket);
        if earlier.0.iter().any(is_gone) {
            return self.clone();
        }
        match self.0.iter().map(later).collect::<Option<Vec<_>>>() {
            Some(rows) => Followed(rows.into_iter().filter(|alike| alike.requests > 0).collect()),
            None => self.clone(),
        }
    }

    /// How many were followed.
    pub fn requests(&self) -> u64 {
        self.0.iter().map(|alike| alike.requests).sum()
    }

    /// The slowest of them: one of so many, and those that took about as long as the quickest among these.
    #[must_use]
    pub fn slowest(&self, one_of: u64) -> Followed {
        let wanted = self.requests().div_ceil(one_of.max(1));
        let mut seen = 0;
        let slow = self.0.iter().rev().take_while(|alike| {
            let before = seen;
            seen += alike.requests;
            before < wanted
        });
        let mut slow: Vec<_> = slow.cloned().collect();
        slow.reverse();
        Followed(slow)
    }

    /// The mean time that each level took for itself, top first; nothing when none was followed.
    pub fn means(&self) -> Vec<Duration> {
        let levels = self.0.first().map_or(0, |alike| alike.own.len());
        let own = |level| self.0.iter().filter_map(|alike| alike.own.get(level)).sum::<u64>();
        (0..levels).map(|level| Duration::from_nanos(own(level) / self.requests().max(1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Ten requests that the disk holds up, and one that the limit does.
    fn book() -> Book {
        let book = Book::default();
        for (whole, disk) in [(2, 2); 200].into_iter().chain([(100, 5), (2, 2)]) {
            let slot = book.open(2).unwrap();
            book.add(slot.flags(), 1, millis(disk));
            slot.end(millis(whole));
        }
        book
    }

    #[test]
    fn the_slowest_hundredth_may_have_another_cause() {
        let followed = book().followed();
        assert_eq!(followed.requests(), 202);
        let mean = followed.means();
        assert!(mean[1] > mean[0] * 3, "{mean:?}");
        // 202 / 100 are three: the slow one, and those of the next bucket.
        let one = followed.slowest(202);
        assert_eq!((one.requests(), one.means()), (1, vec![millis(95), millis(5)]));
        assert_eq!(followed.slowest(100).requests(), 202);
        assert_eq!(followed.slowest(1), followed);
        assert_eq!(Followed::default().slowest(100).means(), []);
    }

    #[test]
    fn who_is_given_up_gives_his_slot_back_and_counts_for_nothing() {
        let book = Book::default();
        let slots: Vec<_> = (0..SLOTS).map(|_| book.open(1).unwrap()).collect();
        let flags: std::collections::BTreeSet<u8> = slots.iter().map(|slot| slot.flags().bits()).collect();
        assert_eq!(flags.len(), SLOTS);
        assert!(book.open(1).is_none(), "one too many");
        drop(slots);
        assert!(book.open(1).is_some());
        assert_eq!(book.followed(), Followed::default());
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let book = book();
        let before = book.followed();
        assert_eq!(before.since(&before), Followed::default());
        book.open(2).unwrap().end(millis(1));
        let since = book.followed().since(&before);
        assert_eq!((since.requests(), since.means()), (1, vec![millis(1), millis(0)]));
        // Another book: everything is new.
        let other = Book::default();
        other.open(2).unwrap().end(millis(1));
        assert_eq!(other.followed().since(&before), other.followed());
        let mut sum = before.clone();
        sum.add(since);
        assert_eq!(sum, book.followed());
    }
}
