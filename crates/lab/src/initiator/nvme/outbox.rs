//! What waits to be sent: all PDUs of one turn go out with one system call.

use std::collections::VecDeque;

use ring::{MAX_SEGMENTS, SendList, Shared};
use wire::nvme::tcp::{DIGEST_LENGTH, Framing, MAX_HEADER_LENGTH, PduType, crc32c, header_digest};

/// Pieces that one PDU may take: header with padding, data, digest.
const SEGMENTS_OF_A_PDU: usize = 3;

pub(super) struct Outbox {
    framing: Framing,
    current: Box<SendList>,
    full: VecDeque<Box<SendList>>,
}

impl Outbox {
    pub(super) fn new(framing: Framing) -> Outbox {
        Outbox { framing, current: SendList::new(), full: VecDeque::new() }
    }

    /// Appends a PDU of this kind. `header` has its common header set already, with the length of `data`.
    pub(super) fn push(&mut self, kind: PduType, header: &[u8], data: Option<Shared>) {
        if self.current.segments() + SEGMENTS_OF_A_PDU > MAX_SEGMENTS {
            self.full.push_back(std::mem::replace(&mut self.current, SendList::new()));
        }
        let list = &mut self.current;
        list.push_bytes(header);
        let mut length = header.len();
        if self.framing.header_digest {
            list.push_bytes(&header_digest(header));
            length += DIGEST_LENGTH;
        }
        let Some(data) = data.filter(|data| !data.is_empty()) else { return };
        let padding = usize::from(self.framing.data_offset(kind)) - length;
        list.push_bytes(&[0; MAX_HEADER_LENGTH][..padding]);
        let digest = self.framing.data_digest.then(|| crc32c(&data).to_le_bytes());
        list.push(data);
        if let Some(digest) = digest {
            list.push_bytes(&digest);
        }
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
