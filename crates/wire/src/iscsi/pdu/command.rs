//! SCSI Command and SCSI Response: RFC 7143 sections 11.3 and 11.4.

use super::layout::{Immediate, Lun, U24, codes, flag_field, header};
use crate::iscsi::{Bhs, Opcode, SerialNumber};

bitflags::bitflags! {
    /// Byte 1 of a SCSI Command without ATTR, section 11.3.1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ScsiCommandFlags: u8 {
        /// F: no unsolicited Data-Out follows.
        const FINAL = 0x80;
        /// R: the command expects input data.
        const READ = 0x40;
        /// W: the command sends output data.
        const WRITE = 0x20;
    }

    /// Byte 1 of a SCSI Response, section 11.4.1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ScsiResponseFlags: u8 {
        /// o: bidirectional read residual overflow.
        const BIDIRECTIONAL_READ_OVERFLOW = 0x10;
        /// u: bidirectional read residual underflow.
        const BIDIRECTIONAL_READ_UNDERFLOW = 0x08;
        /// O: the residual count is what did not fit the expected length.
        const OVERFLOW = 0x04;
        /// U: the residual count is what was expected and not transferred.
        const UNDERFLOW = 0x02;
    }
}
flag_field!(ScsiCommandFlags);
flag_field!(ScsiResponseFlags);

codes! {
    /// ATTR, section 11.3.1: the SAM task attribute.
    pub struct TaskAttribute, 0x07 {
        /// Untagged; treated as SIMPLE.
        UNTAGGED = 0,
        /// SIMPLE.
        SIMPLE = 1,
        /// ORDERED.
        ORDERED = 2,
        /// HEAD OF QUEUE.
        HEAD_OF_QUEUE = 3,
        /// ACA.
        ACA = 4,
    }
}

codes! {
    /// The iSCSI service response of a SCSI Response, section 11.4.3; not the SCSI status.
    pub struct ScsiResponseCode, 0xff {
        /// The status field is valid.
        COMMAND_COMPLETED_AT_TARGET = 0x00,
        /// The target failed; there is no SCSI status.
        TARGET_FAILURE = 0x01,
    }
}

header! {
    /// SCSI Command, section 11.3.
    pub struct ScsiCommand = Opcode::ScsiCommand, 0 {
        /// The I bit.
        immediate: Immediate = 0,
        /// F, R and W.
        flags: ScsiCommandFlags = 1,
        /// ATTR.
        attribute: TaskAttribute = 1,
        /// Bytes of immediate data.
        data_segment_length: U24 = 5,
        /// The logical unit.
        lun: Lun = 8,
        /// Initiator Task Tag.
        initiator_task_tag: u32 = 16,
        /// Bytes the initiator expects to be moved (section 11.3.4).
        expected_data_transfer_length: u32 = 20,
        /// `CmdSN`.
        cmd_sn: SerialNumber = 24,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
        /// The first 16 bytes of the CDB; what is longer stands in an extended CDB AHS.
        cdb: [u8; 16] = 32,
    }
}

/// The CDB in the header of a SCSI Command, nothing else of which is looked at; for those who look ahead.
pub fn cdb_of(bhs: &Bhs) -> Option<&[u8; 16]> {
    let is_command = bhs[0] & 0x3f == Opcode::ScsiCommand as u8;
    if is_command { bhs[32..].first_chunk() } else { None }
}

header! {
    /// SCSI Response, section 11.4. Its data segment is a 2-byte `SenseLength` and the sense data.
    pub struct ScsiResponse = Opcode::ScsiResponse, 0x80 {
        /// Residual flags.
        flags: ScsiResponseFlags = 1,
        /// Service response.
        response: ScsiResponseCode = 2,
        /// SCSI status of SAM-5; valid when the command completed at the target.
        status: u8 = 3,
        /// Bytes of sense data with their length field.
        data_segment_length: U24 = 5,
        /// Initiator Task Tag.
        initiator_task_tag: u32 = 16,
        /// SNACK tag; zero at error recovery level 0.
        snack_tag: u32 = 20,
        /// `StatSN`.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
        /// `ExpDataSN`: how many Data-In and R2T PDUs this command had.
        exp_data_sn: SerialNumber = 36,
        /// Bytes, for the read half of a bidirectional command.
        bidirectional_read_residual_count: u32 = 40,
        /// Bytes.
        residual_count: u32 = 44,
    }
}
