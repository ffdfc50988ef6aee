//! The fields of each CDB. Reserved bits have been checked by the table before these run.

#![expect(clippy::unnecessary_wraps, reason = "the table holds all of them as one type of function")]

use super::super::bytes::{u8_at, u16_at, u24_at, u32_at, u64_at};
use super::super::sense::FieldPointer;
use super::{
    ByteCheck, CdbError, Command, ModeSelect, ModeSense, PageControl, ReportingOptions, StartStop, Transfer,
    Verify, WriteSame,
};

type Decoded = Result<Command, CdbError>;

fn bit(cdb: &[u8], byte: usize, mask: u8) -> bool {
    u8_at(cdb, byte) & mask != 0
}

/// Byte 1 of the ten, twelve and sixteen byte forms: DPO and FUA.
fn transfer(cdb: &[u8], lba: u64, blocks: u32) -> Transfer {
    Transfer { lba, blocks, dpo: bit(cdb, 1, 0x10), fua: bit(cdb, 1, 0x08) }
}

/// READ(6) and WRITE(6): 21 bits of address, and a length of 0 is 256 blocks.
fn transfer_6(cdb: &[u8]) -> Transfer {
    let blocks = match u8_at(cdb, 4) {
        0 => 256,
        blocks => u32::from(blocks),
    };
    Transfer { lba: u64::from(u24_at(cdb, 1) & 0x1f_ffff), blocks, dpo: false, fua: false }
}

fn transfer_10(cdb: &[u8]) -> Transfer {
    transfer(cdb, u64::from(u32_at(cdb, 2)), u32::from(u16_at(cdb, 7)))
}

fn transfer_12(cdb: &[u8]) -> Transfer {
    transfer(cdb, u64::from(u32_at(cdb, 2)), u32_at(cdb, 6))
}

fn transfer_16(cdb: &[u8]) -> Transfer {
    transfer(cdb, u64_at(cdb, 2), u32_at(cdb, 10))
}

/// BYTCHK 10b is reserved (SBC-4 table "BYTCHK field").
fn verify(cdb: &[u8], transfer: Transfer) -> Result<Verify, CdbError> {
    let check = match (u8_at(cdb, 1) >> 1) & 3 {
        0 => ByteCheck::Medium,
        1 => ByteCheck::Compare,
        3 => ByteCheck::CompareOne,
        _ => return Err(CdbError::InvalidField(FieldPointer::cdb_bit(1, 2))),
    };
    Ok(Verify { lba: transfer.lba, blocks: transfer.blocks, dpo: transfer.dpo, check })
}

pub(in crate::scsi) fn test_unit_ready(_: &[u8]) -> Decoded {
    Ok(Command::TestUnitReady)
}

pub(in crate::scsi) fn request_sense(cdb: &[u8]) -> Decoded {
    Ok(Command::RequestSense { descriptor: bit(cdb, 1, 0x01), allocation_length: u8_at(cdb, 4) })
}

/// A page code without EVPD is refused (SPC-5 section 6.6.1).
pub(in crate::scsi) fn inquiry(cdb: &[u8]) -> Decoded {
    let page = u8_at(cdb, 2);
    let page = match (bit(cdb, 1, 0x01), page) {
        (true, page) => Some(page),
        (false, 0) => None,
        (false, _) => return Err(CdbError::InvalidField(FieldPointer::cdb(2))),
    };
    Ok(Command::Inquiry { page, allocation_length: u16_at(cdb, 3) })
}

pub(in crate::scsi) fn report_luns(cdb: &[u8]) -> Decoded {
    Ok(Command::ReportLuns { select_report: u8_at(cdb, 2), allocation_length: u32_at(cdb, 6) })
}

fn mode_sense(cdb: &[u8], ten: bool, allocation_length: u16) -> Decoded {
    let control = match u8_at(cdb, 2) >> 6 {
        0 => PageControl::Current,
        1 => PageControl::Changeable,
        2 => PageControl::Default,
        _ => PageControl::Saved,
    };
    Ok(Command::ModeSense(ModeSense {
        ten,
        long_lba: ten && bit(cdb, 1, 0x10),
        disable_block_descriptors: bit(cdb, 1, 0x08),
        control,
        page: u8_at(cdb, 2) & 0x3f,
        subpage: u8_at(cdb, 3),
        allocation_length,
    }))
}

