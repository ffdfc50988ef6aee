//! The submission queue entry: Base 2.1 section 4.1, with what fabrics and TCP allow of SGLs.

use super::layout::{codes, structure};
use super::status::Status;

/// Bytes of a submission queue entry.
pub const COMMAND_LENGTH: usize = Command::LENGTH;

structure! {
    /// A submission queue entry. `cdw10` to `cdw15` mean what the opcode says; see [`super::fabrics`],
    /// [`super::admin`] and [`super::io`].
    pub struct Command: 64 {
        /// OPC.
        opcode: u8 = 0,
        /// FUSE and PSDT.
        flags: CommandFlags = 1,
        /// CID: names the command among those of its queue that are under way.
        cid: u16 = 2,
        /// NSID; FCTYPE in its low byte for a fabrics command.
        nsid: u32 = 4,
        /// Command dword 2.
        cdw2: u32 = 8,
        /// Command dword 3.
        cdw3: u32 = 12,
        /// MPTR.
        mptr: u64 = 16,
        /// SGL1.
        sgl: SglDescriptor = 24,
        /// Command dword 10.
        cdw10: u32 = 40,
        /// Command dword 11.
        cdw11: u32 = 44,
        /// Command dword 12.
        cdw12: u32 = 48,
        /// Command dword 13.
        cdw13: u32 = 52,
        /// Command dword 14.
        cdw14: u32 = 56,
        /// Command dword 15.
        cdw15: u32 = 60,
    }
}

/// Byte 1 of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CommandFlags(pub u8);

/// FUSE: whether the command is half of a fused operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fuse {
    /// 00b: a normal operation.
    Normal = 0,
    /// 01b: the first command of a fused operation.
    First = 1,
    /// 10b: the second one.
    Second = 2,
    /// 11b.
    Reserved = 3,
}

impl CommandFlags {
    /// PSDT 01b: an SGL describes the data, MPTR is an address. What every command over fabrics has.
    pub const SGL: Self = Self(0x40);

    /// FUSE.
    pub const fn fuse(self) -> Fuse {
        match self.0 & 3 {
            0 => Fuse::Normal,
            1 => Fuse::First,
            2 => Fuse::Second,
            _ => Fuse::Reserved,
        }
    }

    /// With FUSE set.
    pub const fn with_fuse(self, fuse: Fuse) -> Self {
        Self(self.0 & !3 | fuse as u8)
    }

    /// PSDT: 0 PRPs, 1 and 2 SGLs.
    pub const fn psdt(self) -> u8 {
        self.0 >> 6
    }
}

impl super::layout::Field for CommandFlags {
    #[inline]
    fn get(bytes: &[u8], offset: usize) -> Self {
        Self(super::layout::Field::get(bytes, offset))
    }

    #[inline]
    fn put(self, bytes: &mut [u8], offset: usize) {
        self.0.put(bytes, offset);
    }
}

codes! {
    /// SGL descriptor type and sub type, Base 2.1 section 4.3.2: type in the high half of the byte.
    pub struct SglKind(u8) {
        /// Data block, address.
        DATA_BLOCK = 0x00,
        /// Data block, offset: the data lies in the capsule.
        DATA_BLOCK_OFFSET = 0x01,
        /// Bit bucket.
        BIT_BUCKET = 0x10,
        /// Segment.
        SEGMENT = 0x20,
        /// Last segment.
        LAST_SEGMENT = 0x30,
        /// Last segment, offset: a list of descriptors in the capsule.
        LAST_SEGMENT_OFFSET = 0x31,
        /// Keyed data block (RDMA).
        KEYED_DATA_BLOCK = 0x40,
        /// Transport data block, transport specific: what the transport's own PDUs carry.
        TRANSPORT_DATA_BLOCK = 0x5a,
    }
}

structure! {
    /// An SGL descriptor, Base 2.1 section 4.3.2.
    pub struct SglDescriptor: 16 {
        /// An address, or an offset into the data of the capsule.
        address: u64 = 0,
        /// Bytes.
        length: u32 = 8,
        /// What it is.
        kind: SglKind = 15,
    }
}

impl SglDescriptor {
    /// `length` bytes in the capsule, from `offset` of its data (TCP 1.1 section 3.3.2.1.1 wants the ICDOFF of the
    /// controller, which is 0 here).
    pub const fn in_capsule(offset: u64, length: u32) -> Self {
        Self { address: offset, length, kind: SglKind::DATA_BLOCK_OFFSET }
    }

    /// `length` bytes in the host's command data buffer, moved by C2HData, or by R2T and H2CData.
    pub const fn transport(length: u32) -> Self {
        Self { address: 0, length, kind: SglKind::TRANSPORT_DATA_BLOCK }
    }

    /// No data.
    pub const NOTHING: Self = Self::transport(0);
}

/// Where the data of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataPlace {
    /// In the capsule, behind the command. Checked against the capsule's data.
    InCapsule {
        /// Bytes from the start of the data.
        offset: u32,
        /// Bytes.
        length: u32,
    },
    /// In the host's command data buffer: the transport moves it.
    CommandBuffer {
        /// Bytes.
        length: u32,
    },
}

impl DataPlace {
    /// Bytes.
    pub const fn length(self) -> u32 {
        match self {
            Self::InCapsule { length, .. } | Self::CommandBuffer { length } => length,
        }
    }
}

impl Command {
    /// FUSE.
    #[inline]
    pub const fn fuse(&self) -> Fuse {
        self.flags.fuse()
    }

    /// SLBA and other quantities of dwords 10 and 11.
    #[inline]
    pub const fn cdw10_11(&self) -> u64 {
        self.cdw10 as u64 | (self.cdw11 as u64) << 32
    }

    /// Where the data is that SGL1 describes; `capsule_data` is how many bytes of data came with the capsule.
    ///
    /// Refuses with what Base 2.1 and TCP 1.1 name: PRPs with INVALID_FIELD_IN_COMMAND, other descriptors with
    /// SGL_DESCRIPTOR_TYPE_INVALID, an offset beyond the capsule with SGL_OFFSET_INVALID, a length beyond it with
    /// DATA_SGL_LENGTH_INVALID.
    #[inline]
    pub fn data_place(&self, capsule_data: u32) -> Result<DataPlace, Status> {
        if !matches!(self.flags.psdt(), 1 | 2) {
            return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
        }
        let length = self.sgl.length;
        match self.sgl.kind {
            SglKind::TRANSPORT_DATA_BLOCK => Ok(DataPlace::CommandBuffer { length }),
            SglKind::DATA_BLOCK_OFFSET => {
                let offset = u32::try_from(self.sgl.address).unwrap_or(u32::MAX);
                let rest =
                    capsule_data.checked_sub(offset).ok_or(Status::SGL_OFFSET_INVALID.do_not_retry())?;
                if length > rest {
                    return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
                }
                Ok(DataPlace::InCapsule { offset, length })
            }
            _ => Err(Status::SGL_DESCRIPTOR_TYPE_INVALID.do_not_retry()),
        }
    }
}
