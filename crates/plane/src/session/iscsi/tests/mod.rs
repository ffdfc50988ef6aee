//! The whole target over a simulated network, spoken to PDU by PDU.
//!
//! [`bed`] is the node and its world, [`peer`] an initiator that does exactly what a test tells it.

mod answers;
mod bed;
mod bounds;
mod keepalive;
mod logout;
mod management;
mod negotiation;
mod peer;
mod sessions;
mod traffic;
mod window;
