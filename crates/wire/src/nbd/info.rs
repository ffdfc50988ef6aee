//! `NBD_OPT_INFO`, `NBD_OPT_GO` and what they are answered with.

use super::handshake::TransmissionFlags;
use super::{Malformed, put_string, rest_string, take_string, take_u16, take_u32, take_u64};

/// A piece of information about an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct InfoType(pub u16);

impl InfoType {
    /// `NBD_INFO_EXPORT`: always told.
    pub const EXPORT: InfoType = InfoType(0);
    /// `NBD_INFO_NAME`: the name by which the server knows it.
    pub const NAME: InfoType = InfoType(1);
    /// `NBD_INFO_DESCRIPTION`: a text for people.
    pub const DESCRIPTION: InfoType = InfoType(2);
    /// `NBD_INFO_BLOCK_SIZE`.
    pub const BLOCK_SIZE: InfoType = InfoType(3);
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`, checked as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoRequest<'a> {
    /// The export; empty means the default one.
    pub name: &'a str,
    types: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    /// Reads it.
    pub fn decode(mut data: &'a [u8]) -> Result<InfoRequest<'a>, Malformed> {
        let name = take_string(&mut data)?;
        let count = usize::from(take_u16(&mut data)?);
        match data.len().cmp(&(count * 2)) {
            std::cmp::Ordering::Less => Err(Malformed::Truncated),
            std::cmp::Ordering::Greater => Err(Malformed::Trailing),
            std::cmp::Ordering::Equal => Ok(InfoRequest { name, types: data }),
        }
    }

    /// What is asked for.
    pub fn types(&self) -> impl Iterator<Item = InfoType> + 'a {
        self.types.as_chunks::<2>().0.iter().map(|bytes| InfoType(u16::from_be_bytes(*bytes)))
    }

    /// Whether `wanted` is asked for.
    pub fn asks_for(&self, wanted: InfoType) -> bool {
        self.types().any(|kind| kind == wanted)
    }
}

/// Appends the data of `NBD_OPT_INFO` or `NBD_OPT_GO`; `types` are at most 65535.
pub fn encode_info_request(name: &str, types: &[InfoType], out: &mut Vec<u8>) {
    put_string(name, out);
    out.extend_from_slice(&(types.len() as u16).to_be_bytes());
    for kind in types {
        out.extend_from_slice(&kind.0.to_be_bytes());
    }
}

/// Sizes that requests have to keep to (section "Block size constraints"), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it; a power of two up to 64 KiB.
    pub minimum: u32,
    /// Below it requests are dear.
    pub preferred: u32,
    /// Longest payload.
    pub maximum: u32,
}

/// The data of `NBD_REP_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Info<'a> {
    /// [`InfoType::EXPORT`].
    Export {
        /// Bytes.
        size: u64,
        /// What it can do.
        flags: TransmissionFlags,
    },
    /// [`InfoType::NAME`].
    Name(&'a str),
    /// [`InfoType::DESCRIPTION`].
    Description(&'a str),
    /// [`InfoType::BLOCK_SIZE`].
    BlockSize(BlockSizes),
    /// One that is not known here.
    Other(InfoType),
}

impl<'a> Info<'a> {
    /// Appends it.
    pub fn encode(self, out: &mut Vec<u8>) {
        let mut put = |kind: InfoType| out.extend_from_slice(&kind.0.to_be_bytes());
        match self {
            Info::Export { size, flags } => {
                put(InfoType::EXPORT);
                out.extend_from_slice(&size.to_be_bytes());
                out.extend_from_slice(&flags.bits().to_be_bytes());
            }
            Info::Name(text) => {
                put(InfoType::NAME);
                out.extend_from_slice(text.as_bytes());
            }
            Info::Description(text) => {
                put(InfoType::DESCRIPTION);
                out.extend_from_slice(text.as_bytes());
            }
            Info::BlockSize(sizes) => {
                put(InfoType::BLOCK_SIZE);
                for size in [sizes.minimum, sizes.preferred, sizes.maximum] {
                    out.extend_from_slice(&size.to_be_bytes());
                }
            }
            Info::Other(kind) => put(kind),
        }
    }

    /// Reads it.
    pub fn decode(mut data: &'a [u8]) -> Result<Info<'a>, Malformed> {
        let kind = InfoType(take_u16(&mut data)?);
        let info = match kind {
            InfoType::EXPORT => Info::Export {
                size: take_u64(&mut data)?,
                flags: TransmissionFlags::from_bits_retain(take_u16(&mut data)?),
            },
            InfoType::BLOCK_SIZE => Info::BlockSize(BlockSizes {
                minimum: take_u32(&mut data)?,
                preferred: take_u32(&mut data)?,
                maximum: take_u32(&mut data)?,
            }),
            InfoType::NAME => return Ok(Info::Name(rest_string(data)?)),
            InfoType::DESCRIPTION => return Ok(Info::Description(rest_string(data)?)),
            other => return Ok(Info::Other(other)),
        };
        if data.is_empty() { Ok(info) } else { Err(Malformed::Trailing) }
    }
}
