//! The part of a controller that its queues on other cores look at.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::nvme::admin::log::ErrorEntry;
use wire::nvme::io::{BlockRange, Opcode};
use wire::nvme::{Command, Status, fabrics};

use super::subsystem::Subsystem;
use crate::limits::NVME_ERROR_ENTRIES;

/// What a controller is of.
#[derive(Clone, Debug)]
pub enum Kind {
    /// I/O to the namespaces of a subsystem.
    Io(Arc<Subsystem>),
    /// The discovery service.
    Discovery,
}

/// Errors of a controller over time.
#[derive(Debug, Default)]
struct Errors {
    count: u64,
    /// Newest first.
    last: VecDeque<ErrorEntry>,
}

/// The part of a controller that its queues on other cores look at.
#[derive(Debug)]
pub struct Link {
    /// CNTLID.
    pub cntlid: u16,
    /// The core of its admin queue.
    pub shard: usize,
    /// Host NQN.
    pub host: String,
    /// Host identifier.
    pub host_id: [u8; 16],
    kind: Mutex<Kind>,
    /// Counts enablings and disablings: odd while CSTS.RDY is set. A queue belongs to the number at which it came in,
    /// so that nothing of it can touch the controller after a reset, however late it is.
    incarnation: AtomicU32,
    /// The volatile write cache is switched on (feature 06h).
    pub write_cache: AtomicBool,
    /// A command has come since the keep alive timer last looked.
    pub traffic: AtomicBool,
    errors: Mutex<Errors>,
}

impl Link {
    /// A controller on core `shard` that is not enabled.
    pub fn new(cntlid: u16, shard: usize, kind: Kind, host: String, host_id: [u8; 16]) -> Link {
        Link {
            cntlid,
            shard,
            host,
            host_id,
            kind: Mutex::new(kind),
            incarnation: AtomicU32::new(0),
            write_cache: AtomicBool::new(true),
            traffic: AtomicBool::new(false),
            errors: Mutex::default(),
        }
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is of, as it is now. Not for the path of a request: that has its channels in its queue.
    pub fn kind(&self) -> Kind {
        Self::lock(&self.kind).clone()
    }

    /// Whether it is a discovery controller, for ever.
    pub fn is_discovery(&self) -> bool {
        matches!(*Self::lock(&self.kind), Kind::Discovery)
    }

    /// Its subsystem has changed.
    pub fn set_subsystem(&self, subsystem: &Arc<Subsystem>) {
        *Self::lock(&self.kind) = Kind::Io(subsystem.clone());
    }

    /// Notes that a command has come.
    pub fn note_traffic(&self) {
        if !self.traffic.load(Ordering::Relaxed) {
            self.traffic.store(true, Ordering::Relaxed);
        }
    }

    /// The number of this life, odd while the controller is ready.
    pub fn incarnation(&self) -> u32 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// Whether it takes commands.
    pub fn is_ready(&self) -> bool {
        self.incarnation() % 2 == 1
    }

    /// A life begins, unless it is alive. Only the controller's core says so.
    pub fn begin_life(&self) {
        if !self.is_ready() {
            self.incarnation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The life ends, if it is alive. Only the controller's core says so.
    pub fn end_life(&self) {
        if self.is_ready() {
            self.incarnation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Notes that a command of queue `sqid` has failed, for the error log page.
    pub fn note_error(&self, sqid: u16, command: &Command, status: Status) {
        let fabrics = command.opcode == fabrics::OPCODE;
        let in_blocks = sqid > 0
            && matches!(
                Opcode(command.opcode),
                Opcode::READ | Opcode::WRITE | Opcode::COMPARE | Opcode::WRITE_ZEROES | Opcode::VERIFY
            );
        let mut errors = Self::lock(&self.errors);
        errors.count += 1;
        let entry = ErrorEntry {
            error_count: errors.count,
            sqid,
            cid: command.cid,
            status,
            parameter_error_location: location(command, status),
            lba: if in_blocks { BlockRange::of(command).slba } else { 0 },
            // A fabrics command has its type there.
            nsid: if fabrics { 0 } else { command.nsid },
            opcode: command.opcode,
            trtype: 3,
            version: 1,
            ..ErrorEntry::default()
        };
        errors.last.push_front(entry);
        errors.last.truncate(NVME_ERROR_ENTRIES);
    }

    /// How many errors there were, and the last of them, newest first.
    pub fn errors(&self) -> (u64, Vec<ErrorEntry>) {
        let errors = Self::lock(&self.errors);
        (errors.count, errors.last.iter().copied().collect())
    }
}

/// The byte of the command that a status speaks of (Base 2.1 section 5.1.12.1.2); FFFFh where it is none.
fn location(command: &Command, status: Status) -> u16 {
    match status.plain() {
        Status::INVALID_COMMAND_OPCODE if command.opcode == fabrics::OPCODE => 4,
        Status::INVALID_COMMAND_OPCODE => 0,
        Status::INVALID_NAMESPACE_OR_FORMAT => 4,
        Status::SGL_DESCRIPTOR_TYPE_INVALID => 39,
        Status::SGL_OFFSET_INVALID => 24,
        Status::DATA_SGL_LENGTH_INVALID => 32,
        Status::LBA_OUT_OF_RANGE | Status::INVALID_LOG_PAGE => 40,
        _ => u16::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_has_a_number_of_its_own() {
        let link = Link::new(1, 0, Kind::Discovery, String::new(), [0; 16]);
        link.end_life();
        assert!(!link.is_ready());
        link.begin_life();
        let first = link.incarnation();
        link.begin_life();
        assert!(link.is_ready() && link.incarnation() == first);
        link.end_life();
        link.end_life();
        assert!(!link.is_ready());
        link.begin_life();
        assert!(link.is_ready() && link.incarnation() != first);
    }

    #[test]
    fn the_last_errors_are_kept_and_all_are_counted() {
        let link = Link::new(1, 0, Kind::Discovery, String::new(), [0; 16]);
        for cid in 0..100 {
            let command =
                Command { cid, opcode: Opcode::WRITE.0, cdw10: u32::from(cid), ..Command::default() };
            link.note_error(3, &command, Status::LBA_OUT_OF_RANGE.do_not_retry());
        }
        let (count, last) = link.errors();
        assert_eq!((count, last.len()), (100, NVME_ERROR_ENTRIES));
        assert_eq!((last[0].error_count, last[0].cid, last[0].lba, last[0].sqid), (100, 99, 99, 3));
        assert_eq!(last[0].parameter_error_location, 40);
        assert!(last.is_sorted_by(|one, two| one.error_count == two.error_count + 1));
    }
}
