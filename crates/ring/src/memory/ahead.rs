//! Bytes of a memory that are wanted soon, brought nearer step by step.
//!
//! A core has a dozen or so lines of memory under way at a time, and stands still when it asks for more: who asks for a
//! page at once waits for most of it. So a core asks for a few lines, and for the next few each time when it has done
//! something else meanwhile: taken bytes of a memory, or put a piece into a [`SendList`](crate::SendList).

use std::cell::{Cell, RefCell};
use std::ptr;

use super::LINE;

/// Lines of one step: about as many as a core has under way.
const STEP: usize = 12;
/// Pieces that are remembered; what comes beyond is not fetched.
const PIECES: usize = 4;

thread_local! {
    static AHEAD: RefCell<Ahead> = const { RefCell::new(Ahead::NOTHING) };
    /// Whether there is something in it: most that steps does so in vain.
    static ANY: Cell<bool> = const { Cell::new(false) };
}

/// Lines that lie one behind the other.
#[derive(Clone, Copy)]
struct Piece {
    first: *const u8,
    lines: usize,
}

/// What is wanted and has not been asked for.
struct Ahead {
    pieces: [Piece; PIECES],
    /// Of `pieces`, from `next` on.
    count: usize,
    next: usize,
}

impl Ahead {
    const NOTHING: Ahead =
        Ahead { pieces: [Piece { first: ptr::null(), lines: 0 }; PIECES], count: 0, next: 0 };

    #[inline]
    fn add(&mut self, first: *const u8, lines: usize) {
        if let Some(last) = self.pieces[..self.count].last_mut()
            && ptr::eq(last.first.wrapping_add(last.lines * LINE), first)
        {
            last.lines += lines;
        } else if let Some(free) = self.pieces.get_mut(self.count) {
            *free = Piece { first, lines };
            self.count += 1;
        }
    }

    /// Asks `fetch` for at most so many lines.
    #[inline]
    fn take(&mut self, mut lines: usize, fetch: impl Fn(*const u8)) {
        while lines > 0 && self.next < self.count {
            let piece = &mut self.pieces[self.next];
            let mut some = piece.lines.min(lines);
            let fetch = |line| fetch(piece.first.wrapping_add(line * LINE));
            if some >= STEP {
                // A whole step, without counting.
                some = STEP;
                (0..STEP).for_each(fetch);
            } else {
                (0..some).for_each(fetch);
            }
            *piece = Piece { first: piece.first.wrapping_add(some * LINE), lines: piece.lines - some };
            lines -= some;
            self.next += usize::from(piece.lines == 0);
        }
    }
}

/// Other bytes are wanted now. What is left of those before is asked for at once: they are about to be used.
pub(super) fn begin() {
    if ANY.get() {
        advance(usize::MAX);
    }
    AHEAD.with_borrow_mut(|ahead| (ahead.count, ahead.next) = (0, 0));
}

/// These lines are among them.
pub(super) fn add(first: *const u8, lines: usize) {
    AHEAD.with_borrow_mut(|ahead| ahead.add(first, lines));
    ANY.set(true);
}

/// The next few lines.
#[inline]
pub(crate) fn step() {
    if ANY.get() {
        advance(STEP);
    }
}

fn advance(lines: usize) {
    AHEAD.with_borrow_mut(|ahead| {
        ahead.take(lines, prefetch);
        ANY.set(ahead.next < ahead.count);
    });
}

/// Asks the processor to bring a line nearer, as far as its second-level cache: before it is sent, more comes than the
/// first one holds. Never faults, whatever the address.
#[inline]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it reads nothing that anybody could see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_asked_for_once_and_in_order() {
        let seen = RefCell::new(Vec::new());
        let fetch = |address: *const u8| seen.borrow_mut().push(address.addr() / LINE);
        let line = |number: usize| ptr::without_provenance(number * LINE);
        let mut ahead = Ahead::NOTHING;
        // The first two lie side by side, and there is no room for the last one.
        for (first, lines) in [(100, 5), (105, 3), (300, 40), (200, 2), (400, 1), (500, 1)] {
            ahead.add(line(first), lines);
        }
        let mut steps = Vec::new();
        for lines in [3, 6, usize::MAX, 7] {
            ahead.take(lines, fetch);
            steps.push(seen.borrow().len());
        }
        assert_eq!(steps, [3, 9, 51, 51]);
        let expected: Vec<usize> = (100..108).chain(300..340).chain(200..202).chain([400]).collect();
        assert_eq!(*seen.borrow(), expected);
    }
}
