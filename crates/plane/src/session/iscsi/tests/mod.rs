//! The whole target over a simulated network, spoken to PDU by PDU.
//!
//! [`bed`] is the node and its world, [`peer`] an initiator that does exactly what a test tells it.

mod bed;
mod logs;
mod negotiation;
mod peer;
