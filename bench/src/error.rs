//! What can go wrong while measuring, as a sentence and, where somebody can act, a hint.

use std::io;
use std::time::Duration;

/// The error of this program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be used.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, with the path.
        context: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program's name.
        program: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A program ended with an error of its own.
    #[error("{program} failed with {status}: {output}")]
    Failed {
        /// The program's name.
        program: String,
        /// How it ended.
        status: String,
        /// The last lines that it wrote.
        output: String,
    },
    /// A program did not end, or a server did not answer, in time; it was killed.
    #[error("{program} was not done after {} s: {output}", deadline.as_secs())]
    Deadline {
        /// The program's name.
        program: String,
        /// How long it was given.
        deadline: Duration,
        /// The last lines that it wrote.
        output: String,
    },
    /// A program's output is not what this program understands.
    #[error("cannot read the output of {program}: {reason}")]
    Output {
        /// The program's name.
        program: &'static str,
        /// What is missing or wrong.
        reason: String,
    },
    /// A server that runs already cannot be measured.
    #[error("--beside {given}: {reason}")]
    Beside {
        /// What was given, or the name in it.
        given: String,
        /// What is wrong with it.
        reason: String,
        /// What somebody can do about it.
        hint: &'static str,
    },
    /// The options contradict each other or the machine.
    #[error("{0}")]
    Options(String),
    /// A signal asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// An input or output error with what was being done.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| Self::Io { context, source }
    }

    /// What somebody can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("`make bench-peers` installs the peers and clients and builds Fels")
            }
            // What taskset and setpriv say of a program that is not there.
            Self::Failed { output, .. } if output.contains("failed to execute") => {
                Some("`make bench-peers` installs the peers and clients and builds Fels")
            }
            Self::Beside { hint, .. } => Some(hint),
            Self::Options(_) => Some("see --help"),
            _ => None,
        }
    }

    /// The sentence and the hint in one line, for a report.
    pub fn line(&self) -> String {
        let text = self.hint().map_or_else(|| self.to_string(), |hint| format!("{self} (hint: {hint})"));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
