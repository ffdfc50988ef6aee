//! What the service manager is told (sd_notify): datagrams to the socket that it names, nothing without one.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Who asked to be told.
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// It takes the node for hung when it has not heard of it for so long.
    pub watchdog: Option<Duration>,
}

impl Manager {
    /// The one that started this process, if it wants to be told.
    pub fn of_this_process() -> Option<Manager> {
        let name = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())?;
        let told = open(&name).map(|(socket, address)| Manager { socket, address, watchdog: watchdog() });
        told.map_err(|error| tracing::warn!("the service manager cannot be told anything: {error}")).ok()
    }

    /// Tells it: lines of `NAME=value`.
    pub fn tell(&self, what: &str) {
        if let Err(error) = self.socket.send_to_addr(what.as_bytes(), &self.address) {
            tracing::debug!("the service manager was not told {what:?}: {error}");
        }
    }
}

/// A socket that never waits, and where it sends to: a path, or a name without a file (`@`).
fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// How long it waits for a sign of life, where it does and where this process is meant.
fn watchdog() -> Option<Duration> {
    let pid = env::var("WATCHDOG_PID").ok();
    let is_meant = pid.is_none_or(|pid| pid == std::process::id().to_string());
    let microseconds = env::var("WATCHDOG_USEC").ok().filter(|_| is_meant)?.parse().ok()?;
    Some(Duration::from_micros(microseconds)).filter(|time| !time.is_zero())
}
