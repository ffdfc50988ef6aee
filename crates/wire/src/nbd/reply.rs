//! Replies of the transmission phase (sections "Simple reply message" and "Structured reply chunk message").

use super::{Errno, MAX_STRING, Malformed, take, take_u16, take_u32, take_u64};

/// The first bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The first bytes of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a simple reply without its data.
pub const SIMPLE_REPLY_LENGTH: usize = 16;
/// Bytes of a chunk without its payload.
pub const CHUNK_HEADER_LENGTH: usize = 20;
/// Bytes of a chunk of data in front of the data.
pub const DATA_CHUNK_LENGTH: usize = CHUNK_HEADER_LENGTH + 8;
/// Bytes of a chunk that is a hole.
pub const HOLE_CHUNK_LENGTH: usize = CHUNK_HEADER_LENGTH + 12;

/// `NBD_REPLY_FLAG_DONE`: the last chunk of its reply.
const DONE: u16 = 1;

/// The stream is out of step: nothing after this can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this is no reply: the magic number is {0:#010x}")]
pub struct NotAReply(pub u32);

/// A simple reply; the data of a read follows when there is no error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimpleReply {
    /// How the request ended.
    pub error: Errno,
    /// Of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Bytes to send.
    pub fn encode(self) -> [u8; SIMPLE_REPLY_LENGTH] {
        let mut bytes = [0; SIMPLE_REPLY_LENGTH];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }

    /// Bytes received.
    pub fn decode(bytes: &[u8; SIMPLE_REPLY_LENGTH]) -> Result<SimpleReply, NotAReply> {
        let mut rest = &bytes[..];
        let mut parts = || -> Result<_, Malformed> {
            let magic = take_u32(&mut rest)?;
            let error = Errno(take_u32(&mut rest)?);
            Ok((magic, SimpleReply { error, cookie: take_u64(&mut rest)? }))
        };
        match parts() {
            Ok((SIMPLE_REPLY_MAGIC, reply)) => Ok(reply),
            Ok((magic, _)) => Err(NotAReply(magic)),
            Err(_) => Err(NotAReply(0)),
        }
    }
}

/// What a chunk carries (section "Structured reply types").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ChunkType(pub u16);

impl ChunkType {
    /// `NBD_REPLY_TYPE_NONE`.
    pub const NONE: ChunkType = ChunkType(0);
    /// `NBD_REPLY_TYPE_OFFSET_DATA`.
    pub const OFFSET_DATA: ChunkType = ChunkType(1);
    /// `NBD_REPLY_TYPE_OFFSET_HOLE`.
    pub const OFFSET_HOLE: ChunkType = ChunkType(2);
    /// `NBD_REPLY_TYPE_BLOCK_STATUS`.
    pub const BLOCK_STATUS: ChunkType = ChunkType(5);
    /// `NBD_REPLY_TYPE_ERROR`.
    pub const ERROR: ChunkType = ChunkType(1 << 15 | 1);
    /// `NBD_REPLY_TYPE_ERROR_OFFSET`.
    pub const ERROR_OFFSET: ChunkType = ChunkType(1 << 15 | 2);

    /// Whether it is an error, known or not.
    pub fn is_error(self) -> bool {
        self.0 & 1 << 15 != 0
    }
}

/// The header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// The last one of its reply.
    pub done: bool,
    /// What follows.
    pub kind: ChunkType,
    /// Of the request.
    pub cookie: u64,
    /// Bytes that follow.
    pub length: u32,
}

