//! The listener: a unix socket in the data directory, for the user of the node and for root; on a thread of its own, away
//! from the shards.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::{Context, Problem, router};

/// The name of the socket in the data directory.
pub const SOCKET_FILE: &str = "fels.sock";
/// Connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// How long a peer may take to send the head of a request, and how long a connection may be silent between two.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// Bytes of a head at most, and what is buffered of a body.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long requests that are under way may go on when the node stops.
const GRACE: Duration = Duration::from_secs(2);
/// How long to pause when no connection can be accepted, as no file can be opened.
const AGAIN: Duration = Duration::from_millis(100);
/// The path of a unix socket has at most so many bytes (`sun_path`, with its zero).
const MAX_PATH_BYTES: usize = 107;

/// Who is at the other end of a local connection (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user, as the kernel knows it.
    pub uid: u32,
}

/// The API of a node, as long as it listens.
pub struct Server {
    /// Until it is stopped.
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    path: PathBuf,
}

/// Why the API cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Another node listens there.
    #[error("another node answers on {path}; hint: stop it, or set another `data`")]
    Living {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has that name.
    #[error("{path} is not a socket; hint: move it away: the node listens there for its administrators")]
    NotASocket {
        /// What is there.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error(
        "cannot listen on {path}: {source}; hint: the user who runs the node needs to write that directory"
    )]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no thread, or no reactor for it.
    #[error(
        "no thread for the control API: {0}; hint: raise the limits of processes and open files (ulimit -u, -n)"
    )]
    Thread(#[source] io::Error),
}

/// Where a socket is bound and connected to: its own path if that is short enough, else one by way of its open directory,
/// which has to stay open meanwhile.
pub(super) fn address(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().len() <= MAX_PATH_BYTES {
        return Ok((path.to_owned(), None));
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let directory = File::open(directory)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name), Some(directory)))
}

/// Listens in the data directory, of which this process has the lock: a socket that is left there is of a node that died.
pub fn start(data: &Path, context: Context) -> Result<Server, ApiError> {
    let path = data.join(SOCKET_FILE);
    let listener = bind(&path)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ApiError::Thread)?;
    let listener = {
        let _guard = runtime.enter();
        listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener))
    };
    let listener = listener.map_err(|source| ApiError::Bind { path: path.clone(), source })?;
    let router = router(context).layer(from_fn(admit));
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || runtime.block_on(serve(listener, router, stopped)))
        .map_err(ApiError::Thread)?;
    Ok(Server { running: Some((stop, thread)), path })
}

fn bind(path: &Path) -> Result<StdListener, ApiError> {
    let failed = |source| ApiError::Bind { path: path.to_owned(), source };
    let (address, _directory) = address(path).map_err(failed)?;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(there) if !there.file_type().is_socket() => {
            return Err(ApiError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => match StdStream::connect(&address) {
            Ok(_) => return Err(ApiError::Living { path: path.to_owned() }),
            Err(_) => std::fs::remove_file(path).map_err(failed)?,
        },
    }
    let listener = StdListener::bind(&address).map_err(failed)?;
    // Who connected before this is found out by who he is.
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

impl Server {
    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no more requests, lets those under way end, and removes the socket.
    pub fn stop(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        // First: whoever looks for the node from now on is told that it does not run.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("{} cannot be removed: {error}", self.path.display());
        }
        stop.send(()).ok();
        if thread.join().is_err() {
            tracing::error!("the thread of the control API panicked");
        }
    }
}

async fn serve(listener: UnixListener, router: Router, mut stopped: oneshot::Receiver<()>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let router = router.clone();
                connections.spawn(async move {
                    connection(stream, router).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("the control API cannot accept: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(GRACE, ended).await.ok();
}

async fn connection(stream: UnixStream, router: Router) {
    let Ok(credentials) = stream.peer_cred() else { return };
    let router = router.layer(Extension(Peer { uid: credentials.uid() }));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        // Who has said all that he wants may close his side and still be answered.
        .half_close(true)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!("a connection of the control API ended: {error}");
    }
}

/// Lets in who runs the node, and root.
async fn admit(request: Request, next: Next) -> Response {
    let me = rustix::process::geteuid().as_raw();
    match refusal(request.extensions().get(), me) {
        None => next.run(request).await,
        Some(problem) => {
            tracing::warn!("refused on the socket of the control API: {problem}");
            problem.into_response()
        }
    }
}

/// Why somebody may not ask the node of user `me`.
fn refusal(peer: Option<&Peer>, me: u32) -> Option<Problem> {
    match peer {
        Some(Peer { uid }) if *uid == me || *uid == 0 => None,
        Some(Peer { uid }) => Some(
            Problem::forbidden(format!("this node belongs to user {me}, you are user {uid}"))
                .hint("run fels as that user, or as root"),
        ),
        None => Some(Problem::forbidden("nobody knows who you are")),
    }
}

#[cfg(test)]
mod tests;
