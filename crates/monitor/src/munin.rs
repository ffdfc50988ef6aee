//! A Munin node: what a master asks, and what it is told.

mod plugin;
mod server;
mod session;
#[cfg(test)]
mod tests;

pub use server::{Server, Source};
pub use session::{GREETING_END, Reply, Session};

/// Bytes of a line of a master. Real ones have less than a hundred.
pub const MAX_LINE_BYTES: usize = 1024;
/// Masters at once. A master opens one connection, or a few.
pub const MAX_CONNECTIONS: usize = 16;
