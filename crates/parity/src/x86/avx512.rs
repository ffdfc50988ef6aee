//! 64 bytes; products by tables of nibbles.

use std::arch::x86_64::{
    __m512i, _MM_HINT_ET0, _mm_loadu_si128, _mm_prefetch, _mm512_add_epi8, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_maskz_mov_epi8, _mm512_movepi8_mask, _mm512_set1_epi8,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srli_epi64, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use crate::gf::{Factor, REDUCTION};
use crate::vector::{Vector, divides_the_granule};

const _: () = assert!(divides_the_granule(Avx512::BYTES));

/// The sum of three, as a table of truth.
const SUM_OF_THREE: i32 = 0x96;

/// 64 bytes, with AVX-512 F and BW.
#[derive(Clone, Copy)]
pub struct Avx512(pub(super) __m512i);

impl Avx512 {
    /// Twice itself before the reduction, and the reduction.
    #[inline(always)]
    unsafe fn double_parts(self) -> [__m512i; 2] {
        // SAFETY: the caller says that the processor has AVX-512 F and BW.
        unsafe {
            let overflows = _mm512_movepi8_mask(self.0);
            let reduction = _mm512_maskz_mov_epi8(overflows, _mm512_set1_epi8(REDUCTION.cast_signed()));
            [_mm512_add_epi8(self.0, self.0), reduction]
        }
    }
}

impl Vector for Avx512 {
    const BYTES: usize = 64;
    type Multiplier = [__m512i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller says that the processor has AVX-512 F and BW.
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller says that so many bytes are there, and AVX-512 F and BW.
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller says that so many bytes are there, and AVX-512 F and BW.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn expect(to: *mut u8) {
        // SAFETY: a hint, which reads and writes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(to.cast()) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the caller says that the processor has AVX-512 F and BW.
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn doubled(self) -> Self {
        // SAFETY: the caller says that the processor has AVX-512 F and BW.
        unsafe {
            let [double, reduction] = self.double_parts();
            Self(_mm512_xor_si512(double, reduction))
        }
    }

    #[inline(always)]
    unsafe fn doubled_plus(self, other: Self) -> Self {
        // SAFETY: the caller says that the processor has AVX-512 F and BW.
        unsafe {
            let [double, reduction] = self.double_parts();
            Self(_mm512_ternarylogic_epi64::<SUM_OF_THREE>(double, reduction, other.0))
        }
    }

    #[inline(always)]
    unsafe fn multiplier(factor: &Factor) -> [__m512i; 2] {
        // SAFETY: a table has 16 bytes; the caller says that the processor has AVX-512 F and BW.
        [&factor.low, &factor.high]
            .map(|table| unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())) })
    }

    #[inline(always)]
    unsafe fn times(self, [low, high]: [__m512i; 2]) -> Self {
        // SAFETY: the caller says that the processor has AVX-512 F and BW.
        unsafe {
            let nibble = _mm512_set1_epi8(15);
            let lower = _mm512_and_si512(self.0, nibble);
            let higher = _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), nibble);
            Self(_mm512_xor_si512(_mm512_shuffle_epi8(low, lower), _mm512_shuffle_epi8(high, higher)))
        }
    }
}
