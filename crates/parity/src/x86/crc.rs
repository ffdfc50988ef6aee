//! CRC32C by folding: eight vectors of 64 bytes at a time are each moved 512 bytes on, by multiplication without carries, and
//! added to what lies there. What is left at the end is moved together and divided.
//!
//! See Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009). Bits are in
//! the order of the wire: the lowest bit of a byte is the highest power of x.

use std::arch::x86_64::{
    __m512i, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_extract_epi64, _mm_ternarylogic_epi64, _mm_xor_si128,
    _mm512_castsi128_si512, _mm512_castsi512_si128, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32,
    _mm512_loadu_si512, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    _mm512_xor_si512,
};
use std::ptr;

/// Vectors at once: as many as hide how long a multiplication takes.
const VECTORS: usize = 8;
/// Bytes at a time.
pub const CRC_STEP: usize = VECTORS * VECTOR;
const VECTOR: usize = 64;
/// The polynomial 0x1edc6f41 in the order of the bits.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// The sum of three, as a table of truth.
const SUM_OF_THREE: i32 = 0x96;

/// `x^power` modulo the polynomial.
const fn power(power: u32) -> u64 {
    let mut value = 1_u32 << 31;
    let mut count = 0;
    while count < power {
        value = value >> 1 ^ if value & 1 == 0 { 0 } else { POLYNOMIAL };
        count += 1;
    }
    value as u64
}

/// What both halves of 16 bytes are multiplied by to move them so many bytes on. The product of numbers in this order is one bit
/// off, and a factor of 32 bits stands 32 bits off.
const fn over(bytes: u32) -> [u64; 2] {
    [power(8 * bytes + 64 - 33), power(8 * bytes - 33)]
}

/// The same for each 16 bytes of a vector.
const fn all_over(bytes: u32) -> [[u64; 2]; 4] {
    [over(bytes); 4]
}

/// The first three 16 bytes of a vector are moved onto the last ones.
const ONTO_LAST: [[u64; 2]; 4] = [over(48), over(32), over(16), [0; 2]];

/// CRC32C of `bytes`.
///
/// # Safety
///
/// The processor has what is enabled here. The length is a multiple of [`CRC_STEP`], more than none.
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,sse4.2")]
pub unsafe fn crc32c(bytes: &[u8]) -> u32 {
    // SAFETY: the same is asked for, and nothing is copied.
    unsafe { pass::<false>(bytes.as_ptr(), bytes.len(), ptr::null_mut()) }
}

/// Copies, and gives CRC32C.
///
/// # Safety
///
/// As [`crc32c`]; `to` is as long as `from`.
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,sse4.2")]
pub unsafe fn copy_crc32c(from: &[u8], to: &mut [u8]) -> u32 {
    // SAFETY: the same is asked for.
    unsafe { pass::<true>(from.as_ptr(), from.len(), to.as_mut_ptr()) }
}

/// # Safety
///
/// As [`crc32c`], for `length` bytes from `from` on; to copy them, as many can be written from `to` on, which are others.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,sse4.2")]
unsafe fn pass<const COPIES: bool>(from: *const u8, length: usize, to: *mut u8) -> u32 {
    let mut sums = [_mm512_setzero_si512(); VECTORS];
    for (index, sum) in sums.iter_mut().enumerate() {
        // SAFETY: there is one step at least.
        *sum = unsafe { next::<COPIES>(from, to, index * VECTOR) };
    }
    // The CRC begins with all ones.
    sums[0] = _mm512_xor_si512(sums[0], _mm512_castsi128_si512(_mm_cvtsi32_si128(-1)));
    let factors = constant(const { &all_over(CRC_STEP as u32) });
    let mut at = CRC_STEP;
    while at < length {
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: whole steps.
            *sum = moved(*sum, factors, unsafe { next::<COPIES>(from, to, at + index * VECTOR) });
        }
        at += CRC_STEP;
    }
    for (half, factors) in const { [(4, all_over(256)), (2, all_over(128)), (1, all_over(64))] } {
        for index in 0..half {
            sums[index] = moved(sums[index], constant(&factors), sums[index + half]);
        }
    }
    divided(sums[0])
}

/// The vector at `at`, which is copied on the way if that is wanted.
///
/// # Safety
///
/// It can be read, and written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn next<const COPIES: bool>(from: *const u8, to: *mut u8, at: usize) -> __m512i {
    // SAFETY: the caller says that it is there.
    let vector = unsafe { _mm512_loadu_si512(from.add(at).cast()) };
    if COPIES {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(to.add(at).cast(), vector) };
    }
    vector
}

#[inline]
#[target_feature(enable = "avx512f")]
fn constant(factors: &[[u64; 2]; 4]) -> __m512i {
    // SAFETY: they have 64 bytes.
    unsafe { _mm512_loadu_si512(factors.as_ptr().cast()) }
}

/// What `sum` becomes farther on, and what lies there.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn moved(sum: __m512i, factors: __m512i, there: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(sum, factors);
    let high = _mm512_clmulepi64_epi128::<0x11>(sum, factors);
    _mm512_ternarylogic_epi64::<SUM_OF_THREE>(low, high, there)
}

/// What is left of a vector, which ends the bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,sse4.2")]
fn divided(sum: __m512i) -> u32 {
    let factors = constant(&ONTO_LAST);
    let low = _mm512_clmulepi64_epi128::<0x00>(sum, factors);
    let moved = _mm512_xor_si512(low, _mm512_clmulepi64_epi128::<0x11>(sum, factors));
    let first = _mm512_castsi512_si128(moved);
    let [second, third] = [_mm512_extracti32x4_epi32::<1>(moved), _mm512_extracti32x4_epi32::<2>(moved)];
    let last = _mm512_extracti32x4_epi32::<3>(sum);
    let all = _mm_xor_si128(_mm_ternarylogic_epi64::<SUM_OF_THREE>(first, second, third), last);
    let half = _mm_crc32_u64(0, _mm_extract_epi64::<0>(all).cast_unsigned());
    !(_mm_crc32_u64(half, _mm_extract_epi64::<1>(all).cast_unsigned()) as u32)
}
