//! The other side: what commands ask of a node that runs.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::Problem;
use super::server::{SOCKET_FILE, address};

/// How long an answer is waited for: longer than the node takes at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer at most: a thousand pools of 64 members are below.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Asks the node that works in a data directory.
pub struct Client {
    path: PathBuf,
    runtime: tokio::runtime::Runtime,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No node runs there.
    #[error("no node runs in {directory}: nobody listens on {SOCKET_FILE} there")]
    NotRunning {
        /// The data directory.
        directory: PathBuf,
    },
    /// This user may not.
    #[error("{path} may not be used by this user")]
    NotAllowed {
        /// The socket.
        path: PathBuf,
    },
    /// The node says no.
    #[error("{0}")]
    Refused(Problem),
    /// Nothing came for long.
    #[error("the node did not answer within {} seconds", PATIENCE.as_secs())]
    Silent,
    /// Something else.
    #[error("asking the node failed: {0}")]
    Io(#[source] io::Error),
    /// It is of another kind.
    #[error("the node gave an answer that this fels does not understand: {0}")]
    NotUnderstood(String),
}

impl ClientError {
    /// What somebody can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotRunning { .. } => Some(
                "name its directory with --data or its configuration with --config; without a node, members are named with --members"
                    .to_owned(),
            ),
            Self::NotAllowed { .. } => Some("run fels as the user of the node, or as root".to_owned()),
            Self::Refused(problem) => problem.hint.clone(),
            Self::Silent => Some("see the log of the node".to_owned()),
            Self::Io(_) => None,
            Self::NotUnderstood(_) => Some("take the fels that the node runs".to_owned()),
        }
    }
}

impl Client {
    /// Of the node that works in `data`.
    pub fn new(data: &Path) -> Result<Client, ClientError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ClientError::Io)?;
        Ok(Client { path: data.join(SOCKET_FILE), runtime })
    }

    /// Asks for what is there.
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.ask(Method::GET, path, None)
    }

    /// Wishes something.
    pub fn post<A: DeserializeOwned>(&self, path: &str, wish: &impl Serialize) -> Result<A, ClientError> {
        self.ask(Method::POST, path, Some(json(wish)?))
    }

    /// Wishes something away.
    pub fn delete<A: DeserializeOwned>(&self, path: &str, wish: &impl Serialize) -> Result<A, ClientError> {
        self.ask(Method::DELETE, path, Some(json(wish)?))
    }

    fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<A, ClientError> {
        let answered = async { tokio::time::timeout(PATIENCE, self.exchange(method, path, body)).await };
        let (status, bytes) = self.runtime.block_on(answered).map_err(|_| ClientError::Silent)??;
        let not_understood = |error: serde_json::Error| ClientError::NotUnderstood(error.to_string());
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(not_understood);
        }
        Err(ClientError::Refused(serde_json::from_slice(&bytes).map_err(not_understood)?))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let other = |error: hyper::Error| ClientError::Io(io::Error::other(error));
        let stream = self.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(other)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "fels")
            .header(header::CONNECTION, "close");
        let request = match &body {
            Some(_) => request.header(header::CONTENT_TYPE, "application/json"),
            None => request,
        };
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| ClientError::Io(io::Error::other(error)))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(other)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| ClientError::Io(io::Error::other(error)))?;
            Ok((status, body.to_bytes()))
        };
        // The connection is driven beside its only request, and ends with it.
        tokio::pin!(answer);
        tokio::select! {
            answered = &mut answer => answered,
            driven = connection => {
                driven.map_err(other)?;
                answer.await
            }
        }
    }

    async fn connect(&self) -> Result<UnixStream, ClientError> {
        let directory = || self.path.parent().map_or_else(PathBuf::new, Path::to_owned);
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                ClientError::NotRunning { directory: directory() }
            }
            ErrorKind::PermissionDenied => ClientError::NotAllowed { path: self.path.clone() },
            _ => ClientError::Io(error),
        };
        let (address, _directory) = address(&self.path).map_err(failed)?;
        UnixStream::connect(address).await.map_err(failed)
    }
}

fn json(wish: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(wish).map_err(|error| ClientError::Io(error.into()))
}
