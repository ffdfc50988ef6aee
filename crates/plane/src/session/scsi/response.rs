//! What a command ends with.

use ring::{Buffer, Shared};
use wire::scsi::sense::SenseBytes;
use wire::scsi::{Sense, SenseFormat, Status};

/// Status, sense data and data-in of one command.
#[derive(Debug)]
pub struct Response {
    /// SAM-5 status.
    pub status: Status,
    /// Sense data, with CHECK CONDITION.
    pub sense: Option<Sense>,
    /// The format that the sense data goes out in.
    pub sense_format: SenseFormat,
    /// Data for the initiator, already cut at the allocation length of the CDB. The transport cuts it once more
    /// at what the initiator expects, and the difference is the residual.
    pub data_in: Shared,
}

impl Response {
    /// GOOD without data.
    pub fn good() -> Self {
        Self { status: Status::Good, sense: None, sense_format: SenseFormat::Fixed, data_in: Shared::empty() }
    }

    /// GOOD with data.
    pub fn data(data_in: Buffer) -> Self {
        Self::shared(data_in.share())
    }

    /// GOOD with data that others may use too.
    pub fn shared(data_in: Shared) -> Self {
        Self { data_in, ..Self::good() }
    }

    /// GOOD with a copy of `bytes`, cut at `allocation_length`.
    pub(super) fn bytes(bytes: &[u8], allocation_length: u32) -> Self {
        let length = bytes.len().min(allocation_length as usize);
        Self::data(Buffer::copy_of(bytes.get(..length).unwrap_or(&[])))
    }

    /// BUSY: the initiator is to send the command again.
    pub fn busy() -> Self {
        Self { status: Status::Busy, ..Self::good() }
    }

    /// CHECK CONDITION.
    pub fn check_condition(sense: Sense, sense_format: SenseFormat) -> Self {
        Self { status: Status::CheckCondition, sense: Some(sense), sense_format, data_in: Shared::empty() }
    }

    /// The sense data as bytes.
    pub fn sense_bytes(&self) -> Option<SenseBytes> {
        self.sense.map(|sense| sense.encode(self.sense_format))
    }
}
