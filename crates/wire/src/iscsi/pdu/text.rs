//! Text Request and Text Response: RFC 7143 sections 11.10 and 11.11.

use super::layout::{Immediate, Lun, U24, flag_field, header};
use crate::iscsi::SerialNumber;

bitflags::bitflags! {
    /// F and C of byte 1, section 11.10.1 and 11.10.2.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct TextFlags: u8 {
        /// F: the sender has nothing more to say in this negotiation.
        const FINAL = 0x80;
        /// C: the text goes on in the next PDU.
        const CONTINUE = 0x40;
    }
}
flag_field!(TextFlags);

header! {
    /// Text Request, section 11.10.
    pub struct TextRequest = Opcode::TextRequest, 0 {
        /// The I bit.
        immediate: Immediate = 0,
        /// F and C.
        flags: TextFlags = 1,
        /// Bytes of text.
        data_segment_length: U24 = 5,
        /// Copied from the response whose target transfer tag is used.
        lun: Lun = 8,
        /// Initiator Task Tag, the same for the whole negotiation.
        initiator_task_tag: u32 = 16,
        /// The reserved value to begin, else what the target gave last.
        target_transfer_tag: u32 = 20,
        /// `CmdSN`.
        cmd_sn: SerialNumber = 24,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
    }
}

header! {
    /// Text Response, section 11.11.
    pub struct TextResponse = Opcode::TextResponse, 0 {
        /// F and C.
        flags: TextFlags = 1,
        /// Bytes of text.
        data_segment_length: U24 = 5,
        /// For the target's use, with the target transfer tag.
        lun: Lun = 8,
        /// Initiator Task Tag of the request.
        initiator_task_tag: u32 = 16,
        /// The reserved value when the exchange is over (F set).
        target_transfer_tag: u32 = 20,
        /// `StatSN`.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
    }
}
