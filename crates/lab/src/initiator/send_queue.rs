//! What waits to be sent: everything of one turn goes out with one system call.

use std::collections::VecDeque;

use ring::{MAX_SEGMENTS, SendList};

/// Lists of a connection, in order.
pub(super) struct SendQueue {
    current: Box<SendList>,
    full: VecDeque<Box<SendList>>,
}

impl SendQueue {
    pub(super) fn new() -> SendQueue {
        SendQueue { current: SendList::new(), full: VecDeque::new() }
    }

    /// The list to append to, with room for `segments` pieces.
    pub(super) fn list(&mut self, segments: usize) -> &mut SendList {
        if self.current.segments() + segments > MAX_SEGMENTS {
            self.full.push_back(std::mem::replace(&mut self.current, SendList::new()));
        }
        &mut self.current
    }

    /// The next list to send.
    pub(super) fn take(&mut self) -> Option<Box<SendList>> {
        if let Some(list) = self.full.pop_front() {
            return Some(list);
        }
        if self.current.is_empty() {
            return None;
        }
        Some(std::mem::replace(&mut self.current, SendList::new()))
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty() && self.full.is_empty()
    }
}