impl ChunkHeader {
    /// Bytes to send.
    pub fn encode(self) -> [u8; CHUNK_HEADER_LENGTH] {
        let mut bytes = [0; CHUNK_HEADER_LENGTH];
        bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&(if self.done { DONE } else { 0 }).to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Bytes received. Flags that are not known are ignored, as the standard has none.
    pub fn decode(bytes: &[u8; CHUNK_HEADER_LENGTH]) -> Result<ChunkHeader, NotAReply> {
        let mut rest = &bytes[..];
        let mut parts = || -> Result<_, Malformed> {
            let magic = take_u32(&mut rest)?;
            let done = take_u16(&mut rest)? & DONE != 0;
            let kind = ChunkType(take_u16(&mut rest)?);
            let cookie = take_u64(&mut rest)?;
            Ok((magic, ChunkHeader { done, kind, cookie, length: take_u32(&mut rest)? }))
        };
        match parts() {
            Ok((STRUCTURED_REPLY_MAGIC, header)) => Ok(header),
            Ok((magic, _)) => Err(NotAReply(magic)),
            Err(_) => Err(NotAReply(0)),
        }
    }
}

/// What stands in front of `length` bytes of data from `offset`.
pub fn data_chunk(cookie: u64, offset: u64, length: u32, done: bool) -> [u8; DATA_CHUNK_LENGTH] {
    let header = ChunkHeader { done, kind: ChunkType::OFFSET_DATA, cookie, length: length.saturating_add(8) };
    let mut bytes = [0; DATA_CHUNK_LENGTH];
    bytes[..CHUNK_HEADER_LENGTH].copy_from_slice(&header.encode());
    bytes[CHUNK_HEADER_LENGTH..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// `length` bytes from `offset` that are zero.
pub fn hole_chunk(cookie: u64, offset: u64, length: u32, done: bool) -> [u8; HOLE_CHUNK_LENGTH] {
    let header = ChunkHeader { done, kind: ChunkType::OFFSET_HOLE, cookie, length: 12 };
    let mut bytes = [0; HOLE_CHUNK_LENGTH];
    bytes[..CHUNK_HEADER_LENGTH].copy_from_slice(&header.encode());
    bytes[CHUNK_HEADER_LENGTH..CHUNK_HEADER_LENGTH + 8].copy_from_slice(&offset.to_be_bytes());
    bytes[CHUNK_HEADER_LENGTH + 8..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// The payload of a hole: its offset and length.
pub fn decode_hole(mut payload: &[u8]) -> Result<(u64, u32), Malformed> {
    let hole = (take_u64(&mut payload)?, take_u32(&mut payload)?);
    if payload.is_empty() { Ok(hole) } else { Err(Malformed::Trailing) }
}

/// A reply without data.
pub fn none_chunk(cookie: u64) -> [u8; CHUNK_HEADER_LENGTH] {
    ChunkHeader { done: true, kind: ChunkType::NONE, cookie, length: 0 }.encode()
}

/// The head of an error that ends its reply; `message`, at most 4096 bytes, is to follow it.
pub fn error_chunk(cookie: u64, error: Errno, message: &str) -> [u8; CHUNK_HEADER_LENGTH + 6] {
    debug_assert!(message.len() <= MAX_STRING);
    let length = 6 + message.len() as u32;
    let header = ChunkHeader { done: true, kind: ChunkType::ERROR, cookie, length };
    let mut bytes = [0; CHUNK_HEADER_LENGTH + 6];
    bytes[..CHUNK_HEADER_LENGTH].copy_from_slice(&header.encode());
    bytes[CHUNK_HEADER_LENGTH..CHUNK_HEADER_LENGTH + 4].copy_from_slice(&error.0.to_be_bytes());
    bytes[CHUNK_HEADER_LENGTH + 4..].copy_from_slice(&(message.len() as u16).to_be_bytes());
    bytes
}

/// The payload of an error chunk: the error, what it says, and where it happened if the kind tells.
pub fn decode_error(
    kind: ChunkType,
    mut payload: &[u8],
) -> Result<(Errno, std::borrow::Cow<'_, str>, Option<u64>), Malformed> {
    let error = Errno(take_u32(&mut payload)?);
    let length = usize::from(take_u16(&mut payload)?);
    let (message, mut rest) = payload.split_at_checked(length).ok_or(Malformed::Truncated)?;
    let offset = match kind {
        ChunkType::ERROR_OFFSET => Some(u64::from_be_bytes(take(&mut rest)?)),
        _ => None,
    };
    if rest.is_empty() || kind != ChunkType::ERROR && offset.is_none() {
        Ok((error, String::from_utf8_lossy(message), offset))
    } else {
        Err(Malformed::Trailing)
    }
}
