//! NVMe/TCP PDUs: NVMe/TCP Transport Specification 1.1 section 3.6.

mod framing;
mod pdu;

pub use crate::iscsi::digest::{Crc32c, crc32c, header_digest};
pub use framing::{
    CommonHeader, DIGEST_LENGTH, DataAlignment, FatalError, FatalStatus, Framing, MAX_HEADER_LENGTH,
    PduFlags, PduType, Sender, Shape,
};
pub use pdu::{
    C2HData, CapsuleCmd, CapsuleResp, DigestFlags, H2CData, ICReq, ICResp, MAX_TERM_REQ_DATA, PFV_1_0, R2T,
    TermReq,
};

/// The well-known port of I/O controllers.
pub const PORT: u16 = 4420;
/// The well-known port of discovery controllers.
pub const DISCOVERY_PORT: u16 = 8009;
/// The least MAXH2CDATA a controller may announce, section 3.6.2.3.
pub const MIN_MAXH2CDATA: u32 = 4096;
/// Bytes of data that a capsule on the admin queue may carry, section 3.3.2.1.
pub const ADMIN_IN_CAPSULE: u32 = 8192;
