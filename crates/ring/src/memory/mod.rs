//! Memory that several cores read and write: what a volume in RAM lives in.
//!
//! A page of the memory lives in a frame. What is lent to be sent ([`Lender`]) pins its frames: nobody writes a pinned
//! frame, a writer moves the page to a spare one, and the old frame becomes spare when the last pin goes. So a read
//! needs no copy, sees every page whole, and keeps no writer waiting.

pub(crate) mod ahead;
mod areas;
mod copy;
mod lender;
mod mapping;
mod ways;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use ahead::fetch;
use areas::Areas;
pub(crate) use lender::Lent;
pub use lender::{Lender, Writing};
use mapping::Mapping;
pub use ways::Ways;

use crate::ring::Ring;

/// What is never torn between two cores, and what a hole is counted in, in bytes.
pub const PAGE: usize = 4096;
/// A line of the processor's cache, in bytes.
const LINE: usize = 64;
/// A huge page, in bytes.
const HUGE_PAGE: usize = 2 << 20;
/// Pages that one core lends at a time at most.
const LENT_PAGES: usize = 4096;
/// Cores that lend.
const LENDERS: usize = 64;
/// Pages that a write locks and copies at a time at most: one large copy is quicker than many small ones, and to take a
/// lock is to wait until what was stored before it has reached its place.
const RUN: usize = 32;
/// Pages of a request whose begin is fetched at most, before it is its turn.
const TOUCHED: usize = 8;
/// Lines of each page of a request that is at hand. The processor sees by itself that more follow, and fetches them while
/// the request is worked on; who asks for all of them waits for most.
const BEGIN: usize = 8;
/// In the word of a page: somebody has it to himself.
const HELD: u32 = 1 << 31;
/// In the pins of a frame: its page has moved on.
const LEFT: u32 = 1 << 31;

/// Zeroed memory of a fixed size that takes space as it is written. Reads and writes of parts of one page exclude
/// each other; those of several pages are as if done page by page.
pub struct Memory {
    data: Mapping<u8>,
    length: usize,
    ways: &'static Ways,
    /// One bit per page that has been written since it was last a hole.
    written: Mapping<AtomicU64>,
    /// By number of page and of frame.
    entries: Mapping<Entry>,
    spares: Mutex<Spares>,
    areas: Areas,
}

/// What is known of the page and of the frame of one number. Most pages live in the frame with theirs, so that who looks
/// for a page finds both in one line of the cache.
#[repr(C)]
struct Entry {
    /// The frame that the page lives in, plus one; zero: the one with its own number. And [`HELD`], its lock: locks of
    /// their own, close together, would be lines that all cores fight for.
    moved: AtomicU32,
    /// Loans of the frame, and [`LEFT`].
    pins: AtomicU32,
}

/// How near a request is that will come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Soon {
    /// It is at hand, and nobody has looked ahead to it: where its bytes are is fetched, and the begin of each page of them.
    Now,
    /// It is the next one: its bytes are fetched.
    Next,
    /// It is the one after the next: where its bytes are is fetched, and where its pages begin, which makes their
    /// addresses known to the processor. That takes as long as a line, or longer in a virtual machine.
    Later,
}

/// Frames without a page.
struct Spares {
    free: Vec<u32>,
    /// The next frame that was never used.
    fresh: u32,
    /// Frames from here on are not to be had: as many as were lent at most, whoever did, are spare.
    end: u32,
    /// Who lends now.
    lenders: usize,
}

/// Pages that nobody else touches.
struct Locked<'a> {
    entries: &'a [Entry],
    /// What was written to them is on its way, past the cache.
    unsettled: bool,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.unsettled {
            copy::settle();
        }
        for Entry { moved, .. } in self.entries {
            // Who holds the page alone changes its word.
            moved.store(moved.load(Ordering::Relaxed) & !HELD, Ordering::Release);
        }
    }
}

/// What of several pieces has not been written yet.
struct Source<'a> {
    piece: &'a [u8],
    others: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> Source<'a> {
    fn new(pieces: &'a [&'a [u8]]) -> Source<'a> {
        Source { piece: &[], others: pieces.iter() }
    }

    /// The next bytes, at most `length` and some if there are any, that lie in one piece.
    fn take(&mut self, length: usize) -> &'a [u8] {
        while self.piece.is_empty() {
            self.piece = self.others.next().expect("as many bytes as the pieces have");
        }
        let (taken, rest) = self.piece.split_at(length.min(self.piece.len()));
        self.piece = rest;
        taken
    }
}

