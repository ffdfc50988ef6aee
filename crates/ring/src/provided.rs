//! Receive buffers that the kernel picks from: an idle connection holds none.
//!
//! It takes them in turn, so that each is filled again when all others have been. Few go round, which stay in the
//! processor's cache; who finds none sends one more round, unless it has filled those that did, and now and then one is kept
//! back.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::{Submitter, types::BufRingEntry};

use crate::calls;
use crate::uring::checked;

/// The only group of a ring.
pub(crate) const GROUP: u16 = 0;
const PAGE: usize = 4096;
/// Where the flags of a completion name a buffer (`IORING_CQE_F_BUFFER`, `IORING_CQE_BUFFER_SHIFT`).
const HAS_BUFFER: u32 = 1;
const BUFFER_SHIFT: u32 = 16;
/// Buffers that go round at least.
const FEW: u16 = 8;
/// Of so many buffers one may be held by who waits for more bytes.
const HELD_LONGER: u32 = 4;
/// Of so many that come back, one is kept back while more than [`FEW`] go round.
const KEPT_BACK: u32 = 1024;

/// A ring of `count` buffers of `size` bytes, registered with one io_uring.
pub(crate) struct Provided {
    entries: NonNull<BufRingEntry>,
    data: NonNull<u8>,
    count: u16,
    size: usize,
    tail: Cell<u16>,
    /// Those that do not go round; the last one was used last.
    spare: RefCell<Vec<u16>>,
    /// How many came back since one was kept back.
    back: Cell<u32>,
    /// How many of the spare ones are in use: so many come back to them.
    borrowed: Cell<u32>,
    /// Buffers with bytes that somebody still has.
    held: Cell<u32>,
}

impl Provided {
    /// `count` is a power of two up to 32768.
    pub(crate) fn register(submitter: &Submitter<'_>, count: u16, size: usize) -> io::Result<Provided> {
        assert!(count.is_power_of_two() && count <= 32768);
        let provided = Provided {
            entries: allocate(Self::entries_layout(count)).cast(),
            data: allocate(Self::data_layout(count, size)),
            count,
            size,
            tail: Cell::new(0),
            spare: RefCell::new((FEW.min(count)..count).rev().collect()),
            back: Cell::new(0),
            borrowed: Cell::new(0),
            held: Cell::new(0),
        };
        // SAFETY: page-aligned zeroed memory for `count` entries that lives until the io_uring is closed: the
        // driver drops its io_uring first.
        unsafe {
            submitter.register_buf_ring_with_flags(provided.entries.as_ptr() as u64, count, GROUP, 0)?;
        }
        for id in 0..FEW.min(count) {
            provided.hand_over(id);
        }
        Ok(provided)
    }

    fn entries_layout(count: u16) -> Layout {
        Layout::from_size_align(count as usize * size_of::<BufRingEntry>(), PAGE).expect("a small layout")
    }

    fn data_layout(count: u16, size: usize) -> Layout {
        Layout::from_size_align(count as usize * size, PAGE).expect("a bounded layout")
    }

    /// A buffer with bytes goes to somebody, who gives it back by [`Provided::give`].
    pub(crate) fn hold(&self) {
        self.held.set(self.held.get() + 1);
    }

    /// Whether so few buffers are held that some can be for longer.
    pub(crate) fn has_plenty(&self) -> bool {
        self.held.get() * HELD_LONGER < u32::from(self.count)
    }

    /// Buffer `id` is not needed any more.
    pub(crate) fn give(&self, id: u16) {
        self.held.set(self.held.get() - 1);
        if self.borrowed.get() > 0 {
            self.borrowed.set(self.borrowed.get() - 1);
            return self.spare.borrow_mut().push(id);
        }
        self.back.set(self.back.get() + 1);
        if self.back.get() >= KEPT_BACK {
            self.back.set(0);
            let mut spare = self.spare.borrow_mut();
            if spare.len() < usize::from(self.count.saturating_sub(FEW)) {
                return spare.push(id);
            }
        }
        self.hand_over(id);
    }

    /// Whether a buffer has no room beside so many bytes.
    pub(crate) fn is_filled_by(&self, bytes: usize) -> bool {
        bytes >= self.size
    }

