//! The first bytes of both sides, and the end of an old-style negotiation (section "Newstyle negotiation").

use bitflags::bitflags;

use super::{Malformed, take, take_u16, take_u64};

/// `NBDMAGIC`.
const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`.
pub(super) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;

/// Bytes of the client flags.
pub const CLIENT_FLAGS_LENGTH: usize = 4;
/// Zero bytes that end the answer to `NBD_OPT_EXPORT_NAME`, unless both sides leave them out.
pub const EXPORT_NAME_ZEROES: usize = 124;

bitflags! {
    /// Handshake flags of the server.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct HandshakeFlags: u16 {
        /// `NBD_FLAG_FIXED_NEWSTYLE`: options are answered.
        const FIXED_NEWSTYLE = 1;
        /// `NBD_FLAG_NO_ZEROES`: [`EXPORT_NAME_ZEROES`] may be left out.
        const NO_ZEROES = 2;
    }
}

bitflags! {
    /// Client flags.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct ClientFlags: u32 {
        /// `NBD_FLAG_C_FIXED_NEWSTYLE`.
        const FIXED_NEWSTYLE = 1;
        /// `NBD_FLAG_C_NO_ZEROES`.
        const NO_ZEROES = 2;
    }
}

bitflags! {
    /// What an export is and can do (section "Transmission flags").
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct TransmissionFlags: u16 {
        /// The others mean something.
        const HAS_FLAGS = 1;
        /// Writes are refused.
        const READ_ONLY = 1 << 1;
        /// `NBD_CMD_FLUSH`.
        const SEND_FLUSH = 1 << 2;
        /// `NBD_CMD_FLAG_FUA`.
        const SEND_FUA = 1 << 3;
        /// A disk that turns.
        const ROTATIONAL = 1 << 4;
        /// `NBD_CMD_TRIM`.
        const SEND_TRIM = 1 << 5;
        /// `NBD_CMD_WRITE_ZEROES`.
        const SEND_WRITE_ZEROES = 1 << 6;
        /// `NBD_CMD_FLAG_DF`.
        const SEND_DF = 1 << 7;
        /// A flush on one connection makes durable what was acknowledged on any.
        const CAN_MULTI_CONN = 1 << 8;
        /// `NBD_CMD_RESIZE`.
        const SEND_RESIZE = 1 << 9;
        /// `NBD_CMD_CACHE`.
        const SEND_CACHE = 1 << 10;
        /// `NBD_CMD_FLAG_FAST_ZERO`.
        const SEND_FAST_ZERO = 1 << 11;
    }
}

/// The other side does not speak fixed newstyle NBD.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotNbd {
    /// The first bytes are not those of NBD.
    #[error("the first bytes are not those of NBD")]
    Magic,
    /// The server is of the oldest kind, without negotiation.
    #[error("it speaks the old NBD without negotiation")]
    OldStyle,
}

/// The first 18 bytes of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// What it can do in the handshake.
    pub flags: HandshakeFlags,
}

impl Greeting {
    /// Bytes on the wire.
    pub const LENGTH: usize = 18;

    /// Bytes to send.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&NBDMAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&IHAVEOPT.to_be_bytes());
        bytes[16..].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes
    }

    /// Bytes received. Flags that are not known are kept.
    pub fn decode(bytes: &[u8; Self::LENGTH]) -> Result<Greeting, NotNbd> {
        let mut rest = &bytes[..];
        let magics = take_u64(&mut rest).and_then(|first| Ok((first, take_u64(&mut rest)?)));
        match magics {
            Ok((NBDMAGIC, IHAVEOPT)) => {}
            Ok((NBDMAGIC, 0x0000_4202_8186_1253)) => return Err(NotNbd::OldStyle),
            _ => return Err(NotNbd::Magic),
        }
        let flags = take_u16(&mut rest).map_err(|_| NotNbd::Magic)?;
        Ok(Greeting { flags: HandshakeFlags::from_bits_retain(flags) })
    }
}

/// The answer to `NBD_OPT_EXPORT_NAME`, which has no header. [`EXPORT_NAME_ZEROES`] may follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportNameReply {
    /// Bytes of the export.
    pub size: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
}

impl ExportNameReply {
    /// Bytes on the wire.
    pub const LENGTH: usize = 10;

    /// Bytes to send.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes
    }

    /// Bytes received.
    pub fn decode(mut bytes: &[u8]) -> Result<ExportNameReply, Malformed> {
        let size = take_u64(&mut bytes)?;
        let flags = TransmissionFlags::from_bits_retain(u16::from_be_bytes(take(&mut bytes)?));
        Ok(ExportNameReply { size, flags })
    }
}
