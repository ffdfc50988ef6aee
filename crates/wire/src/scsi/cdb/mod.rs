//! Command descriptor blocks: [`Command::decode`] for the target, [`encode`] for the initiator.
//!
//! Which bits of a CDB may be set is said once, in [`super::opcodes::OPERATIONS`]; a CDB that sets any other bit
//! is refused before its fields are read, with a pointer to that bit.

pub(super) mod decode;
pub mod encode;

#[cfg(test)]
mod tests;

pub use encode::Cdb;

use super::sense::FieldPointer;

/// The longest CDB that this target decodes, in bytes.
pub const MAXIMUM_CDB_LENGTH: usize = 16;

/// Whether it writes, first block and number of blocks of a READ or WRITE with 10 or 16 bytes, unchecked; for those who look
/// ahead.
pub fn peek_range(cdb: &[u8; 16]) -> Option<(bool, u64, u32)> {
    let writes = cdb[0] & 2 != 0;
    match cdb[0] {
        0x28 | 0x2a => {
            let lba = u32::from_be_bytes(*cdb[2..].first_chunk()?);
            Some((writes, lba.into(), u16::from_be_bytes(*cdb[7..].first_chunk()?).into()))
        }
        0x88 | 0x8a => {
            let lba = u64::from_be_bytes(*cdb[2..].first_chunk()?);
            Some((writes, lba, u32::from_be_bytes(*cdb[10..].first_chunk()?)))
        }
        _ => None,
    }
}

/// Why a CDB was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdbError {
    /// No such operation: INVALID COMMAND OPERATION CODE.
    #[error("operation code {0:#04x} is not supported")]
    InvalidOpcode(u8),
    /// INVALID FIELD IN CDB; the pointer says where.
    #[error("invalid field in the CDB at byte {}", .0.byte)]
    InvalidField(FieldPointer),
}

/// A range of logical blocks and how to treat the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Transfer {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks; 0 is nothing (READ(6) and WRITE(6) have their 0 already turned into 256).
    pub blocks: u32,
    /// DISABLE PAGE OUT: the blocks need not stay in the cache.
    pub dpo: bool,
    /// FORCE UNIT ACCESS: the medium itself, not a volatile cache.
    pub fua: bool,
}

/// BYTCHK of VERIFY and WRITE AND VERIFY (SBC-4 sections 5.36 and 5.53).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ByteCheck {
    /// 00b: the medium can be read; no data-out.
    #[default]
    Medium,
    /// 01b: compared with as many blocks of data-out.
    Compare,
    /// 11b: each block compared with the single block of data-out (VERIFY only).
    CompareOne,
}

/// VERIFY and WRITE AND VERIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Verify {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks; 0 is nothing.
    pub blocks: u32,
    /// DISABLE PAGE OUT.
    pub dpo: bool,
    /// What is compared.
    pub check: ByteCheck,
}

/// WRITE SAME(10) and (16). ANCHOR is never there: it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteSame {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks; 0 is up to the end, if the block limits allow it.
    pub blocks: u32,
    /// UNMAP: the blocks may be deallocated.
    pub unmap: bool,
    /// NO DATA-OUT BUFFER: a block of zeros is meant, none is sent.
    pub ndob: bool,
}

/// Which values MODE SENSE asks for (SPC-5 table "page control").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PageControl {
    /// 00b.
    #[default]
    Current,
    /// 01b: a mask of bits that MODE SELECT may change.
    Changeable,
    /// 10b.
    Default,
    /// 11b: not supported by this target.
    Saved,
}

/// MODE SENSE(6) and (10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSense {
    /// True for MODE SENSE(10), whose header is longer.
    pub ten: bool,
    /// LLBAA: long block descriptors are allowed (MODE SENSE(10)).
    pub long_lba: bool,
    /// DBD: no block descriptors.
    pub disable_block_descriptors: bool,
    /// Which values.
    pub control: PageControl,
    /// Page code; 3Fh is all.
    pub page: u8,
    /// Subpage code; `FFh` is all.
    pub subpage: u8,
    /// How much the initiator takes.
    pub allocation_length: u16,
}

/// MODE SELECT(6) and (10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSelect {
    /// True for MODE SELECT(10).
    pub ten: bool,
    /// PF: the list has pages as the standard draws them.
    pub page_format: bool,
    /// SP: save the pages.
    pub save_pages: bool,
    /// Length of the parameter list in bytes.
    pub parameter_list_length: u16,
}

