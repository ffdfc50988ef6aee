//! The loops, once for vectors of every kind.
//!
//! All columns of a few vectors are summed in registers before the next few: every byte is read once, and P and Q are
//! written once. Q is summed by Horner's rule from the last column down: double, add the next one.
//!
//! Everything is inlined into a function that has the vectors' target feature, hence `inline(always)`.
//!
//! # Safety
//!
//! Every `unsafe fn` here asks for the same: the processor has the instructions of `V`; every slice, source and target is
//! `length` bytes long, which is a multiple of [`GRANULE`]; targets overlap with nothing.

use crate::column::Source;
use crate::gf;
use crate::kernel::GRANULE;

/// Columns of data with which lines of P and Q are not fetched before they are written: so many reads are under way for as long
/// as that takes, and a core has no more than 12 to 16 lines under way.
const MANY: usize = 8;

/// A few bytes that are computed with at once. Not more than [`GRANULE`], and a power of two.
pub trait Vector: Copy {
    /// How many.
    const BYTES: usize;
    /// A multiplicand as [`Vector::times`] wants it.
    type Multiplier: Copy;

    /// All zero.
    unsafe fn zero() -> Self;
    /// From memory at any address.
    unsafe fn load(from: *const u8) -> Self;
    /// To memory at any address.
    unsafe fn store(self, to: *mut u8);
    /// It will be stored there: the line may be fetched meanwhile.
    #[inline(always)]
    unsafe fn expect(_to: *mut u8) {}
    /// The sum.
    unsafe fn plus(self, other: Self) -> Self;
    /// The product with 2.
    unsafe fn doubled(self) -> Self;
    /// The product with 2, plus another: one step of Horner's rule.
    #[inline(always)]
    unsafe fn doubled_plus(self, other: Self) -> Self {
        // SAFETY: the same is asked for.
        unsafe { self.doubled().plus(other) }
    }
    /// A factor, ready for use.
    unsafe fn multiplier(factor: &gf::Factor) -> Self::Multiplier;
    /// The product.
    unsafe fn times(self, multiplier: Self::Multiplier) -> Self;
}

/// What becomes of the sums of some bytes.
trait Finish<V> {
    /// It will write something at the offset `at`.
    #[inline(always)]
    unsafe fn expect(&mut self, _at: usize) {}
    /// Writes what it makes of the sums of P and Q at the offset `at`.
    unsafe fn finish(&mut self, at: usize, p: V, q: V);
}

/// P and Q as they are.
struct Both<'a> {
    p: &'a mut [u8],
    q: &'a mut [u8],
}

impl<V: Vector> Finish<V> for Both<'_> {
    #[inline(always)]
    unsafe fn expect(&mut self, at: usize) {
        // SAFETY: `at` is within both.
        unsafe {
            V::expect(self.p.as_mut_ptr().add(at));
            V::expect(self.q.as_mut_ptr().add(at));
        }
    }

    #[inline(always)]
    unsafe fn finish(&mut self, at: usize, p: V, q: V) {
        // SAFETY: `at` and the bytes of a vector are within both.
        unsafe {
            p.store(self.p.as_mut_ptr().add(at));
            q.store(self.q.as_mut_ptr().add(at));
        }
    }
}

/// A column to compute: `by_p` times what is missing in P, plus `by_q` times what is missing in Q.
pub struct Unknown<'a> {
    /// The column.
    pub target: &'a mut [u8],
    /// Factor of P.
    pub by_p: u8,
    /// Factor of Q.
    pub by_q: u8,
}

/// Up to two columns to compute.
struct Solve<'a, V: Vector> {
    p: Option<&'a [u8]>,
    q: Option<&'a [u8]>,
    first: &'a mut [u8],
    second: Option<&'a mut [u8]>,
    multipliers: [[V::Multiplier; 2]; 2],
}

