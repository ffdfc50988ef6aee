//! What a core has asked of its kernel, and how it has waited.

use std::time::Duration;

/// Counted since the ring was made. Of a simulated ring all is zero but the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Operations that were handed to the kernel.
    pub submissions: u64,
    /// What the kernel has said of them: of most that they have ended.
    pub completions: u64,
    /// Calls of `io_uring_enter`.
    pub enters: u64,
    /// Those of them in which the core may have slept.
    pub sleeps: u64,
    /// Bytes received, sent, read and written, as far as their operations have ended (and the numbers of accepted descriptors).
    pub moved: u64,
    /// Receives that brought something, and sends, by system calls of their own: those of a connection that is alone.
    pub direct: u64,
    /// Times that it broke step with a peer that works in turn with it ([`crate::Ring::break_step`]).
    pub steps_broken: u64,
    /// Time in which the core looked for something to do, and found it before it slept.
    pub looked: Duration,
    /// Time in which it looked, and slept all the same.
    pub looked_in_vain: Duration,
}

impl Activity {
    /// A look of this length has ended; `found`: with no sleep after it.
    pub(crate) fn count_look(&mut self, span: Duration, found: bool) {
        *if found { &mut self.looked } else { &mut self.looked_in_vain } += span;
    }
}
