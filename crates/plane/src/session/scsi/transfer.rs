//! READ, WRITE, VERIFY, WRITE AND VERIFY, SYNCHRONIZE CACHE (SBC-4 sections 5.18 ff.).

use ring::{Buffer, Shared};
use wire::scsi::cdb::{ByteCheck, Transfer, Verify};
use wire::scsi::luns::Lun;
use wire::scsi::{Command, Sense};

use super::logical_unit::LogicalUnit;
use super::prepare::wrong_data_out;
use super::response::Response;
use super::unit::Nexus;
use crate::limits;
use crate::request::{Extent, Flags, Request};
use crate::transport::Received;

impl LogicalUnit {
    /// Makes everything acknowledged durable.
    pub(super) async fn flush(&self, command: &'static str, lba: u64) -> Result<(), Sense> {
        let completion = self.channel.submit(Request::flush()).await;
        completion.result.map_err(|error| self.failures.sense(&error, command, lba))
    }

    /// Fills `buffer` from the block.
    pub(super) async fn fill(
        &self,
        command: &'static str,
        lba: u64,
        buffer: Buffer,
    ) -> Result<Buffer, Sense> {
        let offset = lba * u64::from(self.block_size());
        let completion = self.channel.submit(Request::read(offset, buffer)).await;
        completion.result.map_err(|error| self.failures.sense(&error, command, lba))?;
        Ok(completion.buffer)
    }

    /// Writes `buffer` to the block and gives it back.
    pub(super) async fn put(
        &self,
        command: &'static str,
        lba: u64,
        buffer: Buffer,
        flags: Flags,
    ) -> Result<Buffer, Sense> {
        let offset = lba * u64::from(self.block_size());
        let completion = self.channel.submit(Request::write(offset, buffer).with(flags)).await;
        completion.result.map_err(|error| self.failures.sense(&error, command, lba))?;
        Ok(completion.buffer)
    }

    pub(super) async fn read(&self, transfer: Transfer) -> Result<Response, Sense> {
        if transfer.blocks == 0 {
            return Ok(Response::good());
        }
        if transfer.fua && self.geometry().write_cache {
            // SBC-4 section 4.15.3: what is newer in the cache goes to the medium before it is read from there.
            self.flush("READ", transfer.lba).await?;
        }
        let block_size = u64::from(self.block_size());
        let extent = Extent::new(transfer.lba * block_size, u64::from(transfer.blocks) * block_size);
        if let Some(data) = self.channel.lend(extent) {
            return Ok(Response::shared(data));
        }
        let buffer = Buffer::new(extent.length as usize);
        self.fill("READ", transfer.lba, buffer).await.map(Response::data)
    }

    /// Writes as many whole blocks as have arrived, at most those of the CDB.
    pub(super) async fn write(&self, transfer: Transfer, mut data_out: Buffer) -> Result<Response, Sense> {
        self.cut(&mut data_out, transfer.blocks)?;
        if data_out.is_empty() {
            return Ok(Response::good());
        }
        self.put("WRITE", transfer.lba, data_out, self.write_flags(transfer.fua)).await?;
        Ok(Response::good())
    }

    /// Whether [`LogicalUnit::at_once`] is worth a try.
    pub fn is_prompt(&self) -> bool {
        self.channel.is_prompt()
    }

    /// Carries out a READ, or a WRITE with all of its data, that waits for nothing and copies nothing, if the volume can.
    /// `read` answers with what was read, `written` while what was written is on its way. False: nothing was done, not even a
    /// unit attention told.
    pub fn at_once(
        &self,
        nexus: &Nexus,
        lun: Option<Lun>,
        cdb: &[u8],
        data: &Received<'_>,
        read: impl FnOnce(Shared),
        written: impl FnOnce(),
    ) -> bool {
        if lun != Some(Lun::ZERO) || nexus.has_attention() {
            return false;
        }
        // Looked at where it is: to move what was just stored in parts is to wait for what was written before.
        let decoded = Command::decode(cdb);
        let Ok(command @ (Command::Read(transfer) | Command::Write(transfer))) = &decoded else {
            return false;
        };
        if self.judge(command, cdb, data.len() as u32).is_err() {
            return false;
        }
        let block_size = u64::from(self.block_size());
        let extent = Extent::new(transfer.lba * block_size, u64::from(transfer.blocks) * block_size);
        match command {
            Command::Read(_) if data.is_empty() => {
                let Some(data) = self.channel.lend(extent) else { return false };
                read(data);
            }
            Command::Write(_) => {
                let Some(writing) = self.channel.absorb(extent, data.pieces()) else { return false };
                written();
                drop(writing);
            }
            _ => return false,
        }
        true
    }

