//! Memory of which the smaller buffers are cut. It stays where it is as long as its thread, so a ring tells its kernel of
//! it once (`IORING_REGISTER_BUFFERS2`), instead of having the pages found and held for each transfer of a file.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// What one has, in bytes.
pub(crate) const BYTES: usize = 1 << 20;
/// The largest buffer that is cut out of one, in bytes.
pub(crate) const LARGEST_PART: usize = BYTES / 4;
/// What a thread has at most. What is needed beyond them is memory of its own.
pub(crate) const MOST: usize = 16;

/// One of them, with parts of one size.
pub(crate) struct Slab {
    data: NonNull<u8>,
    /// Among those of its thread, below [`MOST`].
    number: u16,
    /// Parts that are not given up yet.
    parts: Cell<usize>,
}

impl Slab {
    fn layout() -> Layout {
        Layout::from_size_align(BYTES, BYTES).expect("a power of two")
    }

    /// The parts of `bytes` of a new one; the last of them that is given up takes it along. Zeroed.
    pub(crate) fn cut(number: u16, bytes: usize) -> impl Iterator<Item = (NonNull<u8>, NonNull<Slab>)> {
        let layout = Self::layout();
        // SAFETY: the layout is not empty.
        let Some(data) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let parts = Cell::new(BYTES / bytes);
        let slab = NonNull::from(Box::leak(Box::new(Slab { data, number, parts })));
        // SAFETY: every part begins within the memory.
        (0..BYTES / bytes).map(move |part| (unsafe { data.add(part * bytes) }, slab))
    }

    /// # Safety
    /// `slab` came from [`Slab::cut`], once with the part that is given up here.
    pub(crate) unsafe fn give_up_part(slab: NonNull<Slab>) {
        // SAFETY: it lives until its last part is given up; the reference ends here.
        let left = unsafe { slab.as_ref() }.parts.get() - 1;
        // SAFETY: as above.
        unsafe { slab.as_ref() }.parts.set(left);
        if left == 0 {
            // SAFETY: made by `Box::leak` in `cut`, and this was the last part.
            let slab = unsafe { Box::from_raw(slab.as_ptr()) };
            // SAFETY: allocated in `cut` with this layout.
            unsafe { dealloc(slab.data.as_ptr(), Self::layout()) };
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// All of it, as the kernel wants to be told.
    pub(crate) fn whole(&self) -> libc::iovec {
        libc::iovec { iov_base: self.data.as_ptr().cast(), iov_len: BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lives_as_long_as_its_last_part() {
        let parts: Vec<_> = Slab::cut(3, LARGEST_PART).collect();
        assert_eq!(parts.len(), 4);
        for (number, (data, slab)) in parts.into_iter().enumerate() {
            // SAFETY: this part is not given up yet.
            let (slab_ref, bytes) =
                unsafe { (slab.as_ref(), std::slice::from_raw_parts_mut(data.as_ptr(), LARGEST_PART)) };
            assert_eq!((slab_ref.number(), slab_ref.parts.get()), (3, 4 - number));
            assert_eq!(data.as_ptr().addr(), slab_ref.whole().iov_base.addr() + number * LARGEST_PART);
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            // SAFETY: once for each part.
            unsafe { Slab::give_up_part(slab) };
        }
    }
}
