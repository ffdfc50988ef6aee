//! Socket addresses as the kernel wants them.

use std::net::SocketAddr;

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
