//! SNACK Request: RFC 7143 section 11.16; known so that error recovery level 0 can refuse it by name.

use super::layout::{Lun, codes, header};
use crate::iscsi::SerialNumber;

codes! {
    /// What is missed, section 11.16.1.
    pub struct SnackType, 0x0f {
        /// Data or R2T PDUs.
        DATA_OR_R2T = 0,
        /// Status PDUs.
        STATUS = 1,
        /// Nothing: an acknowledgement of data.
        DATA_ACK = 2,
        /// All data of the command, resegmented.
        R_DATA = 3,
    }
}

header! {
    /// SNACK Request, section 11.16.
    pub struct SnackRequest = Opcode::SnackRequest, 0x80 {
        /// Type.
        snack_type: SnackType = 1,
        /// The logical unit, for a data acknowledgement.
        lun: Lun = 8,
        /// Initiator Task Tag of the command.
        initiator_task_tag: u32 = 16,
        /// Target transfer tag or SNACK tag.
        target_transfer_tag: u32 = 20,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
        /// `BegRun`: the first number missed.
        begin_run: SerialNumber = 40,
        /// `RunLength`: how many; zero for all that follow.
        run_length: u32 = 44,
    }
}
