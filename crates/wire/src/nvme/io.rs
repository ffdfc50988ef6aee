//! I/O commands: NVM Command Set 1.1 section 3.3, Flush of Base 2.1 section 7.2.

use super::command::{Command, CommandFlags, SglDescriptor};
use super::layout::{codes, structure};
use super::status::Status;

codes! {
    /// Opcodes of the NVM command set.
    pub struct Opcode(u8) {
        /// Flush.
        FLUSH = 0x00,
        /// Write.
        WRITE = 0x01,
        /// Read.
        READ = 0x02,
        /// Write Uncorrectable.
        WRITE_UNCORRECTABLE = 0x04,
        /// Compare.
        COMPARE = 0x05,
        /// Write Zeroes.
        WRITE_ZEROES = 0x08,
        /// Dataset Management.
        DATASET_MANAGEMENT = 0x09,
        /// Verify.
        VERIFY = 0x0c,
        /// Reservation Register.
        RESERVATION_REGISTER = 0x0d,
        /// Reservation Report.
        RESERVATION_REPORT = 0x0e,
        /// Reservation Acquire.
        RESERVATION_ACQUIRE = 0x11,
        /// I/O Management Receive.
        IO_MANAGEMENT_RECEIVE = 0x12,
        /// Reservation Release.
        RESERVATION_RELEASE = 0x15,
        /// Cancel.
        CANCEL = 0x18,
        /// Copy.
        COPY = 0x19,
        /// I/O Management Send.
        IO_MANAGEMENT_SEND = 0x1d,
    }
}

/// A command of this set without its fields.
#[inline]
pub const fn command(opcode: Opcode, cid: u16, nsid: u32) -> Command {
    Command {
        opcode: opcode.0,
        flags: CommandFlags::SGL,
        cid,
        nsid,
        cdw2: 0,
        cdw3: 0,
        mptr: 0,
        sgl: SglDescriptor::NOTHING,
        cdw10: 0,
        cdw11: 0,
        cdw12: 0,
        cdw13: 0,
        cdw14: 0,
        cdw15: 0,
    }
}

const INVALID_FIELD: Status = Status::INVALID_FIELD_IN_COMMAND.do_not_retry();

bitflags::bitflags! {
    /// The high bits of dword 12 of commands that name a range.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct RangeFlags: u32 {
        /// NSZ of Write Zeroes: the whole namespace.
        const NAMESPACE_ZEROES = 1 << 23;
        /// STC: storage tag check.
        const STORAGE_TAG_CHECK = 1 << 24;
        /// DEAC of Write Zeroes: deallocate.
        const DEALLOCATE = 1 << 25;
        /// PRINFO: check the reference tag.
        const CHECK_REFERENCE_TAG = 1 << 26;
        /// PRINFO: check the application tag.
        const CHECK_APPLICATION_TAG = 1 << 27;
        /// PRINFO: check the guard.
        const CHECK_GUARD = 1 << 28;
        /// PRINFO: the controller makes or takes away protection information (PRACT).
        const PROTECTION_ACTION = 1 << 29;
        /// FUA: force unit access.
        const FORCE_UNIT_ACCESS = 1 << 30;
        /// LR: limited retry.
        const LIMITED_RETRY = 1 << 31;
    }
}

impl RangeFlags {
    /// PRINFO and STC: what a namespace without protection information refuses.
    pub const PROTECTION: Self = Self::STORAGE_TAG_CHECK
        .union(Self::CHECK_REFERENCE_TAG)
        .union(Self::CHECK_APPLICATION_TAG)
        .union(Self::CHECK_GUARD)
        .union(Self::PROTECTION_ACTION);
}

/// The fields of Read, Write, Compare, Verify, Write Zeroes and Write Uncorrectable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockRange {
    /// SLBA.
    pub slba: u64,
    /// NLB, 0's based.
    pub nlb: u16,
    /// FUA, LR, PRINFO, DEAC and the like.
    pub flags: RangeFlags,
    /// DTYPE: directive type of a write (0 none).
    pub dtype: u8,
}

impl BlockRange {
    /// Reads the fields.
    #[inline]
    pub const fn of(command: &Command) -> Self {
        Self {
            slba: command.cdw10_11(),
            nlb: command.cdw12 as u16,
            flags: RangeFlags::from_bits_truncate(command.cdw12),
            dtype: (command.cdw12 >> 20 & 0xf) as u8,
        }
    }

    /// The same for a namespace without protection information and directives: PRINFO and STC must be 0.
    ///
    /// Refuses with INVALID_PROTECTION_INFORMATION. DTYPE shares a bit with NSZ and is left to the caller.
    #[inline]
    pub fn without_protection(command: &Command) -> Result<Self, Status> {
        let range = Self::of(command);
        // DEAC stands beside PRINFO, not in it.
        if range.flags.intersects(RangeFlags::PROTECTION) {
            return Err(Status::INVALID_PROTECTION_INFORMATION.do_not_retry());
        }
        Ok(range)
    }

    /// Number of blocks: 1 to 65536.
    #[inline]
    pub const fn blocks(self) -> u32 {
        self.nlb as u32 + 1
    }

    /// The command. `sgl` describes its data, [`SglDescriptor::NOTHING`] if it has none.
    #[inline]
    pub const fn command(&self, opcode: Opcode, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        Command {
            sgl,
            cdw10: self.slba as u32,
            cdw11: (self.slba >> 32) as u32,
            cdw12: self.nlb as u32 | self.flags.bits() | (self.dtype as u32 & 0xf) << 20,
            ..command(opcode, cid, nsid)
        }
    }
}

