//! Zeroed memory from the system that takes space as it is touched.

use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use super::{Entry, HUGE_PAGE, PAGE};

/// What all zeroes are a valid value of, and what several cores may use.
pub(super) trait Zero: Sync {}

impl Zero for u8 {}
impl Zero for Entry {}
impl Zero for AtomicU64 {}

/// `count` zeroes of `T`.
pub(super) struct Mapping<T> {
    base: NonNull<T>,
    count: usize,
    _owned: PhantomData<T>,
}

// SAFETY: it owns its memory; `T` may be used by several cores, and bytes are only touched as `Memory` says.
unsafe impl<T: Zero> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Zero> Sync for Mapping<T> {}

impl<T: Zero> Mapping<T> {
    /// `count` is more than none.
    pub(super) fn new(count: usize) -> io::Result<Mapping<T>> {
        let length = count.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping; the result is checked.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("no mapping begins at zero");
        Ok(Mapping { base, count, _owned: PhantomData })
    }

    fn bytes(&self) -> usize {
        self.count * size_of::<T>()
    }

    /// Fewer TLB misses. Only advice: refusal changes nothing.
    pub(super) fn advise_huge_pages(&self) {
        // SAFETY: our mapping.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes(), libc::MADV_HUGEPAGE) };
    }
}

impl Mapping<u8> {
    /// `count` zeroes, more than none, from the begin of a huge page on: what is done by huge pages is done at the same
    /// places of each memory.
    pub(super) fn aligned(count: usize) -> io::Result<Mapping<u8>> {
        let whole = Mapping::<u8>::new(count.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?)?;
        let whole = ManuallyDrop::new(whole);
        let before = whole.base.align_offset(HUGE_PAGE);
        let end = (before + count).next_multiple_of(PAGE);
        let after = whole.count.next_multiple_of(PAGE) - end;
        // SAFETY: within the mapping.
        let (base, behind) = unsafe { (whole.base.add(before), whole.base.add(end)) };
        for (part, length) in [(whole.base, before), (behind, after)] {
            if length > 0 {
                // SAFETY: whole pages of a mapping that nobody uses yet. What cannot be given up stays, untouched.
                unsafe { libc::munmap(part.as_ptr().cast(), length) };
            }
        }
        Ok(Mapping { base, count, _owned: PhantomData })
    }

    /// The bytes, which nobody may touch but under the rules of `Memory`.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Gives whole pages back: they read as zeroes after. False when the system does not want them.
    pub(super) fn give_back(&self, offset: usize, length: usize) -> bool {
        assert!(offset <= self.count && length <= self.count - offset);
        // SAFETY: within our private anonymous mapping; the caller alone uses these pages now.
        unsafe { libc::madvise(self.base.as_ptr().add(offset).cast(), length, libc::MADV_DONTNEED) == 0 }
    }
}

/// Only what is atomic is reached by reference.
macro_rules! atomics {
    ($($atomic:ty),*) => {$(
        impl Deref for Mapping<$atomic> {
            type Target = [$atomic];
            fn deref(&self) -> &[$atomic] {
                // SAFETY: `count` of them, zeroed at first, for as long as the mapping lives.
                unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
            }
        }
    )*};
}
atomics!(AtomicU64, Entry);

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody can use any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}
