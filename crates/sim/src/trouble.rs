//! What went wrong with a command, in one tongue for all transports.

use lab::initiator::{Cause, IoError};
use wire::nbd::Errno;
use wire::nvme::Status;
use wire::scsi::{AdditionalSense, Sense, SenseKey};

/// Why a command was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The connection is gone: nobody knows.
    Gone,
    /// It was aborted.
    Aborted,
    /// A unit attention: it was not begun.
    Attention,
    /// The node is stopping: it was not begun.
    Stopping,
    /// The controller is being reset: it was not begun.
    Resetting,
    /// These bytes cannot be read.
    Unreadable,
    /// There is no space for these bytes.
    NoSpace,
    /// The disk has failed for good.
    Failed,
    /// One of the three above that are no lack of space: NBD has one error for all of them.
    InputOutput,
    /// What was compared is not there: in the byte at this offset, where the transport tells.
    Differs(Option<u64>),
    /// Nothing that any scenario expects.
    Other,
}

impl Trouble {
    /// What an error means.
    pub fn of(error: &IoError) -> Trouble {
        match error.cause() {
            Cause::Connection(_) => Trouble::Gone,
            Cause::Aborted => Trouble::Aborted,
            Cause::Scsi { sense: Some(sense), .. } => of_sense(sense),
            Cause::Nvme { status, .. } => of_status(status.plain()),
            Cause::Nbd(Errno::EIO) => Trouble::InputOutput,
            Cause::Nbd(Errno::ENOSPC) => Trouble::NoSpace,
            Cause::Nbd(Errno::ESHUTDOWN) => Trouble::Stopping,
            _ => Trouble::Other,
        }
    }

    /// Whether it may mean that bytes cannot be read.
    pub fn is_unreadable(self) -> bool {
        matches!(self, Trouble::Unreadable | Trouble::InputOutput)
    }

    /// Whether it may mean that the disk has failed.
    pub fn is_failed(self) -> bool {
        matches!(self, Trouble::Failed | Trouble::InputOutput)
    }
}

fn of_sense(sense: &Sense) -> Trouble {
    match (sense.key, sense.additional) {
        (SenseKey::UnitAttention, _) => Trouble::Attention,
        (SenseKey::Miscompare, _) => Trouble::Differs(Some(sense.information.unwrap_or(u64::MAX))),
        (SenseKey::MediumError, AdditionalSense::UNRECOVERED_READ_ERROR) => Trouble::Unreadable,
        (SenseKey::DataProtect, AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT) => Trouble::NoSpace,
        (SenseKey::HardwareError, _) => Trouble::Failed,
        _ => Trouble::Other,
    }
}

fn of_status(status: Status) -> Trouble {
    match status {
        Status::COMPARE_FAILURE => Trouble::Differs(None),
        Status::COMMAND_ABORT_REQUESTED => Trouble::Aborted,
        Status::COMMAND_SEQUENCE_ERROR => Trouble::Resetting,
        Status::UNRECOVERED_READ_ERROR => Trouble::Unreadable,
        Status::CAPACITY_EXCEEDED => Trouble::NoSpace,
        Status::INTERNAL_ERROR => Trouble::Failed,
        _ => Trouble::Other,
    }
}
