//! Requests of the transmission phase (section "Request message").

use bitflags::bitflags;

use super::take;

const REQUEST_MAGIC: u32 = 0x2560_9513;

/// Bytes of a request without its payload.
pub const REQUEST_LENGTH: usize = 28;

/// What is to be done (section "Request types").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Command(pub u16);

impl Command {
    /// `NBD_CMD_READ`.
    pub const READ: Command = Command(0);
    /// `NBD_CMD_WRITE`; the payload follows.
    pub const WRITE: Command = Command(1);
    /// `NBD_CMD_DISC`: no reply, the end of the connection.
    pub const DISC: Command = Command(2);
    /// `NBD_CMD_FLUSH`.
    pub const FLUSH: Command = Command(3);
    /// `NBD_CMD_TRIM`.
    pub const TRIM: Command = Command(4);
    /// `NBD_CMD_CACHE`.
    pub const CACHE: Command = Command(5);
    /// `NBD_CMD_WRITE_ZEROES`.
    pub const WRITE_ZEROES: Command = Command(6);
    /// `NBD_CMD_BLOCK_STATUS`.
    pub const BLOCK_STATUS: Command = Command(7);

    /// The name of the standard, without its prefix.
    pub fn name(self) -> &'static str {
        match self {
            Command::READ => "READ",
            Command::WRITE => "WRITE",
            Command::DISC => "DISC",
            Command::FLUSH => "FLUSH",
            Command::TRIM => "TRIM",
            Command::CACHE => "CACHE",
            Command::WRITE_ZEROES => "WRITE_ZEROES",
            Command::BLOCK_STATUS => "BLOCK_STATUS",
            _ => "an unknown command",
        }
    }
}

bitflags! {
    /// How it is to be done (section "Command flags").
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct CommandFlags: u16 {
        /// `NBD_CMD_FLAG_FUA`: on stable media at the reply.
        const FUA = 1;
        /// `NBD_CMD_FLAG_NO_HOLE`: zeroes keep their space.
        const NO_HOLE = 1 << 1;
        /// `NBD_CMD_FLAG_DF`: the data of a read in one piece.
        const DF = 1 << 2;
        /// `NBD_CMD_FLAG_REQ_ONE`: one run of block status.
        const REQ_ONE = 1 << 3;
        /// `NBD_CMD_FLAG_FAST_ZERO`: zeroes fast or not at all.
        const FAST_ZERO = 1 << 4;
    }
}

/// A request. Its payload follows a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// How; flags that are not known are kept.
    pub flags: CommandFlags,
    /// What.
    pub command: Command,
    /// By which the reply is known.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// The stream is out of step: nothing after this can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this is no request: the magic number is {0:#010x}")]
pub struct NotARequest(pub u32);

impl Request {
    /// Bytes to send.
    pub fn encode(&self) -> [u8; REQUEST_LENGTH] {
        let mut bytes = [0; REQUEST_LENGTH];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Bytes received.
    #[inline]
    pub fn decode(bytes: &[u8; REQUEST_LENGTH]) -> Result<Request, NotARequest> {
        let mut rest = &bytes[..];
        let mut parts = || -> Result<_, super::Malformed> {
            let magic = u32::from_be_bytes(take(&mut rest)?);
            let request = Request {
                flags: CommandFlags::from_bits_retain(u16::from_be_bytes(take(&mut rest)?)),
                command: Command(u16::from_be_bytes(take(&mut rest)?)),
                cookie: u64::from_be_bytes(take(&mut rest)?),
                offset: u64::from_be_bytes(take(&mut rest)?),
                length: u32::from_be_bytes(take(&mut rest)?),
            };
            Ok((magic, request))
        };
        match parts() {
            Ok((REQUEST_MAGIC, request)) => Ok(request),
            Ok((magic, _)) => Err(NotARequest(magic)),
            Err(_) => Err(NotARequest(0)),
        }
    }
}
