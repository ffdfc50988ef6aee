//! What waits to be sent: everything of one turn goes out with one system call.

use std::collections::VecDeque;

use ring::{MAX_SEGMENTS, SendList};

/// Lists kept for later.
const SPARE: usize = 4;

/// Lists of a connection, in order; their memory is used again.
pub(super) struct SendQueue {
    current: Box<SendList>,
    full: VecDeque<Box<SendList>>,
    #[expect(clippy::vec_box, reason = "a send takes the box and gives it back")]
    spare: Vec<Box<SendList>>,
}

impl SendQueue {
    pub(super) fn new() -> SendQueue {
        SendQueue { current: SendList::new(), full: VecDeque::new(), spare: Vec::new() }
    }

    /// The list to append to, with room for `segments` pieces.
    pub(super) fn list(&mut self, segments: usize) -> &mut SendList {
        if self.current.segments() + segments > MAX_SEGMENTS {
            let next = self.spare.pop().unwrap_or_else(SendList::new);
            self.full.push_back(std::mem::replace(&mut self.current, next));
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
        let next = self.spare.pop().unwrap_or_else(SendList::new);
        Some(std::mem::replace(&mut self.current, next))
    }

    /// Gives a list back that was sent.
    pub(super) fn give(&mut self, mut list: Box<SendList>) {
        list.clear();
        if self.spare.len() < SPARE {
            self.spare.push(list);
        }
    }
}