pub(in crate::scsi) fn mode_sense_6(cdb: &[u8]) -> Decoded {
    mode_sense(cdb, false, u16::from(u8_at(cdb, 4)))
}

pub(in crate::scsi) fn mode_sense_10(cdb: &[u8]) -> Decoded {
    mode_sense(cdb, true, u16_at(cdb, 7))
}

fn mode_select(cdb: &[u8], ten: bool, parameter_list_length: u16) -> Decoded {
    Ok(Command::ModeSelect(ModeSelect {
        ten,
        page_format: bit(cdb, 1, 0x10),
        save_pages: bit(cdb, 1, 0x01),
        parameter_list_length,
    }))
}

pub(in crate::scsi) fn mode_select_6(cdb: &[u8]) -> Decoded {
    mode_select(cdb, false, u16::from(u8_at(cdb, 4)))
}

pub(in crate::scsi) fn mode_select_10(cdb: &[u8]) -> Decoded {
    mode_select(cdb, true, u16_at(cdb, 7))
}

pub(in crate::scsi) fn read_capacity_10(_: &[u8]) -> Decoded {
    Ok(Command::ReadCapacity10)
}

pub(in crate::scsi) fn read_capacity_16(cdb: &[u8]) -> Decoded {
    Ok(Command::ReadCapacity16 { allocation_length: u32_at(cdb, 10) })
}

pub(in crate::scsi) fn read_6(cdb: &[u8]) -> Decoded {
    Ok(Command::Read(transfer_6(cdb)))
}

pub(in crate::scsi) fn read_10(cdb: &[u8]) -> Decoded {
    Ok(Command::Read(transfer_10(cdb)))
}

pub(in crate::scsi) fn read_12(cdb: &[u8]) -> Decoded {
    Ok(Command::Read(transfer_12(cdb)))
}

pub(in crate::scsi) fn read_16(cdb: &[u8]) -> Decoded {
    Ok(Command::Read(transfer_16(cdb)))
}

pub(in crate::scsi) fn write_6(cdb: &[u8]) -> Decoded {
    Ok(Command::Write(transfer_6(cdb)))
}

pub(in crate::scsi) fn write_10(cdb: &[u8]) -> Decoded {
    Ok(Command::Write(transfer_10(cdb)))
}

pub(in crate::scsi) fn write_12(cdb: &[u8]) -> Decoded {
    Ok(Command::Write(transfer_12(cdb)))
}

pub(in crate::scsi) fn write_16(cdb: &[u8]) -> Decoded {
    Ok(Command::Write(transfer_16(cdb)))
}

pub(in crate::scsi) fn verify_10(cdb: &[u8]) -> Decoded {
    verify(cdb, transfer_10(cdb)).map(Command::Verify)
}

pub(in crate::scsi) fn verify_12(cdb: &[u8]) -> Decoded {
    verify(cdb, transfer_12(cdb)).map(Command::Verify)
}

pub(in crate::scsi) fn verify_16(cdb: &[u8]) -> Decoded {
    verify(cdb, transfer_16(cdb)).map(Command::Verify)
}

pub(in crate::scsi) fn write_and_verify_10(cdb: &[u8]) -> Decoded {
    verify(cdb, transfer_10(cdb)).map(Command::WriteAndVerify)
}

pub(in crate::scsi) fn write_and_verify_12(cdb: &[u8]) -> Decoded {
    verify(cdb, transfer_12(cdb)).map(Command::WriteAndVerify)
}

pub(in crate::scsi) fn write_and_verify_16(cdb: &[u8]) -> Decoded {
    verify(cdb, transfer_16(cdb)).map(Command::WriteAndVerify)
}

pub(in crate::scsi) fn synchronize_cache_10(cdb: &[u8]) -> Decoded {
    let Transfer { lba, blocks, .. } = transfer_10(cdb);
    Ok(Command::SynchronizeCache { lba, blocks, immediate: bit(cdb, 1, 0x02) })
}

