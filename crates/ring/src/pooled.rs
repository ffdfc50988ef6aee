//! Boxes whose memory is used again: what a task's future lives in, without an allocation per request.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

use crate::KEEPS;

/// Blocks are so many whole cache lines as their value takes, and aligned to them: the futures of idle connections lie close
/// to each other.
const LINE: usize = 64;
/// Lines of the largest blocks with a free list. Larger values go to the allocator.
const MOST_LINES: usize = 128;

struct Free {
    next: *mut Free,
}

/// By the lines of their blocks, less one.
struct FreeLists([Cell<*mut Free>; MOST_LINES]);

impl Drop for FreeLists {
    fn drop(&mut self) {
        for (class, list) in self.0.iter().enumerate() {
            let mut block = list.replace(ptr::null_mut());
            while !block.is_null() {
                // SAFETY: every block on a list was allocated with its class's layout and holds a valid `Free`.
                unsafe {
                    let next = (*block).next;
                    dealloc(block.cast(), layout(class));
                    block = next;
                }
            }
        }
    }
}

thread_local! {
    static FREE: FreeLists = const { FreeLists([const { Cell::new(ptr::null_mut()) }; MOST_LINES]) };
}

fn layout(class: usize) -> Layout {
    // SAFETY: a line is a power of two and no class comes near isize::MAX.
    unsafe { Layout::from_size_align_unchecked((class + 1) * LINE, LINE) }
}

fn class_of(value: Layout) -> Option<usize> {
    // What has no bytes has a line too: free blocks are chained.
    let class = value.size().div_ceil(LINE).max(1) - 1;
    (KEEPS && class < MOST_LINES && value.align() <= LINE).then_some(class)
}

fn take(value: Layout) -> *mut u8 {
    let Some(class) = class_of(value) else {
        // SAFETY: a value without a class is larger than the largest of them, or over-aligned, and so not empty
        // unless over-aligned; `max(1)` keeps the size above zero.
        return unsafe { alloc(Layout::from_size_align_unchecked(value.size().max(1), value.align())) };
    };
    FREE.with(|lists| {
        let list = &lists.0[class];
        let block = list.get();
        if block.is_null() {
            // SAFETY: every class has a line at least.
            return unsafe { alloc(layout(class)) };
        }
        // SAFETY: a block on the list holds a valid `Free` and is owned by the list alone.
        list.set(unsafe { (*block).next });
        block.cast()
    })
}

/// # Safety
/// `block` came from `take` with the same layout and nothing refers to it any more.
#[allow(clippy::cast_ptr_alignment, reason = "blocks are aligned to a cache line")]
unsafe fn give(block: *mut u8, value: Layout) {
    let Some(class) = class_of(value) else {
        // SAFETY: as in `take`.
        unsafe { dealloc(block, Layout::from_size_align_unchecked(value.size().max(1), value.align())) };
        return;
    };
    let kept = FREE.try_with(|lists| {
        let block = block.cast::<Free>();
        // SAFETY: the block has a line at least, aligned to it, and is ours.
        unsafe { block.write(Free { next: lists.0[class].get() }) };
        lists.0[class].set(block);
    });
    if kept.is_err() {
        // The thread is ending and its lists are gone.
        // SAFETY: allocated with the class's layout.
        unsafe { dealloc(block, layout(class)) };
    }
}

/// An owned value in memory from this thread's free lists. Not `Send`.
///
/// It is a future only as [`PooledFuture`], because a polled future must never be moved out again:
/// ```compile_fail
/// let mut future = ring::Pooled::new(std::future::ready(1));
/// let _ = std::pin::pin!(future).as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
/// ```
pub struct Pooled<T: ?Sized> {
    value: NonNull<T>,
    _owned: PhantomData<*mut T>,
}

/// A future of unknown type in pooled memory.
pub type PooledFuture<'a, T> = Pooled<dyn Future<Output = T> + 'a>;

impl<T> Pooled<T> {
    fn place(value: T) -> NonNull<T> {
        let layout = Layout::new::<T>();
        let Some(block) = NonNull::new(take(layout).cast::<T>()) else { handle_alloc_error(layout) };
        // SAFETY: `take` gave memory for this layout that nobody else uses.
        unsafe { block.write(value) };
        block
    }

    /// Moves `value` into pooled memory.
    pub fn new(value: T) -> Self {
        Pooled { value: Self::place(value), _owned: PhantomData }
    }
}

impl<'a, T> Pooled<dyn Future<Output = T> + 'a> {
    /// Moves `future` into pooled memory and forgets its type.
    pub fn future<F: Future<Output = T> + 'a>(future: F) -> Self {
        let value: NonNull<dyn Future<Output = T> + 'a> = Pooled::place(future);
        Pooled { value, _owned: PhantomData }
    }
}

impl<T: ?Sized> Drop for Pooled<T> {
    fn drop(&mut self) {
        // SAFETY: the value is live and ours; its layout is what `place` asked memory for.
        unsafe {
            let layout = Layout::for_value(self.value.as_ref());
            ptr::drop_in_place(self.value.as_ptr());
            give(self.value.as_ptr().cast(), layout);
        }
    }
}

impl<T: ?Sized> Deref for Pooled<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the value is live as long as `self`.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for Pooled<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is live as long as `self`, and `self` is borrowed alone.
        unsafe { self.value.as_mut() }
    }
}

// Moving the box does not move what is in it.
impl<T: ?Sized> Unpin for Pooled<T> {}

// Only for futures of unknown type: one of a known type could be swapped out of its box after a poll.
impl<T> Future for Pooled<dyn Future<Output = T> + '_> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the value never moves until it is dropped in place: the box gives `&mut dyn Future` only, out of
        // which nothing can be moved.
        unsafe { Pin::new_unchecked(self.value.as_mut()) }.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    #[cfg_attr(sanitized, ignore = "nothing is kept")]
    fn memory_is_used_again() {
        let first = Pooled::new([1u8; 300]);
        let address = ptr::from_ref(&*first).cast::<u8>();
        drop(first);
        let (larger, smaller) = (Pooled::new([2u8; 321]), Pooled::new([2u8; 256]));
        let second = Pooled::new([2u8; 320]);
        assert_eq!(ptr::from_ref(&*second).cast::<u8>(), address);
        assert!([larger[320], smaller[255], second[319]] == [2; 3], "others have blocks of their own");
    }

    #[test]
    fn values_are_dropped_once() {
        let witness = Rc::new(());
        let small = Pooled::new(witness.clone());
        let large = Pooled::new((witness.clone(), [0u8; 10_000]));
        let (last, beyond) =
            (Pooled::new([0u8; MOST_LINES * LINE]), Pooled::new([0u8; MOST_LINES * LINE + 1]));
        assert_eq!(Rc::strong_count(&witness), 3);
        drop((small, large, last, beyond, Pooled::new(())));
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn futures_run_in_the_pool() {
        let mut future = PooledFuture::future(async { 7 });
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert_eq!(Pin::new(&mut future).poll(&mut context), Poll::Ready(7));
    }
}
