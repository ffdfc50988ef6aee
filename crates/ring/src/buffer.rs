//! Buffers: owned, aligned for direct I/O, taken from and given back to this thread's pool.
//!
//! A [`Buffer`] has one owner who may write; [`Buffer::share`] turns it into a [`Shared`], of which parts can be
//! queued for sending at several places at once. Memory goes back to the pool with the last of them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};

use crate::KEEPS;
use crate::memory::Lent;
use crate::slab::{self, Slab};

/// Alignment of every buffer, in bytes: enough for direct I/O on any disk.
pub const ALIGNMENT: usize = 4096;
/// The smallest size class, in bytes.
const SMALLEST: usize = 4096;
/// Largest buffer that can be had, in bytes.
pub const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CLASSES: usize = 14; // 4 KiB to 32 MiB
/// What a thread keeps for later, in bytes; beyond it memory returns to the system.
const KEEP: usize = 64 << 20;

struct Block {
    data: NonNull<u8>,
    class: u8,
    owners: Cell<u32>,
    /// What it is cut out of.
    slab: Option<NonNull<Slab>>,
}

impl Block {
    fn capacity(&self) -> usize {
        SMALLEST << self.class
    }

    fn layout(class: u8) -> Layout {
        // SAFETY: the alignment is a power of two and the largest class is far below isize::MAX.
        unsafe { Layout::from_size_align_unchecked(SMALLEST << class, ALIGNMENT) }
    }

    fn allocate(class: u8) -> NonNull<Block> {
        let layout = Self::layout(class);
        // SAFETY: no class is empty. Zeroed, so that every byte is initialised for ever after.
        let Some(data) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        Block::at(data, class, None)
    }

    fn at(data: NonNull<u8>, class: u8, slab: Option<NonNull<Slab>>) -> NonNull<Block> {
        NonNull::from(Box::leak(Box::new(Block { data, class, owners: Cell::new(1), slab })))
    }

    /// # Safety
    /// `block` came from `allocate` or `at`, and nobody owns it any more.
    unsafe fn free(block: NonNull<Block>) {
        // SAFETY: made by `Box::leak` in `at`.
        let block = unsafe { Box::from_raw(block.as_ptr()) };
        match block.slab {
            // SAFETY: its part, of which this was the only block.
            Some(slab) => unsafe { Slab::give_up_part(slab) },
            // SAFETY: allocated in `allocate` with this layout.
            None => unsafe { dealloc(block.data.as_ptr(), Self::layout(block.class)) },
        }
    }
}

#[derive(Default)]
struct Pool {
    free: [Vec<NonNull<Block>>; CLASSES],
    /// Bytes of what is free and not cut out of a slab.
    kept: usize,
    slabs: u16,
}

impl Pool {
    fn take(&mut self, class: u8) -> Option<NonNull<Block>> {
        if self.free[class as usize].is_empty() {
            self.cut(class);
        }
        let block = self.free[class as usize].pop()?;
        // SAFETY: blocks in the pool are live; the reference ends here.
        if unsafe { block.as_ref() }.slab.is_none() {
            self.kept -= SMALLEST << class;
        }
        Some(block)
    }

    /// Cuts another slab into blocks, if there may be one.
    fn cut(&mut self, class: u8) {
        let bytes = SMALLEST << class;
        if KEEPS && bytes <= slab::LARGEST_PART && (self.slabs as usize) < slab::MOST {
            let blocks = Slab::cut(self.slabs, bytes).map(|(data, slab)| Block::at(data, class, Some(slab)));
            self.free[class as usize].extend(blocks);
            self.slabs += 1;
        }
    }

