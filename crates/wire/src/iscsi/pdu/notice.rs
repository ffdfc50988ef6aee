//! What a target says unasked: Asynchronous Message and Reject, RFC 7143 sections 11.9 and 11.17.

use super::layout::{Lun, U24, codes, header};
use crate::iscsi::SerialNumber;

codes! {
    /// `AsyncEvent`, section 11.9.1.
    pub struct AsyncEvent, 0xff {
        /// A SCSI asynchronous event, sense data in the data segment.
        SCSI_EVENT = 0,
        /// The target wants a logout within Parameter3 seconds.
        LOGOUT_REQUESTED = 1,
        /// The target will drop the connection of the CID in Parameter1.
        CONNECTION_DROPPED = 2,
        /// The target will drop all connections of the session.
        SESSION_DROPPED = 3,
        /// The target wants parameters renegotiated on this connection.
        NEGOTIATION_REQUESTED = 4,
        /// All tasks of the logical unit are being ended (fast abort, section 4.2.3.4).
        TASKS_TERMINATED = 5,
        /// Vendor specific.
        VENDOR_SPECIFIC = 255,
    }
}

codes! {
    /// Reason, section 11.17.1.
    pub struct RejectReason, 0xff {
        /// Data (payload) digest error.
        DATA_DIGEST_ERROR = 0x02,
        /// SNACK refused.
        SNACK_REJECT = 0x03,
        /// Protocol error.
        PROTOCOL_ERROR = 0x04,
        /// Command not supported.
        COMMAND_NOT_SUPPORTED = 0x05,
        /// Too many immediate commands.
        IMMEDIATE_COMMAND_REJECT = 0x06,
        /// Task in progress.
        TASK_IN_PROGRESS = 0x07,
        /// Invalid data acknowledgement.
        INVALID_DATA_ACK = 0x08,
        /// Invalid PDU field.
        INVALID_PDU_FIELD = 0x09,
        /// Long operation: out of resources for a target transfer tag.
        LONG_OPERATION_REJECT = 0x0a,
        /// Waiting for a logout.
        WAITING_FOR_LOGOUT = 0x0c,
    }
}

header! {
    /// Asynchronous Message, section 11.9.
    pub struct AsyncMessage = Opcode::AsyncMessage, 0x80 {
        /// Bytes of sense data or event data.
        data_segment_length: U24 = 5,
        /// The logical unit, for a SCSI event and the end of tasks.
        lun: Lun = 8,
        /// The reserved value.
        initiator_task_tag: u32 = 16,
        /// `StatSN`.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
        /// `AsyncEvent`.
        event: AsyncEvent = 36,
        /// `AsyncVCode`, with a vendor specific event.
        vendor_code: u8 = 37,
        /// Parameter1.
        parameter1: u16 = 38,
        /// Parameter2.
        parameter2: u16 = 40,
        /// Parameter3.
        parameter3: u16 = 42,
    }
}

header! {
    /// Reject, section 11.17. Its data segment is the complete header of what is refused.
    pub struct Reject = Opcode::Reject, 0x80 {
        /// Reason.
        reason: RejectReason = 2,
        /// Bytes of the refused header.
        data_segment_length: U24 = 5,
        /// The reserved value.
        initiator_task_tag: u32 = 16,
        /// `StatSN`.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
        /// `DataSN` or R2TSN, for a refused data acknowledgement.
        data_sn: SerialNumber = 36,
    }
}