    /// How many of `blocks` blocks have arrived. An initiator may announce less data than its CDB says; whole blocks
    /// of it are used, and part of a block is refused and nothing used (FCP-4 section 9.4.2 has both ways, and the
    /// initiators of the field know them).
    pub(super) fn arrived(&self, data_out: &[u8], blocks: u32) -> Result<usize, Sense> {
        let block_size = self.block_size() as usize;
        let wanted = blocks as usize * block_size;
        if data_out.len() < wanted && !data_out.len().is_multiple_of(block_size) {
            return Err(wrong_data_out());
        }
        Ok(data_out.len().min(wanted) / block_size)
    }

    fn cut(&self, data: &mut Buffer, blocks: u32) -> Result<(), Sense> {
        let arrived = self.arrived(data, blocks)?;
        data.set_len(arrived * self.block_size() as usize);
        Ok(())
    }

    /// Reads a range in chunks and hands each to `check` with its offset in the range, in bytes.
    async fn scan(
        &self,
        command: &'static str,
        lba: u64,
        bytes: u64,
        mut check: impl FnMut(u64, &[u8]) -> Result<(), Sense>,
    ) -> Result<(), Sense> {
        let block_size = u64::from(self.block_size());
        let mut buffer = Buffer::new(bytes.min(limits::FILL_BYTES as u64) as usize);
        let mut offset = 0;
        while offset < bytes {
            let length = (bytes - offset).min(limits::FILL_BYTES as u64);
            buffer.set_len(length as usize);
            buffer = self.fill(command, lba + offset / block_size, buffer).await?;
            check(offset, &buffer)?;
            offset += length;
        }
        Ok(())
    }

    pub(super) async fn verify(&self, verify: Verify, data_out: &[u8]) -> Result<Response, Sense> {
        let block_size = self.block_size() as usize;
        let bytes = u64::from(verify.blocks) * block_size as u64;
        if self.geometry().write_cache {
            // What is compared is the medium, so what is cached goes there first (SBC-4 section 5.36).
            self.flush("VERIFY", verify.lba).await?;
        }
        match verify.check {
            ByteCheck::Medium => self.scan("VERIFY", verify.lba, bytes, |_, _| Ok(())).await?,
            ByteCheck::Compare => self.compare("VERIFY", verify.lba, data_out, verify.blocks).await?,
            ByteCheck::CompareOne if verify.blocks == 0 => {}
            ByteCheck::CompareOne => {
                let pattern = data_out.get(..block_size).ok_or(Sense::parameter_list_length_error())?;
                let differs = |_, read: &[u8]| {
                    read.chunks(block_size)
                        .find_map(|block| first_difference(block, pattern))
                        .map_or(Ok(()), |at| Err(Sense::miscompare(at as u64)))
                };
                self.scan("VERIFY", verify.lba, bytes, differs).await?;
            }
        }
        Ok(Response::good())
    }

    /// Compares whole blocks of `expected`, at most `blocks`, with the medium.
    async fn compare(
        &self,
        command: &'static str,
        lba: u64,
        expected: &[u8],
        blocks: u32,
    ) -> Result<(), Sense> {
        let block_size = self.block_size() as usize;
        let bytes = self.arrived(expected, blocks)? * block_size;
        self.scan(command, lba, bytes as u64, |offset, read| {
            let start = offset as usize;
            let same = expected.get(start..start + read.len()).unwrap_or(&[]);
            match first_difference(read, same) {
                Some(at) => Err(Sense::miscompare(offset + at as u64)),
                None => Ok(()),
            }
        })
        .await
    }

    /// Writes onto the medium and reads back from it.
    pub(super) async fn write_and_verify(
        &self,
        verify: Verify,
        mut data_out: Buffer,
    ) -> Result<Response, Sense> {
        const COMMAND: &str = "WRITE AND VERIFY";
        self.cut(&mut data_out, verify.blocks)?;
        if data_out.is_empty() {
            return Ok(Response::good());
        }
        let data_out = self.put(COMMAND, verify.lba, data_out, self.write_flags(true)).await?;
        if verify.check == ByteCheck::Medium {
            self.scan(COMMAND, verify.lba, data_out.len() as u64, |_, _| Ok(())).await?;
        } else {
            self.compare(COMMAND, verify.lba, &data_out, verify.blocks).await?;
        }
        Ok(Response::good())
    }
}

/// The first byte in which both differ; where one ends before the other is a difference too.
pub(super) fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    if left == right {
        return None;
    }
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    Some(common)
}
