//! Task management: RFC 7143 sections 11.5 and 11.6, RFC 7144 section 4.

use super::layout::{Immediate, Lun, codes, header};
use crate::iscsi::SerialNumber;

codes! {
    /// What is to be done, section 11.5.1.
    pub struct TaskManagementFunction, 0x7f {
        /// Abort the task of the referenced task tag.
        ABORT_TASK = 1,
        /// Abort all tasks of this session on the logical unit.
        ABORT_TASK_SET = 2,
        /// Clear the auto contingent allegiance.
        CLEAR_ACA = 3,
        /// Abort all tasks in the task set, of whatever session.
        CLEAR_TASK_SET = 4,
        /// Reset the logical unit.
        LOGICAL_UNIT_RESET = 5,
        /// Reset all logical units.
        TARGET_WARM_RESET = 6,
        /// Reset all logical units and drop all connections.
        TARGET_COLD_RESET = 7,
        /// Move a task to this connection.
        TASK_REASSIGN = 8,
        /// RFC 7144: is the task there?
        QUERY_TASK = 9,
        /// RFC 7144: is any task of this session there?
        QUERY_TASK_SET = 10,
        /// RFC 7144: as a lost `I_T` nexus.
        I_T_NEXUS_RESET = 11,
        /// RFC 7144: is a unit attention pending?
        QUERY_ASYNCHRONOUS_EVENT = 12,
    }
}

codes! {
    /// What became of it, section 11.6.1.
    pub struct TaskManagementResponseCode, 0xff {
        /// Function complete.
        FUNCTION_COMPLETE = 0,
        /// Task does not exist.
        TASK_DOES_NOT_EXIST = 1,
        /// LUN does not exist.
        LUN_DOES_NOT_EXIST = 2,
        /// Task still allegiant.
        TASK_STILL_ALLEGIANT = 3,
        /// Task allegiance reassignment not supported.
        TASK_REASSIGNMENT_NOT_SUPPORTED = 4,
        /// Task management function not supported.
        FUNCTION_NOT_SUPPORTED = 5,
        /// Function authorization failed.
        FUNCTION_AUTHORIZATION_FAILED = 6,
        /// RFC 7144: the queried thing is there.
        FUNCTION_SUCCEEDED = 7,
        /// Function rejected.
        FUNCTION_REJECTED = 255,
    }
}

header! {
    /// Task Management Function Request, section 11.5.
    pub struct TaskManagementRequest = Opcode::TaskManagementRequest, 0x80 {
        /// The I bit.
        immediate: Immediate = 0,
        /// Function.
        function: TaskManagementFunction = 1,
        /// The logical unit, for the functions that name one.
        lun: Lun = 8,
        /// Initiator Task Tag of this request.
        initiator_task_tag: u32 = 16,
        /// Initiator Task Tag of the task concerned, else the reserved value.
        referenced_task_tag: u32 = 20,
        /// `CmdSN`.
        cmd_sn: SerialNumber = 24,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
        /// `CmdSN` of the task concerned (section 11.5.5).
        ref_cmd_sn: SerialNumber = 32,
        /// `ExpDataSN`, for TASK REASSIGN.
        exp_data_sn: SerialNumber = 36,
    }
}

header! {
    /// Task Management Function Response, section 11.6.
    pub struct TaskManagementResponse = Opcode::TaskManagementResponse, 0x80 {
        /// Response.
        response: TaskManagementResponseCode = 2,
        /// Initiator Task Tag of the request.
        initiator_task_tag: u32 = 16,
        /// `StatSN`.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
    }
}
