//! Socket addresses as the kernel wants them, and who is at the other end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Peer {
    /// Somebody on the network.
    Inet(SocketAddr),
    /// A process of this machine, by a unix socket.
    Unix {
        /// Its process id when it connected.
        process: u32,
    },
}

impl Peer {
    /// The address, where there is one.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Peer::Inet(address) => Some(address),
            Peer::Unix { .. } => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Inet(address) => address.fmt(formatter),
            Peer::Unix { process } => write!(formatter, "process {process}"),
        }
    }
}

/// Writes the path of a unix socket into `storage` and gives the length in use.
pub(crate) fn encode_unix(path: &Path, storage: &mut libc::sockaddr_storage) -> io::Result<u32> {
    let bytes = path.as_os_str().as_bytes();
    let mut encoded =
        libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    // One byte stays zero behind it; one in front would be a name that is no file.
    if bytes.is_empty() || bytes.len() >= encoded.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path of a unix socket has 1 to 107 bytes, none of them zero",
        ));
    }
    for (into, byte) in encoded.sun_path.iter_mut().zip(bytes) {
        *into = byte.cast_signed();
    }
    // SAFETY: `sockaddr_storage` is large enough and aligned for every address family.
    unsafe { std::ptr::from_mut(storage).cast::<libc::sockaddr_un>().write(encoded) };
    Ok(size_of::<libc::sockaddr_un>() as u32)
}

/// Writes `address` into `storage` and gives the length in use.
pub(crate) fn encode(address: SocketAddr, storage: &mut libc::sockaddr_storage) -> libc::socklen_t {
    let target = std::ptr::from_mut(storage);
    match address {
        SocketAddr::V4(v4) => {
            let encoded = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: `sockaddr_storage` is large enough and aligned for every address family.
            unsafe { target.cast::<libc::sockaddr_in>().write(encoded) };
            size_of::<libc::sockaddr_in>() as libc::socklen_t
        }
        SocketAddr::V6(v6) => {
            let encoded = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { target.cast::<libc::sockaddr_in6>().write(encoded) };
            size_of::<libc::sockaddr_in6>() as libc::socklen_t
        }
    }
}
