//! Bytes to frames and frames to bytes.

mod outgoing;
mod reader;

pub use outgoing::Outgoing;
pub use reader::{Gone, Reader};
