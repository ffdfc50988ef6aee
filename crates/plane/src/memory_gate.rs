//! Where requests wait for memory.

use std::time::Duration;

use ring::{Ring, in_use};

use crate::limits::BUFFER_BYTES_PER_SHARD;

/// How often a request that found no memory looks again.
pub const POLL: Duration = Duration::from_millis(2);

/// Whether `bytes` more of buffers may be taken on this core now.
pub fn has_memory(bytes: usize) -> bool {
    bytes == 0 || in_use() + bytes <= BUFFER_BYTES_PER_SHARD
}

/// Waits until `bytes` more of buffers may be taken on this core, or nobody wants them any more.
pub async fn wait_for_memory(ring: &Ring, bytes: usize, is_wanted: impl Fn() -> bool) {
    while !has_memory(bytes) && is_wanted() {
        ring.sleep(POLL).await;
    }
}
