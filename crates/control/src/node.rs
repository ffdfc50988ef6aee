//! How a node is started from its configuration, and stopped.

use crate::config::Config;
use std::net::SocketAddr;

/// A node that serves.
#[derive(Debug)]
pub struct Node {
    portals: Vec<SocketAddr>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    message: String,
    hint: Option<String>,
}

impl StartError {
    /// What somebody can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Why a node did not stop in an orderly way.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ShutdownError {
    message: String,
    hint: Option<String>,
}

impl ShutdownError {
    /// What somebody can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Starts the node that `config` describes.
pub fn start(_config: &Config) -> Result<Node, StartError> {
    Err(StartError { message: "the node is not built yet".to_owned(), hint: None })
}

impl Node {
    /// The addresses that are listened on, in the order of the configuration, with the port that
    /// was given by the kernel where the configuration says 0.
    pub fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    /// Stops taking connections, drains what is in flight until a deadline, and ends.
    pub fn shutdown(self) -> Result<(), ShutdownError> {
        Ok(())
    }
}
