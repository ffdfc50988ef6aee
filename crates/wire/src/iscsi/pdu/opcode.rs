//! Opcodes: RFC 7143 section 11.2.1.2.

use crate::iscsi::Bhs;

/// An opcode this codec knows. SNACK is known so that it can be refused by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// NOP-Out, section 11.18.
    NopOut = 0x00,
    /// SCSI Command, section 11.3.
    ScsiCommand = 0x01,
    /// Task Management Function Request, section 11.5.
    TaskManagementRequest = 0x02,
    /// Login Request, section 11.12.
    LoginRequest = 0x03,
    /// Text Request, section 11.10.
    TextRequest = 0x04,
    /// SCSI Data-Out, section 11.7.
    DataOut = 0x05,
    /// Logout Request, section 11.14.
    LogoutRequest = 0x06,
    /// SNACK Request, section 11.16.
    SnackRequest = 0x10,
    /// NOP-In, section 11.19.
    NopIn = 0x20,
    /// SCSI Response, section 11.4.
    ScsiResponse = 0x21,
    /// Task Management Function Response, section 11.6.
    TaskManagementResponse = 0x22,
    /// Login Response, section 11.13.
    LoginResponse = 0x23,
    /// Text Response, section 11.11.
    TextResponse = 0x24,
    /// SCSI Data-In, section 11.7.
    DataIn = 0x25,
    /// Logout Response, section 11.15.
    LogoutResponse = 0x26,
    /// Ready To Transfer, section 11.8.
    R2t = 0x31,
    /// Asynchronous Message, section 11.9.
    AsyncMessage = 0x32,
    /// Reject, section 11.17.
    Reject = 0x3f,
}

/// The opcode is reserved or vendor specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("opcode {0:#04x} is not known")]
pub struct UnknownOpcode(pub u8);

impl Opcode {
    /// Every opcode, in the order of the values.
    pub const ALL: [Self; 18] = [
        Self::NopOut,
        Self::ScsiCommand,
        Self::TaskManagementRequest,
        Self::LoginRequest,
        Self::TextRequest,
        Self::DataOut,
        Self::LogoutRequest,
        Self::SnackRequest,
        Self::NopIn,
        Self::ScsiResponse,
        Self::TaskManagementResponse,
        Self::LoginResponse,
        Self::TextResponse,
        Self::DataIn,
        Self::LogoutResponse,
        Self::R2t,
        Self::AsyncMessage,
        Self::Reject,
    ];

    /// The opcode of a header; the I bit and the reserved bit above it do not matter.
    #[inline]
    pub const fn of(bhs: &Bhs) -> Result<Self, UnknownOpcode> {
        Ok(match bhs[0] & 0x3f {
            0x00 => Self::NopOut,
            0x01 => Self::ScsiCommand,
            0x02 => Self::TaskManagementRequest,
            0x03 => Self::LoginRequest,
            0x04 => Self::TextRequest,
            0x05 => Self::DataOut,
            0x06 => Self::LogoutRequest,
            0x10 => Self::SnackRequest,
            0x20 => Self::NopIn,
            0x21 => Self::ScsiResponse,
            0x22 => Self::TaskManagementResponse,
            0x23 => Self::LoginResponse,
            0x24 => Self::TextResponse,
            0x25 => Self::DataIn,
            0x26 => Self::LogoutResponse,
            0x31 => Self::R2t,
            0x32 => Self::AsyncMessage,
            0x3f => Self::Reject,
            unknown => return Err(UnknownOpcode(unknown)),
        })
    }

    /// Whether this PDU goes from the initiator to the target.
    #[inline]
    pub const fn is_request(self) -> bool {
        (self as u8) < 0x20
    }
}
