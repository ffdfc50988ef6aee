//! Bytes to frames and frames to bytes.

mod lookout;
mod near;
mod outgoing;
mod reader;
mod received;

pub use near::near;
pub use outgoing::{Outgoing, Promise, Stalled};
pub use reader::{Gone, Reader};
pub use received::Received;

/// Waits until everything is sent and the peer has closed; give it little time. What still comes is thrown away: to end
/// a connection on which something comes is a reset, which would take our last words from the peer.
pub async fn last_words(outgoing: &Outgoing, reader: &mut Reader) {
    outgoing.below(1).await;
    // Ends with the peer's end of the stream.
    reader.skip(usize::MAX).await.ok();
}
