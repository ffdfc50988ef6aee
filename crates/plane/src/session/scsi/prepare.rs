//! What can be said of a command before any data moves: what it is, how much data it wants, whether it has to be
//! refused. No I/O and no waiting in here.

use wire::scsi::cdb::{ByteCheck, StartStop, Transfer, Verify, WriteSame};
use wire::scsi::luns::Lun;
use wire::scsi::{AdditionalSense, CdbError, Command, FieldPointer, Sense, SenseKey, mode};

use super::logical_unit::LogicalUnit;
use super::response::Response;
use super::unit::Nexus;
use crate::limits;
use crate::request::Verb;

/// A command that may be executed once its data-out has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub(super) command: Command,
    pub(super) here: bool,
    data_out: u32,
    data_in: u32,
}

impl Prepared {
    /// The command.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// What it is among the operations of an initiator; none of those that move no blocks.
    pub fn verb(&self) -> Option<Verb> {
        match self.command {
            _ if !self.here => None,
            Command::Read(_) => Some(Verb::Read),
            Command::Write(_)
            | Command::WriteAndVerify(_)
            | Command::CompareAndWrite(_)
            | Command::OrWrite(_) => Some(Verb::Write),
            Command::SynchronizeCache { .. } => Some(Verb::Flush),
            Command::Unmap { .. } => Some(Verb::Discard),
            Command::WriteSame(_) => Some(Verb::WriteZeroes),
            _ => None,
        }
    }

    /// Bytes of data-out that the command wants. What the initiator announced beyond that is not asked for, and
    /// the difference is the residual.
    pub fn data_out(&self) -> u32 {
        self.data_out
    }

    /// The most bytes of data-in that the command may return; exactly so many for READ. The response has the
    /// length in the end.
    pub fn data_in(&self) -> u32 {
        self.data_in
    }
}

/// INQUIRY, REPORT LUNS and REQUEST SENSE are processed whatever is pending (SAM-5 section 5.14.2).
fn exempt_from_attention(opcode: u8) -> bool {
    matches!(opcode, 0x03 | 0x12 | 0xa0)
}

/// The place of the length field, for "too long": READ(10) has it at byte 7, the longer ones further back.
fn length_field(cdb: &[u8]) -> FieldPointer {
    FieldPointer::cdb(match cdb.first().map_or(0, |opcode| opcode >> 5) {
        0 => 4,
        1 | 2 => 7,
        5 => 6,
        _ if cdb.first() == Some(&0x89) => 13,
        _ => 10,
    })
}

