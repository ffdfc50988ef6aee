//! Pools: volumes on several members, under RAID, with a checksum of every block.

pub mod format;
mod level;

pub use level::{Level, LevelError};
