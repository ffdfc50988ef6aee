//! The one place where an error of the volume becomes an NVMe status, and where what the status cannot carry is
//! logged.

use wire::nvme::Status;

use crate::error::{Error, ErrorKind};
use crate::log::trouble;

/// The status for `error`, which `command` met in `volume`.
pub fn status_of(error: &Error, command: &str, volume: &str) -> Status {
    let status = match error.kind() {
        // The host asked for what cannot be, or does not want it any more; it knows.
        ErrorKind::OutOfRange => return Status::LBA_OUT_OF_RANGE.do_not_retry(),
        ErrorKind::Unsupported => return Status::INVALID_COMMAND_OPCODE.do_not_retry(),
        ErrorKind::GivenUp => return Status::COMMAND_ABORT_REQUESTED,
        ErrorKind::ReadOnly => return Status::NAMESPACE_IS_WRITE_PROTECTED.do_not_retry(),
        ErrorKind::Medium => Status::UNRECOVERED_READ_ERROR.do_not_retry(),
        ErrorKind::Write => Status::WRITE_FAULT.do_not_retry(),
        ErrorKind::NoSpace => Status::CAPACITY_EXCEEDED.do_not_retry(),
        ErrorKind::Failed => Status::INTERNAL_ERROR.do_not_retry(),
        ErrorKind::Aborted => Status::COMMAND_ABORT_REQUESTED,
    };
    trouble!("volume {volume}: {command} failed: {error}");
    status
}
