//! The timers of one executor. Those that nobody waits for any more are taken away, so that a timeout per request
//! leaves nothing behind when the request is quicker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use crate::clock::Instant;

/// Dead entries that are left alone: taking them away costs more than keeping them.
const FEW: usize = 64;

/// Names a timer; worth nothing after its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerKey {
    slot: u32,
    generation: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    waker: Option<Waker>,
}

/// Ordered by deadline, then by age.
type Entry = (Instant, u64, u32, u32);

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    order: u64,
}

impl Timers {
    /// Wakes `waker` at `deadline`.
    pub(crate) fn add(&mut self, deadline: Instant, waker: Waker) -> TimerKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 timers")
        });
        let slot = &mut self.slots[index as usize];
        slot.waker = Some(waker);
        let generation = slot.generation;
        self.order += 1;
        self.heap.push(Reverse((deadline, self.order, index, generation)));
        TimerKey { slot: index, generation }
    }

    /// Wakes `waker` instead. False when the timer has ended.
    pub(crate) fn update(&mut self, key: TimerKey, waker: &Waker) -> bool {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation != key.generation {
            return false;
        }
        if let Some(old) = &mut slot.waker {
            old.clone_from(waker);
        }
        true
    }

    /// Takes a timer away, if it has not ended.
    pub(crate) fn remove(&mut self, key: TimerKey) {
        if self.slots[key.slot as usize].generation != key.generation {
            return;
        }
        self.end(key.slot);
        let live = self.slots.len() - self.free.len();
        if self.heap.len() > FEW + 2 * live {
            let slots = &self.slots;
            self.heap
                .retain(|Reverse((_, _, slot, generation))| slots[*slot as usize].generation == *generation);
        }
    }

    fn end(&mut self, index: u32) -> Option<Waker> {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        slot.waker.take()
    }

    /// The next timer that is due at `now`.
    #[inline]
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Waker> {
        if self.next_deadline()? > now {
            return None;
        }
        let Reverse((_, _, slot, _)) = self.heap.pop()?;
        self.end(slot)
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse((deadline, _, slot, generation))) = self.heap.peek() {
            if self.slots[*slot as usize].generation == *generation {
                return Some(*deadline);
            }
            self.heap.pop();
        }
        None
    }

    /// Ends all timers; wakes nobody.
    pub(crate) fn clear(&mut self) {
        while let Some(Reverse((_, _, slot, generation))) = self.heap.pop() {
            if self.slots[slot as usize].generation == generation {
                self.end(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanoseconds: u64) -> Instant {
        Instant::from_nanos(nanoseconds)
    }

    #[test]
    fn timers_end_in_order_and_removed_ones_never() {
        let mut timers = Timers::default();
        let keys: Vec<_> = [30, 10, 20, 10].map(|time| timers.add(at(time), Waker::noop().clone())).into();
        timers.remove(keys[1]);
        timers.remove(keys[1]);
        assert_eq!(timers.next_deadline(), Some(at(10)));
        assert!(timers.pop(at(9)).is_none());
        assert!(timers.pop(at(20)).is_some() && timers.pop(at(20)).is_some());
        assert!(timers.pop(at(20)).is_none());
        assert!(!timers.update(keys[2], Waker::noop()) && timers.update(keys[0], Waker::noop()));
        timers.clear();
        assert_eq!(timers.next_deadline(), None);
        assert!(!timers.update(keys[0], Waker::noop()));
    }

    #[test]
    fn a_timeout_per_request_leaves_nothing_behind() {
        let mut timers = Timers::default();
        let long = timers.add(at(1_000_000), Waker::noop().clone());
        for round in 0..100_000 {
            let key = timers.add(at(2_000_000 + round), Waker::noop().clone());
            timers.remove(key);
        }
        assert!(timers.heap.len() < 200 && timers.slots.len() < 200);
        assert_eq!(timers.next_deadline(), Some(at(1_000_000)));
        assert!(timers.update(long, Waker::noop()));
    }
}
