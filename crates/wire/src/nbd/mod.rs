//! The NBD protocol: fixed newstyle handshake, options, requests, simple and structured replies, both directions.
//!
//! Sections named here are those of `doc/proto.md` of the NBD project. All numbers on the wire are big-endian.

mod errno;
mod handshake;
mod info;
mod meta_context;
mod option;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use errno::Errno;
pub use handshake::{
    CLIENT_FLAGS_LENGTH, ClientFlags, EXPORT_NAME_ZEROES, ExportNameReply, Greeting, HandshakeFlags, NotNbd,
    TransmissionFlags,
};
pub use info::{BlockSizes, Info, InfoRequest, InfoType, encode_info_request};
pub use meta_context::{
    BASE_ALLOCATION, ContextReply, ContextRequest, StateFlags, StatusExtent, encode_context_request,
};
pub use option::{
    ListEntry, Malformed, OPTION_HEADER_LENGTH, OPTION_REPLY_LENGTH, OptionCode, OptionHeader,
    OptionReplyHeader, OptionReplyType, encode_option, encode_option_reply,
};
pub use reply::{
    CHUNK_HEADER_LENGTH, ChunkHeader, ChunkType, DATA_CHUNK_LENGTH, HOLE_CHUNK_LENGTH, NotAReply,
    SIMPLE_REPLY_LENGTH, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, SimpleReply, data_chunk, decode_error,
    decode_hole, error_chunk, hole_chunk, none_chunk,
};
pub use request::{Command, CommandFlags, NotARequest, REQUEST_LENGTH, Request};

/// Bytes of a name, description or query at most (section "Values", "Strings").
pub const MAX_STRING: usize = 4096;

/// Takes `N` bytes off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (head, rest) = bytes.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
    *bytes = rest;
    Ok(*head)
}

fn take_u16(bytes: &mut &[u8]) -> Result<u16, Malformed> {
    take(bytes).map(u16::from_be_bytes)
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    take(bytes).map(u32::from_be_bytes)
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    take(bytes).map(u64::from_be_bytes)
}

/// Takes a string with its length of 32 bits in front.
fn take_string<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, Malformed> {
    let length = take_u32(bytes)? as usize;
    if length > MAX_STRING {
        return Err(Malformed::TooLong);
    }
    let (text, rest) = bytes.split_at_checked(length).ok_or(Malformed::Truncated)?;
    *bytes = rest;
    std::str::from_utf8(text).map_err(|_| Malformed::NotText)
}

/// What is left has to be a string.
fn rest_string(bytes: &[u8]) -> Result<&str, Malformed> {
    if bytes.len() > MAX_STRING {
        return Err(Malformed::TooLong);
    }
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotText)
}

fn put_string(text: &str, out: &mut Vec<u8>) {
    debug_assert!(text.len() <= MAX_STRING);
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}
