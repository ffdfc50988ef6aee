//! iSCSI, RFC 7143: headers of both directions, framing, digests, text keys, names.
//!
//! The same codecs serve the target and the initiator. Nothing here keeps state: what a PDU means
//! at a point in a session is for the session to say, what its bytes mean is said here.

pub mod digest;
pub mod frame;
mod isid;
pub mod key;
pub mod name;
pub mod pdu;
pub mod serial;
pub mod text;

pub use frame::{Bhs, Framing};
pub use isid::{Isid, IsidFormat};
pub use name::IscsiName;
pub use pdu::*;
pub use serial::SerialNumber;