pub(in crate::scsi) fn synchronize_cache_16(cdb: &[u8]) -> Decoded {
    let Transfer { lba, blocks, .. } = transfer_16(cdb);
    Ok(Command::SynchronizeCache { lba, blocks, immediate: bit(cdb, 1, 0x02) })
}

pub(in crate::scsi) fn pre_fetch_10(cdb: &[u8]) -> Decoded {
    let Transfer { lba, blocks, .. } = transfer_10(cdb);
    Ok(Command::PreFetch { lba, blocks, immediate: bit(cdb, 1, 0x02) })
}

pub(in crate::scsi) fn pre_fetch_16(cdb: &[u8]) -> Decoded {
    let Transfer { lba, blocks, .. } = transfer_16(cdb);
    Ok(Command::PreFetch { lba, blocks, immediate: bit(cdb, 1, 0x02) })
}

pub(in crate::scsi) fn compare_and_write(cdb: &[u8]) -> Decoded {
    Ok(Command::CompareAndWrite(transfer(cdb, u64_at(cdb, 2), u32::from(u8_at(cdb, 13)))))
}

pub(in crate::scsi) fn or_write_16(cdb: &[u8]) -> Decoded {
    Ok(Command::OrWrite(transfer_16(cdb)))
}

pub(in crate::scsi) fn write_same_10(cdb: &[u8]) -> Decoded {
    let Transfer { lba, blocks, .. } = transfer_10(cdb);
    Ok(Command::WriteSame(WriteSame { lba, blocks, unmap: bit(cdb, 1, 0x08), ndob: false }))
}

pub(in crate::scsi) fn write_same_16(cdb: &[u8]) -> Decoded {
    let Transfer { lba, blocks, .. } = transfer_16(cdb);
    let same = WriteSame { lba, blocks, unmap: bit(cdb, 1, 0x08), ndob: bit(cdb, 1, 0x01) };
    Ok(Command::WriteSame(same))
}

pub(in crate::scsi) fn unmap(cdb: &[u8]) -> Decoded {
    Ok(Command::Unmap { parameter_list_length: u16_at(cdb, 7) })
}

pub(in crate::scsi) fn get_lba_status(cdb: &[u8]) -> Decoded {
    Ok(Command::GetLbaStatus { lba: u64_at(cdb, 2), allocation_length: u32_at(cdb, 10) })
}

pub(in crate::scsi) fn start_stop_unit(cdb: &[u8]) -> Decoded {
    let flags = u8_at(cdb, 4);
    Ok(Command::StartStop(StartStop {
        immediate: bit(cdb, 1, 0x01),
        power_condition_modifier: u8_at(cdb, 3) & 0x0f,
        power_condition: flags >> 4,
        no_flush: flags & 0x04 != 0,
        load_eject: flags & 0x02 != 0,
        start: flags & 0x01 != 0,
    }))
}

/// PREVENT 10b and 11b are obsolete (SBC-4 section 5.19).
pub(in crate::scsi) fn prevent_allow(cdb: &[u8]) -> Decoded {
    Ok(Command::PreventAllow { prevent: bit(cdb, 4, 0x01) })
}

pub(in crate::scsi) fn report_supported_opcodes(cdb: &[u8]) -> Decoded {
    let (opcode, service_action) = (u8_at(cdb, 3), u16_at(cdb, 4));
    let options = match u8_at(cdb, 2) & 7 {
        0 => ReportingOptions::All,
        1 => ReportingOptions::Opcode(opcode),
        2 => ReportingOptions::ServiceAction(opcode, service_action),
        3 => ReportingOptions::Either(opcode, service_action),
        _ => return Err(CdbError::InvalidField(FieldPointer::cdb_bit(2, 2))),
    };
    Ok(Command::ReportSupportedOpcodes {
        options,
        timeouts: bit(cdb, 2, 0x80),
        allocation_length: u32_at(cdb, 6),
    })
}

pub(in crate::scsi) fn report_supported_task_management(cdb: &[u8]) -> Decoded {
    Ok(Command::ReportSupportedTaskManagement {
        extended: bit(cdb, 2, 0x80),
        allocation_length: u32_at(cdb, 6),
    })
}
