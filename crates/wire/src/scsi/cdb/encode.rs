//! CDBs that an initiator sends.

use std::ops::Deref;

use super::super::bytes::put;
use super::{MAXIMUM_CDB_LENGTH, Transfer, WriteSame};

/// A CDB ready to be sent; derefs to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cdb {
    bytes: [u8; MAXIMUM_CDB_LENGTH],
    length: u8,
}

impl Deref for Cdb {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

impl Cdb {
    /// The CDB in a field of 16 bytes, zeros behind it, as iSCSI wants it.
    pub const fn padded(&self) -> [u8; MAXIMUM_CDB_LENGTH] {
        self.bytes
    }

    fn new(opcode: u8, length: u8) -> Self {
        let mut bytes = [0; MAXIMUM_CDB_LENGTH];
        bytes[0] = opcode;
        Self { bytes, length }
    }

    fn with(mut self, offset: usize, field: &[u8]) -> Self {
        put(&mut self.bytes, offset, field);
        self
    }

    fn flags(self, transfer: Transfer) -> Self {
        let dpo = if transfer.dpo { 0x10 } else { 0 };
        let fua = if transfer.fua { 0x08 } else { 0 };
        self.with(1, &[dpo | fua])
    }
}

/// TEST UNIT READY.
pub fn test_unit_ready() -> Cdb {
    Cdb::new(0x00, 6)
}

/// REQUEST SENSE, fixed format.
pub fn request_sense(allocation_length: u8) -> Cdb {
    Cdb::new(0x03, 6).with(4, &[allocation_length])
}

/// INQUIRY: standard data or a vital product data page.
pub fn inquiry(page: Option<u8>, allocation_length: u16) -> Cdb {
    let evpd = u8::from(page.is_some());
    Cdb::new(0x12, 6).with(1, &[evpd, page.unwrap_or(0)]).with(3, &allocation_length.to_be_bytes())
}

/// REPORT LUNS.
pub fn report_luns(select_report: u8, allocation_length: u32) -> Cdb {
    Cdb::new(0xa0, 12).with(2, &[select_report]).with(6, &allocation_length.to_be_bytes())
}

/// MODE SENSE(6), current values.
pub fn mode_sense_6(page: u8, allocation_length: u8) -> Cdb {
    Cdb::new(0x1a, 6).with(2, &[page & 0x3f]).with(4, &[allocation_length])
}

/// READ CAPACITY(10).
pub fn read_capacity_10() -> Cdb {
    Cdb::new(0x25, 10)
}

/// READ CAPACITY(16).
pub fn read_capacity_16(allocation_length: u32) -> Cdb {
    Cdb::new(0x9e, 16).with(1, &[0x10]).with(10, &allocation_length.to_be_bytes())
}

/// The ten byte form, where the range fits into it.
fn transfer_10(opcode: u8, transfer: Transfer) -> Option<Cdb> {
    let lba = u32::try_from(transfer.lba).ok()?;
    let blocks = u16::try_from(transfer.blocks).ok()?;
    Some(Cdb::new(opcode, 10).flags(transfer).with(2, &lba.to_be_bytes()).with(7, &blocks.to_be_bytes()))
}

fn transfer_16(opcode: u8, transfer: Transfer) -> Cdb {
    Cdb::new(opcode, 16)
        .flags(transfer)
        .with(2, &transfer.lba.to_be_bytes())
        .with(10, &transfer.blocks.to_be_bytes())
}

/// READ(10); `None` if the range does not fit into it.
pub fn read_10(transfer: Transfer) -> Option<Cdb> {
    transfer_10(0x28, transfer)
}

/// READ(16).
pub fn read_16(transfer: Transfer) -> Cdb {
    transfer_16(0x88, transfer)
}

/// WRITE(10); `None` if the range does not fit into it.
pub fn write_10(transfer: Transfer) -> Option<Cdb> {
    transfer_10(0x2a, transfer)
}

/// WRITE(16).
pub fn write_16(transfer: Transfer) -> Cdb {
    transfer_16(0x8a, transfer)
}

/// SYNCHRONIZE CACHE(10); `None` if the range does not fit into it. A length of 0 is up to the end.
pub fn synchronize_cache_10(lba: u64, blocks: u32) -> Option<Cdb> {
    transfer_10(0x35, Transfer { lba, blocks, ..Transfer::default() })
}

/// SYNCHRONIZE CACHE(16). A length of 0 is up to the end.
pub fn synchronize_cache_16(lba: u64, blocks: u32) -> Cdb {
    transfer_16(0x91, Transfer { lba, blocks, ..Transfer::default() })
}

/// UNMAP with a parameter list of this many bytes.
pub fn unmap(parameter_list_length: u16) -> Cdb {
    Cdb::new(0x42, 10).with(7, &parameter_list_length.to_be_bytes())
}

/// WRITE SAME(16).
pub fn write_same_16(same: WriteSame) -> Cdb {
    let flags = if same.unmap { 0x08 } else { 0 } | u8::from(same.ndob);
    transfer_16(0x93, Transfer { lba: same.lba, blocks: same.blocks, ..Transfer::default() })
        .with(1, &[flags])
}

/// COMPARE AND WRITE; `None` above 255 blocks.
pub fn compare_and_write(transfer: Transfer) -> Option<Cdb> {
    let blocks = u8::try_from(transfer.blocks).ok()?;
    Some(Cdb::new(0x89, 16).flags(transfer).with(2, &transfer.lba.to_be_bytes()).with(13, &[blocks]))
}

/// GET LBA STATUS(16).
pub fn get_lba_status(lba: u64, allocation_length: u32) -> Cdb {
    Cdb::new(0x9e, 16).with(1, &[0x12]).with(2, &lba.to_be_bytes()).with(10, &allocation_length.to_be_bytes())
}
