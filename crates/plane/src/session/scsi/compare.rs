//! COMPARE AND WRITE and ORWRITE (SBC-4 sections 5.3 and 5.14): read, decide, write, while nobody else on any core
//! touches the blocks.

use ring::Buffer;
use wire::scsi::Sense;
use wire::scsi::cdb::Transfer;

use super::logical_unit::LogicalUnit;
use super::prepare::wrong_data_out;
use super::response::Response;
use super::transfer::first_difference;
use crate::request::{Completion, Extent, Request};

impl LogicalUnit {
    fn extent(&self, lba: u64, bytes: usize) -> Extent {
        Extent::new(lba * u64::from(self.block_size()), bytes as u64)
    }

    fn done(&self, completion: Completion, command: &'static str, lba: u64) -> Result<Buffer, Sense> {
        completion.result.map_err(|error| self.failures.sense(&error, command, lba))?;
        Ok(completion.buffer)
    }

    /// The first half of the data is what has to be there, the second what is to be there then. A difference ends
    /// with MISCOMPARE and the offset of the first differing byte in INFORMATION.
    pub(super) async fn compare_and_write(
        &self,
        transfer: Transfer,
        data_out: &[u8],
    ) -> Result<Response, Sense> {
        const COMMAND: &str = "COMPARE AND WRITE";
        if transfer.blocks == 0 {
            return Ok(Response::good());
        }
        let bytes = (transfer.blocks * self.block_size()) as usize;
        let (expected, wanted) = data_out
            .split_at_checked(bytes)
            .filter(|(_, wanted)| wanted.len() == bytes)
            .ok_or(wrong_data_out())?;
        let extent = self.extent(transfer.lba, bytes);
        let held = self.channel.exclusive(&self.shard, extent).await;
        let read = held.submit(Request::read(extent.offset, Buffer::new(bytes))).await;
        let mut buffer = self.done(read, COMMAND, transfer.lba)?;
        if let Some(offset) = first_difference(&buffer, expected) {
            return Err(Sense::miscompare(offset as u64));
        }
        buffer.copy_from_slice(wanted);
        let write = Request::write(extent.offset, buffer).with(self.write_flags(transfer.fua));
        self.done(held.submit(write).await, COMMAND, transfer.lba)?;
        Ok(Response::good())
    }

    /// Sets the bits of the data in the blocks, as many whole ones as have arrived.
    pub(super) async fn or_write(&self, transfer: Transfer, data_out: &[u8]) -> Result<Response, Sense> {
        const COMMAND: &str = "ORWRITE";
        let block_size = self.block_size() as usize;
        let bytes = self.arrived(data_out, transfer.blocks)? * block_size;
        if bytes == 0 {
            return Ok(Response::good());
        }
        let extent = self.extent(transfer.lba, bytes);
        let held = self.channel.exclusive(&self.shard, extent).await;
        let read = held.submit(Request::read(extent.offset, Buffer::new(bytes))).await;
        let mut buffer = self.done(read, COMMAND, transfer.lba)?;
        for (byte, bits) in buffer.iter_mut().zip(data_out) {
            *byte |= bits;
        }
        let write = Request::write(extent.offset, buffer).with(self.write_flags(transfer.fua));
        self.done(held.submit(write).await, COMMAND, transfer.lba)?;
        Ok(Response::good())
    }
}
