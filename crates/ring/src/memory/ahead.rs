//! Bytes of a memory that are wanted soon, brought nearer step by step.
//!
//! A core has a dozen or so lines of memory under way at a time, and stands still when it asks for more: who asks for a
//! page at once waits for most of it. So a core asks for a few lines, and for the next few each time when it has done
//! something else meanwhile: taken bytes of a memory, or put a piece into a [`SendList`](crate::SendList).

use std::cell::Cell;
use std::ptr;

use super::LINE;

/// Lines of one step: about as many as a core has under way.
const STEP: usize = 12;
/// Pieces that are remembered behind the next one; what comes beyond is not fetched.
const OTHERS: usize = 3;

thread_local! {
    static AHEAD: Ahead = const { Ahead::nothing() };
}

/// Lines that lie one behind the other.
#[derive(Clone, Copy)]
struct Piece {
    first: *const u8,
    lines: usize,
}

impl Piece {
    const NONE: Piece = Piece { first: ptr::null(), lines: 0 };

    fn after(self, lines: usize) -> Piece {
        Piece { first: self.first.wrapping_add(lines * LINE), lines: self.lines - lines }
    }

    fn is_followed_by(self, first: *const u8) -> bool {
        self.lines > 0 && ptr::eq(self.first.wrapping_add(self.lines * LINE), first)
    }
}

/// What is wanted and has not been asked for.
struct Ahead {
    /// Without a line, there is nothing.
    next: Cell<Piece>,
    /// What comes after it, up to the first one without a line.
    others: Cell<[Piece; OTHERS]>,
}

impl Ahead {
    const fn nothing() -> Ahead {
        Ahead { next: Cell::new(Piece::NONE), others: Cell::new([Piece::NONE; OTHERS]) }
    }

    fn add(&self, first: *const u8, lines: usize) {
        let mut others = self.others.get();
        let count = others.iter().take_while(|piece| piece.lines > 0).count();
        let next = self.next.get();
        if next.lines == 0 {
            self.next.set(Piece { first, lines });
        } else if count == 0 && next.is_followed_by(first) {
            self.next.set(Piece { lines: next.lines + lines, ..next });
        } else if count > 0 && others[count - 1].is_followed_by(first) {
            others[count - 1].lines += lines;
            self.others.set(others);
        } else if let Some(free) = others.get_mut(count) {
            *free = Piece { first, lines };
            self.others.set(others);
        }
    }

    /// Asks `fetch` for the lines of one step.
    #[inline]
    fn step(&self, fetch: impl Fn(*const u8)) {
        let next = self.next.get();
        if next.lines > STEP {
            (0..STEP).for_each(|line| fetch(next.first.wrapping_add(line * LINE)));
            self.next.set(next.after(STEP));
        } else if next.lines > 0 {
            self.take(STEP, fetch);
        }
    }

    /// Asks `fetch` for at most so many lines.
    #[inline(never)]
    fn take(&self, mut lines: usize, fetch: impl Fn(*const u8)) {
        while lines > 0 && self.next.get().lines > 0 {
            let next = self.next.get();
            let some = next.lines.min(lines);
            (0..some).for_each(|line| fetch(next.first.wrapping_add(line * LINE)));
            lines -= some;
            if some < next.lines {
                self.next.set(next.after(some));
            } else {
                let mut others = self.others.get();
                self.next.set(std::mem::replace(&mut others[0], Piece::NONE));
                others.rotate_left(1);
                self.others.set(others);
            }
        }
    }
}

/// Other bytes are wanted now. What is left of those before is asked for at once: they are about to be used.
#[inline]
pub(super) fn begin() {
    AHEAD.with(|ahead| {
        if ahead.next.get().lines > 0 {
            ahead.take(usize::MAX, prefetch);
        }
    });
}

/// These lines are among them.
#[inline]
pub(super) fn add(first: *const u8, lines: usize) {
    AHEAD.with(|ahead| ahead.add(first, lines));
}

/// The next few lines.
#[inline]
pub(crate) fn step() {
    AHEAD.with(|ahead| ahead.step(prefetch));
}

/// Asks the processor for the lines of `bytes`, and does not wait for them: for programs that touch memory as a volume in
/// RAM does, without being one.
pub fn fetch(bytes: &[u8]) {
    bytes.iter().step_by(LINE).for_each(|byte| prefetch(ptr::from_ref(byte)));
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

/// The same, as near as can be: for a line that is looked into.
#[inline]
pub(super) fn prefetch_near(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn every_line_is_asked_for_once_and_in_order() {
        let seen = RefCell::new(Vec::new());
        let fetch = |address: *const u8| seen.borrow_mut().push(address.addr() / LINE);
        let line = |number: usize| ptr::without_provenance(number * LINE);
        let ahead = Ahead::nothing();
        // The first two lie side by side, as the third and the fourth do, and there is no room for the last one.
        for (first, lines) in [(100, 5), (105, 3), (300, 40), (340, 6), (200, 2), (400, 1), (500, 1)] {
            ahead.add(line(first), lines);
        }
        let mut steps = Vec::new();
        for lines in [3, 6, usize::MAX, 7] {
            ahead.take(lines, fetch);
            steps.push(seen.borrow().len());
        }
        assert_eq!(steps, [3, 9, 57, 57]);
        let expected: Vec<usize> = (100..108).chain(300..346).chain(200..202).chain([400]).collect();
        assert_eq!(*seen.borrow(), expected);
    }

    #[test]
    fn steps_ask_for_what_is_left_too() {
        let seen = RefCell::new(Vec::new());
        let fetch = |address: *const u8| seen.borrow_mut().push(address.addr() / LINE);
        let ahead = Ahead::nothing();
        for (first, lines) in [(100, 2 * STEP + 1), (500, STEP - 3)] {
            ahead.add(ptr::without_provenance(first * LINE), lines);
        }
        let counts = [(); 5].map(|()| {
            ahead.step(fetch);
            seen.borrow().len()
        });
        let all = 3 * STEP - 2;
        assert_eq!(
            counts,
            [STEP, 2 * STEP, 3 * STEP - 2, all, all],
            "the last lines of one piece and the next piece"
        );
        let expected: Vec<usize> = (100..101 + 2 * STEP).chain(500..497 + STEP).collect();
        assert_eq!(*seen.borrow(), expected);
    }
}
