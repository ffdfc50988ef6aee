//! The listener: a unix socket in the data directory, on a thread of its own, away from the shards. It tells the router who
//! is at the other end, as the kernel knows it.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::access::{Access, AccessError};
use super::http::{self, HttpError};
use super::listener::{Listener, MAX_CONNECTIONS, serve};
use super::{Context, jobs, router};
use crate::config::Http;
use crate::pages;

/// The name of the socket in the data directory.
pub const SOCKET_FILE: &str = "fels.sock";
/// The path of a unix socket has at most so many bytes (`sun_path`, with its zero).
const MAX_PATH_BYTES: usize = 107;

/// The API of a node, as long as it listens.
pub struct Server {
    /// Until it is stopped.
    running: Option<(watch::Sender<bool>, JoinHandle<()>)>,
    path: PathBuf,
    http: Vec<SocketAddr>,
    is_encrypted: bool,
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
    /// It is not known who may come in, or it cannot be kept what they do.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// It cannot be served over TCP.
    #[error(transparent)]
    Http(#[from] HttpError),
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

/// Listens in the data directory, of which this process has the lock (a socket that is left there is of a node that died), and
/// over TCP where that is wished.
pub fn start(data: &Path, http: Option<&Http>, context: Context) -> Result<Server, ApiError> {
    let path = data.join(SOCKET_FILE);
    let access = Access::open(data)?;
    let listener = bind(&path)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ApiError::Thread)?;
    let guard = runtime.enter();
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    let listener = listener.map_err(|source| ApiError::Bind { path: path.clone(), source })?;
    let opened = http.map(|http| http::open(http, data)).transpose()?.unwrap_or_default();
    drop(guard);
    let is_encrypted =
        opened.iter().any(|(_, listener)| matches!(listener, Listener::Tcp { tls: Some(_), .. }));
    let (addresses, mut listeners): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    listeners.insert(0, Listener::Unix(listener));
    access.offer_setup(!addresses.is_empty());
    let router = router(context.clone(), access);
    let (stop, stopped) = watch::channel(false);
    let thread = std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || runtime.block_on(serve_all(listeners, router, context, stopped)))
        .map_err(ApiError::Thread)?;
    Ok(Server { running: Some((stop, thread)), path, http: addresses, is_encrypted })
}

/// Serves all listeners until they are stopped; the socket has connections of its own.
async fn serve_all(
    listeners: Vec<Listener>,
    router: Router,
    context: Context,
    stopped: watch::Receiver<bool>,
) {
    let (local, remote) =
        (Arc::new(Semaphore::new(MAX_CONNECTIONS)), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    let mut serving = JoinSet::new();
    // Browsers do not come by the socket: there the kernel says who asks, and a page would have all rights.
    let pages = pages::router(router.clone());
    for listener in listeners {
        let (room, router) = match listener {
            Listener::Unix(_) => (local.clone(), router.clone()),
            Listener::Tcp { .. } => (remote.clone(), pages.clone()),
        };
        serving.spawn(serve(listener, room, router, stopped.clone()));
    }
    serving.spawn(jobs::watch(context, stopped));
    while serving.join_next().await.is_some() {}
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

    /// Where it listens over TCP, in the order of the configuration, with the port that was given by the kernel where that says 0.
    pub fn http(&self) -> &[SocketAddr] {
        &self.http
    }

    /// Whether what is said over TCP is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Takes no more requests, lets those under way end, and removes the socket.
    pub fn stop(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        // First: whoever looks for the node from now on is told that it does not run.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("{} cannot be removed: {error}", self.path.display());
        }
        stop.send(true).ok();
        if thread.join().is_err() {
            tracing::error!("the thread of the control API panicked");
        }
    }
}

#[cfg(test)]
mod tests;
