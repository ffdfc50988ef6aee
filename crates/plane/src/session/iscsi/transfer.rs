//! How the output data of one command arrives: immediate, unsolicited, then asked for by R2T. No I/O, no clock.
//! RFC 7143 sections 4.2.5.2, 11.7 and 11.8.

use wire::iscsi::DataOut;

/// A piece of data that does not fit where the transfer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransferError {
    /// Data nobody asked for.
    #[error("Data-Out that was neither announced nor asked for")]
    Unexpected,
    /// Not the next `DataSN`.
    #[error("Data-Out with DataSN {found} instead of {expected}")]
    DataSn {
        /// What came.
        found: u32,
        /// What was due.
        expected: u32,
    },
    /// Not where the last piece ended (`DataPDUInOrder` and `DataSequenceInOrder` are Yes).
    #[error("Data-Out at offset {found} instead of {expected}")]
    Offset {
        /// What came.
        found: u32,
        /// What was due.
        expected: u32,
    },
    /// More than the sequence may have.
    #[error("Data-Out beyond the end of its sequence")]
    TooLong,
    /// The F bit before the end of the sequence, or none at its end.
    #[error("a sequence of Data-Out that ends at {found} instead of {expected}")]
    Final {
        /// Where it ended.
        found: u32,
        /// Where it should have.
        expected: u32,
    },
}

/// The output data of one command; all numbers are bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// What came without a gap.
    received: u32,
    /// Where unsolicited data may reach at most; `None` once its last PDU has come.
    unsolicited: Option<u32>,
    /// What the command wants; set at delivery.
    wanted: u32,
    /// How far R2Ts have asked.
    requested: u32,
    /// The end of the sequence that is coming in now.
    sequence_end: u32,
    /// Its next `DataSN`.
    data_sn: u32,
    /// R2Ts sent.
    requests: u32,
    /// Sequences asked for that have come whole.
    answered: u32,
}

/// One R2T to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicit {
    /// `R2TSN`.
    pub number: u32,
    /// Buffer offset.
    pub offset: u32,
    /// Desired data transfer length.
    pub length: u32,
}

impl Transfer {
    /// `immediate` bytes came with the command; more comes unasked, up to `unsolicited` bytes in all, if that is
    /// given.
    pub fn new(immediate: u32, unsolicited: Option<u32>) -> Transfer {
        Transfer {
            received: immediate,
            unsolicited,
            wanted: 0,
            requested: 0,
            sequence_end: 0,
            data_sn: 0,
            requests: 0,
            answered: 0,
        }
    }

    /// What came without a gap.
    pub fn received(&self) -> u32 {
        self.received
    }

    /// R2Ts sent.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// What the command wants is known.
    pub fn want(&mut self, wanted: u32) {
        self.wanted = wanted;
    }

    /// Unsolicited data is still to come.
    pub fn awaits_unsolicited(&self) -> bool {
        self.unsolicited.is_some()
    }

    /// The initiator has data to send, announced or asked for.
    pub fn is_owed(&self) -> bool {
        self.unsolicited.is_some() || self.requests > self.answered
    }

    /// Everything wanted is there.
    pub fn is_complete(&self) -> bool {
        self.unsolicited.is_none() && self.received >= self.wanted
    }

    /// The next R2T, with at most `outstanding` under way and `burst` bytes each.
    pub fn solicit(&mut self, burst: u32, outstanding: u32) -> Option<Solicit> {
        let offset = self.requested.max(self.received);
        if self.unsolicited.is_some() || offset >= self.wanted || self.requests - self.answered >= outstanding
        {
            return None;
        }
        let length = (self.wanted - offset).min(burst);
        if self.requests == self.answered {
            self.sequence_end = offset + length;
            self.data_sn = 0;
        }
        self.requested = offset + length;
        self.requests += 1;
        Some(Solicit { number: self.requests - 1, offset, length })
    }

