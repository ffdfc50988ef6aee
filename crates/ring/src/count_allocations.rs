//! Counts what each thread asks of the allocator, for the tests that hold the data path to none per request, and what it holds.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: ring::count_allocations::Counting = ring::count_allocations::Counting;
//! let before = ring::count_allocations::by_this_thread();
//! drop(std::hint::black_box(Box::new(7)));
//! assert_eq!(ring::count_allocations::by_this_thread() - before, 1);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counted.
pub struct Counting;

/// Allocations and reallocations that this thread has made.
pub fn by_this_thread() -> u64 {
    COUNT.with(Cell::get)
}

/// Bytes that this thread has allocated and not given back; what goes from one thread to another counts for both, here and
/// there.
pub fn held_by_this_thread() -> i64 {
    HELD.with(Cell::get)
}

fn count(bytes: usize) {
    // A thread that is ending is not counted any more.
    COUNT.try_with(|count| count.set(count.get() + 1)).ok();
    hold(bytes as i64);
}

fn hold(bytes: i64) {
    HELD.try_with(|held| held.set(held.get() + bytes)).ok();
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a plain thread-local cell without a
// destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: what the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: what the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        hold(-(layout.size() as i64));
        // SAFETY: what the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: what the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}
