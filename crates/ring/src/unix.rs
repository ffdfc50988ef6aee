//! Unix sockets of the kernel.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use crate::address::encode_unix;
use crate::handle::own;
use crate::uring::checked;

/// A socket that is neither bound nor connected.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    socket_with(0)
}

fn socket_with(flags: i32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: no pointers.
    let socket = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    Ok(own(socket))
}

/// Listens at `path` for its owner alone. A socket file that nobody listens on any more is replaced.
pub(crate) fn listen(path: &Path, backlog: i32) -> io::Result<RawFd> {
    let socket = socket()?;
    match bind(&socket, path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !is_left_behind(path) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            bind(&socket, path)?;
        }
        bound => bound?,
    }
    // Nobody can connect before `listen`, so nobody can who will not be allowed to.
    let guarded = std::fs::set_permissions(path, Permissions::from_mode(0o600)).and_then(|()| {
        // SAFETY: no pointers.
        checked(unsafe { libc::listen(socket.as_raw_fd(), backlog) })
    });
    if let Err(error) = guarded {
        std::fs::remove_file(path).ok();
        return Err(error);
    }
    Ok(socket.into_raw_fd())
}

fn bind(socket: &OwnedFd, path: &Path) -> io::Result<()> {
    // SAFETY: zeroes are a valid `sockaddr_storage`.
    let mut address = unsafe { std::mem::zeroed() };
    let length = encode_unix(path, &mut address)?;
    // SAFETY: `address` is readable for `length` bytes.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

/// Whether there is a socket file without anybody behind it.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    is_socket
        && matches!(try_to_connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Connects without waiting: who listens and has no room for one more connection would let us wait for as long as he likes.
fn try_to_connect(path: &Path) -> io::Result<()> {
    let socket = socket_with(libc::SOCK_NONBLOCK)?;
    // SAFETY: zeroes are a valid `sockaddr_storage`.
    let mut address = unsafe { std::mem::zeroed() };
    let length = encode_unix(path, &mut address)?;
    // SAFETY: `address` is readable for `length` bytes.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

/// The process that connected.
pub(crate) fn peer_process(descriptor: RawFd) -> io::Result<u32> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `credentials` is writable for `length` bytes.
    checked(unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    })?;
    Ok(credentials.pid.cast_unsigned())
}
