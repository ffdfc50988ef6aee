//! The one place where a failure of the volume becomes sense data. The log line has what sense data cannot carry.

use std::cell::Cell;
use std::time::Duration;

use ring::{Instant, Ring};
use wire::scsi::{AdditionalSense, FieldPointer, Sense, SenseKey};

use crate::error::{Error, ErrorKind};
use crate::limits;

/// The sense data for a failure at this logical block.
fn sense(kind: ErrorKind, lba: u64) -> Sense {
    let medium = |additional| Sense::new(SenseKey::MediumError, additional).with_information(lba);
    let protect = |additional| Sense::new(SenseKey::DataProtect, additional);
    match kind {
        ErrorKind::OutOfRange => Sense::lba_out_of_range(lba),
        ErrorKind::Unsupported => Sense::invalid_field(FieldPointer::cdb(0)),
        ErrorKind::ReadOnly => protect(AdditionalSense::WRITE_PROTECTED),
        ErrorKind::Medium => medium(AdditionalSense::UNRECOVERED_READ_ERROR),
        ErrorKind::Write => medium(AdditionalSense::WRITE_ERROR),
        // SBC-4 section 4.7.3.6: what a thin provisioned unit says when its pool is full.
        ErrorKind::NoSpace => protect(AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT),
        ErrorKind::Failed => Sense::new(SenseKey::HardwareError, AdditionalSense::INTERNAL_TARGET_FAILURE),
        ErrorKind::Aborted | ErrorKind::GivenUp => {
            Sense::aborted_command(AdditionalSense::IO_PROCESS_TERMINATED)
        }
    }
}

/// Failures of one logical unit on one core; a disk that fails at full speed does not fill the log.
pub(super) struct Failures {
    ring: Ring,
    volume: String,
    second: Cell<Instant>,
    lines: Cell<u32>,
    suppressed: Cell<u64>,
}

impl Failures {
    pub(super) fn new(ring: Ring, volume: String) -> Self {
        let second = Cell::new(ring.now());
        Self { ring, volume, second, lines: Cell::new(0), suppressed: Cell::new(0) }
    }

    /// Logs the failure of a command named `command` and translates it.
    pub(super) fn sense(&self, error: &Error, command: &'static str, lba: u64) -> Sense {
        if error.kind() == ErrorKind::GivenUp {
            return sense(error.kind(), lba);
        }
        let now = self.ring.now();
        if now.since(self.second.get()) >= Duration::from_secs(1) {
            self.second.set(now);
            self.lines.set(0);
        }
        if self.lines.get() < limits::LOG_LINES_PER_SECOND {
            self.lines.set(self.lines.get() + 1);
            let suppressed = self.suppressed.replace(0);
            tracing::warn!(volume = self.volume, command, lba, suppressed, %error, "a SCSI command failed");
        } else {
            self.suppressed.set(self.suppressed.get().saturating_add(1));
        }
        sense(error.kind(), lba)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_a_broken_one() {
        let full = sense(ErrorKind::NoSpace, 7);
        assert_eq!(full.key, SenseKey::DataProtect);
        assert_eq!(full.additional, AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT);
        let broken = sense(ErrorKind::Medium, 7);
        assert_eq!((broken.key, broken.information), (SenseKey::MediumError, Some(7)));
    }
}
