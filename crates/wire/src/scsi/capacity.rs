//! READ CAPACITY parameter data (SBC-4 sections 5.20 and 5.21).

use super::bytes::{put, u8_at, u16_at, u32_at, u64_at};

/// Length of READ CAPACITY(10) parameter data, in bytes.
pub const CAPACITY_10_LENGTH: usize = 8;
/// Length of READ CAPACITY(16) parameter data, in bytes.
pub const CAPACITY_16_LENGTH: usize = 32;

/// What READ CAPACITY tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of logical blocks; at least 1.
    pub blocks: u64,
    /// Bytes in a logical block.
    pub block_size: u32,
    /// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT, 0 to 15.
    pub physical_exponent: u8,
    /// LOWEST ALIGNED LOGICAL BLOCK ADDRESS, 14 bits.
    pub lowest_aligned: u16,
    /// LBPME: logical block provisioning is there.
    pub provisioning: bool,
    /// LBPRZ: unmapped blocks read as zeros.
    pub reads_zeros: bool,
}

impl Capacity {
    /// READ CAPACITY(10): a device too large for 32 bits answers with `FFFFFFFFh`.
    pub fn encode_10(&self) -> [u8; CAPACITY_10_LENGTH] {
        let last = u32::try_from(self.blocks.saturating_sub(1)).unwrap_or(u32::MAX);
        let mut bytes = [0; CAPACITY_10_LENGTH];
        put(&mut bytes, 0, &last.to_be_bytes());
        put(&mut bytes, 4, &self.block_size.to_be_bytes());
        bytes
    }

    /// READ CAPACITY(16).
    pub fn encode_16(&self) -> [u8; CAPACITY_16_LENGTH] {
        let mut bytes = [0; CAPACITY_16_LENGTH];
        put(&mut bytes, 0, &self.blocks.saturating_sub(1).to_be_bytes());
        put(&mut bytes, 8, &self.block_size.to_be_bytes());
        bytes[13] = self.physical_exponent & 0x0f;
        let mut aligned = self.lowest_aligned & 0x3fff;
        if self.provisioning {
            aligned |= 0x8000;
        }
        if self.reads_zeros {
            aligned |= 0x4000;
        }
        put(&mut bytes, 14, &aligned.to_be_bytes());
        bytes
    }

    /// Reads READ CAPACITY(10) data; `None` if it is short. `blocks` is 2^32 for a device that is too large for
    /// this command: ask with READ CAPACITY(16) then.
    pub fn decode_10(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= CAPACITY_10_LENGTH).then(|| Self {
            blocks: u64::from(u32_at(bytes, 0)) + 1,
            block_size: u32_at(bytes, 4),
            physical_exponent: 0,
            lowest_aligned: 0,
            provisioning: false,
            reads_zeros: false,
        })
    }

    /// Reads READ CAPACITY(16) data; `None` if it is shorter than its first 16 bytes or the size overflows.
    pub fn decode_16(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 16 {
            return None;
        }
        let aligned = u16_at(bytes, 14);
        Some(Self {
            blocks: u64_at(bytes, 0).checked_add(1)?,
            block_size: u32_at(bytes, 8),
            physical_exponent: u8_at(bytes, 13) & 0x0f,
            lowest_aligned: aligned & 0x3fff,
            provisioning: aligned & 0x8000 != 0,
            reads_zeros: aligned & 0x4000 != 0,
        })
    }
}
