//! Test beds shared by the end-to-end tests: a node to test against and the real programs that use it.
//!
//! Every scenario is one file in `tests/tests/`. Each test function has its own [`Node`] with its own
//! data directory and ports from the operating system, so all of them run side by side.
//!
//! A missing program is a failed test, never a skipped one; the message names the Debian package.

pub mod api;
pub mod companion;
pub mod conformance;
pub mod guest;
mod hung;
pub mod initiator;
pub mod journal;
pub mod nbd;
pub mod node;
pub mod nvme;
pub mod peer;
pub mod pool;
pub mod post;
mod spoil;
pub mod stamp;
pub mod tool;
pub mod volume;

pub use node::{Bed, Node};
pub use pool::Pool;
pub use spoil::{spoil, spoil_at_gate};
pub use tool::Tool;
pub use volume::Volume;

use std::time::{Duration, Instant};

/// Asks `condition` every few milliseconds until it holds or `deadline` has passed; tells whether it held.
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
