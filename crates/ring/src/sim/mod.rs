//! The simulated twin of the reactor: seeded machines with disks, a network and a clock of their own.
//!
//! A [`World`] holds [`Node`]s; a node gives [`Reactor`](crate::Reactor)s on which the same code runs as on the
//! kernel's io_uring. Whatever is left to chance (latencies, where bytes are cut, whose turn it is, what a power cut
//! leaves) is drawn from the world's seed: the same seed and the same program give the same run.

mod accidents;
mod content;
mod disk;
mod driver;
mod extents;
mod faults;
mod medium;
mod network;
mod node;
mod outsider;
mod receive_buffers;
mod settings;
mod state;
mod world;

pub(crate) use driver::{Afar, Driver};
pub use faults::{Fault, Plant};
pub use node::Node;
pub use outsider::Outsider;
pub(crate) use receive_buffers::Hold;
pub use settings::Settings;
pub use world::{Stall, StallKind, World};

#[cfg(test)]
mod tests;
