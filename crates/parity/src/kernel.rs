//! The kernels of this processor, and which of them is used.

use std::fmt;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::column::Column;
use crate::gf;
use crate::recover::{self, Unrecoverable};
use crate::vector::Unknown;

/// Every length is a multiple of so many bytes.
pub const GRANULE: usize = 64;

/// A stripe has no more columns of data than this. The field would allow 255.
pub const MAX_DATA_COLUMNS: usize = 250;

/// The functions of a kernel. All ask for what [`crate::vector`] asks for.
#[expect(clippy::type_complexity, reason = "a name for each type would say less than the type")]
pub(crate) struct Functions {
    pub name: &'static str,
    pub xor: unsafe fn(&mut [u8], &[&[u8]]),
    pub xor_columns: unsafe fn(&mut [u8], Option<&[u8]>, &[Column]),
    pub pq: unsafe fn(&mut [u8], &mut [u8], &[&[u8]]),
    pub solve: unsafe fn(&[Column], Option<&[u8]>, Option<&[u8]>, &mut Unknown, Option<&mut Unknown>),
    pub update_p: unsafe fn(&mut [u8], &[u8], &[u8]),
    pub update_q: unsafe fn(&mut [u8], u8, &[u8], &[u8]),
    pub update_pq: unsafe fn(&mut [u8], &mut [u8], u8, &[u8], &[u8]),
}