    /// Whether it took it.
    fn keep(&mut self, block: NonNull<Block>) -> bool {
        // SAFETY: its last owner has just let go of it; the reference ends here.
        let (class, is_cut) = unsafe { (block.as_ref().class, block.as_ref().slab.is_some()) };
        let bytes = SMALLEST << class;
        if !is_cut {
            if !KEEPS || self.kept + bytes > KEEP {
                return false;
            }
            self.kept += bytes;
        }
        self.free[class as usize].push(block);
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for block in self.free.iter_mut().flat_map(|list| list.drain(..)) {
            // SAFETY: blocks in the pool have no owner.
            unsafe { Block::free(block) };
        }
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
    static IN_USE: Cell<usize> = const { Cell::new(0) };
}

/// Bytes of buffers that this thread has handed out and not got back.
pub fn in_use() -> usize {
    IN_USE.with(Cell::get)
}

fn class_for(length: usize) -> u8 {
    assert!(length <= LARGEST, "a buffer of {length} bytes was asked for; callers bound their sizes");
    (length.max(SMALLEST).next_power_of_two() / SMALLEST).trailing_zeros() as u8
}

fn take(length: usize) -> NonNull<Block> {
    let class = class_for(length);
    let block = POOL.with_borrow_mut(|pool| pool.take(class));
    IN_USE.with(|bytes| bytes.set(bytes.get() + (SMALLEST << class)));
    let block = block.unwrap_or_else(|| Block::allocate(class));
    // SAFETY: the block is live; the reference ends here.
    unsafe { block.as_ref() }.owners.set(1);
    block
}

/// Takes one owner away; the last one returns the memory.
fn release(block: NonNull<Block>) {
    // SAFETY: the caller owned a share of the block, so it is live.
    let (owners, capacity) = unsafe {
        let block = block.as_ref();
        block.owners.set(block.owners.get() - 1);
        (block.owners.get(), block.capacity())
    };
    if owners > 0 {
        return;
    }
    IN_USE.try_with(|bytes| bytes.set(bytes.get() - capacity)).ok();
    if POOL.try_with(|pool| pool.borrow_mut().keep(block)) != Ok(true) {
        // SAFETY: that was the last owner.
        unsafe { Block::free(block) };
    }
}

/// An owned run of bytes, aligned to [`ALIGNMENT`]. Contents of a new buffer are whatever was there before
/// (never uninitialised memory); who sends it must have filled it.
pub struct Buffer {
    block: Option<NonNull<Block>>,
    length: u32,
}

impl Buffer {
    /// No bytes, no memory.
    pub const fn empty() -> Buffer {
        Buffer { block: None, length: 0 }
    }

    /// `length` bytes, at most [`LARGEST`], with unspecified contents.
    pub fn new(length: usize) -> Buffer {
        if length == 0 {
            return Buffer::empty();
        }
        Buffer { block: Some(take(length)), length: length as u32 }
    }

    /// `length` zero bytes.
    pub fn zeroed(length: usize) -> Buffer {
        let mut buffer = Buffer::new(length);
        buffer.fill(0);
        buffer
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Bytes that fit without another buffer.
    pub fn capacity(&self) -> usize {
        // SAFETY: the buffer owns its block.
        self.block.map_or(0, |block| unsafe { block.as_ref() }.capacity())
    }

    /// Sets the length, at most the capacity.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity(), "a buffer cannot grow beyond its capacity");
        self.length = length as u32;
    }

    /// Gives up the right to write: parts of the bytes can now be owned at several places.
    pub fn share(self) -> Shared {
        let source = match self.block {
            Some(block) => Source::Part { block, start: 0, length: self.length },
            None => Source::Nothing,
        };
        std::mem::forget(self);
        Shared(source)
    }

    /// What it is cut out of.
    pub(crate) fn slab(&self) -> Option<&Slab> {
        // SAFETY: the buffer owns its block, and a block keeps its slab.
        unsafe { self.block?.as_ref().slab.map(|slab| slab.as_ref()) }
    }

    fn pointer(&self) -> *mut u8 {
        match self.block {
            // SAFETY: the buffer owns its block.
            Some(block) => unsafe { block.as_ref() }.data.as_ptr(),
            None => ptr::without_provenance_mut(ALIGNMENT),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(block) = self.block {
            release(block);
        }
    }
}

/// Room for a buffer, counted as [`in_use`] before there is one: who will need it later is sure to have it, and gets the
/// memory that was given back last, which is still in the cache.
pub struct Room {
    length: usize,
    counted: usize,
    /// It is counted on the thread that made it, and stays there.
    _thread: PhantomData<*const ()>,
}

impl Room {
    /// For `length` bytes, at most [`LARGEST`].
    pub fn new(length: usize) -> Room {
        let counted = if length == 0 { 0 } else { SMALLEST << class_for(length) };
        IN_USE.with(|bytes| bytes.set(bytes.get() + counted));
        Room { length, counted, _thread: PhantomData }
    }

    /// The buffer, as of [`Buffer::new`].
    pub fn into_buffer(self) -> Buffer {
        let length = self.length;
        drop(self);
        Buffer::new(length)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        IN_USE.try_with(|bytes| bytes.set(bytes.get() - self.counted)).ok();
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Buffer::empty()
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the block has at least `length` initialised bytes, and only `&mut self` may write them.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.length as usize) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; a `Buffer` is the only owner of its block.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.length as usize) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.length)
    }
}

/// Bytes to read, a part of a buffer or lent by a [`crate::Memory`]; clones share them.
pub struct Shared(Source);

enum Source {
    Nothing,
    Part { block: NonNull<Block>, start: u32, length: u32 },
    Lent(Lent),
}

impl Shared {
    /// No bytes.
    pub const fn empty() -> Shared {
        Shared(Source::Nothing)
    }

