//! SCSI Data-Out, Data-In and Ready To Transfer: RFC 7143 sections 11.7 and 11.8.

use super::layout::{Final, Lun, U24, flag_field, header};
use crate::iscsi::SerialNumber;

bitflags::bitflags! {
    /// Byte 1 of a Data-In, section 11.7.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct DataInFlags: u8 {
        /// F: the last PDU of a sequence.
        const FINAL = 0x80;
        /// A: a DataACK SNACK is asked for (error recovery level above 0).
        const ACKNOWLEDGE = 0x40;
        /// O: residual overflow; only with S.
        const OVERFLOW = 0x04;
        /// U: residual underflow; only with S.
        const UNDERFLOW = 0x02;
        /// S: the PDU carries the SCSI status, no SCSI Response follows.
        const STATUS = 0x01;
    }
}
flag_field!(DataInFlags);

header! {
    /// SCSI Data-Out, section 11.7.
    pub struct DataOut = Opcode::DataOut, 0 {
        /// F: the last PDU of a sequence.
        is_final: Final = 1,
        /// Bytes of data.
        data_segment_length: U24 = 5,
        /// The logical unit, when the target transfer tag is valid.
        lun: Lun = 8,
        /// Initiator Task Tag.
        initiator_task_tag: u32 = 16,
        /// The tag of the R2T, or the reserved value for unsolicited data.
        target_transfer_tag: u32 = 20,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
        /// Counts from 0 in each sequence.
        data_sn: SerialNumber = 36,
        /// Bytes from the start of the command's output data.
        buffer_offset: u32 = 40,
    }
}

header! {
    /// SCSI Data-In, section 11.7.
    pub struct DataIn = Opcode::DataIn, 0 {
        /// F, A, O, U and S.
        flags: DataInFlags = 1,
        /// SCSI status, valid with S.
        status: u8 = 3,
        /// Bytes of data.
        data_segment_length: U24 = 5,
        /// The logical unit, when A is set.
        lun: Lun = 8,
        /// Initiator Task Tag.
        initiator_task_tag: u32 = 16,
        /// Valid when A is set, else the reserved value.
        target_transfer_tag: u32 = 20,
        /// `StatSN`, valid with S.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
        /// Counts from 0 for each command.
        data_sn: SerialNumber = 36,
        /// Bytes from the start of the command's input data.
        buffer_offset: u32 = 40,
        /// Bytes, valid with S.
        residual_count: u32 = 44,
    }
}

header! {
    /// Ready To Transfer, section 11.8.
    pub struct R2t = Opcode::R2t, 0x80 {
        /// The logical unit.
        lun: Lun = 8,
        /// Initiator Task Tag of the command.
        initiator_task_tag: u32 = 16,
        /// The tag the initiator repeats in its Data-Out PDUs.
        target_transfer_tag: u32 = 20,
        /// The next `StatSN`; an R2T does not advance it.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
        /// Counts from 0 for each command.
        r2t_sn: SerialNumber = 36,
        /// Bytes from the start of the command's output data.
        buffer_offset: u32 = 40,
        /// Bytes wanted: above 0, at most `MaxBurstLength`.
        desired_data_transfer_length: u32 = 44,
    }
}
