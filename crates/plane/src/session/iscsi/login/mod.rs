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
pub use parameters::{ConnectionParameters, LimitError, OperationalLimits, SessionParameters, TaskReporting};
pub use state::{
    Action, Directory, Event, Login, LoginConfig, LoginOutcome, Response, SessionType, TargetAccess,
};
