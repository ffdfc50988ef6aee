//! Copies into memory that nobody has touched for long.
//!
//! A store brings the line in from memory first, of which nothing is left when all of it is written. Stores past the cache
//! do without. Whether that is quicker depends on the processor: it was measured to be on one of Intel with AVX-512, for what
//! is not so short that it has been fetched in time, and on AMD's Zen 3 and 4. On Zen 5 it is the slower way for more than a
//! page, and to fetch what is there before brings nothing either; a page by itself is quicker so when the core does something
//! else before it waits for it (docs/performance.md).
//!
//! The kernel copies what is sent from there as well. On Zen 5 one long copy of Fels's own to a buffer that is in the cache,
//! and the kernel's from that, are quicker together than the kernel's alone.

use std::ops::RangeInclusive;
use std::ptr;
use std::sync::OnceLock;

use super::{LINE, PAGE};

/// What this processor is best at.
struct Ways {
    /// A write of so many bytes goes past the cache.
    past_cache: RangeInclusive<usize>,
    /// From so many bytes on nothing is won by fetching what is there before it is written over.
    unfetched: usize,
    /// So many bytes that are to be sent go to a buffer first.
    copied: RangeInclusive<usize>,
}

/// No bytes, which nobody sends.
const NEVER: RangeInclusive<usize> = 0..=0;
/// What is so long, where it pays.
const COPIED: RangeInclusive<usize> = 64 << 10..=1 << 20;
/// A memory of so many bytes does not stay in the last cache, of which that processor shows 32 MiB: where it stays, a copy more
/// costs a seventh.
const COLD: u64 = 128 << 20;

#[inline]
fn ways() -> &'static Ways {
    static WAYS: OnceLock<Ways> = OnceLock::new();
    WAYS.get_or_init(Ways::of_this_processor)
}

/// Whether a write of so many bytes goes past the cache.
#[inline]
fn writes_past_cache(length: usize) -> bool {
    ways().past_cache.contains(&length)
}

/// Whether it pays to fetch what is in memory before so many bytes are written over it.
#[inline]
pub fn fetches_before_write(length: usize) -> bool {
    length < ways().unfetched
}

/// Whether `length` bytes of a memory of `memory` bytes, which nobody has looked at, are better copied to a buffer, which is
/// in the cache, before they are sent.
#[inline]
pub fn is_copied_before_sent(length: usize, memory: u64) -> bool {
    memory >= COLD && ways().copied.contains(&length)
}

impl Ways {
    fn past_cache_from(bytes: usize) -> Ways {
        // Tests have the copy too.
        let copied = if cfg!(test) { COPIED } else { NEVER };
        Ways { past_cache: bytes..=usize::MAX, unfetched: bytes, copied }
    }

    #[cfg(target_arch = "x86_64")]
    fn of_this_processor() -> Ways {
        let (maker, version) = (std::arch::x86_64::__cpuid(0), std::arch::x86_64::__cpuid(1).eax);
        let maker = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
        // With its extended part.
        let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
        if cfg!(test) && is_x86_feature_detected!("avx2") {
            // Tests have the way that is easier to get wrong, wherever they run.
            return Ways::past_cache_from(PAGE);
        }
        match maker.as_flattened() {
            b"GenuineIntel" if is_x86_feature_detected!("avx512f") => Ways::past_cache_from(8 << 10),
            // Zen 3, and Zen 4.
            b"AuthenticAMD" if family == 25 && is_x86_feature_detected!("avx2") => {
                Ways::past_cache_from(8 << 10)
            }
            // Zen 5; writes of less than a page and sends of more than a MiB were not measured.
            b"AuthenticAMD" if family == 26 && is_x86_feature_detected!("avx2") => {
                Ways { past_cache: PAGE..=PAGE, unfetched: PAGE, copied: COPIED }
            }
            _ => Ways::past_cache_from(usize::MAX),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_this_processor() -> Ways {
        Ways::past_cache_from(usize::MAX)
    }
}

/// Copies bytes to where most likely nobody has been for long, as a volume in RAM does. Panics when there are more or less
/// of them than there is room.
pub fn copy_cold(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "as many bytes as there is room for");
    // SAFETY: two slices of that length, of which one is nobody else's.
    if unsafe { copy(from.as_ptr(), to.as_mut_ptr(), from.len()) } {
        settle();
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

/// Copies `length` bytes to `to`, most likely cold. Gives whether they went past the cache: such stores are in no order, and
/// are to be [settled](settle) before the lock of their page is opened.
///
/// # Safety
///
/// They can be read and written, and do not overlap.
#[must_use]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if writes_past_cache(length) {
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
            copy_cold(&from[start..start + length], &mut to[line..line + length]);
            assert_eq!(to[line..line + length], from[start..start + length]);
            assert!(to[..line].iter().chain(&to[line + length..]).all(|&byte| byte == 0));
        }
    }
}
