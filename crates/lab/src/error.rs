//! Why the lab could not measure.

use std::path::PathBuf;

use crate::initiator::{IoError, OpenError};
use crate::journal::JournalError;
use crate::target::TargetError;

/// A sentence for people, with a hint where somebody can do something.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The target's address makes no sense.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The target could not be opened.
    #[error("{target}: {source}")]
    Open {
        /// The address.
        target: String,
        /// Why.
        #[source]
        source: OpenError,
    },
    /// An operation outside of a load failed.
    #[error("{target}: {source}")]
    Io {
        /// The address.
        target: String,
        /// Why.
        #[source]
        source: IoError,
    },
    /// The load does not fit the target, or contradicts itself.
    #[error("{problem}; hint: {hint}")]
    Job {
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// fio did not run, or did not measure.
    #[error("{problem}; hint: {hint}")]
    Fio {
        /// What went wrong, with fio's own words.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// The reactor of a thread did not start.
    #[error(transparent)]
    Reactor(#[from] ring::StartError),
    /// The journal.
    #[error("journal {path}: {source}", path = path.display())]
    Journal {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: JournalError,
    },
    /// A thread of the lab ended early.
    #[error("a thread of the lab ended without a result; hint: this is a bug of the lab, please report it")]
    Thread,
}