impl Memory {
    /// `length` zero bytes, more than none, at most 8 TiB.
    pub fn new(length: u64) -> io::Result<Memory> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let pages = length.div_ceil(PAGE);
        let frames = pages.checked_add(LENDERS * LENT_PAGES).filter(|frames| *frames < LEFT as usize);
        let frames = frames.ok_or(io::ErrorKind::OutOfMemory)?;
        let data = Mapping::<u8>::aligned(frames * PAGE)?;
        data.advise_huge_pages();
        let entries = Mapping::<Entry>::new(frames)?;
        // Of a small volume they would take more than it has.
        if pages * size_of::<Entry>() >= HUGE_PAGE {
            entries.advise_huge_pages();
        }
        Ok(Memory {
            areas: Areas::new(length, areas::has_huge_pages()),
            data,
            length,
            ways: Ways::of_memory(length as u64),
            written: Mapping::new(pages.div_ceil(64))?,
            entries,
            spares: Mutex::new(Spares {
                free: Vec::new(),
                fresh: pages as u32,
                end: pages as u32,
                lenders: 0,
            }),
        })
    }

    /// Bytes in all.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// How its bytes are best written and sent.
    pub fn ways(&self) -> &'static Ways {
        self.ways
    }

    /// Whether `offset..offset + length`, which lies within, can be written without waiting for the system to fill memory
    /// with zeroes.
    #[inline]
    pub fn is_ready(&self, offset: u64, length: usize) -> bool {
        let first = offset as usize;
        self.areas.is_ready(first, first.wrapping_add(length.max(1) - 1))
    }

    /// Makes the first part of `offset..offset + length` ready that is not, while this core does other things. Whether there
    /// was one.
    pub async fn make_ready(self: &Arc<Memory>, ring: &Ring, offset: u64, length: usize) -> bool {
        let Some((at, end)) = self.range(offset, length).filter(|(at, end)| at < end) else { return false };
        let Some(area) = self.areas.first_unready(Areas::of(at), Areas::of(end - 1)) else {
            return false;
        };
        let bytes = self.areas.bytes(area);
        ring.populate(self, bytes.start, bytes.len()).await;
        self.areas.set(area, true);
        true
    }

    /// Where `length` bytes of its frames begin, of which the first one is `at`.
    pub(crate) fn place(&self, at: usize, length: usize) -> *const libc::c_void {
        assert!(at <= self.entries.len() * PAGE && length <= self.entries.len() * PAGE - at);
        self.data.pointer().wrapping_add(at).cast_const().cast()
    }

    fn lock(&self, page: usize) -> Locked<'_> {
        let entry = &self.entries[page];
        Self::hold(entry);
        Locked { entries: std::slice::from_ref(entry), unsettled: false }
    }

    /// Locks pages, upwards, so that nobody waits in a circle.
    fn lock_run(&self, pages: Range<usize>) -> Locked<'_> {
        let entries = &self.entries[pages];
        entries.iter().for_each(Self::hold);
        Locked { entries, unsettled: false }
    }

    fn hold(Entry { moved, .. }: &Entry) {
        let mut seen = moved.load(Ordering::Relaxed);
        loop {
            while seen & HELD != 0 {
                std::hint::spin_loop();
                seen = moved.load(Ordering::Relaxed);
            }
            match moved.compare_exchange_weak(seen, seen | HELD, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }

    /// Where a frame begins.
    fn frame(&self, frame: usize) -> *mut u8 {
        debug_assert!(frame < self.entries.len());
        // SAFETY: `data` has room for every frame that has an entry.
        unsafe { self.data.pointer().add(frame * PAGE) }
    }

    /// The frame of a page; it stays while the page is locked.
    fn frame_of(&self, page: usize) -> usize {
        match self.entries[page].moved.load(Ordering::Relaxed) & !HELD {
            0 => page,
            frame => frame as usize - 1,
        }
    }

    /// The frame of a page that is locked, to be written: one without pins. With `keep` it has the page's bytes.
    fn writable(&self, page: usize, keep: bool) -> usize {
        let frame = self.frame_of(page);
        if self.entries[frame].pins.load(Ordering::Acquire) == 0 {
            return frame;
        }
        let spare = self.take_spare();
        if keep {
            // SAFETY: whole frames, of which one is pinned (nobody writes it) and the other one nobody else's.
            unsafe { ptr::copy_nonoverlapping(self.frame(frame), self.frame(spare), PAGE) };
        }
        self.entries[page].moved.store(HELD | (spare as u32 + 1), Ordering::Relaxed);
        if self.entries[frame].pins.fetch_or(LEFT, Ordering::AcqRel) == 0 {
            // The last pin went while we came here, and did not know.
            self.give_spare(frame);
        }
        spare
    }

    fn spares(&self) -> std::sync::MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A frame without a page. As many are spare as can be lent, but one may be on its way back by somebody who has found that its
    /// last pin is gone, while another page was lent for it: he does not wait for us.
    fn take_spare(&self) -> usize {
        loop {
            let mut spares = self.spares();
            if let Some(frame) = spares.free.pop() {
                return frame as usize;
            }
            if spares.fresh < spares.end {
                spares.fresh += 1;
                return spares.fresh as usize - 1;
            }
            drop(spares);
            std::thread::yield_now();
        }
    }

    fn give_spare(&self, frame: usize) {
        self.entries[frame].pins.store(0, Ordering::Relaxed);
        self.spares().free.push(frame as u32);
    }

    fn pin(&self, frame: usize) {
        self.entries[frame].pins.fetch_add(1, Ordering::Relaxed);
    }

    fn unpin(&self, frame: usize) {
        if self.entries[frame].pins.fetch_sub(1, Ordering::AcqRel) == LEFT | 1 {
            self.give_spare(frame);
        }
    }

    /// `offset..offset + length` when that lies within the memory.
    fn range(&self, offset: u64, length: usize) -> Option<(usize, usize)> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length).filter(|end| *end <= self.length)?;
        Some((offset, end))
    }

    /// Calls `visit` with the lock held for every page that `offset..offset+length` touches: page, start, length.
    fn pages(&self, offset: u64, length: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let (mut at, end) = self.range(offset, length).expect("a range within the memory");
        while at < end {
            let page = at / PAGE;
            let count = (PAGE - at % PAGE).min(end - at);
            let _locked = self.lock(page);
            visit(page, at, count);
            at += count;
        }
    }

    /// The bytes of `offset..offset + length` are wanted soon: brings them nearer while this core does other things. What
    /// lies outside is ignored.
    pub fn expect(&self, offset: u64, length: usize, soon: Soon) {
        let Some((mut at, end)) = self.range(offset, length) else { return };
        if soon != Soon::Next {
            return self.touch(at, end, if soon == Soon::Now { BEGIN } else { 1 });
        }
        ahead::begin();
        at -= at % LINE;
        while at < end {
            let page = at / PAGE;
            let frame = self.frame_of(page);
            if frame != page {
                ahead::prefetch(ptr::from_ref(&self.entries[frame]).cast());
            }
            let stop = end.min((page + 1) * PAGE);
            ahead::add(self.frame(frame).wrapping_add(at % PAGE), (stop - at).div_ceil(LINE));
            at = stop;
        }
        ahead::step();
    }

    /// Asks for where `at..end` is, and for so many lines of what is wanted of each page.
    fn touch(&self, at: usize, end: usize, lines: usize) {
        let pages = at / PAGE..end.div_ceil(PAGE);
        let entries = &self.entries[pages.clone()];
        let ends = entries.first().into_iter().chain(entries.last());
        ends.for_each(|entry| ahead::prefetch_near(ptr::from_ref(entry).cast()));
        for page in pages.take(TOUCHED) {
            // Of most pages, which have not moved.
            let (begin, stop) = (at.max(page * PAGE), end.min((page + 1) * PAGE));
            let first = self.frame(page).wrapping_add(begin % PAGE);
            let lines = lines.min((stop - begin).div_ceil(LINE));
            (0..lines).for_each(|line| ahead::prefetch(first.wrapping_add(line * LINE)));
        }
    }

    /// Copies bytes out. Panics when the range lies outside.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let start = offset as usize;
        self.pages(offset, into.len(), |page, at, count| {
            let target = &mut into[at - start..at - start + count];
            let source = self.frame(self.frame_of(page)).wrapping_add(at % PAGE);
            // SAFETY: `count` bytes within the page's frame, under the page's lock.
            unsafe { ptr::copy_nonoverlapping(source, target.as_mut_ptr(), count) };
        });
    }

    /// Copies bytes in. Panics when the range lies outside.
    pub fn write(&self, offset: u64, from: &[u8]) {
        drop(self.put(offset, &[from]));
    }

    /// The same from several pieces, one behind the other; the last pages, whose bytes may still be on their way, are left
    /// locked.
    fn put(&self, offset: u64, from: &[&[u8]]) -> Option<Locked<'_>> {
        let length = from.iter().map(|piece| piece.len()).sum();
        let (mut at, end) = self.range(offset, length).expect("a range within the memory");
        ahead::step();
        if let [from] = from
            && at % PAGE == 0
            && length == PAGE
        {
            // What most writes are.
            let mut locked = self.lock(at / PAGE);
            let frame = self.writable(at / PAGE, false);
            self.note_written(at / PAGE);
            // SAFETY: as below, of one whole page.
            locked.unsettled = unsafe { copy::copy(self.ways, from.as_ptr(), self.frame(frame), PAGE) };
            return Some(locked);
        }
        let (mut last, mut source) = (None, Source::new(from));
        while at < end {
            let first = at / PAGE;
            let stop = end.min((first + RUN) * PAGE);
            drop(last.take());
            let mut locked = self.lock_run(first..stop.div_ceil(PAGE));
            while at < stop {
                let (mut place, mut length) = self.writable_run(at, stop);
                at += length;
                while length > 0 {
                    let piece = source.take(length);
                    // SAFETY: as in `read`; nobody has pinned the frames, and nobody can while their pages are locked.
                    locked.unsettled |= unsafe {
                        copy::copy(self.ways, piece.as_ptr(), self.frame(0).add(place), piece.len())
                    };
                    (place, length) = (place + piece.len(), length - piece.len());
                }
            }
            last = Some(locked);
        }
        last
    }

    fn note_written(&self, page: usize) {
        let (word, bit) = (&self.written[page / 64], 1 << (page % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Makes the pages of `at..stop`, which are locked, ready to be written as far as they lie side by side. Gives
    /// where among all frames that begins, and its bytes.
    fn writable_run(&self, at: usize, stop: usize) -> (usize, usize) {
        let (mut page, mut next, mut first) = (at / PAGE, at, None);
        while next < stop {
            let count = (PAGE - next % PAGE).min(stop - next);
            let frame = self.writable(page, count < PAGE);
            if *first.get_or_insert(frame) + page - at / PAGE != frame {
                break;
            }
            self.note_written(page);
            (page, next) = (page + 1, next + count);
        }
        (first.unwrap_or(0) * PAGE + at % PAGE, next - at)
    }

    /// Makes the first of these bytes zero, at least one, and gives whole pages back to the system. Gives how many: as many
    /// as can be done before others want their turn. Panics when the range lies outside.
    #[must_use = "the rest is still there"]
    pub fn discard(&self, offset: u64, length: u64) -> u64 {
        let length = usize::try_from(length).expect("a length within the memory");
        let (start, end) = self.range(offset, length).expect("a range within the memory");
        let end = end.min(self.areas.bytes(Areas::of(start)).end);
        let pages = start / PAGE..end.div_ceil(PAGE);
        if !pages.clone().any(|page| self.is_written((page * PAGE) as u64)) {
            return (end - start) as u64;
        }
        let _locked = self.lock_run(pages.clone());
        let mut run = 0..0;
        for page in pages {
            let (at, stop) = (start.max(page * PAGE), end.min((page + 1) * PAGE));
            let frame = self.hollow(page, at % PAGE, stop - at);
            if frame != Some(run.end) {
                self.give_back(&run);
                run = frame.map_or(0..0, |frame| frame..frame);
            }
            run.end += usize::from(frame.is_some());
        }
        self.give_back(&run);
        (end - start) as u64
    }

    /// Makes bytes of a page, which is locked, zero; or, of a whole one, gives its frame, which is to be given back.
    fn hollow(&self, page: usize, at: usize, count: usize) -> Option<usize> {
        let is_whole = count == PAGE;
        if !self.is_written((page * PAGE) as u64) {
            // It is zero, and what lies around it may go in one piece with it.
            return is_whole.then(|| self.frame_of(page));
        }
        let frame = self.writable(page, !is_whole);
        if is_whole {
            self.written[page / 64].fetch_and(!(1 << (page % 64)), Ordering::Relaxed);
            return Some(frame);
        }
        // SAFETY: as in `write`.
        unsafe { ptr::write_bytes(self.frame(frame).wrapping_add(at), 0, count) };
        None
    }

    /// Frames of pages that are locked and were made holes become zero.
    fn give_back(&self, frames: &Range<usize>) {
        if frames.is_empty() {
            return;
        }
        let (at, bytes) = (frames.start * PAGE, frames.len() * PAGE);
        if !self.data.give_back(at, bytes) {
            // SAFETY: as in `write`.
            unsafe { ptr::write_bytes(self.frame(frames.start), 0, bytes) };
        } else if bytes == HUGE_PAGE && at + bytes <= self.length {
            // Most likely an area in its own frames: all of it has to be made ready again.
            self.areas.set(Areas::of(at), false);
        }
    }

    /// Whether the page at `offset` has been written since it was last a hole.
    pub fn is_written(&self, offset: u64) -> bool {
        let page = offset as usize / PAGE;
        self.written[page / 64].load(Ordering::Relaxed) & 1 << (page % 64) != 0
    }
}
