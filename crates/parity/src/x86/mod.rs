//! Vectors of x86-64.

mod avx2;
mod avx512;
mod crc;
mod gfni;

pub use avx2::Avx2;
pub use avx512::Avx512;
pub use crc::{CRC_STEP, copy_crc32c, crc32c};
pub use gfni::Gfni;
