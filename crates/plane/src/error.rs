//! Why a request failed: a small kind, where, and the cause. Each session room translates the kind to its wire
//! codes in one place and logs what the code cannot carry.

use std::fmt;
use std::io;

/// What kind of failure. Wire codes are chosen by this alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ErrorKind {
    /// The extent does not lie within the volume, or not on block boundaries.
    OutOfRange,
    /// The volume cannot do this.
    Unsupported,
    /// The volume takes no writes.
    ReadOnly,
    /// These bytes cannot be read.
    Medium,
    /// These bytes cannot be written.
    Write,
    /// There is no space left for these bytes.
    NoSpace,
    /// An earlier failure left the disk in a state in which nothing can be promised any more.
    Failed,
    /// The request was given up before it was begun.
    Aborted,
    /// The same, by who had asked for it: nobody has to know.
    GivenUp,
}

/// A failure of one request.
pub struct Error {
    kind: ErrorKind,
    context: &'static str,
    source: Option<io::Error>,
}

impl Error {
    /// `context`: what was being done, as a sentence's end: "reading the file".
    pub fn new(kind: ErrorKind, context: &'static str) -> Error {
        Error { kind, context, source: None }
    }

    /// With its cause.
    pub fn caused(kind: ErrorKind, context: &'static str, source: io::Error) -> Error {
        Error { kind, context, source: Some(source) }
    }

    /// The same for another request that failed with this one; its cause is told once.
    #[must_use]
    pub fn again(&self) -> Error {
        Error::new(self.kind, self.context)
    }

    /// What kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ErrorKind::OutOfRange => "out of range",
            ErrorKind::Unsupported => "not supported",
            ErrorKind::ReadOnly => "read-only",
            ErrorKind::Medium => "unreadable",
            ErrorKind::Write => "not written",
            ErrorKind::NoSpace => "no space left",
            ErrorKind::Failed => "the disk has failed",
            ErrorKind::Aborted => "aborted",
            ErrorKind::GivenUp => "given up",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} while {}", self.kind, self.context)?;
        match &self.source {
            Some(source) => write!(formatter, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
