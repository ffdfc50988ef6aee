//! Bytes of a memory that are wanted soon, brought nearer step by step.
//!
//! A core has a dozen or so lines of memory under way at a time, and stands still when it asks for more: who asks for a
//! page at once waits for most of it. So a core asks for a few lines, and for the next few each time when it has done
//! something else meanwhile: the way of a request has such a step every few dozen instructions ([`step_ahead`]). The finer they
//! are, the less of the waiting is left.

use std::cell::{Cell, RefCell};
use std::ptr;

use super::LINE;

/// Steps in which most of what is wanted is asked for: about as many as a request has until the next one begins.
const STEPS: usize = 12;
/// Lines of one step at least.
const FEWEST: usize = 4;
/// And at most: about as many as a core has under way.
const MOST: usize = 12;
/// Pieces that are remembered; what comes beyond is not fetched.
const PIECES: usize = 4;

thread_local! {
    /// What is wanted and has not been asked for.
    static PIECE: Cell<Piece> = const { Cell::new(Piece::NOTHING) };
    /// Lines of a step.
    static STEP: Cell<usize> = const { Cell::new(FEWEST) };
    /// What follows the piece.
    static LATER: RefCell<Later> = const { RefCell::new(Later { pieces: [Piece::NOTHING; PIECES], count: 0, next: 0 }) };
}

/// Lines that lie one behind the other.
#[derive(Clone, Copy)]
struct Piece {
    first: *const u8,
    lines: usize,
}

impl Piece {
    const NOTHING: Piece = Piece { first: ptr::null(), lines: 0 };

    /// Asks for at most so many lines; gives what is left.
    #[inline]
    fn take(self, most: usize, mut fetch: impl FnMut(*const u8)) -> Piece {
        let some = self.lines.min(most);
        (0..some).for_each(|line| fetch(self.first.wrapping_add(line * LINE)));
        Piece { first: self.first.wrapping_add(some * LINE), lines: self.lines - some }
    }
}

/// Pieces to come.
struct Later {
    pieces: [Piece; PIECES],
    /// Of `pieces`, from `next` on.
    count: usize,
    next: usize,
}

impl Later {
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

    fn next(&mut self) -> Piece {
        let next = self.pieces[..self.count].get(self.next).copied();
        self.next += usize::from(next.is_some());
        next.unwrap_or(Piece::NOTHING)
    }
}

/// Other bytes are wanted now. What is left of those before is asked for at once: they are about to be used.
pub(super) fn begin() {
    while PIECE.get().lines > 0 {
        advance(usize::MAX, prefetch);
    }
    LATER.with_borrow_mut(|later| (later.count, later.next) = (0, 0));
}

/// These lines are among them.
pub(super) fn add(first: *const u8, lines: usize) {
    LATER.with_borrow_mut(|later| later.add(first, lines));
}

/// All that is wanted has been added.
pub(super) fn start() {
    let lines = LATER.with_borrow_mut(|later| {
        PIECE.set(later.next());
        later.pieces[..later.count].iter().map(|piece| piece.lines).sum::<usize>()
    });
    STEP.set((lines / STEPS).clamp(FEWEST, MOST));
}

/// The core has done something since the last step: it asks for the next few lines of the memory that is wanted soon.
#[inline]
pub fn step_ahead() {
    if PIECE.get().lines > 0 {
        advance(STEP.get(), prefetch);
    }
}

fn advance(most: usize, fetch: impl FnMut(*const u8)) {
    let left = PIECE.get().take(most, fetch);
    PIECE.set(if left.lines > 0 { left } else { LATER.with_borrow_mut(Later::next) });
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
        let mut seen = Vec::new();
        let line = |number: usize| ptr::without_provenance(number * LINE);
        begin();
        // The first two lie side by side, and there is no room for the last one.
        for (first, lines) in [(100, 5), (105, 3), (300, 40), (200, 2), (400, 1), (500, 1)] {
            add(line(first), lines);
        }
        start();
        let mut steps = Vec::new();
        for most in [3, 6, usize::MAX, 7, 7] {
            advance(most, |address| seen.push(address.addr() / LINE));
            steps.push(seen.len());
        }
        // A step ends with its piece.
        assert_eq!(steps, [3, 8, 48, 50, 51]);
        let expected: Vec<usize> = (100..108).chain(300..340).chain(200..202).chain([400]).collect();
        assert_eq!(seen, expected);
        assert_eq!(PIECE.get().lines, 0);
    }

    #[test]
    fn a_request_has_as_many_steps_whatever_its_size() {
        for (lines, step) in [(1, FEWEST), (64, 5), (128, 10), (2048, MOST)] {
            begin();
            add(ptr::without_provenance(LINE), lines);
            start();
            assert_eq!(STEP.get(), step, "{lines} lines");
        }
        begin();
        assert_eq!(PIECE.get().lines, 0, "what was left is asked for at once");
    }
}
