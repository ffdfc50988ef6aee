//! NOP-Out and NOP-In: RFC 7143 sections 11.18 and 11.19.

use super::layout::{Immediate, Lun, U24, header};
use crate::iscsi::SerialNumber;

header! {
    /// NOP-Out, section 11.18: a ping, or the answer to the target's.
    pub struct NopOut = Opcode::NopOut, 0x80 {
        /// The I bit.
        immediate: Immediate = 0,
        /// Bytes of ping data.
        data_segment_length: U24 = 5,
        /// Copied from the NOP-In when the target transfer tag is valid.
        lun: Lun = 8,
        /// The reserved value when no answer is wanted.
        initiator_task_tag: u32 = 16,
        /// Copied from the NOP-In, else the reserved value.
        target_transfer_tag: u32 = 20,
        /// `CmdSN`.
        cmd_sn: SerialNumber = 24,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
    }
}

header! {
    /// NOP-In, section 11.19: the answer to a ping, or the target's own.
    pub struct NopIn = Opcode::NopIn, 0x80 {
        /// Bytes of ping data given back.
        data_segment_length: U24 = 5,
        /// For the target's use, with a valid target transfer tag.
        lun: Lun = 8,
        /// Copied from the NOP-Out, else the reserved value.
        initiator_task_tag: u32 = 16,
        /// Valid when an answer is wanted, else the reserved value.
        target_transfer_tag: u32 = 20,
        /// `StatSN`; the next one (not advanced) when the initiator task tag is the reserved value.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
    }
}
