//! Metadata contexts: how they are chosen, and what `NBD_CMD_BLOCK_STATUS` says of them (section "Metadata querying").

use bitflags::bitflags;

use super::{Malformed, put_string, rest_string, take_string, take_u32};

/// The one context of the standard: which parts are allocated.
pub const BASE_ALLOCATION: &str = "base:allocation";

bitflags! {
    /// What [`BASE_ALLOCATION`] says of a run of bytes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct StateFlags: u32 {
        /// `NBD_STATE_HOLE`: no space is given to it.
        const HOLE = 1;
        /// `NBD_STATE_ZERO`: it reads as zeroes.
        const ZERO = 2;
    }
}

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`, checked as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextRequest<'a> {
    /// The export.
    pub name: &'a str,
    queries: &'a [u8],
}

impl<'a> ContextRequest<'a> {
    /// Reads it.
    pub fn decode(mut data: &'a [u8]) -> Result<ContextRequest<'a>, Malformed> {
        let name = take_string(&mut data)?;
        let count = take_u32(&mut data)?;
        let mut rest = data;
        for _ in 0..count {
            take_string(&mut rest)?;
        }
        if rest.is_empty() { Ok(ContextRequest { name, queries: data }) } else { Err(Malformed::Trailing) }
    }

    /// What is asked for; none at all means everything, where the option lists.
    pub fn queries(&self) -> impl Iterator<Item = &'a str> + 'a {
        let mut rest = self.queries;
        std::iter::from_fn(move || take_string(&mut rest).ok())
    }
}

/// Appends the data of either option.
pub fn encode_context_request(name: &str, queries: &[&str], out: &mut Vec<u8>) {
    put_string(name, out);
    out.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        put_string(query, out);
    }
}

/// The data of `NBD_REP_META_CONTEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextReply<'a> {
    /// The number by which block status speaks of it; means nothing in a list.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
}

impl<'a> ContextReply<'a> {
    /// Appends it.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }

    /// Reads it.
    pub fn decode(mut data: &'a [u8]) -> Result<ContextReply<'a>, Malformed> {
        Ok(ContextReply { id: take_u32(&mut data)?, name: rest_string(data)? })
    }
}

/// One run of `NBD_REPLY_TYPE_BLOCK_STATUS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// Bytes.
    pub length: u32,
    /// What they are.
    pub flags: StateFlags,
}

impl StatusExtent {
    /// Bytes on the wire.
    pub const LENGTH: usize = 8;

    /// Bytes to send.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes
    }

    /// Bytes received.
    pub fn decode(mut bytes: &[u8]) -> Result<StatusExtent, Malformed> {
        let length = take_u32(&mut bytes)?;
        let flags = StateFlags::from_bits_retain(take_u32(&mut bytes)?);
        if bytes.is_empty() { Ok(StatusExtent { length, flags }) } else { Err(Malformed::Trailing) }
    }
}