bitflags::bitflags! {
    /// Dword 11 of Dataset Management.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct DatasetAttributes: u32 {
        /// IDR: integral dataset for read.
        const INTEGRAL_READ = 1;
        /// IDW: integral dataset for write.
        const INTEGRAL_WRITE = 1 << 1;
        /// AD: deallocate.
        const DEALLOCATE = 1 << 2;
    }
}

/// Dataset Management, NVM 1.1 section 3.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatasetManagement {
    /// NR: ranges, 0's based.
    pub nr: u8,
    /// AD, IDW, IDR.
    pub attributes: DatasetAttributes,
}

impl DatasetManagement {
    /// Reads the fields.
    pub const fn of(command: &Command) -> Self {
        Self { nr: command.cdw10 as u8, attributes: DatasetAttributes::from_bits_truncate(command.cdw11) }
    }

    /// Number of ranges: 1 to 256.
    pub const fn ranges(self) -> usize {
        self.nr as usize + 1
    }

    /// Bytes of the ranges: 16 to 4096.
    pub const fn data_length(self) -> usize {
        self.ranges() * DatasetRange::LENGTH
    }

    /// The command.
    pub fn command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        Command {
            sgl,
            cdw10: u32::from(self.nr),
            cdw11: self.attributes.bits(),
            ..command(Opcode::DATASET_MANAGEMENT, cid, nsid)
        }
    }
}

structure! {
    /// A range of Dataset Management.
    pub struct DatasetRange: 16 {
        /// Context attributes.
        attributes: u32 = 0,
        /// Blocks, 1's based: 0 is nothing.
        length: u32 = 4,
        /// SLBA.
        slba: u64 = 8,
    }
}

/// The ranges in the data of a Dataset Management command, checked to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetRanges<'a>(&'a [[u8; DatasetRange::LENGTH]]);

impl<'a> DatasetRanges<'a> {
    /// The first `count` ranges of `data`; data that is too short is refused with DATA_SGL_LENGTH_INVALID.
    pub fn decode(data: &'a [u8], count: usize) -> Result<Self, Status> {
        entries(data, count).map(Self)
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = DatasetRange> + 'a {
        self.0.iter().map(DatasetRange::decode)
    }
}

fn entries<const N: usize>(data: &[u8], count: usize) -> Result<&[[u8; N]], Status> {
    let (entries, _) = data.as_chunks::<N>();
    entries.get(..count).ok_or(Status::DATA_SGL_LENGTH_INVALID.do_not_retry())
}

/// Copy, NVM 1.1 section 3.3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copy {
    /// SDLBA: where the first block goes to.
    pub sdlba: u64,
    /// NR: source ranges, 0's based.
    pub nr: u8,
    /// DESFMT: the descriptor format; 0 for ranges of this namespace.
    pub desfmt: u8,
    /// FUA.
    pub force_unit_access: bool,
    /// LR.
    pub limited_retry: bool,
}

impl Copy {
    /// Reads the fields of a Copy to a namespace without protection information. PRINFOR, PRINFOW, STCR and STCW must
    /// be 0 (INVALID_PROTECTION_INFORMATION), DTYPE too (INVALID_FIELD_IN_COMMAND).
    pub fn of(command: &Command) -> Result<Self, Status> {
        // PRINFOR 15:12, STCW 24, STCR 25, PRINFOW 29:26.
        if command.cdw12 & 0x3f00_f000 != 0 {
            return Err(Status::INVALID_PROTECTION_INFORMATION.do_not_retry());
        }
        if command.cdw12 >> 20 & 0xf != 0 {
            return Err(INVALID_FIELD);
        }
        Ok(Self {
            sdlba: command.cdw10_11(),
            nr: command.cdw12 as u8,
            desfmt: (command.cdw12 >> 8 & 0xf) as u8,
            force_unit_access: command.cdw12 & 1 << 30 != 0,
            limited_retry: command.cdw12 & 1 << 31 != 0,
        })
    }

    /// Number of source ranges: 1 to 256.
    pub const fn ranges(self) -> usize {
        self.nr as usize + 1
    }

    /// Bytes of the source ranges in format 0.
    pub const fn data_length(self) -> usize {
        self.ranges() * CopyRange::LENGTH
    }

    /// The command.
    pub fn command(&self, cid: u16, nsid: u32, sgl: SglDescriptor) -> Command {
        Command {
            sgl,
            cdw10: self.sdlba as u32,
            cdw11: (self.sdlba >> 32) as u32,
            cdw12: u32::from(self.nr)
                | u32::from(self.desfmt & 0xf) << 8
                | u32::from(self.force_unit_access) << 30
                | u32::from(self.limited_retry) << 31,
            ..command(Opcode::COPY, cid, nsid)
        }
    }
}

structure! {
    /// A source range of Copy, descriptor format 0.
    pub struct CopyRange: 32 {
        /// SLBA.
        slba: u64 = 8,
        /// NLB, 0's based.
        nlb: u16 = 16,
        /// ELBT: expected reference tag.
        elbt: u32 = 24,
        /// ELBAT: expected application tag.
        elbat: u16 = 28,
        /// ELBATM: mask of it.
        elbatm: u16 = 30,
    }
}

/// The source ranges in the data of a Copy command, format 0, checked to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyRanges<'a>(&'a [[u8; CopyRange::LENGTH]]);

impl<'a> CopyRanges<'a> {
    /// The first `count` ranges of `data`; data that is too short is refused with DATA_SGL_LENGTH_INVALID.
    pub fn decode(data: &'a [u8], count: usize) -> Result<Self, Status> {
        entries(data, count).map(Self)
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CopyRange> + 'a {
        self.0.iter().map(CopyRange::decode)
    }
}
