//! What the controller sends: PDUs out of the received bytes, data straight into the buffers of their commands.

use std::io;
use std::rc::Rc;

use wire::nvme::Status;
use wire::nvme::tcp::{
    C2HData, CapsuleResp, CommonHeader, Crc32c, DIGEST_LENGTH, MAX_HEADER_LENGTH, PduFlags, PduType, R2T,
    Sender, Shape, TermReq, header_digest,
};

use super::queue::{Queue, Violation};
use crate::initiator::receive::{self, Intake};

/// From this many missing bytes on, a receive goes straight into the command's buffer: below, one receive that
/// brings several PDUs is cheaper.
const DIRECT: usize = 16 << 10;
/// Most bytes of data that we take in one PDU.
const RECEIVE_LIMIT: u32 = ring::LARGEST as u32;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A header, its digest and padding.
    Header,
    /// The data of a C2HData.
    Data,
    /// Its digest.
    Trailer,
}

/// The C2HData that is coming.
#[derive(Clone, Copy)]
struct Input {
    cid: u16,
    /// Where its data begins in the command's buffer.
    offset: usize,
    length: usize,
    /// Somebody will look at it.
    seen: bool,
    digest: bool,
    flags: PduFlags,
}

struct Receiver {
    queue: Rc<Queue>,
    stage: Stage,
    header: [u8; MAX_HEADER_LENGTH],
    /// Bytes in `header`, or in `trailer`.
    have: usize,
    input: Input,
    /// Bytes of data that have come.
    done: usize,
    crc: Crc32c,
    trailer: [u8; DIGEST_LENGTH],
}

/// Receives until the connection is gone.
pub(super) async fn receive(queue: Rc<Queue>) {
    let input = Input { cid: 0, offset: 0, length: 0, seen: false, digest: false, flags: PduFlags::empty() };
    let mut receiver = Receiver {
        queue: queue.clone(),
        stage: Stage::Header,
        header: [0; MAX_HEADER_LENGTH],
        have: 0,
        input,
        done: 0,
        crc: Crc32c::new(),
        trailer: [0; DIGEST_LENGTH],
    };
    let reason = receive::receive(queue.socket.clone(), &[], &mut receiver).await;
    queue.fail(&reason);
}

impl Intake for Receiver {
    const PEER: &'static str = "target";

    fn is_leaving(&self) -> bool {
        self.queue.is_leaving()
    }

    /// All PDUs of a batch, then free entries of the queue are used once.
    fn take_in(&mut self, mut bytes: &[u8]) -> Result<u32, Violation> {
        self.queue.state.borrow_mut().table.heard = self.queue.ring.turn_time();
        let before = self.queue.state.borrow().issued();
        while !bytes.is_empty() {
            bytes = match self.stage {
                Stage::Header => self.take_header(bytes)?,
                Stage::Data => self.take_data(bytes)?,
                Stage::Trailer => self.take_trailer(bytes)?,
            };
        }
        let mut state = self.queue.state.borrow_mut();
        let ended = before.saturating_sub(state.issued());
        self.queue.issue_queued(&mut state);
        Ok(ended as u32)
    }

    fn is_direct(&self) -> Result<bool, Violation> {
        Ok(self.direct().is_some())
    }

    async fn receive_direct(&mut self) -> Result<io::Result<usize>, Violation> {
        let Some(missing) = self.direct() else { return Ok(Ok(0)) };
        let Input { cid, offset, digest, .. } = self.input;
        let buffer = std::mem::take(&mut self.queue.state.borrow_mut().slot(cid)?.buffer);
        let start = offset + self.done;
        let (received, buffer) = self.queue.socket.receive_range(buffer, start..start + missing).await;
        self.queue.state.borrow_mut().table.heard = self.queue.ring.turn_time();
        let count = *received.as_ref().unwrap_or(&0);
        if digest {
            self.crc.update(&buffer[start..start + count]);
        }
        self.queue.state.borrow_mut().slot(cid)?.buffer = buffer;
        self.done += count;
        self.end_data()?;
        // It may have been the end of a command, with an entry for another one, and nothing else may come.
        self.queue.issue_queued(&mut self.queue.state.borrow_mut());
        Ok(received)
    }
}

