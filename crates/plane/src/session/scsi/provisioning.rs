//! WRITE SAME, UNMAP, GET LBA STATUS (SBC-4 sections 4.7, 5.7, 5.32, 5.50).

use ring::Buffer;
use wire::scsi::cdb::WriteSame;
use wire::scsi::lba_status::{self, LbaStatus, Provisioning};
use wire::scsi::unmap::UnmapList;
use wire::scsi::{FieldPointer, Sense};

use super::logical_unit::LogicalUnit;
use super::prepare::wrong_data_out;
use super::response::Response;
use crate::limits;
use crate::request::{Extent, Flags, Request, Verb};

impl LogicalUnit {
    fn blocks_extent(&self, lba: u64, blocks: u64) -> Extent {
        let block_size = u64::from(self.block_size());
        Extent::new(lba * block_size, blocks * block_size)
    }

    /// One block all over a range. Zeros are made by the volume itself, and may give space back if the command says
    /// so; any other block is written out.
    pub(super) async fn write_same(&self, same: WriteSame, data_out: &[u8]) -> Result<Response, Sense> {
        const COMMAND: &str = "WRITE SAME";
        let block_size = self.block_size() as usize;
        let pattern = if same.ndob { None } else { data_out.get(..block_size) };
        if pattern.is_none() && !same.ndob {
            return Err(wrong_data_out());
        }
        let pattern = pattern.filter(|pattern| pattern.iter().any(|byte| *byte != 0));
        let Some(pattern) = pattern else {
            let extent = self.blocks_extent(same.lba, u64::from(same.blocks));
            let unmap = if same.unmap { Flags::MAY_UNMAP } else { Flags::empty() };
            let request = Request::plain(Verb::WriteZeroes, extent).with(self.write_flags(false) | unmap);
            let completion = self.channel.submit(request).await;
            completion.result.map_err(|error| self.failures.sense(&error, COMMAND, same.lba))?;
            return Ok(Response::good());
        };
        let mut left = same.blocks as usize * block_size;
        let mut lba = same.lba;
        let mut buffer = Buffer::new(left.min(limits::FILL_BYTES));
        for block in buffer.chunks_exact_mut(block_size) {
            block.copy_from_slice(pattern);
        }
        while left > 0 {
            let length = left.min(limits::FILL_BYTES);
            buffer.set_len(length);
            buffer = self.put(COMMAND, lba, buffer, self.write_flags(false)).await?;
            left -= length;
            lba += (length / block_size) as u64;
        }
        Ok(Response::good())
    }

    /// Every descriptor is checked before the first is carried out.
    pub(super) async fn unmap(&self, list: &[u8]) -> Result<Response, Sense> {
        const COMMAND: &str = "UNMAP";
        let list = UnmapList::decode(list, limits::UNMAP_DESCRIPTORS)?;
        let mut total: u64 = 0;
        for descriptor in list.iter() {
            self.check_range(descriptor.lba, u64::from(descriptor.blocks))?;
            total += u64::from(descriptor.blocks);
        }
        if total > u64::from(limits::UNMAP_BLOCKS) {
            return Err(Sense::invalid_field(FieldPointer::parameter(16)));
        }
        for descriptor in list.iter().filter(|descriptor| descriptor.blocks > 0) {
            let extent = self.blocks_extent(descriptor.lba, u64::from(descriptor.blocks));
            let completion = self.channel.submit(Request::plain(Verb::Discard, extent)).await;
            completion.result.map_err(|error| self.failures.sense(&error, COMMAND, descriptor.lba))?;
        }
        if total > 0 && !self.write_flags(false).is_empty() {
            // The write cache is switched off: what is acknowledged is durable, for this too.
            self.flush(COMMAND, 0).await?;
        }
        Ok(Response::good())
    }

    /// Runs of blocks with and without space from `lba` on; at least one, no more than fit into the answer.
    pub(super) fn lba_status(&self, lba: u64, allocation_length: u32) -> Result<Response, Sense> {
        let block_size = u64::from(self.block_size());
        let room = (allocation_length as usize).saturating_sub(lba_status::HEADER_LENGTH)
            / lba_status::DESCRIPTOR_LENGTH;
        let most = room.clamp(1, limits::LBA_STATUS_RUNS);
        let mut runs = [None; limits::LBA_STATUS_RUNS];
        let (mut at, mut looked) = (lba, 0);
        for slot in runs.iter_mut().take(most) {
            let left = limits::LBA_STATUS_BYTES.saturating_sub(looked) / block_size;
            let blocks = self.geometry().blocks.saturating_sub(at).min(left);
            if blocks == 0 {
                break;
            }
            let run = self
                .channel
                .allocation(self.blocks_extent(at, blocks))
                .map_err(|error| self.failures.sense(&error, "GET LBA STATUS", at))?;
            // Space is given in units that may be smaller than a block. A block with space for part of it is mapped: one that is
            // deallocated has no data, which initiators rely on (SBC-4 section 4.7).
            let whole = run.length / block_size;
            let (length, provisioning) = if run.mapped || whole == 0 {
                (run.length.div_ceil(block_size), Provisioning::Mapped)
            } else {
                (whole, Provisioning::Deallocated)
            };
            let blocks = length.clamp(1, blocks);
            *slot = Some(LbaStatus { lba: at, blocks: blocks as u32, provisioning });
            at += blocks;
            looked += blocks * block_size;
        }
        let mut bytes = Vec::with_capacity(lba_status::HEADER_LENGTH + most * lba_status::DESCRIPTOR_LENGTH);
        let runs: Vec<LbaStatus> = runs.into_iter().flatten().collect();
        lba_status::encode(&runs, &mut bytes);
        Ok(Response::bytes(&bytes, allocation_length))
    }
}