/// Data-out shorter or longer than the command can use (iSCSI: Expected Data Transfer Length).
pub(super) fn wrong_data_out() -> Sense {
    Sense::illegal_request(AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
}

fn write_protected(software: bool) -> Sense {
    let additional =
        if software { AdditionalSense::SOFTWARE_WRITE_PROTECTED } else { AdditionalSense::WRITE_PROTECTED };
    Sense::new(SenseKey::DataProtect, additional)
}

/// Commands that change what is on the medium.
fn writes(command: &Command) -> bool {
    matches!(
        command,
        Command::Write(_)
            | Command::WriteAndVerify(_)
            | Command::CompareAndWrite(_)
            | Command::OrWrite(_)
            | Command::WriteSame(_)
            | Command::Unmap { .. }
    )
}

/// Commands that a stopped unit refuses (SBC-4 section 4.20: those that access the medium, and TEST UNIT READY).
fn needs_started(command: &Command) -> bool {
    writes(command)
        || matches!(
            command,
            Command::TestUnitReady
                | Command::Read(_)
                | Command::Verify(_)
                | Command::SynchronizeCache { .. }
                | Command::PreFetch { .. }
                | Command::GetLbaStatus { .. }
                | Command::ReadCapacity10
                | Command::ReadCapacity16 { .. }
        )
}

impl LogicalUnit {
    /// Decodes and judges a CDB. `lun` is the decoded logical unit number, `None` for one that no target of this
    /// house can have. `expected_data_out` is what the initiator will send in all, in bytes.
    ///
    /// The error is the response: nothing is transferred and nothing executed.
    pub fn prepare(
        &self,
        nexus: &Nexus,
        lun: Option<Lun>,
        cdb: &[u8],
        expected_data_out: u32,
    ) -> Result<Prepared, Response> {
        let here = lun == Some(Lun::ZERO);
        if here
            && nexus.has_attention()
            && !exempt_from_attention(cdb.first().copied().unwrap_or(0))
            && let Some(sense) = nexus.take_attention()
        {
            return Err(self.refuse(sense));
        }
        let command = match Command::decode(cdb) {
            Ok(command) => command,
            Err(CdbError::InvalidOpcode(_)) if here => return Err(self.refuse(Sense::invalid_opcode())),
            Err(CdbError::InvalidField(pointer)) if here => {
                return Err(self.refuse(Sense::invalid_field(pointer)));
            }
            // Where nothing is, nothing more can be said of a command than that.
            Err(_) => Command::TestUnitReady,
        };
        if !here {
            let data_in = Self::allocation_length(&command);
            return Ok(Prepared { command, here, data_out: 0, data_in });
        }
        self.judge(&command, cdb, expected_data_out).map_err(|sense| self.refuse(sense))
    }

    pub(super) fn judge(
        &self,
        command: &Command,
        cdb: &[u8],
        expected_data_out: u32,
    ) -> Result<Prepared, Sense> {
        if self.unit().stopped() && needs_started(command) {
            return Err(Sense::new(SenseKey::NotReady, AdditionalSense::INITIALIZING_COMMAND_REQUIRED));
        }
        let (data_out, data_in) = match *command {
            Command::Read(Transfer { lba, blocks, .. }) => (0, self.transfer_bytes(lba, blocks, cdb)?),
            Command::Write(Transfer { lba, blocks, .. })
            | Command::OrWrite(Transfer { lba, blocks, .. })
            | Command::WriteAndVerify(Verify { lba, blocks, .. })
            | Command::Verify(Verify { lba, blocks, check: ByteCheck::Compare, .. }) => {
                (self.transfer_bytes(lba, blocks, cdb)?, 0)
            }
            // Bounded as if it moved data (SBC-4 table "transfer limits"), so that no command keeps a task for long.
            Command::Verify(Verify { lba, blocks, check, .. }) => {
                self.transfer_bytes(lba, blocks, cdb)?;
                let compares = check == ByteCheck::CompareOne && blocks > 0;
                (if compares { self.block_size() } else { 0 }, 0)
            }
            Command::CompareAndWrite(transfer) => (self.compare_and_write_bytes(transfer, cdb)?, 0),
            Command::WriteSame(same) => (self.write_same_bytes(same, cdb)?, 0),
            Command::PreFetch { lba, blocks, .. } | Command::SynchronizeCache { lba, blocks, .. } => {
                self.check_range(lba, u64::from(blocks))?;
                (0, 0)
            }
            Command::GetLbaStatus { lba, allocation_length } => {
                self.check_range(lba, 1)?;
                (0, allocation_length)
            }
            Command::Unmap { parameter_list_length } => {
                if !self.geometry().discard {
                    return Err(Sense::invalid_opcode());
                }
                (Self::parameter_list(u32::from(parameter_list_length), 7)?, 0)
            }
            Command::ModeSelect(select) => {
                mode::check_select(&select)?;
                let length_field = if select.ten { 7 } else { 4 };
                (Self::parameter_list(u32::from(select.parameter_list_length), length_field)?, 0)
            }
            Command::StartStop(action) => {
                self.check_start_stop(action)?;
                (0, 0)
            }
            _ => (0, Self::allocation_length(command)),
        };
        if writes(command) {
            if self.unit().write_protect() {
                return Err(write_protected(true));
            }
            if self.read_only() {
                return Err(write_protected(false));
            }
        }
        Self::check_data_out(command, data_out, expected_data_out)?;
        Ok(Prepared { command: *command, here: true, data_out, data_in })
    }

    /// Refuses a range that does not lie on the medium. A range of no blocks may begin right behind the end.
    pub(super) fn check_range(&self, lba: u64, blocks: u64) -> Result<(), Sense> {
        let capacity = self.geometry().blocks;
        match lba.checked_add(blocks) {
            Some(end) if end <= capacity => Ok(()),
            _ => Err(Sense::lba_out_of_range(lba.max(capacity))),
        }
    }

    /// The bytes of a range that has to fit into one buffer.
    fn transfer_bytes(&self, lba: u64, blocks: u32, cdb: &[u8]) -> Result<u32, Sense> {
        self.check_range(lba, u64::from(blocks))?;
        match blocks.checked_mul(self.block_size()) {
            Some(bytes) if bytes as usize <= limits::TRANSFER_BYTES => Ok(bytes),
            _ => Err(Sense::invalid_field(length_field(cdb))),
        }
    }

    fn compare_and_write_bytes(&self, transfer: Transfer, cdb: &[u8]) -> Result<u32, Sense> {
        self.check_range(transfer.lba, u64::from(transfer.blocks))?;
        if transfer.blocks > self.maximum_compare_blocks() {
            return Err(Sense::invalid_field(length_field(cdb)));
        }
        Ok(2 * transfer.blocks * self.block_size())
    }

    /// WSNZ is set: a length of 0 is refused (SBC-4 section 5.50).
    fn write_same_bytes(&self, same: WriteSame, cdb: &[u8]) -> Result<u32, Sense> {
        if same.unmap && !self.geometry().discard {
            return Err(Sense::invalid_field(FieldPointer::cdb_bit(1, 3)));
        }
        self.check_range(same.lba, u64::from(same.blocks))?;
        if same.blocks == 0 || same.blocks > limits::WRITE_SAME_BLOCKS {
            return Err(Sense::invalid_field(length_field(cdb)));
        }
        Ok(if same.ndob { 0 } else { self.block_size() })
    }

    fn parameter_list(length: u32, field: u16) -> Result<u32, Sense> {
        if length > limits::PARAMETER_LIST_BYTES {
            return Err(Sense::invalid_field(FieldPointer::cdb(field)));
        }
        Ok(length)
    }

    /// A parameter list has to be there in full, and data that is compared or repeated in full blocks and no more.
    /// A write may bring less than the CDB says: see [`LogicalUnit::arrived`], which speaks when the data is there, so
    /// that the response has the residual.
    fn check_data_out(command: &Command, wanted: u32, expected: u32) -> Result<(), Sense> {
        match *command {
            // Most likely the initiator wanted more blocks than the field of one byte can say.
            Command::CompareAndWrite(_) if expected != wanted => {
                Err(Sense::invalid_field(FieldPointer::cdb(13)))
            }
            Command::WriteSame(same) if !same.ndob && expected != wanted => Err(wrong_data_out()),
            Command::Unmap { .. } | Command::ModeSelect(_) if expected < wanted => {
                Err(Sense::parameter_list_length_error())
            }
            Command::Verify(Verify { check: ByteCheck::CompareOne, .. }) if expected < wanted => {
                Err(wrong_data_out())
            }
            _ => Ok(()),
        }
    }

    /// No power conditions, and no medium that could be ejected.
    fn check_start_stop(&self, action: StartStop) -> Result<(), Sense> {
        if action.power_condition != 0 {
            return Err(Sense::invalid_field(FieldPointer::cdb_bit(4, 7)));
        }
        if action.load_eject {
            if !action.start && self.unit().removal_prevented() {
                return Err(Sense::illegal_request(AdditionalSense::MEDIUM_REMOVAL_PREVENTED));
            }
            return Err(Sense::invalid_field(FieldPointer::cdb_bit(4, 1)));
        }
        Ok(())
    }

    fn allocation_length(command: &Command) -> u32 {
        match *command {
            Command::RequestSense { allocation_length, .. } => u32::from(allocation_length),
            Command::Inquiry { allocation_length, .. } => u32::from(allocation_length),
            Command::ModeSense(sense) => u32::from(sense.allocation_length),
            Command::ReadCapacity10 => 8,
            Command::ReportLuns { allocation_length, .. }
            | Command::ReadCapacity16 { allocation_length }
            | Command::ReportSupportedOpcodes { allocation_length, .. }
            | Command::ReportSupportedTaskManagement { allocation_length, .. } => allocation_length,
            _ => 0,
        }
    }
}