    /// A receive found no buffer: one more goes round. False when all do.
    pub(crate) fn widen(&self) -> bool {
        let spare = self.spare.borrow_mut().pop();
        spare.inspect(|&id| self.hand_over(id)).is_some()
    }

    /// Whether [`Provided::receive`] has a buffer.
    pub(crate) fn has_spare(&self) -> bool {
        !self.spare.borrow().is_empty()
    }

    /// Receives what has come, without the kernel's ring and without waiting, into a spare buffer; none when there is none.
    /// Gives the count and the flags that name the buffer as a completion does, or an errno.
    pub(crate) fn receive(&self, descriptor: RawFd) -> Option<Result<(i32, u32), i32>> {
        let mut spare = self.spare.borrow_mut();
        let id = *spare.last()?;
        // SAFETY: within the allocation, and a spare buffer is nobody's.
        let count = checked(unsafe {
            let into = self.data.as_ptr().add(id as usize * self.size);
            calls::recv(descriptor, into, self.size, libc::MSG_DONTWAIT)
        } as i32);
        if count.as_ref().is_ok_and(|count| *count > 0) {
            spare.pop();
            self.borrowed.set(self.borrowed.get() + 1);
        }
        let named = |count| (count, HAS_BUFFER | u32::from(id) << BUFFER_SHIFT);
        Some(count.map(named).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Hands buffer `id` to the kernel.
    fn hand_over(&self, id: u16) {
        let tail = self.tail.get();
        let index = (tail & (self.count - 1)) as usize;
        // SAFETY: `index` lies within the ring; the kernel reads an entry only after the tail has passed it.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(index);
            entry.set_addr(self.data.as_ptr().add(id as usize * self.size) as u64);
            entry.set_len(self.size as u32);
            entry.set_bid(id);
        }
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: the tail overlays a field of the first entry, aligned for u16; shared with the kernel only.
        let shared = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) };
        shared.store(self.tail.get(), Ordering::Release);
    }

    /// The bytes of buffer `id`, which the kernel has filled and not got back yet.
    pub(crate) fn bytes(&self, id: u16, length: usize) -> &[u8] {
        assert!(id < self.count && length <= self.size);
        // SAFETY: within the allocation, initialised; the kernel does not write until `give`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr().add(id as usize * self.size), length) }
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        // SAFETY: allocated with these layouts; chunks and driver, the only users, hold this by `Rc`.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), Self::entries_layout(self.count));
            dealloc(self.data.as_ptr(), Self::data_layout(self.count, self.size));
        }
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: callers pass no empty layout.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::IoUring;

    fn spare(provided: &Provided) -> usize {
        provided.spare.borrow().len()
    }

    fn take_and_give(provided: &Provided, id: u16) {
        provided.hold();
        provided.give(id);
    }

    #[test]
    fn few_go_round_and_as_many_more_as_are_needed() {
        let kernel = IoUring::new(4).unwrap();
        let provided = Provided::register(&kernel.submitter(), 16, 4096).unwrap();
        assert_eq!((provided.tail.get(), spare(&provided)), (FEW, 8));
        assert!((0..8).all(|_| provided.widen()) && !provided.widen());
        assert_eq!((provided.tail.get(), spare(&provided)), (16, 0));
        // Those that are kept back are no loss: one of many that come back, until few go round again.
        (0..KEPT_BACK * 20).for_each(|turn| take_and_give(&provided, turn as u16 % 16));
        assert_eq!(spare(&provided), 8);
        assert_eq!(u32::from(provided.tail.get()), 16 + KEPT_BACK * 20 - 8);
    }

    #[test]
    fn a_ring_of_fewer_has_them_all_go_round() {
        let kernel = IoUring::new(4).unwrap();
        let provided = Provided::register(&kernel.submitter(), 4, 4096).unwrap();
        assert_eq!((provided.tail.get(), provided.widen()), (4, false));
        (0..KEPT_BACK * 2).for_each(|turn| take_and_give(&provided, turn as u16 % 4));
        assert_eq!(spare(&provided), 0);
    }
}
