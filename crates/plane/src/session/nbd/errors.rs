//! The one place where a failure of the volume becomes an error value. The log line has what the value cannot carry.

use wire::nbd::Errno;

use crate::error::ErrorKind;

/// The error value for a failure, and what it says to people.
pub fn errno(kind: ErrorKind) -> Refused {
    match kind {
        ErrorKind::OutOfRange => Refused::new(Errno::EINVAL, "outside of the export"),
        ErrorKind::Unsupported => Refused::new(Errno::ENOTSUP, "this volume cannot do that"),
        ErrorKind::ReadOnly => Refused::new(Errno::EPERM, "the export is read-only"),
        ErrorKind::Medium => Refused::new(Errno::EIO, "these bytes cannot be read"),
        ErrorKind::Write => Refused::new(Errno::EIO, "these bytes cannot be written"),
        ErrorKind::NoSpace => Refused::new(Errno::ENOSPC, "there is no space left"),
        ErrorKind::Failed => Refused::new(Errno::EIO, "the disk has failed"),
        ErrorKind::Aborted | ErrorKind::GivenUp => Refused::new(Errno::EIO, "the request was given up"),
    }
}

/// What a request is answered with that is not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// For the client.
    pub error: Errno,
    /// For people.
    pub why: &'static str,
}

impl Refused {
    /// With a reason.
    pub const fn new(error: Errno, why: &'static str) -> Refused {
        Refused { error, why }
    }
}
