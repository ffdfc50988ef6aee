//! 64 bytes; products by a matrix of bits. `gf2p8mulb` would be nearer, but its polynomial is another one (0x11b).

use std::arch::x86_64::{__m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_set1_epi64};

use super::Avx512;
use crate::gf::{self, Factor};
use crate::vector::Vector;

/// 64 bytes, with AVX-512 F and BW, and GFNI.
#[derive(Clone, Copy)]
pub struct Gfni(Avx512);

impl Vector for Gfni {
    const BYTES: usize = Avx512::BYTES;
    type Multiplier = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the same is asked for.
        unsafe { Self(Avx512::zero()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the same is asked for.
        unsafe { Self(Avx512::load(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the same is asked for.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn expect(to: *mut u8) {
        // SAFETY: the same is asked for.
        unsafe { Avx512::expect(to) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the same is asked for.
        unsafe { Self(self.0.plus(other.0)) }
    }

    #[inline(always)]
    unsafe fn doubled(self) -> Self {
        // SAFETY: the same is asked for.
        unsafe { self.times(Self::multiplier(gf::of(2))) }
    }

    #[inline(always)]
    unsafe fn multiplier(factor: &Factor) -> __m512i {
        // SAFETY: the caller says that the processor has AVX-512 F.
        unsafe { _mm512_set1_epi64(factor.matrix.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn times(self, multiplier: __m512i) -> Self {
        // SAFETY: the caller says that the processor has AVX-512 F and GFNI.
        unsafe { Self(Avx512(_mm512_gf2p8affine_epi64_epi8::<0>(self.0.0, multiplier))) }
    }
}
