//! Memory that several cores read and write: what a volume in RAM lives in.

use std::cell::UnsafeCell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is never torn between two cores, and what a hole is counted in, in bytes.
pub const PAGE: usize = 4096;
/// Locks, shared by the pages with the same remainder.
const LOCKS: usize = 4096;

/// Zeroed memory of a fixed size that takes space as it is written. Reads and writes of parts of one page exclude
/// each other; those of several pages are as if done page by page.
pub struct Memory {
    base: *mut u8,
    length: usize,
    locks: Box<[AtomicBool]>,
    /// One bit per page that has been written since it was last a hole.
    written: Box<[AtomicU64]>,
    _cell: UnsafeCell<()>,
}

// SAFETY: bytes are only touched under the lock of their page.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

struct Locked<'a>(&'a AtomicBool);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Memory {
    /// `length` zero bytes, more than none.
    pub fn new(length: u64) -> io::Result<Memory> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a fresh anonymous mapping; the result is checked.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: our mapping. Only advice: fewer TLB misses; refusal changes nothing.
        unsafe { libc::madvise(base, length, libc::MADV_HUGEPAGE) };
        let pages = length.div_ceil(PAGE);
        Ok(Memory {
            base: base.cast(),
            length,
            locks: (0..LOCKS).map(|_| AtomicBool::new(false)).collect(),
            written: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            _cell: UnsafeCell::new(()),
        })
    }

    /// Bytes in all.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    fn lock(&self, page: usize) -> Locked<'_> {
        let lock = &self.locks[page % LOCKS];
        while lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while lock.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
        Locked(lock)
    }

    /// Calls `visit` with the lock held for every page that `offset..offset+length` touches: page, start, length.
    fn pages(&self, offset: u64, length: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let offset = usize::try_from(offset).expect("an offset within the memory");
        assert!(length <= self.length && offset <= self.length - length, "a range within the memory");
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let page = at / PAGE;
            let count = (PAGE - at % PAGE).min(end - at);
            let _locked = self.lock(page);
            visit(page, at, count);
            at += count;
        }
    }

    /// Copies bytes out. Panics when the range lies outside.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let start = offset as usize;
        self.pages(offset, into.len(), |_, at, count| {
            let target = &mut into[at - start..at - start + count];
            // SAFETY: within the mapping (checked by `pages`), under the page's lock.
            unsafe { ptr::copy_nonoverlapping(self.base.add(at), target.as_mut_ptr(), count) };
        });
    }

    /// Copies bytes in. Panics when the range lies outside.
    pub fn write(&self, offset: u64, from: &[u8]) {
        let start = offset as usize;
        self.pages(offset, from.len(), |page, at, count| {
            let source = &from[at - start..at - start + count];
            // SAFETY: as in `read`.
            unsafe { ptr::copy_nonoverlapping(source.as_ptr(), self.base.add(at), count) };
            let (word, bit) = (&self.written[page / 64], 1 << (page % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        });
    }

    /// Makes bytes zero and gives whole pages back to the system. Panics when the range lies outside.
    pub fn discard(&self, offset: u64, length: u64) {
        let length = usize::try_from(length).expect("a length within the memory");
        self.pages(offset, length, |page, at, count| {
            let (word, bit) = (&self.written[page / 64], 1 << (page % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                return;
            }
            if count == PAGE {
                word.fetch_and(!bit, Ordering::Relaxed);
                // SAFETY: a whole page of our private anonymous mapping, under its lock: it reads as zeroes after.
                let result = unsafe { libc::madvise(self.base.add(at).cast(), PAGE, libc::MADV_DONTNEED) };
                if result == 0 {
                    return;
                }
            }
            // SAFETY: as in `read`.
            unsafe { ptr::write_bytes(self.base.add(at), 0, count) };
        });
    }

    /// Whether the page at `offset` has been written since it was last a hole.
    pub fn is_written(&self, offset: u64) -> bool {
        let page = offset as usize / PAGE;
        self.written[page / 64].load(Ordering::Relaxed) & 1 << (page % 64) != 0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody can use any more.
        unsafe { libc::munmap(self.base.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_discarded_is_zero() {
        let memory = Memory::new(64 << 10).unwrap();
        let data: Vec<u8> = (0..10_000).map(|index| index as u8).collect();
        memory.write(3000, &data);
        let mut back = vec![0; 10_000];
        memory.read(3000, &mut back);
        assert_eq!(back, data);
        assert!(memory.is_written(0) && memory.is_written(12_999) && !memory.is_written(16384));
        memory.discard(4000, 5000);
        memory.read(3000, &mut back);
        assert_eq!(back[..1000], data[..1000]);
        assert!(back[1000..6000].iter().all(|&byte| byte == 0));
        assert_eq!(back[6000..], data[6000..]);
        assert!(memory.is_written(0) && !memory.is_written(4096));
    }

    #[test]
    fn a_page_is_never_torn() {
        let memory = std::sync::Arc::new(Memory::new(PAGE as u64).unwrap());
        let writer = {
            let memory = memory.clone();
            std::thread::spawn(move || (0..20_000u32).for_each(|round| memory.write(0, &[round as u8; PAGE])))
        };
        let mut page = [0; PAGE];
        while !writer.is_finished() {
            memory.read(0, &mut page);
            assert!(page.iter().all(|&byte| byte == page[0]));
        }
        writer.join().unwrap();
    }

    #[test]
    #[should_panic(expected = "within the memory")]
    fn a_range_outside_is_refused() {
        Memory::new(8192).unwrap().read(8000, &mut [0; 512]);
    }
}
