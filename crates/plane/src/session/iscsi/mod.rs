//! iSCSI sessions: RFC 7143.

pub mod login;
pub mod text;