impl<V: Vector> Finish<V> for Solve<'_, V> {
    #[inline(always)]
    unsafe fn finish(&mut self, at: usize, mut p: V, mut q: V) {
        // SAFETY: `at` and the bytes of a vector are within all of them.
        unsafe {
            if let Some(known) = self.p {
                p = p.plus(V::load(known.as_ptr().add(at)));
            }
            if let Some(known) = self.q {
                q = q.plus(V::load(known.as_ptr().add(at)));
            }
            let [[by_p, by_q], second] = self.multipliers;
            p.times(by_p).plus(q.times(by_q)).store(self.first.as_mut_ptr().add(at));
            if let Some(target) = &mut self.second {
                let [by_p, by_q] = second;
                p.times(by_p).plus(q.times(by_q)).store(target.as_mut_ptr().add(at));
            }
        }
    }
}

/// `target` becomes the sum of `data` and `also`. `WIDE` vectors at once.
#[inline(always)]
pub unsafe fn xor<V: Vector, const WIDE: usize, S: Source>(
    target: &mut [u8],
    also: Option<&[u8]>,
    data: &[S],
) {
    let length = target.len();
    let wide = length - length % (WIDE * V::BYTES);
    let mut at = 0;
    // SAFETY: as asked for; every offset is below `length`, of which GRANULE and so the narrow step is a divisor.
    unsafe {
        while at < wide {
            xor_at::<V, WIDE, S>(target, also, data, at);
            at += WIDE * V::BYTES;
        }
        while at < length {
            xor_at::<V, 1, S>(target, also, data, at);
            at += V::BYTES;
        }
    }
}

#[inline(always)]
unsafe fn xor_at<V: Vector, const WIDE: usize, S: Source>(
    target: &mut [u8],
    also: Option<&[u8]>,
    data: &[S],
    at: usize,
) {
    // SAFETY: as asked for; the caller keeps the WIDE vectors at `at` within `length`.
    unsafe {
        for index in 0..WIDE {
            V::expect(target.as_mut_ptr().add(at + index * V::BYTES));
        }
        let mut sums = match also {
            Some(bytes) => load::<V, WIDE>(bytes, at),
            None => [V::zero(); WIDE],
        };
        // From the last one down, as for Q: where columns lie one behind the other, some processors take the way up for a
        // walk of their own and fetch what nobody needs.
        for bytes in data.iter().rev().filter_map(Source::bytes) {
            let read = load::<V, WIDE>(bytes, at);
            for index in 0..WIDE {
                sums[index] = sums[index].plus(read[index]);
            }
        }
        for (index, sum) in sums.into_iter().enumerate() {
            sum.store(target.as_mut_ptr().add(at + index * V::BYTES));
        }
    }
}

/// P and Q of `data`.
#[inline(always)]
pub unsafe fn pq<V: Vector, const WIDE: usize>(p: &mut [u8], q: &mut [u8], data: &[&[u8]]) {
    let length = p.len();
    // SAFETY: as asked for.
    unsafe { sums::<V, WIDE, _>(data, length, Both { p, q }) }
}

/// One or two columns from the others: `data` has all of the data in their order.
#[inline(always)]
pub unsafe fn solve<V: Vector, const WIDE: usize, S: Source>(
    data: &[S],
    p: Option<&[u8]>,
    q: Option<&[u8]>,
    first: &mut Unknown,
    second: Option<&mut Unknown>,
) {
    let length = first.target.len();
    let multiplier = |byte| {
        // SAFETY: the processor has the instructions, as asked for.
        unsafe { V::multiplier(gf::of(byte)) }
    };
    let pair = |unknown: &Unknown| [multiplier(unknown.by_p), multiplier(unknown.by_q)];
    let multipliers = [pair(first), second.as_ref().map_or([multiplier(0); 2], |unknown| pair(unknown))];
    let (first, second) = (&mut *first.target, second.map(|unknown| &mut *unknown.target));
    // SAFETY: as asked for.
    unsafe { sums::<V, WIDE, S>(data, length, Solve { p, q, first, second, multipliers }) }
}

#[inline(always)]
unsafe fn sums<V: Vector, const WIDE: usize, S: Source>(
    data: &[S],
    length: usize,
    mut finish: impl Finish<V>,
) {
    let wide = length - length % (WIDE * V::BYTES);
    let mut at = 0;
    // SAFETY: as asked for; every offset is below `length`, of which GRANULE and so the narrow step is a divisor.
    unsafe {
        while at < wide {
            sums_at::<V, WIDE, S>(data, at, &mut finish);
            at += WIDE * V::BYTES;
        }
        while at < length {
            sums_at::<V, 1, S>(data, at, &mut finish);
            at += V::BYTES;
        }
    }
}

