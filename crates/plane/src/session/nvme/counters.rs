//! What hosts have done with a subsystem, counted on each core by itself and summed up when somebody asks.

use std::cell::Cell;
use std::ops::AddAssign;

use wire::nvme::Status;
use wire::nvme::io::Opcode;

/// The counters of one subsystem on one core.
#[derive(Debug, Default)]
pub struct Counters {
    read_commands: Cell<u64>,
    read_bytes: Cell<u64>,
    write_commands: Cell<u64>,
    written_bytes: Cell<u64>,
    media_errors: Cell<u64>,
}

fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get().wrapping_add(count));
}

impl Counters {
    /// A command has succeeded; `bytes` is what it moved, for those that move data.
    pub fn count(&self, opcode: u8, bytes: u32) {
        match Opcode(opcode) {
            Opcode::READ | Opcode::COMPARE => {
                add(&self.read_commands, 1);
                add(&self.read_bytes, bytes.into());
            }
            Opcode::WRITE => {
                add(&self.write_commands, 1);
                add(&self.written_bytes, bytes.into());
            }
            _ => {}
        }
    }

    /// So many bytes were read for a Verify, which counts as data and not as a command.
    pub fn count_verified(&self, bytes: u64) {
        add(&self.read_bytes, bytes);
    }

    /// A command has failed.
    pub fn note_failure(&self, status: Status) {
        if matches!(status.plain(), Status::UNRECOVERED_READ_ERROR | Status::WRITE_FAULT) {
            add(&self.media_errors, 1);
        }
    }

    /// What they say now.
    pub fn totals(&self) -> Totals {
        Totals {
            read_commands: self.read_commands.get(),
            read_bytes: self.read_bytes.get(),
            write_commands: self.write_commands.get(),
            written_bytes: self.written_bytes.get(),
            media_errors: self.media_errors.get(),
        }
    }
}

/// Counters of several cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Read and Compare commands.
    pub read_commands: u64,
    /// Bytes of Read, Compare and Verify.
    pub read_bytes: u64,
    /// Write commands.
    pub write_commands: u64,
    /// Bytes of Write.
    pub written_bytes: u64,
    /// Commands that failed on the medium.
    pub media_errors: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.read_commands += other.read_commands;
        self.read_bytes += other.read_bytes;
        self.write_commands += other.write_commands;
        self.written_bytes += other.written_bytes;
        self.media_errors += other.media_errors;
    }
}

/// Thousands of 512 bytes, rounded up: the unit of the SMART page.
pub fn data_units(bytes: u64) -> u128 {
    u128::from(bytes.div_ceil(512 * 1000))
}
