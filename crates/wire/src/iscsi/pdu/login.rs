//! Login: RFC 7143 sections 11.12 and 11.13.

use std::fmt;

use super::layout::{Field, U24, flag_field, header};
use crate::iscsi::{Bhs, Isid, SerialNumber};

/// The one protocol version there is: RFC 7143 section 11.12.4 (0x00).
pub const VERSION: u8 = 0;

bitflags::bitflags! {
    /// T and C of byte 1, section 11.12.1 and 11.12.2.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct LoginFlags: u8 {
        /// T: ready to go to the next stage.
        const TRANSIT = 0x80;
        /// C: the text goes on in the next PDU.
        const CONTINUE = 0x40;
    }
}
flag_field!(LoginFlags);

/// A login stage, section 11.12.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum LoginStage {
    /// 0: authentication.
    #[default]
    SecurityNegotiation = 0,
    /// 1: operational parameters.
    LoginOperationalNegotiation = 1,
    /// 3: the login is over.
    FullFeaturePhase = 3,
}

impl LoginStage {
    /// The stage of a 2-bit field; 2 is reserved.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits & 3 {
            0 => Some(Self::SecurityNegotiation),
            1 => Some(Self::LoginOperationalNegotiation),
            3 => Some(Self::FullFeaturePhase),
            _ => None,
        }
    }
}

/// CSG and NSG of byte 1, section 11.12.3, as they are on the wire (value 2 is reserved).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LoginTransit {
    current: u8,
    next: u8,
}

impl LoginTransit {
    /// From `current` to `next`.
    pub const fn new(current: LoginStage, next: LoginStage) -> Self {
        Self { current: current as u8, next: next as u8 }
    }

    /// CSG; `None` if it holds the reserved value.
    pub const fn current(self) -> Option<LoginStage> {
        LoginStage::from_bits(self.current)
    }

    /// NSG, valid only with T; `None` if it holds the reserved value.
    pub const fn next(self) -> Option<LoginStage> {
        LoginStage::from_bits(self.next)
    }
}

impl Field for LoginTransit {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self { current: bhs[offset] >> 2 & 3, next: bhs[offset] & 3 }
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        bhs[offset] |= self.current << 2 | self.next;
    }
}

/// Status-Class and Status-Detail, section 11.13.5: class in the high byte, detail in the low one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LoginStatus(pub u16);

/// One list for constants and names.
macro_rules! login_statuses {
    ($( $(#[$meta:meta])* $code:ident = $value:literal, )+) => {
        impl LoginStatus {
            $( $(#[$meta])* pub const $code: Self = Self($value); )+

            /// The name in the standard's spelling, if the value has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $value => Some(stringify!($code)), )+
                    _ => None,
                }
            }
        }
    };
}

login_statuses! {
    /// Login proceeds.
    SUCCESS = 0x0000,
    /// The target is at another address for now.
    TARGET_MOVED_TEMPORARILY = 0x0101,
    /// The target is at another address for good.
    TARGET_MOVED_PERMANENTLY = 0x0102,
    /// Miscellaneous error of the initiator.
    INITIATOR_ERROR = 0x0200,
    /// The initiator could not be authenticated.
    AUTHENTICATION_FAILURE = 0x0201,
    /// The initiator is not allowed to use the target.
    AUTHORIZATION_FAILURE = 0x0202,
    /// The target is not known here.
    NOT_FOUND = 0x0203,
    /// The target was removed.
    TARGET_REMOVED = 0x0204,
    /// The version range is not supported.
    UNSUPPORTED_VERSION = 0x0205,
    /// Too many connections on this session.
    TOO_MANY_CONNECTIONS = 0x0206,
    /// A key that must be there is not.
    MISSING_PARAMETER = 0x0207,
    /// The session does not span to this portal group.
    CANNOT_INCLUDE_IN_SESSION = 0x0208,
    /// The session type is not supported.
    SESSION_TYPE_NOT_SUPPORTED = 0x0209,
    /// A connection was to be added to a session that is not there.
    SESSION_DOES_NOT_EXIST = 0x020a,
    /// The request type is not valid during login.
    INVALID_REQUEST_DURING_LOGIN = 0x020b,
    /// The target had a hardware or software error.
    TARGET_ERROR = 0x0300,
    /// The service or target is not operational.
    SERVICE_UNAVAILABLE = 0x0301,
    /// The target has no resources for it.
    OUT_OF_RESOURCES = 0x0302,
}

impl LoginStatus {
    /// Status-Class.
    pub const fn class(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Status-Detail.
    pub const fn detail(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Debug for LoginStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "LoginStatus({:#06x})", self.0),
        }
    }
}

impl fmt::Display for LoginStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

impl Field for LoginStatus {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self(Field::get(bhs, offset))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        self.0.put(bhs, offset);
    }
}

header! {
    /// Login Request, section 11.12. The I bit is to be set.
    pub struct LoginRequest = Opcode::LoginRequest, 0 {
        /// The I bit; the standard wants it set.
        immediate: super::Immediate = 0,
        /// T and C.
        flags: LoginFlags = 1,
        /// CSG and NSG.
        transit: LoginTransit = 1,
        /// Version-max.
        version_max: u8 = 2,
        /// Version-min.
        version_min: u8 = 3,
        /// Bytes of text.
        data_segment_length: U24 = 5,
        /// ISID.
        isid: Isid = 8,
        /// TSIH: zero for a new session.
        tsih: u16 = 14,
        /// Initiator Task Tag, the same for the whole login.
        initiator_task_tag: u32 = 16,
        /// CID: the connection's number within the session.
        cid: u16 = 20,
        /// `CmdSN`: the initial one on a leading login.
        cmd_sn: SerialNumber = 24,
        /// `ExpStatSN`.
        exp_stat_sn: SerialNumber = 28,
    }
}

header! {
    /// Login Response, section 11.13.
    pub struct LoginResponse = Opcode::LoginResponse, 0 {
        /// T and C.
        flags: LoginFlags = 1,
        /// CSG and NSG.
        transit: LoginTransit = 1,
        /// Version-max.
        version_max: u8 = 2,
        /// Version-active.
        version_active: u8 = 3,
        /// Bytes of text.
        data_segment_length: U24 = 5,
        /// ISID, repeated.
        isid: Isid = 8,
        /// TSIH: given by the target in the last response of a new session.
        tsih: u16 = 14,
        /// Initiator Task Tag, repeated.
        initiator_task_tag: u32 = 16,
        /// `StatSN`; on the first response its starting value.
        stat_sn: SerialNumber = 24,
        /// `ExpCmdSN`.
        exp_cmd_sn: SerialNumber = 28,
        /// `MaxCmdSN`.
        max_cmd_sn: SerialNumber = 32,
        /// Status-Class and Status-Detail.
        status: LoginStatus = 36,
    }
}
