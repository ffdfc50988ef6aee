//! Why a session could not be opened, and why an operation on one failed.

use std::io;
use std::sync::Arc;

use wire::nbd::Errno;
use wire::scsi::{Sense, Status};

use super::{iscsi, nbd, nvme};

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The host has no address.
    #[error("{host} has no address ({source}); hint: check the name, or give an IP address")]
    Resolve {
        /// As it was given.
        host: String,
        /// The resolver's answer.
        #[source]
        source: io::Error,
    },
    /// Nobody listens, or nobody answers.
    #[error("no connection ({0}); hint: start the target with `fels serve`, and check host and port")]
    Connect(#[source] io::Error),
    /// The login did not succeed.
    #[error(transparent)]
    Login(#[from] iscsi::LoginError),
    /// The NBD handshake did not succeed.
    #[error(transparent)]
    Handshake(#[from] nbd::HandshakeError),
    /// No controller could be had.
    #[error(transparent)]
    Nvme(#[from] nvme::ConnectError),
    /// A command at the start failed.
    #[error("{command} at the start of the session: {source}")]
    Start {
        /// The command's name.
        command: &'static str,
        /// Why.
        #[source]
        source: IoError,
    },
    /// The unit is nothing that can be measured.
    #[error("{0}")]
    Unusable(String),
    /// The file.
    #[error("cannot be opened ({0}); hint: {1}")]
    File(#[source] io::Error, &'static str),
    /// A pool of our own.
    #[error(transparent)]
    Pool(#[from] crate::pool::BedError),
}

/// Why an operation failed. It takes one word, as results go through many hands and hardly ever hold one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct IoError(Box<Cause>);

/// What an [`IoError`] is about.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Cause {
    /// The connection is gone; everything on it ended with this.
    #[error("{0}")]
    Connection(Arc<str>),
    /// The device server refused, or failed.
    #[error("{}", scsi_sentence(*.status, .sense.as_ref()))]
    Scsi {
        /// SAM-5 status.
        status: u8,
        /// What it says, if it says something.
        sense: Option<Sense>,
    },
    /// The NBD server refused, or failed.
    #[error("the server answered {0}")]
    Nbd(Errno),
    /// The controller refused, or failed.
    #[error("NVMe {status}")]
    Nvme {
        /// Base 2.1 section 4.2.3.
        status: wire::nvme::Status,
        /// Dwords 0 and 1 of the completion.
        result: u64,
    },
    /// A pool in this process said so.
    #[error("{0}")]
    Pool(Arc<plane::Error>),
    /// Task management ended it.
    #[error("the command was aborted")]
    Aborted,
    /// Less was moved than was asked for.
    #[error("{moved} of {wanted} bytes were moved")]
    Short {
        /// Bytes.
        moved: u64,
        /// Bytes.
        wanted: u64,
    },
    /// The operating system refused.
    #[error("{0}")]
    System(Arc<io::Error>),
    /// The target, or its kind, cannot do it.
    #[error("the target does not support {0}")]
    Unsupported(&'static str),
}

impl From<Cause> for IoError {
    #[cold]
    fn from(cause: Cause) -> Self {
        IoError(Box::new(cause))
    }
}

impl From<io::Error> for IoError {
    fn from(error: io::Error) -> Self {
        Cause::System(Arc::new(error)).into()
    }
}

impl From<plane::Error> for IoError {
    fn from(error: plane::Error) -> Self {
        Cause::Pool(Arc::new(error)).into()
    }
}

impl IoError {
    /// What it is about.
    pub fn cause(&self) -> &Cause {
        &self.0
    }

    /// Nothing on this session will work any more.
    pub fn is_final(&self) -> bool {
        matches!(self.cause(), Cause::Connection(_))
    }
}

fn scsi_sentence(status: u8, sense: Option<&Sense>) -> String {
    let name = Status::from_wire(status).map_or_else(|| format!("{status:#04x}"), |s| format!("{s:?}"));
    match sense {
        Some(sense) => format!("SCSI status {name}: {sense}"),
        None => format!("SCSI status {name}"),
    }
}
