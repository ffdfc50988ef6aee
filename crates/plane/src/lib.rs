//! The data plane: what a request meets between the wire and the disk.

pub mod session;
