//! What the volume knows of its holes: block status, and reads that leave zeroes out.

use ring::Buffer;
use wire::nbd::{ChunkHeader, ChunkType, CommandFlags, Request as WireRequest, StateFlags, StatusExtent};

use super::execute::Transmission;
use super::handshake::BASE_ALLOCATION_ID;
use crate::error::Error;
use crate::limits::{NBD_READ_CHUNKS, NBD_STATUS_BYTES, NBD_STATUS_RUNS};
use crate::request::{Extent, Run, Verb};

impl Transmission {
    /// The run at the start of `extent`, in whole blocks. A block that is a hole in part is none.
    fn run(&self, extent: Extent) -> Result<Run, Error> {
        let block_size = u64::from(self.channel.geometry().block_size);
        let run = self.channel.allocation(extent)?;
        let below = run.length - run.length % block_size;
        if !run.mapped && below > 0 {
            return Ok(Run { length: below.min(extent.length), mapped: false });
        }
        let length = run.length.next_multiple_of(block_size).clamp(block_size, extent.length);
        Ok(Run { length, mapped: true })
    }

    /// `NBD_CMD_BLOCK_STATUS`: runs from the offset on, at least one; not always as far as was asked.
    pub(super) fn block_status(&self, request: &WireRequest) {
        match self.status_runs(request) {
            Ok(payload) => {
                let kind = ChunkType::BLOCK_STATUS;
                let header =
                    ChunkHeader { done: true, kind, cookie: request.cookie, length: payload.len() as u32 };
                self.connection.send_chunk(header.encode(), payload);
            }
            Err(error) => self.fail(request, &error),
        }
    }

    fn status_runs(&self, request: &WireRequest) -> Result<Buffer, Error> {
        let most = if request.flags.contains(CommandFlags::REQ_ONE) { 1 } else { NBD_STATUS_RUNS };
        let mut payload = Buffer::new(4 + NBD_STATUS_RUNS * StatusExtent::LENGTH);
        payload[..4].copy_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        let length = u64::from(request.length).min(NBD_STATUS_BYTES);
        let (mut at, end) = (request.offset, request.offset + length);
        let (mut runs, mut last) = (0, None::<StatusExtent>);
        while at < end {
            let run = self.run(Extent::new(at, end - at))?;
            let flags = if run.mapped { StateFlags::empty() } else { StateFlags::HOLE | StateFlags::ZERO };
            let extent = match last {
                Some(last) if last.flags == flags => {
                    runs -= 1;
                    StatusExtent { length: last.length + run.length as u32, flags }
                }
                _ if runs == most => break,
                _ => StatusExtent { length: run.length as u32, flags },
            };
            let place = 4 + runs * StatusExtent::LENGTH;
            payload[place..place + StatusExtent::LENGTH].copy_from_slice(&extent.encode());
            runs += 1;
            last = Some(extent);
            at += run.length;
        }
        payload.set_len(4 + runs * StatusExtent::LENGTH);
        Ok(payload)
    }

    /// A long read in structured chunks: holes are told, not sent.
    pub(super) async fn read_sparse(&self, request: &WireRequest) {
        let (cookie, connection) = (request.cookie, &self.connection);
        let (mut at, end) = (request.offset, request.offset + u64::from(request.length));
        let (mut chunks, begun) = (0, connection.ring().turn_time());
        while at < end {
            let rest = Extent::new(at, end - at);
            chunks += 1;
            // What cannot be said of holes can still be read.
            let run = if chunks < NBD_READ_CHUNKS { self.run(rest).ok() } else { None };
            let run = run.unwrap_or(Run { length: rest.length, mapped: true });
            let done = at + run.length == end;
            if run.mapped {
                match self.bytes(Extent::new(at, run.length)).await {
                    Ok(data) => connection.send_part(cookie, at, data, done),
                    Err(error) => {
                        self.count(Verb::Read, 0, begun, true);
                        return self.fail(request, &error);
                    }
                }
            } else {
                connection.send_hole(cookie, at, run.length as u32, done);
            }
            at += run.length;
        }
        self.count(Verb::Read, request.length.into(), begun, false);
    }
}
