//! One io_uring, one clock, one buffer pool and one executor per core; and their simulated twin.
//!
//! A [`Reactor`] owns a core's ring and runs it; a [`Ring`] is the handle through which tasks of that core reach
//! files, sockets, time and other tasks. Beside `parity` the only crate of Fels with `unsafe`.

mod activity;
mod address;
mod alone;
mod breaking;
mod buffer;
mod calls;
mod chunk;
mod clock;
mod congestion;
#[cfg(any(test, feature = "count-allocations"))]
pub mod count_allocations;
mod driver;
mod file;
mod handle;
mod inflow;
mod lockstep;
mod mailbox;
mod memory;
mod notify;
mod op;
mod pairs;
mod patience;
mod payoff;
mod pooled;
mod provided;
mod remote;
mod ring;
mod send_list;
pub mod sim;
mod slab;
mod socket;
mod task;
mod timers;
mod unix;
mod uring;

pub use activity::Activity;
pub use address::Peer;
pub use buffer::{ALIGNMENT, Buffer, LARGEST, Room, Shared, in_use};
pub use chunk::Chunk;
pub use clock::Instant;
pub use congestion::{CongestionControl, MAX_CONGESTION_CONTROL_NAME};
pub use file::{File, FileOptions};
pub use inflow::Inflow;
pub use mailbox::{Receiver, Sender, mailbox};
pub use memory::{Lender, Memory, PAGE, Soon, Ways, Writing, fetch};
pub use notify::Notify;
pub use patience::BusyPoll;
pub use pooled::{Pooled, PooledFuture};
pub use ring::{Options, Reactor, Ring, Sleep, StartError};
pub use send_list::{MAX_SEGMENTS, SendList};
pub use socket::{Detached, Listener, Socket};

/// Whether memory that was given back is kept for who wants some next; not where a sanitizer is to see who uses it after
/// that.
const KEEPS: bool = !cfg!(sanitized);

#[cfg(test)]
mod tests;
