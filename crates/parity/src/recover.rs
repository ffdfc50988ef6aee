//! Which columns come from which others, and by which factors.
//!
//! With the sum of the known data and the known P as `p`, and the same of Q as `q`, whatever is unknown is
//! `by_p * p + by_q * q`:
//!
//! | unknown | column | `by_p` | `by_q` |
//! |---|---|---|---|
//! | P, Q | P | 1 | 0 |
//! | | Q | 0 | 1 |
//! | `D_x` with P known | `D_x` | 1 | 0 |
//! | | Q, if unknown too | g^x | 1 |
//! | `D_x` with Q known | `D_x` | 0 | g^-x |
//! | | P, if unknown too | 1 | g^-x |
//! | `D_x`, `D_y` | `D_x` | g^y / (g^x + g^y) | 1 / (g^x + g^y) |
//! | | `D_y` | g^x / (g^x + g^y) | 1 / (g^x + g^y) |

use std::fmt;

use crate::column::Column;
use crate::gf;
use crate::kernel::{Kernel, check};
use crate::vector::Unknown;

/// A stripe of which more is unknown than its parity can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecoverable {
    /// Columns of data that are not known.
    pub unknown_data: usize,
    /// Columns of parity that are.
    pub known_parity: usize,
}

impl fmt::Display for Unrecoverable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unknown_data, known_parity } = self;
        write!(formatter, "{unknown_data} columns of data are unknown and {known_parity} of parity known")
    }
}

impl std::error::Error for Unrecoverable {}

/// The factors of P and Q for a column.
type Factors = [u8; 2];

/// [`crate::recover`].
pub fn recover(
    kernel: Kernel,
    data: &mut [Column],
    p: &mut Column,
    q: &mut Column,
) -> Result<(), Unrecoverable> {
    let mut lengths = data.iter().chain([&*p, &*q]).filter_map(Column::len);
    check(lengths.next().unwrap_or(0), data.len(), lengths);
    let is_missing = |column: &Column| matches!(column, Column::Missing(_));
    if !data.iter().any(is_missing) && !is_missing(p) && !is_missing(q) {
        return Ok(());
    }
    let unknown = unknown_data(data, p, q)?;
    let factors = data_factors(unknown, !p.is_unknown());

    // What is known stays where it is; what is missing is taken out, so that it can be written.
    let [first, second] = unknown.map(|index| data.get_mut(index?)?.take_missing());
    let (missing_p, missing_q) = (p.take_missing(), q.take_missing());
    let [p_factors, q_factors] = parity_factors(unknown, factors);
    let mut targets = [
        target(first, factors[0]),
        target(second, factors[1]),
        target(missing_p, p_factors),
        target(missing_q, q_factors),
    ];
    // Of four at most two are there: what is unknown is not more than the two columns of parity.
    let mut targets = targets.iter_mut().filter_map(Option::as_mut);
    let Some(first) = targets.next() else { return Ok(()) };
    let second = targets.next();
    debug_assert!(targets.next().is_none());
    if second.is_none() && first.by_q == 0 {
        kernel.xor_columns(first.target, p.known(), data);
    } else {
        kernel.solve(data, p.known(), q.known(), first, second);
    }
    Ok(())
}

fn target(bytes: Option<&mut [u8]>, [by_p, by_q]: Factors) -> Option<Unknown<'_>> {
    bytes.map(|target| Unknown { target, by_p, by_q })
}

/// The indices of the columns of data that are not known.
fn unknown_data(data: &[Column], p: &Column, q: &Column) -> Result<[Option<usize>; 2], Unrecoverable> {
    let unknown = || data.iter().enumerate().filter(|(_, column)| column.is_unknown());
    let known_parity = [p, q].into_iter().filter(|parity| !parity.is_unknown()).count();
    let unknown_data = unknown().count();
    if unknown_data > known_parity {
        return Err(Unrecoverable { unknown_data, known_parity });
    }
    let mut indices = unknown().map(|(index, _)| index);
    Ok([indices.next(), indices.next()])
}

/// The factors for the unknown columns of data.
fn data_factors(unknown: [Option<usize>; 2], p_is_known: bool) -> [Factors; 2] {
    match unknown {
        [Some(x), Some(y)] => {
            let [x, y] = [gf::power(x), gf::power(y)];
            let both = gf::inverse(x ^ y);
            [[gf::product(y, both), both], [gf::product(x, both), both]]
        }
        [Some(_), None] if p_is_known => [[1, 0], [0, 0]],
        [Some(x), None] => [[0, gf::inverse(gf::power(x))], [0, 0]],
        [None, _] => [[0, 0], [0, 0]],
    }
}

/// The factors for P and Q where they are unknown: what of them is in the sums, plus the share of the column that is not.
fn parity_factors(unknown: [Option<usize>; 2], [[by_p, by_q], _]: [Factors; 2]) -> [Factors; 2] {
    match unknown {
        [None, _] => [[1, 0], [0, 1]],
        [Some(x), _] => {
            let power = gf::power(x);
            [[1 ^ by_p, by_q], [gf::product(power, by_p), 1 ^ gf::product(power, by_q)]]
        }
    }
}
