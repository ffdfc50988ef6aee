//! Where requests wait for memory and for peers that do not take what they asked for.

use std::time::Duration;

use ring::{Ring, in_use};

use crate::limits::{BUFFER_BYTES_PER_SHARD, SEND_QUEUE_BYTES};
use crate::transport::Outgoing;

/// How often a request that found no memory looks again.
const POLL: Duration = Duration::from_millis(2);

/// Whether `bytes` more of buffers may be taken on this core now.
pub fn has_memory(bytes: usize) -> bool {
    in_use() + bytes <= BUFFER_BYTES_PER_SHARD
}

/// Waits until `bytes` more of buffers may be taken on this core.
pub async fn wait_for_memory(ring: &Ring, bytes: usize) {
    while !has_memory(bytes) {
        ring.sleep(POLL).await;
    }
}

/// Whether an answer with `bytes` of buffers may be begun without a wait.
pub fn has_room(outgoing: &Outgoing, bytes: usize) -> bool {
    outgoing.bytes() < SEND_QUEUE_BYTES && has_memory(bytes)
}

/// Waits until the peer has taken some of what we send, and until there is memory; or until the connection is closed.
pub async fn wait_for_room(ring: &Ring, outgoing: &Outgoing, bytes: usize) {
    outgoing.below(SEND_QUEUE_BYTES).await;
    while !has_memory(bytes) && !outgoing.is_closed() {
        ring.sleep(POLL).await;
    }
}
