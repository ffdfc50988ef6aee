//! Logout Request and Logout Response: RFC 7143 sections 11.14 and 11.15.

use super::layout::{Immediate, codes, header};
use crate::iscsi::SerialNumber;

codes! {
    /// Why the initiator leaves, section 11.14.1.
    pub struct LogoutReason, 0x7f {
        /// Close the session with all its connections.
        CLOSE_SESSION = 0,
        /// Close the connection of the CID.
        CLOSE_CONNECTION = 1,
        /// Remove the connection of the CID, its tasks are to be reassigned.
        REMOVE_CONNECTION_FOR_RECOVERY = 2,
    }
}

codes! {
    /// What became of it, section 11.15.1.
    pub struct LogoutResponseCode, 0xff {
        /// Connection or session closed.
        CLOSED_SUCCESSFULLY = 0,
        /// CID not found.
        CID_NOT_FOUND = 1,
        /// Connection recovery is not supported (error recovery level below 2).
        CONNECTION_RECOVERY_NOT_SUPPORTED = 2,
        /// Cleanup failed for various reasons.
        CLEANUP_FAILED = 3,
    }
}

header! {
    /// Logout Request, section 11.14.
    pub struct LogoutRequest = Opcode::LogoutRequest, 0x80 {
        /// The I bit.
        immediate: Immediate = 0,
        /// Reason.
        reason: LogoutReason = 1,
        /// Initiator Task Tag.
        initiator_task_tag: u32 = 16,
        /// The connection concerned; not used when the session is closed.
        cid: u16 = 20,
        /// `CmdSN`.
        cmd_sn: SerialNumber = 24,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
    }
}

header! {
    /// Logout Response, section 11.15.
    pub struct LogoutResponse = Opcode::LogoutResponse, 0x80 {
        /// Response.
        response: LogoutResponseCode = 2,
        /// Initiator Task Tag of the request.
        initiator_task_tag: u32 = 16,
        /// `StatSN`.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
        /// `Time2Wait`: seconds before a reassignment or reinstatement should be tried.
        time2wait_s: u16 = 40,
        /// `Time2Retain`: seconds after `Time2Wait` during which tasks are kept.
        time2retain_s: u16 = 42,
    }
}
