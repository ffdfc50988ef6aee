//! 32 bytes; products by tables of nibbles.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

use crate::gf::{Factor, REDUCTION};
use crate::vector::{Vector, divides_the_granule};

const _: () = assert!(divides_the_granule(Avx2::BYTES));

/// 32 bytes, with AVX2.
#[derive(Clone, Copy)]
pub struct Avx2(__m256i);

impl Vector for Avx2 {
    const BYTES: usize = 32;
    type Multiplier = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller says that the processor has AVX2.
        unsafe { Self(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller says that so many bytes are there, and AVX2.
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller says that so many bytes are there, and AVX2.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the caller says that the processor has AVX2.
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn doubled(self) -> Self {
        // SAFETY: the caller says that the processor has AVX2.
        unsafe {
            let overflows = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduction = _mm256_and_si256(overflows, _mm256_set1_epi8(REDUCTION.cast_signed()));
            Self(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduction))
        }
    }

    #[inline(always)]
    unsafe fn multiplier(factor: &Factor) -> [__m256i; 2] {
        // SAFETY: a table has 16 bytes; the caller says that the processor has AVX2.
        [&factor.low, &factor.high]
            .map(|table| unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) })
    }

    #[inline(always)]
    unsafe fn times(self, [low, high]: [__m256i; 2]) -> Self {
        // SAFETY: the caller says that the processor has AVX2.
        unsafe {
            let nibble = _mm256_set1_epi8(15);
            let lower = _mm256_and_si256(self.0, nibble);
            let higher = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), nibble);
            Self(_mm256_xor_si256(_mm256_shuffle_epi8(low, lower), _mm256_shuffle_epi8(high, higher)))
        }
    }
}
