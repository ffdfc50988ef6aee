//! iSCSI sessions: RFC 7143.
//!
//! A connection comes in by [`service`], logs in by [`enter`] (the rules are in [`login`]), and then belongs to a
//! [`session`], which lives on one core. [`receive`] cuts its PDUs, `session` puts them into order, [`command`]
//! runs SCSI commands, [`respond`] answers.

mod claim;
mod command;
mod connection;
mod enter;
mod exchange;
mod keepalive;
pub mod login;
mod manage;
mod offer;
mod receive;
mod registry;
mod respond;
mod service;
mod session;
mod target;
mod tasks;
#[cfg(test)]
mod tests;
pub mod text;
mod transfer;
mod window;

pub use connection::Connection;
pub use registry::Registry;
pub use service::{IscsiOptions, Node, Service};
pub use session::Session;
pub use target::{PORTAL_GROUP_TAG, Target, Targets};
pub use tasks::Task;
