//! The 48-byte basic header segment of every PDU: RFC 7143 section 11.
//!
//! Each header is a plain struct in host byte order with `decode(&Bhs)` and `encode(&mut Bhs)`.
//! Codes and flags hold any value a peer may send, so decoding a known opcode cannot fail; whether
//! the values make sense is judged where the session state is known.

mod command;
mod data;
mod layout;
mod login;
mod logout;
mod nop;
mod notice;
mod opcode;
mod snack;
mod task;
mod text;

#[cfg(test)]
mod tests;

pub use command::{
    ScsiCommand, ScsiCommandFlags, ScsiResponse, ScsiResponseCode, ScsiResponseFlags, TaskAttribute, cdb_of,
};
pub use data::{DataIn, DataInFlags, DataOut, R2t};
pub use layout::{Final, Immediate, Lun, U24};
pub use login::{LoginFlags, LoginRequest, LoginResponse, LoginStage, LoginStatus, LoginTransit, VERSION};
pub use logout::{LogoutReason, LogoutRequest, LogoutResponse, LogoutResponseCode};
pub use nop::{NopIn, NopOut};
pub use notice::{AsyncEvent, AsyncMessage, Reject, RejectReason};
pub use opcode::{Opcode, UnknownOpcode};
pub use snack::{SnackRequest, SnackType};
pub use task::{
    TaskManagementFunction, TaskManagementRequest, TaskManagementResponse, TaskManagementResponseCode,
};
pub use text::{TextFlags, TextRequest, TextResponse};

use super::Bhs;

/// The reserved value of initiator and target transfer tags: "no task", "no transfer".
pub const RESERVED_TAG: u32 = 0xffff_ffff;

/// Any PDU header an initiator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum InitiatorPdu {
    NopOut(NopOut),
    ScsiCommand(ScsiCommand),
    TaskManagementRequest(TaskManagementRequest),
    LoginRequest(LoginRequest),
    TextRequest(TextRequest),
    DataOut(DataOut),
    LogoutRequest(LogoutRequest),
    SnackRequest(SnackRequest),
}

/// Any PDU header a target sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TargetPdu {
    NopIn(NopIn),
    ScsiResponse(ScsiResponse),
    TaskManagementResponse(TaskManagementResponse),
    LoginResponse(LoginResponse),
    TextResponse(TextResponse),
    DataIn(DataIn),
    LogoutResponse(LogoutResponse),
    R2t(R2t),
    AsyncMessage(AsyncMessage),
    Reject(Reject),
}

impl InitiatorPdu {
    /// Decodes a header that came from an initiator; a target's opcode is unknown here.
    #[inline]
    pub fn decode(bhs: &Bhs) -> Result<Self, UnknownOpcode> {
        Ok(match Opcode::of(bhs)? {
            Opcode::NopOut => Self::NopOut(NopOut::decode(bhs)),
            Opcode::ScsiCommand => Self::ScsiCommand(ScsiCommand::decode(bhs)),
            Opcode::TaskManagementRequest => Self::TaskManagementRequest(TaskManagementRequest::decode(bhs)),
            Opcode::LoginRequest => Self::LoginRequest(LoginRequest::decode(bhs)),
            Opcode::TextRequest => Self::TextRequest(TextRequest::decode(bhs)),
            Opcode::DataOut => Self::DataOut(DataOut::decode(bhs)),
            Opcode::LogoutRequest => Self::LogoutRequest(LogoutRequest::decode(bhs)),
            Opcode::SnackRequest => Self::SnackRequest(SnackRequest::decode(bhs)),
            other => return Err(UnknownOpcode(other as u8)),
        })
    }

    /// Writes the header.
    pub fn encode(&self, bhs: &mut Bhs) {
        match self {
            Self::NopOut(pdu) => pdu.encode(bhs),
            Self::ScsiCommand(pdu) => pdu.encode(bhs),
            Self::TaskManagementRequest(pdu) => pdu.encode(bhs),
            Self::LoginRequest(pdu) => pdu.encode(bhs),
            Self::TextRequest(pdu) => pdu.encode(bhs),
            Self::DataOut(pdu) => pdu.encode(bhs),
            Self::LogoutRequest(pdu) => pdu.encode(bhs),
            Self::SnackRequest(pdu) => pdu.encode(bhs),
        }
    }
}

impl TargetPdu {
    /// Decodes a header that came from a target; an initiator's opcode is unknown here.
    #[inline]
    pub fn decode(bhs: &Bhs) -> Result<Self, UnknownOpcode> {
        Ok(match Opcode::of(bhs)? {
            Opcode::NopIn => Self::NopIn(NopIn::decode(bhs)),
            Opcode::ScsiResponse => Self::ScsiResponse(ScsiResponse::decode(bhs)),
            Opcode::TaskManagementResponse => {
                Self::TaskManagementResponse(TaskManagementResponse::decode(bhs))
            }
            Opcode::LoginResponse => Self::LoginResponse(LoginResponse::decode(bhs)),
            Opcode::TextResponse => Self::TextResponse(TextResponse::decode(bhs)),
            Opcode::DataIn => Self::DataIn(DataIn::decode(bhs)),
            Opcode::LogoutResponse => Self::LogoutResponse(LogoutResponse::decode(bhs)),
            Opcode::R2t => Self::R2t(R2t::decode(bhs)),
            Opcode::AsyncMessage => Self::AsyncMessage(AsyncMessage::decode(bhs)),
            Opcode::Reject => Self::Reject(Reject::decode(bhs)),
            other => return Err(UnknownOpcode(other as u8)),
        })
    }

    /// Writes the header.
    pub fn encode(&self, bhs: &mut Bhs) {
        match self {
            Self::NopIn(pdu) => pdu.encode(bhs),
            Self::ScsiResponse(pdu) => pdu.encode(bhs),
            Self::TaskManagementResponse(pdu) => pdu.encode(bhs),
            Self::LoginResponse(pdu) => pdu.encode(bhs),
            Self::TextResponse(pdu) => pdu.encode(bhs),
            Self::DataIn(pdu) => pdu.encode(bhs),
            Self::LogoutResponse(pdu) => pdu.encode(bhs),
            Self::R2t(pdu) => pdu.encode(bhs),
            Self::AsyncMessage(pdu) => pdu.encode(bhs),
            Self::Reject(pdu) => pdu.encode(bhs),
        }
    }
}