/// START STOP UNIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StartStop {
    /// Status before the action is over.
    pub immediate: bool,
    /// POWER CONDITION MODIFIER, 0 to 15.
    pub power_condition_modifier: u8,
    /// POWER CONDITION, 0 to 15; 0 is `START_VALID`.
    pub power_condition: u8,
    /// `NO_FLUSH`.
    pub no_flush: bool,
    /// LOEJ: load or eject.
    pub load_eject: bool,
    /// START.
    pub start: bool,
}

/// What REPORT SUPPORTED OPERATION CODES asks for (SPC-5 section 6.35).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportingOptions {
    /// 000b: every command.
    All,
    /// 001b: one operation code that has no service actions.
    Opcode(u8),
    /// 010b: one operation code that has service actions.
    ServiceAction(u8, u16),
    /// 011b: either, and a plain "not supported" for what is not there.
    Either(u8, u16),
}

/// One decoded command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense {
        /// DESC: descriptor format wanted.
        descriptor: bool,
        /// How much the initiator takes.
        allocation_length: u8,
    },
    /// INQUIRY.
    Inquiry {
        /// The vital product data page, or the standard data.
        page: Option<u8>,
        /// How much the initiator takes.
        allocation_length: u16,
    },
    /// REPORT LUNS.
    ReportLuns {
        /// SELECT REPORT.
        select_report: u8,
        /// How much the initiator takes.
        allocation_length: u32,
    },
    /// MODE SENSE(6) and (10).
    ModeSense(ModeSense),
    /// MODE SELECT(6) and (10).
    ModeSelect(ModeSelect),
    /// READ CAPACITY(10).
    ReadCapacity10,
    /// READ CAPACITY(16).
    ReadCapacity16 {
        /// How much the initiator takes.
        allocation_length: u32,
    },
    /// READ(6), (10), (12), (16).
    Read(Transfer),
    /// WRITE(6), (10), (12), (16).
    Write(Transfer),
    /// VERIFY(10), (12), (16).
    Verify(Verify),
    /// WRITE AND VERIFY(10), (12), (16); the check is never [`ByteCheck::CompareOne`].
    WriteAndVerify(Verify),
    /// SYNCHRONIZE CACHE(10) and (16).
    SynchronizeCache {
        /// First logical block.
        lba: u64,
        /// Number of logical blocks; 0 is up to the end.
        blocks: u32,
        /// IMMED: status before it is done.
        immediate: bool,
    },
    /// PRE-FETCH(10) and (16).
    PreFetch {
        /// First logical block.
        lba: u64,
        /// Number of logical blocks; 0 is up to the end.
        blocks: u32,
        /// IMMED: status before it is done.
        immediate: bool,
    },
    /// COMPARE AND WRITE; data-out has twice as many blocks.
    CompareAndWrite(Transfer),
    /// ORWRITE(16).
    OrWrite(Transfer),
    /// WRITE SAME(10) and (16).
    WriteSame(WriteSame),
    /// UNMAP.
    Unmap {
        /// Length of the parameter list in bytes.
        parameter_list_length: u16,
    },
    /// GET LBA STATUS(16).
    GetLbaStatus {
        /// First logical block.
        lba: u64,
        /// How much the initiator takes.
        allocation_length: u32,
    },
    /// START STOP UNIT.
    StartStop(StartStop),
    /// PREVENT ALLOW MEDIUM REMOVAL.
    PreventAllow {
        /// PREVENT: removal is prevented.
        prevent: bool,
    },
    /// REPORT SUPPORTED OPERATION CODES.
    ReportSupportedOpcodes {
        /// Which commands.
        options: ReportingOptions,
        /// RCTD: with command timeouts descriptors.
        timeouts: bool,
        /// How much the initiator takes.
        allocation_length: u32,
    },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    ReportSupportedTaskManagement {
        /// REPD: the long form.
        extended: bool,
        /// How much the initiator takes.
        allocation_length: u32,
    },
}

impl Command {
    /// Reads a CDB. Bytes behind the length that the operation code implies are not looked at (iSCSI pads
    /// every CDB to 16 bytes).
    pub fn decode(cdb: &[u8]) -> Result<Self, CdbError> {
        if let Some(operation) = super::opcodes::find_plain(cdb) {
            return (operation.decode)(cdb);
        }
        let opcode = *cdb.first().ok_or(CdbError::InvalidField(FieldPointer::cdb(0)))?;
        let operation = super::opcodes::find(cdb)?.ok_or(CdbError::InvalidOpcode(opcode))?;
        operation.check_reserved(cdb)?;
        (operation.decode)(cdb)
    }
}
