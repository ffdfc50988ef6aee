//! What can go wrong, beside a path that has become longer.

use std::io;
use std::path::PathBuf;

/// Why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither of the two things it does.
    #[error("say what to do; hint: `counts check` compares, `counts write` rewrites the figures")]
    Usage,
    /// A program that is needed did not start.
    #[error("{program} did not start ({source}); hint: `make test-deps` installs what is needed")]
    Start {
        /// Its name.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It started and failed.
    #[error("{program} failed:\n{said}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// What it wrote.
        said: String,
    },
    /// A file.
    #[error("{path}: {source}; hint: run it in the root of the repository", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that says something else than it should.
    #[error("{path}: {wrong}", path = path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        wrong: String,
    },
}
