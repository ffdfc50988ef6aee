//! SCSI for a direct access block device: commands, sense data and parameter data as SPC-5, SBC-4 and SAM-5
//! draw them. Nothing in here knows of a transport.
//!
//! What a peer sends is decoded by functions that return an error that says which bit was wrong; what a peer
//! gets is built in small structures that encode into a slice or a bounded vector.

mod bytes;

pub mod capacity;
pub mod cdb;
pub mod inquiry;
pub mod lba_status;
pub mod luns;
pub mod mode;
pub mod opcodes;
pub mod sense;
pub mod status;
pub mod unmap;

pub use cdb::{CdbError, Command};
pub use sense::{AdditionalSense, FieldPointer, Sense, SenseFormat, SenseKey};
pub use status::Status;
