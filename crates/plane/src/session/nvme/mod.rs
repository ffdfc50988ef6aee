//! NVMe/TCP: NVM Express Base 2.1, NVM Command Set 1.1, TCP Transport 1.1.
//!
//! A connection comes in by [`service`] and becomes a [`queue`] of a [`controller`], which lives on the core of its admin
//! queue; I/O queues may be on any core. [`receive`] cuts PDUs, `queue` keeps commands from capsule to completion, [`io`]
//! carries out those for namespaces.

mod connection;
mod controller;
mod errors;
mod features;
mod identify;
mod io;
mod logs;
mod node;
mod queue;
mod receive;
mod service;
mod slots;
#[cfg(test)]
mod tests;

pub use node::{Namespace, Node, Subsystem};
pub use service::Service;
