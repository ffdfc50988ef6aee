//! What waits to be sent: all PDUs of one turn go out with one system call.

use ring::{SendList, Shared};
use wire::iscsi::Bhs;
use wire::iscsi::digest::{data_digest, header_digest};
use wire::iscsi::frame::{Framing, padding};

use crate::initiator::send_queue::SendQueue;

/// Pieces that one PDU may take: header, data, padding with digest.
const SEGMENTS_OF_A_PDU: usize = 3;

pub(super) struct Outbox {
    framing: Framing,
    queue: SendQueue,
}

impl Outbox {
    pub(super) fn new(framing: Framing) -> Outbox {
        Outbox { framing, queue: SendQueue::new() }
    }

    /// Appends a PDU. `bhs` has its data segment length set already.
    pub(super) fn push(&mut self, bhs: &Bhs, data: Option<Shared>) {
        let list = self.queue.list(SEGMENTS_OF_A_PDU);
        list.push_bytes(bhs);
        if self.framing.header_digest {
            list.push_bytes(&header_digest(bhs));
        }
        let Some(data) = data.filter(|data| !data.is_empty()) else { return };
        let length = data.len();
        let digest = self.framing.data_digest.then(|| data_digest(&data));
        list.push(data);
        list.push_bytes(&[0; 3][..padding(length)]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{Buffer, MAX_SEGMENTS};

    #[test]
    fn a_full_list_is_followed_by_another_in_order() {
        let mut outbox = Outbox::new(Framing::default());
        let data = Buffer::copy_of(&[7; 5]).share();
        for number in 0..1000u32 {
            let mut bhs = [0; 48];
            bhs[..4].copy_from_slice(&number.to_be_bytes());
            outbox.push(&bhs, Some(data.clone()));
        }
        let mut sent = Vec::new();
        while let Some(list) = outbox.take() {
            assert!(list.segments() <= MAX_SEGMENTS);
            list.pieces().for_each(|piece| sent.extend_from_slice(piece));
            list.give_back();
        }
        assert_eq!(sent.len(), 1000 * 56);
        for (number, pdu) in sent.chunks(56).enumerate() {
            assert_eq!(&pdu[..4], (number as u32).to_be_bytes());
            assert_eq!(&pdu[48..], [7, 7, 7, 7, 7, 0, 0, 0]);
        }
    }

    #[test]
    fn digests_stand_where_the_standard_wants_them() {
        let mut outbox = Outbox::new(Framing { header_digest: true, data_digest: true });
        outbox.push(&[1; 48], Some(Buffer::copy_of(&[2; 6]).share()));
        outbox.push(&[3; 48], None);
        let list = outbox.take().unwrap();
        let bytes: Vec<u8> = list.pieces().flatten().copied().collect();
        assert_eq!(bytes.len(), 48 + 4 + 8 + 4 + 48 + 4);
        assert_eq!(&bytes[48..52], header_digest(&[1; 48]));
        assert_eq!(&bytes[60..64], data_digest(&[2; 6]));
        assert_eq!(&bytes[112..], header_digest(&[3; 48]));
    }
}
