//! What waits to be sent: all PDUs of one turn go out with one system call.

use ring::{SendList, Shared};
use wire::nvme::tcp::{DIGEST_LENGTH, Framing, MAX_HEADER_LENGTH, PduType, crc32c, header_digest};

use crate::initiator::send_queue::SendQueue;

/// Pieces that one PDU may take: header with padding, data, digest.
const SEGMENTS_OF_A_PDU: usize = 3;

pub(super) struct Outbox {
    framing: Framing,
    queue: SendQueue,
}

impl Outbox {
    pub(super) fn new(framing: Framing) -> Outbox {
        Outbox { framing, queue: SendQueue::new() }
    }

    /// Appends a PDU of this kind. `header` has its common header set already, with the length of `data`.
    pub(super) fn push(&mut self, kind: PduType, header: &[u8], data: Option<Shared>) {
        let list = self.queue.list(SEGMENTS_OF_A_PDU);
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
        self.queue.take()
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
