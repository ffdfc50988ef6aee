//! Receive buffers that the kernel picks from: an idle connection holds none.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::{Submitter, types::BufRingEntry};

/// The only group of a ring.
pub(crate) const GROUP: u16 = 0;
const PAGE: usize = 4096;

/// A ring of `count` buffers of `size` bytes, registered with one io_uring.
pub(crate) struct Provided {
    entries: NonNull<BufRingEntry>,
    data: NonNull<u8>,
    count: u16,
    size: usize,
    tail: Cell<u16>,
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
        };
        // SAFETY: page-aligned zeroed memory for `count` entries that lives until the io_uring is closed: the
        // driver drops its io_uring first.
        unsafe {
            submitter.register_buf_ring_with_flags(provided.entries.as_ptr() as u64, count, GROUP, 0)?;
        }
        for id in 0..count {
            provided.give(id);
        }
        Ok(provided)
    }

    fn entries_layout(count: u16) -> Layout {
        Layout::from_size_align(count as usize * size_of::<BufRingEntry>(), PAGE).expect("a small layout")
    }

    fn data_layout(count: u16, size: usize) -> Layout {
        Layout::from_size_align(count as usize * size, PAGE).expect("a bounded layout")
    }

    /// Hands buffer `id` to the kernel.
    pub(crate) fn give(&self, id: u16) {
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
