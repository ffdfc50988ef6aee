//! Admin commands: Base 2.1 section 5.

pub mod event;
pub mod features;
pub mod identify;
pub mod log;

use super::command::{Command, CommandFlags, SglDescriptor};
use super::layout::codes;

codes! {
    /// Opcodes of the admin command set.
    pub struct Opcode(u8) {
        /// Delete I/O Submission Queue; not over fabrics.
        DELETE_IO_SUBMISSION_QUEUE = 0x00,
        /// Create I/O Submission Queue; not over fabrics.
        CREATE_IO_SUBMISSION_QUEUE = 0x01,
        /// Get Log Page.
        GET_LOG_PAGE = 0x02,
        /// Delete I/O Completion Queue; not over fabrics.
        DELETE_IO_COMPLETION_QUEUE = 0x04,
        /// Create I/O Completion Queue; not over fabrics.
        CREATE_IO_COMPLETION_QUEUE = 0x05,
        /// Identify.
        IDENTIFY = 0x06,
        /// Abort.
        ABORT = 0x08,
        /// Set Features.
        SET_FEATURES = 0x09,
        /// Get Features.
        GET_FEATURES = 0x0a,
        /// Asynchronous Event Request.
        ASYNCHRONOUS_EVENT_REQUEST = 0x0c,
        /// Namespace Management.
        NAMESPACE_MANAGEMENT = 0x0d,
        /// Firmware Commit.
        FIRMWARE_COMMIT = 0x10,
        /// Firmware Image Download.
        FIRMWARE_IMAGE_DOWNLOAD = 0x11,
        /// Device Self-test.
        DEVICE_SELF_TEST = 0x14,
        /// Namespace Attachment.
        NAMESPACE_ATTACHMENT = 0x15,
        /// Keep Alive.
        KEEP_ALIVE = 0x18,
        /// Directive Send.
        DIRECTIVE_SEND = 0x19,
        /// Directive Receive.
        DIRECTIVE_RECEIVE = 0x1a,
        /// Discovery Information Management.
        DISCOVERY_INFORMATION_MANAGEMENT = 0x21,
        /// A fabrics command.
        FABRICS = 0x7f,
        /// Format NVM.
        FORMAT_NVM = 0x80,
        /// Security Send.
        SECURITY_SEND = 0x81,
        /// Security Receive.
        SECURITY_RECEIVE = 0x82,
        /// Sanitize.
        SANITIZE = 0x84,
        /// Get LBA Status.
        GET_LBA_STATUS = 0x86,
    }
}

/// A command of this set without its fields.
#[inline]
pub const fn command(opcode: Opcode, cid: u16) -> Command {
    Command {
        opcode: opcode.0,
        flags: CommandFlags::SGL,
        cid,
        nsid: 0,
        cdw2: 0,
        cdw3: 0,
        mptr: 0,
        sgl: SglDescriptor::NOTHING,
        cdw10: 0,
        cdw11: 0,
        cdw12: 0,
        cdw13: 0,
        cdw14: 0,
        cdw15: 0,
    }
}

/// Keep Alive, section 5.1.14: no fields.
pub const fn keep_alive(cid: u16) -> Command {
    command(Opcode::KEEP_ALIVE, cid)
}

/// Asynchronous Event Request, section 5.1.2: no fields; the completion comes with the event, see [`event`].
pub const fn asynchronous_event_request(cid: u16) -> Command {
    command(Opcode::ASYNCHRONOUS_EVENT_REQUEST, cid)
}

/// Abort, section 5.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abort {
    /// SQID: the queue of the command.
    pub sqid: u16,
    /// CID of the command.
    pub cid: u16,
}

impl Abort {
    /// Reads the fields.
    pub const fn of(command: &Command) -> Self {
        Self { sqid: command.cdw10 as u16, cid: (command.cdw10 >> 16) as u16 }
    }

    /// The command.
    pub fn command(&self, cid: u16) -> Command {
        Command { cdw10: u32::from(self.sqid) | u32::from(self.cid) << 16, ..command(Opcode::ABORT, cid) }
    }

    /// Dword 0 of the completion: IANP, bit 0, is set when the command was not aborted.
    pub const fn result(aborted: bool) -> u64 {
        !aborted as u64
    }

    /// From dword 0 of the completion: whether the command was aborted.
    pub const fn was_aborted(result: u64) -> bool {
        result & 1 == 0
    }
}
