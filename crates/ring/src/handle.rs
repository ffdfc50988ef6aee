//! A descriptor that closes when its last user is gone: the caller's handle or the last operation in flight.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::ring::Ring;

/// A file or socket of one ring, real or simulated.
pub(crate) struct Handle {
    pub(crate) descriptor: RawFd,
    /// Gone when the descriptor was given away.
    ring: Option<Ring>,
}

impl Handle {
    pub(crate) fn new(ring: Ring, descriptor: RawFd) -> Handle {
        Handle { descriptor, ring: Some(ring) }
    }

    pub(crate) fn ring(&self) -> &Ring {
        self.ring.as_ref().expect("a handle in use has its ring")
    }

    /// The descriptor, not closed.
    pub(crate) fn into_descriptor(mut self) -> RawFd {
        self.ring = None;
        self.descriptor
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.close(self.descriptor);
        }
    }
}

/// Takes ownership of a descriptor that the kernel just gave.
pub(crate) fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: callers pass an open descriptor of which they are the owner, or lend it without dropping the result.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
