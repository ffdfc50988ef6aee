//! NVMe/TCP: NVM Express Base 2.1, NVM Command Set 1.1, TCP Transport 1.1.
//!
//! A connection comes in by [`service`] and becomes a [`queue`] of a [`controller`], which lives on the core of its admin
//! queue; I/O queues may be on any core. [`receive`] cuts PDUs, `queue` keeps commands from capsule to completion, [`io`]
//! carries out those for namespaces. [`change`] is how what is offered becomes another while hosts are connected.

mod change;
mod connection;
mod controller;
mod counters;
mod errors;
mod events;
mod features;
mod identify;
mod io;
mod keep_alive;
mod link;
mod logs;
mod node;
mod queue;
mod receive;
mod reset;
mod seats;
mod service;
mod slots;
mod subsystem;
#[cfg(test)]
mod tests;

pub use controller::Controller;
pub use link::Kind;
pub use node::{Node, OfferError, Places};
pub use service::Service;
pub use subsystem::{Namespace, Subsystem};
