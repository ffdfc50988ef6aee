//! NBD: the fixed newstyle protocol of the NBD project's `doc/proto.md`.
//!
//! A connection comes in by [`service`], chooses an export in [`handshake`] (the rules are a state machine without
//! I/O), and then lives on the core where it came in: [`receive`] reads its requests and judges them, [`execute`]
//! carries them out, many at a time, [`connection`] answers in the order in which they end.

mod connection;
pub mod errors;
mod execute;
mod export;
pub mod handshake;
mod offer;
mod receive;
mod service;
mod sparse;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use export::{Export, Exports};
pub use receive::judge;
pub use service::{Node, Service};