/// Makes the [`Functions`] of a kind of vector: so many vectors at once for P, and for P and Q.
macro_rules! functions {
    ($name:literal, $vector:ty, $xor:literal, $pq:literal $(, $features:literal)?) => {{
        use crate::vector;
        $(#[target_feature(enable = $features)])?
        unsafe fn xor(p: &mut [u8], data: &[&[u8]]) {
            // SAFETY: the same is asked for.
            unsafe { vector::xor::<$vector, $xor, _>(p, None, data) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn xor_columns(target: &mut [u8], also: Option<&[u8]>, data: &[Column]) {
            // SAFETY: the same is asked for.
            unsafe { vector::xor::<$vector, $xor, _>(target, also, data) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn pq(p: &mut [u8], q: &mut [u8], data: &[&[u8]]) {
            // SAFETY: the same is asked for.
            unsafe { vector::pq::<$vector, $pq>(p, q, data) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn solve(
            data: &[Column],
            p: Option<&[u8]>,
            q: Option<&[u8]>,
            first: &mut Unknown,
            second: Option<&mut Unknown>,
        ) {
            // SAFETY: the same is asked for.
            unsafe { vector::solve::<$vector, $pq, _>(data, p, q, first, second) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn update_p(p: &mut [u8], old: &[u8], new: &[u8]) {
            // SAFETY: the same is asked for.
            unsafe { vector::update_p::<$vector>(p, old, new) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn update_q(q: &mut [u8], factor: u8, old: &[u8], new: &[u8]) {
            // SAFETY: the same is asked for.
            unsafe { vector::update_q::<$vector>(q, factor, old, new) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn update_pq(p: &mut [u8], q: &mut [u8], factor: u8, old: &[u8], new: &[u8]) {
            // SAFETY: the same is asked for.
            unsafe { vector::update_pq::<$vector>(p, q, factor, old, new) }
        }
        Functions { name: $name, xor, xor_columns, pq, solve, update_p, update_q, update_pq }
    }};
}

static PORTABLE: Functions = functions!("portable", crate::portable::Portable, 1, 1);
#[cfg(target_arch = "x86_64")]
static AVX2: Functions = functions!("avx2", crate::x86::Avx2, 4, 4, "avx2");
#[cfg(target_arch = "x86_64")]
static AVX512: Functions = functions!("avx512", crate::x86::Avx512, 8, 8, "avx512f,avx512bw");
#[cfg(target_arch = "x86_64")]
static GFNI: Functions = functions!("avx512-gfni", crate::x86::Gfni, 8, 8, "avx512f,avx512bw,gfni");

/// One way to compute. It can only be had for instructions that this processor has.
#[derive(Clone, Copy)]
pub struct Kernel(&'static Functions);

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Kernel").field(&self.0.name).finish()
    }
}

impl Kernel {
    /// All that this processor can run, the portable one first.
    pub fn all_available() -> Vec<Self> {
        let available = Self::available();
        available.into_iter().flatten().collect()
    }

    /// The fastest one of this processor.
    ///
    /// Of several with vector instructions the first call finds out by trying, as wider vectors are not faster on every
    /// processor: some tens of microseconds, so a node calls it before it serves. Every further call is a load.
    pub fn best() -> Self {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| fastest(&Self::available()))
    }

    /// `portable`, `avx2`, `avx512` or `avx512-gfni`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    #[cfg(target_arch = "x86_64")]
    fn available() -> [Option<Self>; 4] {
        let avx2 = is_x86_feature_detected!("avx2");
        let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let gfni = avx512 && is_x86_feature_detected!("gfni");
        [
            Some(Self(&PORTABLE)),
            avx2.then_some(Self(&AVX2)),
            avx512.then_some(Self(&AVX512)),
            gfni.then_some(Self(&GFNI)),
        ]
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn available() -> [Option<Self>; 1] {
        [Some(Self(&PORTABLE))]
    }

    /// [`crate::xor`].
    pub fn xor(self, p: &mut [u8], data: &[&[u8]]) {
        check(p.len(), data.len(), data.iter().map(|bytes| bytes.len()));
        // SAFETY: this kernel is available, and the lengths have been checked.
        unsafe { (self.0.xor)(p, data) }
    }

    /// [`crate::pq`].
    pub fn pq(self, p: &mut [u8], q: &mut [u8], data: &[&[u8]]) {
        check(p.len(), data.len(), data.iter().map(|bytes| bytes.len()).chain([q.len()]));
        // SAFETY: this kernel is available, and the lengths have been checked.
        unsafe { (self.0.pq)(p, q, data) }
    }

    /// [`crate::update_p`].
    pub fn update_p(self, p: &mut [u8], old: &[u8], new: &[u8]) {
        check(p.len(), 1, [old.len(), new.len()]);
        // SAFETY: this kernel is available, and the lengths have been checked.
        unsafe { (self.0.update_p)(p, old, new) }
    }

    /// [`crate::update_q`].
    pub fn update_q(self, q: &mut [u8], column: usize, old: &[u8], new: &[u8]) {
        check(q.len(), column + 1, [old.len(), new.len()]);
        // SAFETY: this kernel is available, and the lengths have been checked.
        unsafe { (self.0.update_q)(q, gf::power(column), old, new) }
    }

    /// [`crate::update_pq`].
    pub fn update_pq(self, p: &mut [u8], q: &mut [u8], column: usize, old: &[u8], new: &[u8]) {
        check(p.len(), column + 1, [q.len(), old.len(), new.len()]);
        // SAFETY: this kernel is available, and the lengths have been checked.
        unsafe { (self.0.update_pq)(p, q, gf::power(column), old, new) }
    }

    /// [`crate::recover`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn recover(self, data: &mut [Column], p: &mut Column, q: &mut Column) -> Result<(), Unrecoverable> {
        recover::recover(self, data, p, q)
    }

    /// `target` becomes the sum of what is known of `data`, and of `also`.
    pub(crate) fn xor_columns(self, target: &mut [u8], also: Option<&[u8]>, data: &[Column]) {
        let others = also.map(<[u8]>::len).into_iter().chain(data.iter().filter_map(Column::len));
        check(target.len(), data.len(), others);
        // SAFETY: this kernel is available, and the lengths have been checked.
        unsafe { (self.0.xor_columns)(target, also, data) }
    }

    /// Computes one or two columns from what is known of the others.
    pub(crate) fn solve(
        self,
        data: &[Column],
        p: Option<&[u8]>,
        q: Option<&[u8]>,
        first: &mut Unknown,
        second: Option<&mut Unknown>,
    ) {
        let others = [p.map(<[u8]>::len), q.map(<[u8]>::len), second.as_ref().map(|one| one.target.len())];
        let others = others.into_iter().flatten().chain(data.iter().filter_map(Column::len));
        check(first.target.len(), data.len(), others);
        // SAFETY: this kernel is available, and the lengths have been checked.
        unsafe { (self.0.solve)(data, p, q, first, second) }
    }
}

/// What the kernels rely on.
pub(crate) fn check(length: usize, columns: usize, others: impl IntoIterator<Item = usize>) {
    assert!(length.is_multiple_of(GRANULE), "{length} bytes are no multiple of {GRANULE}");
    assert!((1..=MAX_DATA_COLUMNS).contains(&columns), "{columns} columns of data");
    for other in others {
        assert!(other == length, "columns of {length} and {other} bytes");
    }
}

/// The fastest of the available ones at what costs most, P and Q of a stripe that lies in the cache. One with fewer
/// instructions is only chosen if it is faster by a tenth, so that near ties do not depend on luck.
fn fastest(available: &[Option<Kernel>]) -> Kernel {
    let mut kernels = available.iter().flatten().copied().rev();
    let Some(mut best) = kernels.next() else { return Kernel(&PORTABLE) };
    // The portable one is only for want of another: nothing to measure.
    let mut kernels = kernels.filter(|kernel| !std::ptr::eq(kernel.0, &raw const PORTABLE)).peekable();
    if kernels.peek().is_none() {
        return best;
    }
    let mut best_time = time(best);
    for kernel in kernels {
        let took = time(kernel);
        if took < best_time * 9 / 10 {
            (best, best_time) = (kernel, took);
        }
    }
    best
}

/// The shortest time of a few stripes of 8 columns of 1 KiB.
fn time(kernel: Kernel) -> Duration {
    const ATTEMPTS: u32 = 16;
    const STRIPES: u32 = 8;
    let column = [0x5a_u8; 1024];
    let data = [&column[..]; 8];
    let [mut p, mut q] = [[0_u8; 1024]; 2];
    let attempt = |_| {
        let begun = Instant::now();
        for _ in 0..STRIPES {
            kernel.pq(black_box(&mut p), black_box(&mut q), black_box(&data));
        }
        begun.elapsed()
    };
    (0..ATTEMPTS).map(attempt).min().unwrap_or(Duration::MAX)
}