    pub(crate) fn lent(lent: Lent) -> Shared {
        Shared(Source::Lent(lent))
    }

    /// The part `range` of this part. Panics when it lies outside.
    pub fn slice(&self, range: Range<usize>) -> Shared {
        assert!(range.start <= range.end && range.end <= self.len());
        Shared(match &self.0 {
            _ if range.is_empty() => Source::Nothing,
            Source::Nothing => Source::Nothing,
            Source::Part { block, start, .. } => {
                // SAFETY: this share keeps the block live.
                let owners = &unsafe { block.as_ref() }.owners;
                owners.set(owners.get().checked_add(1).expect("fewer than 2^32 parts of a buffer"));
                let start = start + range.start as u32;
                Source::Part { block: *block, start, length: (range.end - range.start) as u32 }
            }
            Source::Lent(lent) => Source::Lent(lent.slice(range)),
        })
    }

    /// Whether what is to be sent, and nobody has looked at before, is sooner sent from a copy of it.
    #[inline]
    pub fn is_better_copied(&self) -> bool {
        matches!(&self.0, Source::Lent(lent) if lent.is_better_copied())
    }

    /// The first `length` bytes of it. Panics when there are fewer.
    pub fn cut(self, length: usize) -> Shared {
        if length == self.len() { self } else { self.slice(0..length) }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        self.slice(0..self.len())
    }
}

impl Default for Shared {
    fn default() -> Self {
        Shared::empty()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Source::Part { block, .. } = self.0 {
            release(block);
        }
    }
}

impl Deref for Shared {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Nothing => &[],
            // SAFETY: `start + length` lies within the block, and nobody writes a shared block.
            Source::Part { block, start, length } => unsafe {
                let data = block.as_ref().data.as_ptr().add(*start as usize);
                std::slice::from_raw_parts(data, *length as usize)
            },
            Source::Lent(lent) => lent,
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Shared({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(sanitized, ignore = "nothing is kept")]
    fn buffers_are_aligned_and_used_again() {
        let buffer = Buffer::new(5000);
        let address = buffer.as_ptr();
        assert_eq!(address.align_offset(ALIGNMENT), 0);
        assert_eq!((buffer.len(), buffer.capacity()), (5000, 8192));
        assert_eq!(in_use(), 8192);
        drop(buffer);
        assert_eq!(in_use(), 0);
        assert_eq!(Buffer::new(8192).as_ptr(), address);
    }

    #[test]
    #[cfg_attr(sanitized, ignore = "nothing is kept")]
    fn room_is_in_use_before_there_is_a_buffer() {
        let rooms = [0, 5000, 4096].map(Room::new);
        assert_eq!(in_use(), 8192 + 4096);
        let hot = Buffer::new(5000);
        let address = hot.as_ptr();
        drop(hot);
        let [nothing, room, given_up] = rooms;
        let buffer = room.into_buffer();
        assert_eq!((buffer.len(), buffer.as_ptr()), (5000, address), "the memory that was used last");
        drop((nothing, given_up));
        assert_eq!(in_use(), 8192);
        drop(buffer);
        assert_eq!(in_use(), 0);
    }

    #[test]
    #[cfg_attr(sanitized, ignore = "nothing is kept")]
    fn what_is_beyond_the_slabs_is_memory_of_its_own() {
        let count = slab::MOST * slab::BYTES / slab::LARGEST_PART + 3;
        for _ in 0..2 {
            let buffers: Vec<_> = (0..count).map(|_| Buffer::new(slab::LARGEST_PART)).collect();
            assert_eq!(buffers.iter().filter(|buffer| buffer.slab().is_none()).count(), 3);
            assert!(Buffer::new(slab::LARGEST_PART + 1).slab().is_none(), "too large to be a part");
            drop(buffers);
            let kept = POOL.with_borrow(|pool| pool.kept);
            assert_eq!((in_use(), kept), (0, 5 * slab::LARGEST_PART), "the three, and the large one");
        }
    }

    #[test]
    fn parts_keep_the_memory() {
        let shared = Buffer::copy_of(b"hello world").share();
        let world = shared.slice(6..11);
        drop(shared);
        assert_eq!(&*world, b"world");
        assert_eq!(&*world.slice(1..3), b"or");
        assert_eq!(in_use(), 4096);
        drop(world);
        assert_eq!(in_use(), 0);
    }

    #[test]
    fn an_empty_buffer_owns_nothing() {
        let empty = Buffer::empty();
        assert!(empty.is_empty() && empty.capacity() == 0);
        assert!(empty.share().is_empty());
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn a_part_outside_is_refused() {
        let shared = Buffer::new(10).share();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shared.slice(5..11)));
        assert!(result.is_ok(), "outside");
    }
}
