//! Error values of replies (section "Error values").

use std::fmt;

/// An error value. Others than those named here are to be taken for [`Errno::EINVAL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Errno(pub u32);

impl Errno {
    /// No error.
    pub const OK: Errno = Errno(0);
    /// Operation not permitted.
    pub const EPERM: Errno = Errno(1);
    /// Input/output error.
    pub const EIO: Errno = Errno(5);
    /// Cannot allocate memory.
    pub const ENOMEM: Errno = Errno(12);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// No space left on device.
    pub const ENOSPC: Errno = Errno(28);
    /// Value too large.
    pub const EOVERFLOW: Errno = Errno(75);
    /// Operation not supported.
    pub const ENOTSUP: Errno = Errno(95);
    /// Server is in the process of being shut down.
    pub const ESHUTDOWN: Errno = Errno(108);
}

impl fmt::Display for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Errno::OK => "no error",
            Errno::EPERM => "EPERM",
            Errno::EIO => "EIO",
            Errno::ENOMEM => "ENOMEM",
            Errno::EINVAL => "EINVAL",
            Errno::ENOSPC => "ENOSPC",
            Errno::EOVERFLOW => "EOVERFLOW",
            Errno::ENOTSUP => "ENOTSUP",
            Errno::ESHUTDOWN => "ESHUTDOWN",
            Errno(other) => return write!(formatter, "error {other}"),
        };
        formatter.write_str(name)
    }
}
