//! The seeded world: whole nodes on simulated disks, network and time.
//!
//! A [`Server`] is the product as it is, on reactors of `ring::sim`; [`Client`]s use it with the lab's initiators, over
//! iSCSI, NVMe/TCP and NBD. What they do is written into a [`History`], and the checker says whether what was read is
//! possible. [`scenario`] has the workloads and accidents, [`seeds`] runs them over many seeds.

mod checker;
mod client;
mod history;
mod node;
pub mod pool;
pub mod scenario;
pub mod seeds;
mod stage;
mod transport;
mod trouble;
mod worker;

pub use client::{Client, Connector};
pub use history::{History, Value};
pub use node::{PoolShape, Server, VolumePlan, member_path};
pub use stage::{End, Stage};
pub use transport::Transport;

/// Bytes of what is checked by itself: a sector, which disks write whole or not at all.
pub const SECTOR: usize = 512;

/// Why a run is wrong: a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    fn of(error: &dyn std::error::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<ring::sim::Stall> for Failure {
    fn from(stall: ring::sim::Stall) -> Failure {
        Failure::of(&stall)
    }
}