    /// Checks a Data-Out of `length` bytes; `request` is the R2T it answers, `None` for unsolicited data. The
    /// bytes belong at [`Transfer::received`]; after this call that has moved on.
    pub fn accept(
        &mut self,
        pdu: &DataOut,
        length: u32,
        request: Option<u32>,
        burst: u32,
    ) -> Result<(), TransferError> {
        let limit = match request {
            None => self.unsolicited.ok_or(TransferError::Unexpected)?,
            Some(number) if number == self.answered && self.answered < self.requests => self.sequence_end,
            Some(_) => return Err(TransferError::Unexpected),
        };
        if pdu.data_sn.0 != self.data_sn {
            return Err(TransferError::DataSn { found: pdu.data_sn.0, expected: self.data_sn });
        }
        if pdu.buffer_offset != self.received {
            return Err(TransferError::Offset { found: pdu.buffer_offset, expected: self.received });
        }
        let end =
            self.received.checked_add(length).filter(|end| *end <= limit).ok_or(TransferError::TooLong)?;
        // Unsolicited data may end early; a sequence that was asked for comes whole.
        if request.is_some() && pdu.is_final.0 != (end == limit) {
            return Err(TransferError::Final { found: end, expected: limit });
        }
        self.received = end;
        self.data_sn = self.data_sn.wrapping_add(1);
        if pdu.is_final.0 {
            self.data_sn = 0;
            if request.is_some() {
                self.answered += 1;
                self.sequence_end = self.requested.min(end.saturating_add(burst));
            } else {
                self.unsolicited = None;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::iscsi::{Final, SerialNumber};

    fn pdu(data_sn: u32, offset: u32, is_final: bool) -> DataOut {
        DataOut {
            data_sn: SerialNumber(data_sn),
            buffer_offset: offset,
            is_final: Final(is_final),
            ..DataOut::default()
        }
    }

    #[test]
    fn immediate_data_may_be_all() {
        let mut transfer = Transfer::new(4096, None);
        transfer.want(4096);
        assert!(transfer.is_complete());
        assert_eq!(transfer.solicit(65536, 1), None);
    }

    #[test]
    fn unsolicited_data_comes_before_anything_is_asked_for() {
        let mut transfer = Transfer::new(1000, Some(3000));
        transfer.want(10_000);
        assert_eq!(transfer.solicit(4000, 2), None);
        transfer.accept(&pdu(0, 1000, false), 1000, None, 4000).unwrap();
        transfer.accept(&pdu(1, 2000, true), 1000, None, 4000).unwrap();
        assert_eq!(transfer.solicit(4000, 2), Some(Solicit { number: 0, offset: 3000, length: 4000 }));
        assert_eq!(transfer.solicit(4000, 2), Some(Solicit { number: 1, offset: 7000, length: 3000 }));
        transfer.accept(&pdu(0, 3000, true), 4000, Some(0), 4000).unwrap();
        transfer.accept(&pdu(0, 7000, false), 2000, Some(1), 4000).unwrap();
        assert!(!transfer.is_complete());
        transfer.accept(&pdu(1, 9000, true), 1000, Some(1), 4000).unwrap();
        assert!(transfer.is_complete());
        assert_eq!(transfer.requests(), 2);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut fresh = Transfer::new(0, None);
        fresh.want(8000);
        fresh.solicit(4000, 1);
        for (request, data_sn, offset, is_final, length, error) in [
            (None, 0, 0, true, 10, TransferError::Unexpected),
            (Some(1), 0, 0, true, 10, TransferError::Unexpected),
            (Some(0), 1, 0, false, 10, TransferError::DataSn { found: 1, expected: 0 }),
            (Some(0), 0, 512, false, 10, TransferError::Offset { found: 512, expected: 0 }),
            (Some(0), 0, 0, true, 4001, TransferError::TooLong),
            (Some(0), 0, 0, true, 3000, TransferError::Final { found: 3000, expected: 4000 }),
            (Some(0), 0, 0, false, 4000, TransferError::Final { found: 4000, expected: 4000 }),
        ] {
            let mut transfer = fresh;
            assert_eq!(transfer.accept(&pdu(data_sn, offset, is_final), length, request, 4000), Err(error));
            assert_eq!(transfer, fresh);
        }
    }

    proptest! {
        #[test]
        fn every_transfer_asks_for_everything_once(
            wanted in 1u32..100_000, immediate in 0u32..100_000, burst in 512u32..20_000, outstanding in 1u32..8,
            piece in 100u32..9000,
        ) {
            let mut transfer = Transfer::new(immediate.min(wanted), None);
            transfer.want(wanted);
            let mut due = std::collections::VecDeque::new();
            let mut rounds = 0;
            while !transfer.is_complete() {
                rounds += 1;
                prop_assert!(rounds < 10_000);
                while let Some(request) = transfer.solicit(burst, outstanding) {
                    due.push_back(request);
                }
                let Solicit { number, offset, length } = due.pop_front().expect("it asks while it is not complete");
                let (mut at, mut sn) = (0, 0);
                while at < length {
                    let count = piece.min(length - at);
                    let part = pdu(sn, offset + at, at + count == length);
                    prop_assert_eq!(transfer.received(), offset + at);
                    prop_assert_eq!(transfer.accept(&part, count, Some(number), burst), Ok(()));
                    at += count;
                    sn += 1;
                }
            }
            prop_assert_eq!(transfer.received(), wanted);
            prop_assert!(due.is_empty());
        }

        #[test]
        fn no_order_of_pieces_goes_beyond_what_is_wanted(
            wanted in 0u32..10_000, pieces in prop::collection::vec((any::<u32>(), 0u32..20_000, any::<bool>(), prop::option::of(0u32..3), 0u32..5000), 0..20),
        ) {
            let mut transfer = Transfer::new(0, Some(wanted.min(3000)));
            transfer.want(wanted);
            for (sn, offset, is_final, request, length) in pieces {
                transfer.solicit(1000, 2);
                let _ = transfer.accept(&pdu(sn % 3, offset, is_final), length, request, 1000);
                prop_assert!(transfer.received() <= wanted.max(3000));
            }
        }
    }
}
