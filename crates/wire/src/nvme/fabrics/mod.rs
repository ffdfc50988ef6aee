//! Fabrics commands: Base 2.1 section 6.

mod property;

pub use property::{
    Capabilities, ControllerConfiguration, ControllerStatus, NSSR_RESET, Property, PropertyGet, PropertySet,
    PropertySize, Shutdown, ShutdownStatus,
};

use super::command::{Command, CommandFlags, SglDescriptor};
use super::layout::{codes, structure};
use super::nqn::NqnField;

/// The opcode of every fabrics command.
pub const OPCODE: u8 = 0x7f;
/// Bytes of the data of a Connect command.
pub const CONNECT_DATA_LENGTH: usize = ConnectData::LENGTH;

codes! {
    /// FCTYPE.
    pub struct CommandType(u8) {
        /// Property Set.
        PROPERTY_SET = 0x00,
        /// Connect.
        CONNECT = 0x01,
        /// Property Get.
        PROPERTY_GET = 0x04,
        /// Authentication Send.
        AUTHENTICATION_SEND = 0x05,
        /// Authentication Receive.
        AUTHENTICATION_RECEIVE = 0x06,
        /// Disconnect.
        DISCONNECT = 0x08,
    }
}

impl CommandType {
    /// FCTYPE of a command whose opcode is [`OPCODE`].
    #[inline]
    pub const fn of(command: &Command) -> Self {
        Self(command.nsid as u8)
    }
}

/// A fabrics command without its fields.
pub(super) const fn command(kind: CommandType, cid: u16) -> Command {
    Command {
        opcode: OPCODE,
        flags: CommandFlags::SGL,
        cid,
        nsid: kind.0 as u32,
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

/// Connect, section 6.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connect {
    /// RECFMT: 0.
    pub recfmt: u16,
    /// QID: 0 is the admin queue.
    pub qid: u16,
    /// SQSIZE: entries, 0's based.
    pub sqsize: u16,
    /// CATTR.
    pub cattr: ConnectAttributes,
    /// KATO: keep alive timeout in milliseconds; on the admin queue.
    pub kato: u32,
}

bitflags::bitflags! {
    /// CATTR of a Connect command.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ConnectAttributes: u8 {
        /// Priority class, low bit.
        const PRIORITY_LOW = 0x01;
        /// Priority class, high bit.
        const PRIORITY_HIGH = 0x02;
        /// The host does without submission queue flow control: SQHD is not wanted.
        const DISABLE_SQ_FLOW_CONTROL = 0x04;
        /// Deletion of individual I/O queues (Disconnect) is supported.
        const INDIVIDUAL_QUEUE_DELETION = 0x08;
    }
}

impl Connect {
    /// Reads the fields of a command whose type is CONNECT.
    pub const fn of(command: &Command) -> Self {
        Self {
            recfmt: command.cdw10 as u16,
            qid: (command.cdw10 >> 16) as u16,
            sqsize: command.cdw11 as u16,
            cattr: ConnectAttributes::from_bits_truncate((command.cdw11 >> 16) as u8),
            kato: command.cdw12,
        }
    }

    /// The command. Its data ([`ConnectData`]) goes in the capsule.
    pub fn command(&self, cid: u16) -> Command {
        Command {
            sgl: SglDescriptor::in_capsule(0, CONNECT_DATA_LENGTH as u32),
            cdw10: u32::from(self.recfmt) | u32::from(self.qid) << 16,
            cdw11: u32::from(self.sqsize) | u32::from(self.cattr.bits()) << 16,
            cdw12: self.kato,
            ..command(CommandType::CONNECT, cid)
        }
    }
}

structure! {
    /// The data of a Connect command, section 6.3.
    pub struct ConnectData: 1024 {
        /// HOSTID.
        hostid: [u8; 16] = 0,
        /// CNTLID: FFFFh asks for any controller (dynamic model); of an I/O queue, the admin queue's controller.
        cntlid: u16 = 16,
        /// SUBNQN.
        subnqn: NqnField = 256,
        /// HOSTNQN.
        hostnqn: NqnField = 512,
    }
}

/// What is wrong with a Connect: the result of CONNECT_INVALID_PARAMETERS, dword 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidParameter {
    /// IATTR: the field is in the data, not in the command.
    pub in_data: bool,
    /// IPO: byte offset of the field.
    pub offset: u16,
}

impl InvalidParameter {
    /// QID.
    pub const QID: Self = Self { in_data: false, offset: 42 };
    /// SQSIZE.
    pub const SQSIZE: Self = Self { in_data: false, offset: 44 };
    /// CATTR.
    pub const CATTR: Self = Self { in_data: false, offset: 46 };
    /// KATO.
    pub const KATO: Self = Self { in_data: false, offset: 48 };
    /// HOSTID.
    pub const HOSTID: Self = Self { in_data: true, offset: 0 };
    /// CNTLID.
    pub const CNTLID: Self = Self { in_data: true, offset: 16 };
    /// SUBNQN.
    pub const SUBNQN: Self = Self { in_data: true, offset: 256 };
    /// HOSTNQN.
    pub const HOSTNQN: Self = Self { in_data: true, offset: 512 };

    /// Dword 0 of the completion.
    pub const fn result(self) -> u64 {
        self.offset as u64 | (self.in_data as u64) << 16
    }

    /// From dword 0 of the completion.
    pub const fn from_result(result: u64) -> Self {
        Self { in_data: result >> 16 & 1 != 0, offset: result as u16 }
    }
}

/// Dword 0 of the completion of a successful Connect, section 6.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectResult {
    /// CNTLID: the controller that was allocated.
    pub cntlid: u16,
    /// AUTHREQ bit 1 (ATR): in-band authentication is required.
    pub authentication: bool,
    /// AUTHREQ bit 2 (ASCR): authentication with a secure channel is required.
    pub secure_channel: bool,
}

impl ConnectResult {
    /// Dword 0.
    pub const fn result(self) -> u64 {
        self.cntlid as u64 | (self.authentication as u64) << 17 | (self.secure_channel as u64) << 18
    }

    /// From dword 0.
    pub const fn from_result(result: u64) -> Self {
        Self {
            cntlid: result as u16,
            authentication: result >> 17 & 1 != 0,
            secure_channel: result >> 18 & 1 != 0,
        }
    }
}

/// Disconnect, section 6.4: ends the I/O queue that it comes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disconnect {
    /// RECFMT: 0.
    pub recfmt: u16,
}

impl Disconnect {
    /// Reads the fields of a command whose type is DISCONNECT.
    pub const fn of(command: &Command) -> Self {
        Self { recfmt: command.cdw10 as u16 }
    }

    /// The command.
    pub fn command(&self, cid: u16) -> Command {
        Command { cdw10: u32::from(self.recfmt), ..command(CommandType::DISCONNECT, cid) }
    }
}

/// Authentication Send and Receive, sections 6.2 and 6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Authentication {
    /// SPSP0.
    pub spsp0: u8,
    /// SPSP1.
    pub spsp1: u8,
    /// SECP: E9h for NVMe.
    pub secp: u8,
    /// TL or AL: bytes.
    pub length: u32,
}

impl Authentication {
    /// Reads the fields of a command whose type is AUTHENTICATION_SEND or AUTHENTICATION_RECEIVE.
    pub const fn of(command: &Command) -> Self {
        let [_, spsp0, spsp1, secp] = command.cdw10.to_le_bytes();
        Self { spsp0, spsp1, secp, length: command.cdw11 }
    }
}
