//! The other side: what commands ask of a node that runs.

use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::Problem;
use super::remote::{self, Address, Trust};
use super::server::{SOCKET_FILE, address};
use crate::people::token::TokenSecret;

/// How long an answer is waited for: longer than the node takes at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer at most: a thousand pools of 64 members are below.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Asks a node: on this machine by its socket, on another one with TLS and a token.
pub struct Client {
    way: Way,
    runtime: tokio::runtime::Runtime,
}

/// How the node is reached.
enum Way {
    Socket(PathBuf),
    Tcp { address: Address, tls: Option<Arc<ClientConfig>>, token: Option<TokenSecret> },
}

/// What bytes go over.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

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
    /// There is no such address.
    #[error("{url} is not the address of a node: {why}")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// There is no token there.
    #[error("there is no token in {path}: {why}")]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It is not known whom to trust.
    #[error("it is not known which certificates to trust: {why}")]
    Trust {
        /// What is wrong.
        why: String,
    },
    /// Nobody listens there.
    #[error("{address} cannot be reached: {source}")]
    Unreachable {
        /// Where.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// It is somebody else.
    #[error("{address} is not trusted: {source}")]
    Untrusted {
        /// Where.
        address: Address,
        /// Why.
        source: io::Error,
    },
    /// The node says no.
    #[error("{0}")]
    Refused(Box<Problem>),
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
                "start it with `fels serve`, or name its directory with --data or its configuration with --config; `fels pool status --members` looks at \
                 pools that no node has"
                    .to_owned(),
            ),
            Self::NotAllowed { .. } => Some("run fels as the user of the node, or as root".to_owned()),
            Self::Address { .. } => Some("write https://HOST:PORT, such as https://san1.example.com:8420".to_owned()),
            Self::Token { .. } => Some("`fels token create USER NAME --out FILE` makes one".to_owned()),
            Self::Trust { .. } => Some("name the certificate of the node with --fingerprint, or a file of roots with --ca".to_owned()),
            Self::Unreachable { .. } => Some("see `listen` of [http] in the configuration of the node, and that it runs".to_owned()),
            Self::Untrusted { .. } => Some(
                "if `fels cert --show` on the node says the same SHA-256, name it with --fingerprint; else somebody else answers there".to_owned(),
            ),
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
        Ok(Client { way: Way::Socket(data.join(SOCKET_FILE)), runtime: runtime()? })
    }

    /// Of a node that is asked over TCP, as who holds the token, if one is given.
    pub fn remote(
        address: Address,
        trust: &Trust,
        token: Option<TokenSecret>,
    ) -> Result<Client, ClientError> {
        let tls = if address.is_encrypted { Some(remote::config(trust)?) } else { None };
        Ok(Client { way: Way::Tcp { address, tls, token }, runtime: runtime()? })
    }

    /// Asks for what is there.
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.ask(Method::GET, path, None)
    }

    /// Asks for a text, as it is.
    pub fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.answer(Method::GET, path, None)?;
        String::from_utf8(bytes.to_vec()).map_err(|error| ClientError::NotUnderstood(error.to_string()))
    }

    /// Wishes something.
    pub fn post<A: DeserializeOwned>(&self, path: &str, wish: &impl Serialize) -> Result<A, ClientError> {
        self.ask(Method::POST, path, Some(json(wish)?))
    }

    /// Wishes something to be otherwise.
    pub fn patch<A: DeserializeOwned>(&self, path: &str, wish: &impl Serialize) -> Result<A, ClientError> {
        self.ask(Method::PATCH, path, Some(json(wish)?))
    }

    /// Wishes something in the place of what is there.
    pub fn put<A: DeserializeOwned>(&self, path: &str, wish: &impl Serialize) -> Result<A, ClientError> {
        self.ask(Method::PUT, path, Some(json(wish)?))
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
        let bytes = self.answer(method, path, body)?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::NotUnderstood(error.to_string()))
    }

    /// What the node says to what it does.
    fn answer(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Bytes, ClientError> {
        let answered = async { tokio::time::timeout(PATIENCE, self.exchange(method, path, body)).await };
        let (status, bytes) = self.runtime.block_on(answered).map_err(|_| ClientError::Silent)??;
        if status.is_success() {
            return Ok(bytes);
        }
        Err(problem(&bytes))
    }

    /// Listens to server-sent events, and hands on the `data` of each until that breaks it off, or the node ends the stream.
    pub fn listen(
        &self,
        path: &str,
        each: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ClientError> {
        self.runtime.block_on(self.receive(path, each))
    }

    async fn receive(
        &self,
        path: &str,
        mut each: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ClientError> {
        let other = |error: hyper::Error| ClientError::Io(io::Error::other(error));
        let stream = self.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(other)?;
        let request = self.request(Method::GET, path, None)?;
        let listening = async {
            let mut response = sender.send_request(request).await.map_err(other)?;
            if !response.status().is_success() {
                let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
                let body = body.map_err(|error| ClientError::Io(io::Error::other(error)))?;
                return Err(problem(&body.to_bytes()));
            }
            let mut waiting = Vec::new();
            loop {
                let frame = tokio::time::timeout(PATIENCE, response.frame()).await;
                let Some(frame) = frame.map_err(|_| ClientError::Silent)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                if let Ok(data) = frame.map_err(other)?.into_data() {
                    waiting.extend_from_slice(&data);
                }
                if tell(&mut waiting, &mut each)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        };
        tokio::pin!(listening);
        tokio::select! {
            listened = &mut listening => listened,
            driven = connection => {
                driven.map_err(other)?;
                listening.await
            }
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.host())
            .header(header::CONNECTION, "close");
        let request = match &self.way {
            Way::Tcp { token: Some(token), .. } => request.header(header::AUTHORIZATION, bearer(token)?),
            _ => request,
        };
        let request = match &body {
            Some(_) => request.header(header::CONTENT_TYPE, "application/json"),
            None => request,
        };
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        request.body(body).map_err(|error| ClientError::Io(io::Error::other(error)))
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
        let request = self.request(method, path, body)?;
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

    fn host(&self) -> String {
        match &self.way {
            Way::Socket(_) => "fels".to_owned(),
            Way::Tcp { address, .. } => address.authority(),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, ClientError> {
        match &self.way {
            Way::Socket(path) => Ok(Box::new(local(path).await?)),
            Way::Tcp { address, tls, .. } => {
                let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
                let unreachable = |source| ClientError::Unreachable { address: address.clone(), source };
                let stream = stream.map_err(unreachable)?;
                let Some(tls) = tls else { return Ok(Box::new(stream)) };
                let untrusted = |source| ClientError::Untrusted { address: address.clone(), source };
                let name = ServerName::try_from(address.host.clone());
                let name = name.map_err(|error| untrusted(io::Error::other(error)))?;
                let stream =
                    TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(untrusted)?;
                Ok(Box::new(stream))
            }
        }
    }
}

fn not_understood(error: &serde_json::Error) -> ClientError {
    ClientError::NotUnderstood(error.to_string())
}

/// What a body says that is no success.
fn problem(body: &[u8]) -> ClientError {
    serde_json::from_slice(body).map_or_else(|error| not_understood(&error), ClientError::Refused)
}

/// Hands on the events that are whole, and takes them from what waits.
fn tell(
    waiting: &mut Vec<u8>,
    each: &mut impl FnMut(&str) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, ClientError> {
    while let Some(end) = waiting.windows(2).position(|two| two == b"\n\n") {
        let event: Vec<u8> = waiting.drain(..end + 2).collect();
        for line in String::from_utf8_lossy(&event).lines() {
            if let Some(data) = line.strip_prefix("data: ")
                && each(data).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    if waiting.len() > MAX_ANSWER_BYTES {
        return Err(ClientError::NotUnderstood("an event without end".to_owned()));
    }
    Ok(ControlFlow::Continue(()))
}

fn runtime() -> Result<tokio::runtime::Runtime, ClientError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ClientError::Io)
}

fn bearer(token: &TokenSecret) -> Result<HeaderValue, ClientError> {
    let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
    let mut value = value.map_err(|error| ClientError::Io(io::Error::other(error)))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn local(path: &Path) -> Result<UnixStream, ClientError> {
    let directory = || path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            ClientError::NotRunning { directory: directory() }
        }
        ErrorKind::PermissionDenied => ClientError::NotAllowed { path: path.to_owned() },
        _ => ClientError::Io(error),
    };
    let (address, _directory) = address(path).map_err(failed)?;
    UnixStream::connect(address).await.map_err(failed)
}

fn json(wish: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(wish).map_err(|error| ClientError::Io(error.into()))
}
