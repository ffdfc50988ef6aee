//! For any processor: eight bytes in an integer, eight integers at once, which compilers turn into the vectors that they know.

use crate::gf::{Factor, REDUCTION};
use crate::vector::{Vector, divides_the_granule};

const WORDS: usize = 8;
const _: () = assert!(divides_the_granule(Portable::BYTES));

/// 64 bytes.
#[derive(Clone, Copy)]
pub struct Portable([u64; WORDS]);

/// The same byte eight times.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Twice every byte.
#[inline(always)]
fn doubled(mut words: [u64; WORDS]) -> [u64; WORDS] {
    // Plain loops, here and below: closures of array methods are not always inlined, and then nothing becomes a vector.
    for word in &mut words {
        let highest = *word & each(0x80);
        // 0xff in each byte whose highest bit is set: 0x100 - 0x01 of each, without a borrow between them.
        let overflows = (highest << 1).wrapping_sub(highest >> 7);
        *word = ((*word << 1) & each(0xfe)) ^ (overflows & each(REDUCTION));
    }
    words
}

/// The sum.
#[inline(always)]
fn sum(mut words: [u64; WORDS], other: [u64; WORDS]) -> [u64; WORDS] {
    for index in 0..WORDS {
        words[index] ^= other[index];
    }
    words
}

impl Vector for Portable {
    const BYTES: usize = WORDS * 8;
    type Multiplier = u8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; WORDS])
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller says that so many bytes are there; no alignment is needed.
        unsafe { Self(from.cast::<[u64; WORDS]>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller says that so many bytes are there; no alignment is needed.
        unsafe { to.cast::<[u64; WORDS]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(sum(self.0, other.0))
    }

    #[inline(always)]
    unsafe fn doubled(self) -> Self {
        Self(doubled(self.0))
    }

    #[inline(always)]
    unsafe fn multiplier(factor: &Factor) -> u8 {
        factor.byte
    }

    #[inline(always)]
    unsafe fn times(self, multiplier: u8) -> Self {
        let mut product = [0; WORDS];
        for bit in (0..8).rev() {
            product = doubled(product);
            if multiplier >> bit & 1 != 0 {
                product = sum(product, self.0);
            }
        }
        Self(product)
    }
}