#[inline(always)]
unsafe fn sums_at<V: Vector, const WIDE: usize, S: Source>(
    data: &[S],
    at: usize,
    finish: &mut impl Finish<V>,
) {
    let Some((last, rest)) = data.split_last() else { return };
    // SAFETY: as asked for; the caller keeps the WIDE vectors at `at` within `length`.
    unsafe {
        if data.len() < MANY {
            for index in 0..WIDE {
                finish.expect(at + index * V::BYTES);
            }
        }
        let mut q = match last.bytes() {
            Some(bytes) => load::<V, WIDE>(bytes, at),
            None => [V::zero(); WIDE],
        };
        let mut p = q;
        for column in rest.iter().rev() {
            if let Some(bytes) = column.bytes() {
                let read = load::<V, WIDE>(bytes, at);
                for index in 0..WIDE {
                    p[index] = p[index].plus(read[index]);
                    q[index] = q[index].doubled_plus(read[index]);
                }
            } else {
                for sum in &mut q {
                    *sum = sum.doubled();
                }
            }
        }
        for index in 0..WIDE {
            finish.finish(at + index * V::BYTES, p[index], q[index]);
        }
    }
}

#[inline(always)]
unsafe fn load<V: Vector, const WIDE: usize>(bytes: &[u8], at: usize) -> [V; WIDE] {
    // SAFETY: the caller keeps the WIDE vectors at `at` within the slice.
    unsafe {
        let mut vectors = [V::zero(); WIDE];
        for (index, vector) in vectors.iter_mut().enumerate() {
            *vector = V::load(bytes.as_ptr().add(at + index * V::BYTES));
        }
        vectors
    }
}

/// `p` becomes itself plus the difference of `old` and `new`.
#[inline(always)]
pub unsafe fn update_p<V: Vector>(p: &mut [u8], old: &[u8], new: &[u8]) {
    for at in (0..p.len()).step_by(V::BYTES) {
        // SAFETY: as asked for; GRANULE is a multiple of the step.
        unsafe {
            let (old, new) = (V::load(old.as_ptr().add(at)), V::load(new.as_ptr().add(at)));
            let p = p.as_mut_ptr().add(at);
            V::load(p).plus(old.plus(new)).store(p);
        }
    }
}

/// `q` becomes itself plus `factor` times the difference of `old` and `new`.
#[inline(always)]
pub unsafe fn update_q<V: Vector>(q: &mut [u8], factor: u8, old: &[u8], new: &[u8]) {
    // SAFETY: as asked for; GRANULE is a multiple of the step.
    unsafe {
        let multiplier = V::multiplier(gf::of(factor));
        for at in (0..q.len()).step_by(V::BYTES) {
            let (old, new) = (V::load(old.as_ptr().add(at)), V::load(new.as_ptr().add(at)));
            let q = q.as_mut_ptr().add(at);
            V::load(q).plus(old.plus(new).times(multiplier)).store(q);
        }
    }
}

/// Both at once.
#[inline(always)]
pub unsafe fn update_pq<V: Vector>(p: &mut [u8], q: &mut [u8], factor: u8, old: &[u8], new: &[u8]) {
    // SAFETY: as asked for; GRANULE is a multiple of the step.
    unsafe {
        let multiplier = V::multiplier(gf::of(factor));
        for at in (0..p.len()).step_by(V::BYTES) {
            let (old, new) = (V::load(old.as_ptr().add(at)), V::load(new.as_ptr().add(at)));
            let (p, q) = (p.as_mut_ptr().add(at), q.as_mut_ptr().add(at));
            let change = old.plus(new);
            V::load(p).plus(change).store(p);
            V::load(q).plus(change.times(multiplier)).store(q);
        }
    }
}

/// That the narrow steps above end exactly at the end.
pub const fn divides_the_granule(bytes: usize) -> bool {
    GRANULE.is_multiple_of(bytes)
}
