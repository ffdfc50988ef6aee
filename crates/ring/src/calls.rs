//! Calls of the kernel that are made for each request where a core has one peer to ask, and not through the C library's own: in a
//! process with threads these are points at which a thread can be cancelled, which takes an instruction that locks before and one
//! behind each of them. Nobody cancels ours. As there, what fails is -1, and `errno` says why.

use std::os::fd::RawFd;

use libc::{c_int, c_long, msghdr, syscall};

/// Nobody asks for the peer's address, or gives one.
const NO_ADDRESS: (usize, usize) = (0, 0);

/// `recv`.
///
/// # Safety
///
/// `length` bytes from `into` on can be written.
#[inline]
pub(crate) unsafe fn recv(socket: RawFd, into: *mut u8, length: usize, flags: c_int) -> c_long {
    let (address, size) = NO_ADDRESS;
    // SAFETY: as the caller says.
    unsafe { syscall(libc::SYS_recvfrom, socket, into, length, flags, address, size) }
}

/// `send`.
#[inline]
pub(crate) fn send(socket: RawFd, bytes: &[u8], flags: c_int) -> c_long {
    let (address, size) = NO_ADDRESS;
    // SAFETY: so many bytes can be read.
    unsafe { syscall(libc::SYS_sendto, socket, bytes.as_ptr(), bytes.len(), flags, address, size) }
}

/// `sendmsg`.
///
/// # Safety
///
/// The message can be read, and all that it refers to.
#[inline]
pub(crate) unsafe fn sendmsg(socket: RawFd, message: *const msghdr, flags: c_int) -> c_long {
    // SAFETY: as the caller says.
    unsafe { syscall(libc::SYS_sendmsg, socket, message, flags) }
}
