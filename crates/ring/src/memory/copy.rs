//! Copies into memory that nobody has touched for long, in one of its [`Ways`].

use std::ptr;

use super::LINE;
use super::ways::Ways;

impl Ways {
    /// Copies bytes to such a memory, as a volume in RAM does. Panics when there are more or less of them than there is room.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "as many bytes as there is room for");
        // SAFETY: two slices of that length, of which one is nobody else's.
        if unsafe { copy(self, from.as_ptr(), to.as_mut_ptr(), from.len()) } {
            settle();
        }
    }
}

/// What was written past the cache is seen by others before what is written from here on. Who asks for that at once waits
/// until all of it is in memory; who has something else to do first, does not.
#[inline]
pub(super) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies `length` bytes to `to`, in a memory with those ways. Gives whether they went past the cache: such stores are in no
/// order, and are to be [settled](settle) before the lock of their page is opened.
///
/// # Safety
///
/// They can be read and written, and do not overlap.
#[must_use]
pub(super) unsafe fn copy(ways: &Ways, from: *const u8, to: *mut u8, length: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if ways.writes_past_cache(length) {
        // Of a piece of a write, which may begin and end anywhere, whole lines go that way.
        let head = to.addr().next_multiple_of(LINE) - to.addr();
        let lines = length.saturating_sub(head) / LINE * LINE;
        // SAFETY: whole lines, and the processor has the instructions; the rest is as the caller says.
        unsafe {
            ptr::copy_nonoverlapping(from, to, head.min(length));
            if is_x86_feature_detected!("avx512f") {
                copy_lines(from.add(head), to.add(head), lines);
            } else {
                copy_halves(from.add(head), to.add(head), lines);
            }
            let done = (head + lines).min(length);
            ptr::copy_nonoverlapping(from.add(done), to.add(done), length - done);
        }
        return true;
    }
    // SAFETY: as the caller says.
    unsafe { ptr::copy_nonoverlapping(from, to, length) };
    false
}

/// # Safety
///
/// As [`copy`]; `to` is the begin of a line, and `length` is of whole lines.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, length: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for at in (0..length).step_by(LINE) {
        // SAFETY: `at + LINE` is at most `length`; a vector is a line, which `to.add(at)` begins.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) };
    }
}

/// # Safety
///
/// As [`copy_lines`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_halves(from: *const u8, to: *mut u8, length: usize) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
    for at in (0..length).step_by(LINE) {
        for half in [at, at + LINE / 2] {
            // SAFETY: `at + LINE` is at most `length`; two vectors are a line, which `to.add(at)` begins.
            unsafe { _mm256_stream_si256(to.add(half).cast(), _mm256_loadu_si256(from.add(half).cast())) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_whatever_their_place_and_length() {
        let from: Vec<u8> = (0..3 * 4096 + 7).map(|byte| (byte % 251) as u8).collect();
        for (start, place, length) in
            [(0, 0, 4096), (1, 0, 8192), (3, 64, 8256), (0, 1, 8192), (5, 60, 8255), (0, 0, 0), (7, 64, 64)]
        {
            let mut to = vec![0_u8; 3 * 4096];
            let line = to.as_ptr().align_offset(LINE) + place;
            assert!(line + length <= to.len() && start + length <= from.len());
            Ways::of_memory(0).copy(&from[start..start + length], &mut to[line..line + length]);
            assert_eq!(to[line..line + length], from[start..start + length]);
            assert!(to[..line].iter().chain(&to[line + length..]).all(|&byte| byte == 0));
        }
    }
}
