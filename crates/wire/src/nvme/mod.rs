//! NVMe over Fabrics with the TCP transport: NVM Express Base Specification 2.1, NVM Command Set Specification 1.1,
//! NVMe/TCP Transport Specification 1.1.
//!
//! The same codecs serve the controller and the host. Nothing here keeps state. Multi-byte fields are little-endian;
//! structures with a fixed length are plain structs in host byte order with `decode(&[u8; LENGTH])` and
//! `encode(&mut [u8; LENGTH])`, and hold any value a peer may send. Names are the specifications' own.

pub mod admin;
pub mod command;
pub mod completion;
pub mod fabrics;
pub mod io;
mod layout;
pub mod nqn;
pub mod status;
pub mod tcp;
mod text;

#[cfg(test)]
mod tests;

pub use command::{COMMAND_LENGTH, Command, CommandFlags, DataPlace, Fuse, SglDescriptor, SglKind};
pub use completion::{COMPLETION_LENGTH, Completion};
pub use nqn::{DISCOVERY_NQN, NQN_FIELD_LENGTH, NqnField};
pub use status::{Status, StatusCodeType};
pub use text::Text;

/// NSID of "every namespace": broadcast value of Base 2.1 section 3.2.1.1.
pub const NSID_ALL: u32 = 0xffff_ffff;
/// CNTLID by which a host asks for a controller of the dynamic model, Base 2.1 section 3.1.2.
pub const CNTLID_DYNAMIC: u16 = 0xffff;
/// CNTLID of "any" controller of the static model.
pub const CNTLID_STATIC: u16 = 0xfffe;
/// The version that these codecs follow, as VS and VER have it: 2.1.0.
pub const VERSION_2_1: u32 = 0x0002_0100;
