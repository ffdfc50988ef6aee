//! The data plane: what a request meets between the wire and the disk.
//!
//! Read from the top: [`session`] turns frames into [`request`]s, [`volume`] finds the stack for a name,
//! [`layers`] pass requests down, [`disk`] is where bytes live. Imports only point down.

mod buckets;
pub mod core;
pub mod disk;
pub mod error;
mod latest;
pub mod layers;
pub mod limits;
pub mod live;
mod log;
pub mod memory_gate;
pub mod meter;
pub mod pool;
pub mod portals;
pub mod request;
pub mod session;
pub mod shard;
pub mod spread;
pub mod transport;
pub mod volume;
pub mod watch;

pub use error::{Error, ErrorKind};
pub use request::{Completion, Extent, Flags, Geometry, Io, Request, Run, Verb};
