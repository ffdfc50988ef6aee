//! What a pool that grows has more of, while all cores go on using what they have: nothing that is there ever moves.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::format::Geometry;

/// As often a pool can be grown until it is opened again.
pub(super) const MOST_GROWTHS: usize = 7;

/// A list that gets longer at its end, a few times.
pub(super) struct Grown<T> {
    parts: [OnceLock<Box<[T]>>; MOST_GROWTHS + 1],
}

impl<T: Default> Grown<T> {
    /// So many.
    pub(super) fn new(count: usize) -> Grown<T> {
        let grown = Grown { parts: std::array::from_fn(|_| OnceLock::new()) };
        grown.extend_to(count);
        grown
    }

    /// So many in all, unless there are more. One that has no room left stays as it is.
    pub(super) fn extend_to(&self, count: usize) {
        let more = count.saturating_sub(self.len());
        if let Some(part) = self.parts.iter().find(|part| part.get().is_none() && more > 0) {
            part.set((0..more).map(|_| T::default()).collect()).ok();
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().filter_map(OnceLock::get).map(|part| part.len()).sum()
    }

    /// The one at a place that has one.
    pub(super) fn at(&self, index: usize) -> &T {
        self.get(index).expect("a place that there is")
    }

    /// The one at a place.
    pub(super) fn get(&self, mut index: usize) -> Option<&T> {
        for part in &self.parts {
            let part = part.get()?;
            if let Some(found) = part.get(index) {
                return Some(found);
            }
            index -= part.len();
        }
        None
    }

    /// All from a place on.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = &T> {
        let mut skip = first;
        self.parts.iter().filter_map(OnceLock::get).flat_map(move |part| {
            let skipped = skip.min(part.len());
            skip -= skipped;
            &part[skipped..]
        })
    }
}

/// Where everything is now.
pub struct Current {
    versions: [OnceLock<Geometry>; MOST_GROWTHS + 1],
    last: AtomicUsize,
}

impl Current {
    pub(super) fn new(geometry: Geometry) -> Current {
        let versions = std::array::from_fn(|_| OnceLock::new());
        let current = Current { versions, last: AtomicUsize::new(0) };
        current.versions[0].set(geometry).ok();
        current
    }

    /// Whether there can be another one.
    pub(super) fn can_grow(&self) -> bool {
        self.last.load(Ordering::Acquire) < MOST_GROWTHS
    }

    /// From now on this is where everything is. Only one task may say so, after [`Current::can_grow`].
    pub(super) fn set(&self, geometry: Geometry) {
        let next = self.last.load(Ordering::Acquire) + 1;
        self.versions[next].set(geometry).ok();
        self.last.store(next, Ordering::Release);
    }
}

impl Deref for Current {
    type Target = Geometry;

    fn deref(&self) -> &Geometry {
        self.versions[self.last.load(Ordering::Acquire)].get().expect("set before it is the last one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_list_gets_longer_and_keeps_what_it_has() {
        let list = Grown::<AtomicU32>::new(3);
        let values = |first| list.from(first).map(|value| value.load(Ordering::Relaxed)).collect::<Vec<_>>();
        (0..3).for_each(|index| list.at(index).store(index as u32 + 1, Ordering::Relaxed));
        let third: *const AtomicU32 = list.at(2);
        list.extend_to(2);
        list.extend_to(3);
        list.extend_to(5);
        assert_eq!(values(0), [1, 2, 3, 0, 0]);
        list.at(4).store(9, Ordering::Relaxed);
        list.extend_to(6);
        assert_eq!((values(2), values(4), values(6)), (vec![3, 0, 9, 0], vec![9, 0], vec![]));
        assert!(std::ptr::eq(third, list.at(2)), "nothing moves");
        assert!(list.get(6).is_none());
        assert_eq!(list.len(), 6);
    }
}