impl Receiver {
    fn shape(&self, header: [u8; CommonHeader::LENGTH]) -> Result<(CommonHeader, Shape), Violation> {
        let header = CommonHeader::decode(&header);
        let shape = self.queue.agreed.framing.shape(&header, Sender::Controller, RECEIVE_LIMIT);
        let shape = shape.map_err(|error| {
            format!("a {:?} of {} bytes makes no sense: {error}", header.pdu_type, header.plen)
        })?;
        Ok((header, shape))
    }

    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        // Nearly always the whole header is there in one piece.
        if self.have == 0
            && let Some(first) = bytes.first_chunk()
        {
            let (header, shape) = self.shape(*first)?;
            if let Some((all, rest)) = bytes.split_at_checked(shape.data_offset) {
                self.begin(header, shape, all)?;
                return Ok(rest);
            }
        }
        let wanted = match self.header.first_chunk() {
            Some(first) if self.have >= CommonHeader::LENGTH => self.shape(*first)?.1.data_offset,
            _ => CommonHeader::LENGTH,
        };
        let count = (wanted - self.have).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        self.header[self.have..self.have + count].copy_from_slice(taken);
        self.have += count;
        let Some(first) = self.header.first_chunk().filter(|_| self.have >= CommonHeader::LENGTH) else {
            return Ok(rest);
        };
        let (header, shape) = self.shape(*first)?;
        if self.have == shape.data_offset {
            self.have = 0;
            let all = self.header;
            self.begin(header, shape, &all[..shape.data_offset])?;
        }
        Ok(rest)
    }

    /// A header is complete; `bytes` has its digest and padding too.
    fn begin(&mut self, header: CommonHeader, shape: Shape, bytes: &[u8]) -> Result<(), Violation> {
        if shape.header_digest {
            let (header, digest) = bytes[..shape.digested_header()].split_at(shape.header);
            if header_digest(header) != digest {
                return Err("a header digest is wrong".to_owned());
            }
        }
        let short = || "a header is short".to_owned();
        match header.pdu_type {
            PduType::C2H_DATA => {
                let pdu = C2HData::decode(bytes.first_chunk().ok_or_else(short)?);
                self.begin_data(&pdu, shape)
            }
            PduType::CAPSULE_RESP => {
                let pdu = CapsuleResp::decode(bytes.first_chunk().ok_or_else(short)?).completion;
                self.queue.state.borrow_mut().complete(pdu.cid, pdu.status, pdu.result)
            }
            PduType::R2T => {
                let pdu = R2T::decode(bytes.first_chunk().ok_or_else(short)?);
                self.queue.ready_to_transfer(&mut self.queue.state.borrow_mut(), &pdu)
            }
            PduType::C2H_TERM_REQ => {
                let pdu = TermReq::decode(bytes.first_chunk().ok_or_else(short)?);
                Err(format!("it ended the connection: {:?} ({:#x})", pdu.fes, pdu.fei))
            }
            other => Err(format!("it sent {other:?} in the middle of a connection")),
        }
    }

    fn begin_data(&mut self, pdu: &C2HData, shape: Shape) -> Result<(), Violation> {
        let mut state = self.queue.state.borrow_mut();
        let slot = state.slot(pdu.cccid)?;
        let (offset, length) = (pdu.datao as usize, shape.data);
        let fits = slot.expected.saturating_sub(offset) >= length;
        if offset != slot.received || !fits || pdu.datal as usize != length {
            let (size, had) = (slot.expected, slot.received);
            return Err(format!("{length} bytes at {offset} of {size} asked for, after {had}"));
        }
        self.input = Input {
            cid: pdu.cccid,
            offset,
            length,
            seen: slot.is_seen(),
            digest: shape.data_digest,
            flags: pdu.header.flags,
        };
        self.done = 0;
        self.stage = Stage::Data;
        if shape.data_digest {
            self.crc = Crc32c::new();
        }
        Ok(())
    }

    fn take_data<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        let Input { cid, offset, length, seen, digest, .. } = self.input;
        let count = (length - self.done).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        if seen {
            let start = offset + self.done;
            let mut state = self.queue.state.borrow_mut();
            let target = state.slot(cid)?.buffer.get_mut(start..start + count);
            target.ok_or("data for a command that ended")?.copy_from_slice(taken);
        }
        if digest {
            self.crc.update(taken);
        }
        self.done += count;
        self.end_data()?;
        Ok(rest)
    }

    /// Goes on to the digest, or to the next PDU.
    fn end_data(&mut self) -> Result<(), Violation> {
        if self.done < self.input.length {
            return Ok(());
        }
        if self.input.digest {
            self.stage = Stage::Trailer;
            self.have = 0;
            return Ok(());
        }
        self.finish_data()
    }

    fn take_trailer<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        let count = (DIGEST_LENGTH - self.have).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        self.trailer[self.have..self.have + count].copy_from_slice(taken);
        self.have += count;
        if self.have == DIGEST_LENGTH {
            self.have = 0;
            if self.crc.wire() != self.trailer {
                return Err("a data digest is wrong".to_owned());
            }
            self.finish_data()?;
        }
        Ok(rest)
    }

    /// The data of a PDU is in its place.
    fn finish_data(&mut self) -> Result<(), Violation> {
        self.stage = Stage::Header;
        let Input { cid, length, flags, .. } = self.input;
        let mut state = self.queue.state.borrow_mut();
        state.slot(cid)?.received += length;
        if !flags.contains(PduFlags::SUCCESS) {
            return Ok(());
        }
        if !flags.contains(PduFlags::LAST_PDU) {
            return Err("a C2HData with SUCCESS is not the last one".to_owned());
        }
        state.complete(cid, Status::SUCCESSFUL_COMPLETION, 0)
    }

    /// How many bytes of data are to be received directly.
    fn direct(&self) -> Option<usize> {
        let missing = self.input.length.saturating_sub(self.done);
        let is_direct = self.stage == Stage::Data && missing >= DIRECT && self.input.seen;
        is_direct.then_some(missing)
    }
}
