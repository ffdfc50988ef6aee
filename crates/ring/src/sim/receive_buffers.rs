//! The receive buffers of a simulated reactor: as few as the kernel is given, so that who keeps them is found out.

use std::cell::Cell;
use std::rc::Rc;

/// Of so many buffers one may be held by who waits for more bytes, as of the kernel's.
const HELD_LONGER: usize = 4;

/// How many there are, and how many have bytes that nobody has let go of.
pub(super) struct ReceiveBuffers {
    count: usize,
    /// Bytes that one takes.
    pub(super) size: usize,
    held: Rc<Cell<usize>>,
}

impl ReceiveBuffers {
    pub(super) fn new(count: u16, size: usize) -> ReceiveBuffers {
        ReceiveBuffers { count: count.into(), size, held: Rc::default() }
    }

    /// Whether nothing can be received but straight to where it is wanted.
    pub(super) fn are_all_held(&self) -> bool {
        self.held.get() >= self.count
    }

    /// Whether so few are held that some can be for longer.
    pub(super) fn are_plenty(&self) -> bool {
        self.held.get() * HELD_LONGER < self.count
    }

    /// Takes one.
    pub(super) fn take(&self) -> Hold {
        self.held.set(self.held.get() + 1);
        Hold(self.held.clone())
    }
}

/// One receive buffer, which others have again when this is dropped.
pub(crate) struct Hold(Rc<Cell<usize>>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
