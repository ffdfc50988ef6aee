//! The login phase: RFC 7143 section 6.3, as a state machine without I/O and clock.
//!
//! [`Login::handle`] takes one [`Event`] and gives one [`Action`]. The connection feeds it every PDU
//! that arrives before full-feature phase, sends what it answers, finds or makes the session when
//! it says [`Action::Establish`], and closes when it says [`Action::Refuse`] or [`Action::Close`].
//! How long a login may take is for the connection to limit.

pub mod chap;
mod error;
pub mod keys;
mod parameters;
mod state;

#[cfg(test)]
mod tests;

pub use chap::{Authentication, ChapAccess, ChapCredential, ChapEntropy, Secret};
pub use error::LoginError;
pub use parameters::{ConnectionParameters, OperationalLimits, SessionParameters, TaskReporting};
pub use state::{
    Action, Directory, Event, Login, LoginConfig, LoginOutcome, Response, SessionType, TargetAccess,
};

/// The most bytes of text in one login PDU: the default of `MaxRecvDataSegmentLength`, which holds
/// for both sides until full-feature phase (section 13.12).
pub const MAX_LOGIN_SEGMENT_LENGTH: usize = 8192;
/// The most bytes of text that a request may spread over PDUs with the C bit.
pub const MAX_GATHERED_LENGTH: usize = 64 * 1024;
/// The most pairs in one request.
pub const MAX_PAIRS: usize = 256;
/// The most requests of one login. Mutual CHAP and a long text need about a dozen.
pub const MAX_EXCHANGES: u32 = 32;
