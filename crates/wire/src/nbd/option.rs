//! Options of the client and the replies to them (section "Option haggling").

use std::fmt;

use super::handshake::IHAVEOPT;
use super::{put_string, rest_string, take_string, take_u32, take_u64};

/// Every reply to an option begins with it.
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Bytes in front of an option's data.
pub const OPTION_HEADER_LENGTH: usize = 16;
/// Bytes in front of a reply's data.
pub const OPTION_REPLY_LENGTH: usize = 20;

/// Data of an option or reply that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// It ends too early.
    #[error("it ends too early")]
    Truncated,
    /// Something stands behind its end.
    #[error("something stands behind its end")]
    Trailing,
    /// A string is longer than 4096 bytes.
    #[error("a string is longer than 4096 bytes")]
    TooLong,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotText,
    /// The magic number is wrong.
    #[error("the magic number is wrong")]
    Magic,
}

/// What an option is about (section "Option types").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct OptionCode(pub u32);

impl OptionCode {
    /// `NBD_OPT_EXPORT_NAME`: enters transmission; without a reply when it fails.
    pub const EXPORT_NAME: OptionCode = OptionCode(1);
    /// `NBD_OPT_ABORT`: ends the negotiation.
    pub const ABORT: OptionCode = OptionCode(2);
    /// `NBD_OPT_LIST`: names of the exports.
    pub const LIST: OptionCode = OptionCode(3);
    /// `NBD_OPT_STARTTLS`.
    pub const STARTTLS: OptionCode = OptionCode(5);
    /// `NBD_OPT_INFO`: what an export is.
    pub const INFO: OptionCode = OptionCode(6);
    /// `NBD_OPT_GO`: the same, and enters transmission.
    pub const GO: OptionCode = OptionCode(7);
    /// `NBD_OPT_STRUCTURED_REPLY`.
    pub const STRUCTURED_REPLY: OptionCode = OptionCode(8);
    /// `NBD_OPT_LIST_META_CONTEXT`.
    pub const LIST_META_CONTEXT: OptionCode = OptionCode(9);
    /// `NBD_OPT_SET_META_CONTEXT`.
    pub const SET_META_CONTEXT: OptionCode = OptionCode(10);
    /// `NBD_OPT_EXTENDED_HEADERS`.
    pub const EXTENDED_HEADERS: OptionCode = OptionCode(11);
}

/// What a reply to an option says (section "Option reply types").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct OptionReplyType(pub u32);

impl OptionReplyType {
    /// `NBD_REP_ACK`: done; the last reply.
    pub const ACK: OptionReplyType = OptionReplyType(1);
    /// `NBD_REP_SERVER`: an export.
    pub const SERVER: OptionReplyType = OptionReplyType(2);
    /// `NBD_REP_INFO`: something about an export.
    pub const INFO: OptionReplyType = OptionReplyType(3);
    /// `NBD_REP_META_CONTEXT`: a metadata context.
    pub const META_CONTEXT: OptionReplyType = OptionReplyType(4);
    /// `NBD_REP_ERR_UNSUP`: the option is not known.
    pub const ERR_UNSUP: OptionReplyType = OptionReplyType(1 << 31 | 1);
    /// `NBD_REP_ERR_POLICY`: the server does not want to.
    pub const ERR_POLICY: OptionReplyType = OptionReplyType(1 << 31 | 2);
    /// `NBD_REP_ERR_INVALID`: the option makes no sense, or not now.
    pub const ERR_INVALID: OptionReplyType = OptionReplyType(1 << 31 | 3);
    /// `NBD_REP_ERR_PLATFORM`: not on this platform.
    pub const ERR_PLATFORM: OptionReplyType = OptionReplyType(1 << 31 | 4);
    /// `NBD_REP_ERR_TLS_REQD`: only with TLS.
    pub const ERR_TLS_REQD: OptionReplyType = OptionReplyType(1 << 31 | 5);
    /// `NBD_REP_ERR_UNKNOWN`: there is no such export.
    pub const ERR_UNKNOWN: OptionReplyType = OptionReplyType(1 << 31 | 6);
    /// `NBD_REP_ERR_SHUTDOWN`: the server is stopping.
    pub const ERR_SHUTDOWN: OptionReplyType = OptionReplyType(1 << 31 | 7);
    /// `NBD_REP_ERR_BLOCK_SIZE_REQD`: only for clients that ask for block sizes.
    pub const ERR_BLOCK_SIZE_REQD: OptionReplyType = OptionReplyType(1 << 31 | 8);
    /// `NBD_REP_ERR_TOO_BIG`: more than the server takes.
    pub const ERR_TOO_BIG: OptionReplyType = OptionReplyType(1 << 31 | 9);

