//! Pools: volumes on several members, under RAID, with a checksum of every block. What lies where is drawn in
//! docs/formats/pool.md; [`format`] are its codecs, [`layout`] its arithmetic.
//!
//! A request comes in at [`PoolDisk`]. Reads (`read`) take the plain way or go by whole columns (`column`). Writes
//! (`write`) become changes of columns, which the `journal` makes durable before they go to their places. What is done once
//! for the pool is the `keeper`'s, `spares` among it; `watch` holds members against one another; `open`, `load`,
//! `findings` and `recover` are its beginning.

mod admit;
mod allocate;
mod assemble;
mod bitmap;
mod column;
mod core;
mod disk;
mod erasing;
mod events;
mod extend;
mod findings;
pub mod format;
mod gather;
mod grow;
mod grown;
mod handle;
mod inspect;
mod join;
mod journal;
mod keeper;
pub mod layout;
mod level;
mod load;
mod locks;
mod maintain;
mod member;
mod open;
mod pools;
mod read;
mod recover;
mod segments;
mod slots;
mod spares;
mod table;
mod volumes;
mod watch;
mod write;

pub use admit::{AdmitError, MemberLocks, admit, admit_further, admit_spare, release_spare};
pub use assemble::{Absent, Assembled, MemberPlan, PoolPlan, assemble};
pub use core::{PoolCore, Shared};
pub use disk::PoolDisk;
pub use erasing::Erasure;
pub use events::Counters;
pub use handle::{Handle, MemberState, MemberStatus, Refusal, Scrub, SpareStatus, Status};
pub use inspect::{MemberLabel, Seen, inspect, wipe};
pub use level::{Level, LevelError};
pub use maintain::ScrubReport;
pub use member::{Layers, Member, MemberError, Place};
pub use open::{Pool, PoolError, PoolOptions, is_parted};
pub use pools::{PoolCores, PoolFigures, Pools};
pub use volumes::{Destroyed, VolumeWish};
pub use watch::Progress;

#[cfg(test)]
mod tests;
