//! The arithmetic of pools, and nothing else: no I/O, no layout, no allocation. It is that of RAID 5 and RAID 6, and the checksum
//! of blocks ([`crc32c`]).
//!
//! A stripe has data columns `D_0 .. D_n-1` and one or two of parity, all of the same length:
//!
//! ```text
//! P = D_0 + D_1 + ... + D_n-1
//! Q = g^0 D_0 + g^1 D_1 + ... + g^(n-1) D_n-1
//! ```
//!
//! in GF(2^8) with the polynomial `x^8 + x^4 + x^3 + x^2 + 1` (0x11d) and `g = 2`, byte for byte; `+` is exclusive or. The
//! first column has the lowest power of `g`, the last one the highest. Linux md and isa-l do the same, so P and Q are theirs.
//!
//! As every byte position stands for itself, a part of a stripe unit is as good as a whole one: hand over the same
//! range of every column. Any number of bytes that is a multiple of [`GRANULE`] will do, zero included, at any address.
//! Aligned to 64 bytes it is fastest.
//!
//! The functions here use [`Kernel::best`]; the same ones on a [`Kernel`] are for tests and measurements.
//! A wrong call (columns of different lengths, too many of them) panics; a stripe that has lost too much is an error.
//!
//! It is a crate of its own because vector instructions need `unsafe`: beside `ring` the only crate of Fels that has any.

mod checksum;
mod column;
mod gf;
mod kernel;
mod portable;
mod recover;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use checksum::{copy_crc32c, crc32c};
pub use column::Column;
pub use kernel::{GRANULE, Kernel, MAX_DATA_COLUMNS};
pub use recover::Unrecoverable;

/// P: the sum of all columns of data.
pub fn xor(p: &mut [u8], data: &[&[u8]]) {
    Kernel::best().xor(p, data);
}

/// P and Q of all columns of data, in one pass.
pub fn pq(p: &mut [u8], q: &mut [u8], data: &[&[u8]]) {
    Kernel::best().pq(p, q, data);
}

/// P after one column of data has changed from `old` to `new`; the same for every column.
pub fn update_p(p: &mut [u8], old: &[u8], new: &[u8]) {
    Kernel::best().update_p(p, old, new);
}

/// Q after the column of data with the index `column` has changed from `old` to `new`.
pub fn update_q(q: &mut [u8], column: usize, old: &[u8], new: &[u8]) {
    Kernel::best().update_q(q, column, old, new);
}

/// [`update_p`] and [`update_q`] in one pass.
pub fn update_pq(p: &mut [u8], q: &mut [u8], column: usize, old: &[u8], new: &[u8]) {
    Kernel::best().update_pq(p, q, column, old, new);
}

/// Computes every [`Column::Missing`] of a stripe from what is [`Column::Known`].
///
/// `data` has all columns of data in their order. A stripe of RAID 5 is one whose `q` is [`Column::Absent`].
/// Any two columns may be unknown (missing or absent), whichever they are; with RAID 5, whose Q is one of
/// them, any one. Only what is needed is read: with P and all but one column of data, Q is not.
///
/// ```
/// use parity::Column::{Absent, Known, Missing};
/// let [first, third, p, mut second] = [[1; 64], [4; 64], [7; 64], [0; 64]];
/// let mut data = [Known(&first), Missing(&mut second), Known(&third)];
/// parity::recover(&mut data, &mut Known(&p), &mut Absent)?;
/// assert_eq!(second, [2; 64]);
/// # Ok::<(), parity::Unrecoverable>(())
/// ```
///
/// # Errors
///
/// More columns of data are unknown than columns of parity are known, although something is to be computed. Nothing is
/// written then.
pub fn recover(data: &mut [Column], p: &mut Column, q: &mut Column) -> Result<(), Unrecoverable> {
    Kernel::best().recover(data, p, q)
}