    /// Whether it is an error; its data may be a text for people.
    pub fn is_error(self) -> bool {
        self.0 & 1 << 31 != 0
    }
}

impl fmt::Display for OptionReplyType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            OptionReplyType::ACK => "NBD_REP_ACK",
            OptionReplyType::SERVER => "NBD_REP_SERVER",
            OptionReplyType::INFO => "NBD_REP_INFO",
            OptionReplyType::META_CONTEXT => "NBD_REP_META_CONTEXT",
            OptionReplyType::ERR_UNSUP => "NBD_REP_ERR_UNSUP",
            OptionReplyType::ERR_POLICY => "NBD_REP_ERR_POLICY",
            OptionReplyType::ERR_INVALID => "NBD_REP_ERR_INVALID",
            OptionReplyType::ERR_PLATFORM => "NBD_REP_ERR_PLATFORM",
            OptionReplyType::ERR_TLS_REQD => "NBD_REP_ERR_TLS_REQD",
            OptionReplyType::ERR_UNKNOWN => "NBD_REP_ERR_UNKNOWN",
            OptionReplyType::ERR_SHUTDOWN => "NBD_REP_ERR_SHUTDOWN",
            OptionReplyType::ERR_BLOCK_SIZE_REQD => "NBD_REP_ERR_BLOCK_SIZE_REQD",
            OptionReplyType::ERR_TOO_BIG => "NBD_REP_ERR_TOO_BIG",
            OptionReplyType(other) => return write!(formatter, "reply {other:#x}"),
        };
        formatter.write_str(name)
    }
}

/// The header of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// Which.
    pub option: OptionCode,
    /// Bytes of data behind it.
    pub length: u32,
}

impl OptionHeader {
    /// Bytes received.
    pub fn decode(bytes: &[u8; OPTION_HEADER_LENGTH]) -> Result<OptionHeader, Malformed> {
        let mut rest = &bytes[..];
        if take_u64(&mut rest)? != IHAVEOPT {
            return Err(Malformed::Magic);
        }
        Ok(OptionHeader { option: OptionCode(take_u32(&mut rest)?), length: take_u32(&mut rest)? })
    }
}

/// An option with its data.
pub fn encode_option(option: OptionCode, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&IHAVEOPT.to_be_bytes());
    out.extend_from_slice(&option.0.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// The header of a reply to an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionReplyHeader {
    /// The option that is answered.
    pub option: OptionCode,
    /// What it says.
    pub kind: OptionReplyType,
    /// Bytes of data behind it.
    pub length: u32,
}

impl OptionReplyHeader {
    /// Bytes received.
    pub fn decode(bytes: &[u8; OPTION_REPLY_LENGTH]) -> Result<OptionReplyHeader, Malformed> {
        let mut rest = &bytes[..];
        if take_u64(&mut rest)? != OPTION_REPLY_MAGIC {
            return Err(Malformed::Magic);
        }
        let option = OptionCode(take_u32(&mut rest)?);
        let kind = OptionReplyType(take_u32(&mut rest)?);
        Ok(OptionReplyHeader { option, kind, length: take_u32(&mut rest)? })
    }
}

/// A reply whose data `write` appends.
pub fn encode_option_reply(
    option: OptionCode,
    kind: OptionReplyType,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.0.to_be_bytes());
    out.extend_from_slice(&kind.0.to_be_bytes());
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// The data of [`OptionReplyType::SERVER`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListEntry<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// For people; may be empty.
    pub description: &'a str,
}

impl<'a> ListEntry<'a> {
    /// Appends it.
    pub fn encode(self, out: &mut Vec<u8>) {
        put_string(self.name, out);
        out.extend_from_slice(self.description.as_bytes());
    }

    /// Reads it.
    pub fn decode(mut data: &'a [u8]) -> Result<ListEntry<'a>, Malformed> {
        let name = take_string(&mut data)?;
        Ok(ListEntry { name, description: rest_string(data)? })
    }
}
