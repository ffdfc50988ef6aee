//! What the target sends: PDUs out of the received bytes, data straight into the buffers of their commands.

use std::io;
use std::rc::Rc;

use wire::iscsi::digest::{Crc32c, crc32c};
use wire::iscsi::frame::{BHS_LENGTH, DIGEST_LENGTH, MAX_HEADER_LENGTH, data_segment_length, padding};
use wire::iscsi::{
    AsyncEvent, AsyncMessage, Bhs, DataIn, DataInFlags, LogoutResponseCode, Opcode, RESERVED_TAG, Reject,
    ScsiResponse, ScsiResponseCode, ScsiResponseFlags, TargetPdu, TaskManagementResponseCode,
};
use wire::scsi::{Sense, Status};

use super::connection::{Asked, Inner, Violation};
use super::parameters::RECEIVE_LIMIT;
use crate::initiator::error::{Cause, IoError};
use crate::initiator::receive::{self, Intake};
use crate::initiator::table::Slot;

/// From this many missing bytes on, a receive goes straight into the command's buffer: below, one receive that
/// brings several PDUs is cheaper.
const DIRECT: usize = 16 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Header,
    Data,
    Trailer,
}

/// Where data goes.
#[derive(Clone, Copy)]
enum Sink {
    /// The buffer of the command with this tag, from this offset, if somebody will look at it.
    Command { tag: u32, offset: usize, seen: bool },
    /// Sense data, text, the header of a rejected PDU.
    Small,
}

struct Receiver {
    inner: Rc<Inner>,
    stage: Stage,
    header: [u8; MAX_HEADER_LENGTH],
    /// Bytes in `header`, or in `trailer`.
    have: usize,
    bhs: Bhs,
    length: usize,
    /// Bytes of data that have come.
    done: usize,
    sink: Sink,
    small: Vec<u8>,
    /// PDUs, without data whose status is still to come.
    ended: u32,
    crc: Crc32c,
    trailer: [u8; 8],
}

/// Receives until the connection is gone. `first` came with the end of the login.
pub(super) async fn receive(inner: Rc<Inner>, first: Vec<u8>) {
    let mut receiver = Receiver {
        inner: inner.clone(),
        stage: Stage::Header,
        header: [0; MAX_HEADER_LENGTH],
        have: 0,
        bhs: [0; BHS_LENGTH],
        length: 0,
        done: 0,
        sink: Sink::Small,
        small: Vec::new(),
        ended: 0,
        crc: Crc32c::new(),
        trailer: [0; 8],
    };
    let reason = receive::receive(inner.socket.clone(), &first, &mut receiver).await;
    inner.fail(&reason);
}

impl Intake for Receiver {
    const PEER: &'static str = "target";

    fn is_leaving(&self) -> bool {
        self.inner.is_leaving()
    }

    /// All PDUs of a batch, then room in the window is used once.
    fn take_in(&mut self, mut bytes: &[u8]) -> Result<u32, Violation> {
        self.inner.state.borrow_mut().table.heard = self.inner.ring.turn_time();
        let before = self.ended;
        while !bytes.is_empty() {
            bytes = match self.stage {
                Stage::Header => self.take_header(bytes)?,
                Stage::Data => self.take_data(bytes)?,
                Stage::Trailer => self.take_trailer(bytes)?,
            };
        }
        let inner = self.inner.clone();
        inner.issue_queued(&mut inner.state.borrow_mut());
        Ok(self.ended.wrapping_sub(before))
    }

    fn is_direct(&self) -> Result<bool, Violation> {
        Ok(self.direct().is_some())
    }

    async fn receive_direct(&mut self) -> Result<io::Result<usize>, Violation> {
        let Some((tag, offset, missing)) = self.direct() else { return Ok(Ok(0)) };
        let buffer = std::mem::take(&mut self.inner.state.borrow_mut().slot(tag)?.buffer);
        let start = offset + self.done;
        let (received, buffer) = self.inner.socket.receive_range(buffer, start..start + missing).await;
        self.inner.state.borrow_mut().table.heard = self.inner.ring.turn_time();
        let count = *received.as_ref().unwrap_or(&0);
        if self.inner.parameters.framing.data_digest {
            self.crc.update(&buffer[start..start + count]);
        }
        self.inner.state.borrow_mut().slot(tag)?.buffer = buffer;
        self.done += count;
        self.end_data()?;
        // It may have been the end of a command, with room for another one, and nothing else may come.
        let inner = self.inner.clone();
        inner.issue_queued(&mut inner.state.borrow_mut());
        Ok(received)
    }
}

impl Receiver {
    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        let framing = self.inner.parameters.framing;
        if self.have == 0
            && let Some((bhs, rest)) = bytes.split_first_chunk::<BHS_LENGTH>()
            && framing.header_length(bhs) == BHS_LENGTH
        {
            self.bhs = *bhs;
            self.begin_data()?;
            return Ok(rest);
        }
        let known = self.header.first_chunk::<BHS_LENGTH>();
        let wanted = match known {
            Some(bhs) if self.have >= BHS_LENGTH => framing.header_length(bhs),
            _ => BHS_LENGTH,
        };
        let count = (wanted - self.have).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        self.header[self.have..self.have + count].copy_from_slice(taken);
        self.have += count;
        if self.have < BHS_LENGTH {
            return Ok(rest);
        }
        self.bhs.copy_from_slice(&self.header[..BHS_LENGTH]);
        let total = framing.header_length(&self.bhs);
        if self.have < total {
            return Ok(rest);
        }
        if framing.header_digest {
            let (header, digest) = self.header[..total].split_at(total - DIGEST_LENGTH);
            if crc32c(header).to_le_bytes() != digest {
                return Err("a header digest is wrong".to_owned());
            }
        }
        self.begin_data()?;
        Ok(rest)
    }

    /// A header is complete.
    fn begin_data(&mut self) -> Result<(), Violation> {
        self.have = 0;
        self.done = 0;
        self.length = data_segment_length(&self.bhs);
        if self.length > RECEIVE_LIMIT as usize {
            return Err(format!("a data segment of {} bytes, more than we take", self.length));
        }
        if self.length == 0 {
            self.stage = Stage::Header;
            return self.finish();
        }
        self.stage = Stage::Data;
        self.small.clear();
        if self.inner.parameters.framing.data_digest {
            self.crc = Crc32c::new();
        }
        self.sink = Sink::Small;
        if Opcode::of(&self.bhs) == Ok(Opcode::DataIn) {
            let data_in = DataIn::decode(&self.bhs);
            let mut state = self.inner.state.borrow_mut();
            let slot = state.slot(data_in.initiator_task_tag)?;
            let offset = data_in.buffer_offset as usize;
            if offset != slot.received || slot.expected.saturating_sub(offset) < self.length {
                let (length, size, had) = (self.length, slot.expected, slot.received);
                return Err(format!("{length} bytes at {offset} of {size} asked for, after {had}"));
            }
            let seen = slot.is_seen();
            self.sink = Sink::Command { tag: data_in.initiator_task_tag, offset, seen };
        }
        Ok(())
    }

    fn take_data<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        let count = (self.length - self.done).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        match self.sink {
            Sink::Command { seen: false, .. } => {}
            Sink::Command { tag, offset, .. } => {
                let mut state = self.inner.state.borrow_mut();
                let start = offset + self.done;
                let target = state.slot(tag)?.buffer.get_mut(start..start + count);
                target.ok_or("data for a command that ended")?.copy_from_slice(taken);
            }
            Sink::Small => self.small.extend_from_slice(taken),
        }
        if self.inner.parameters.framing.data_digest {
            self.crc.update(taken);
        }
        self.done += count;
        self.end_data()?;
        Ok(rest)
    }

    /// Goes on to padding and digest, or to the next PDU.
    fn end_data(&mut self) -> Result<(), Violation> {
        if self.done < self.length {
            return Ok(());
        }
        if self.trailer_length() > 0 {
            self.stage = Stage::Trailer;
            self.have = 0;
            return Ok(());
        }
        self.stage = Stage::Header;
        self.finish()
    }

    fn trailer_length(&self) -> usize {
        padding(self.length) + self.inner.parameters.framing.data_digest_length(self.length)
    }

    fn take_trailer<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        let total = self.trailer_length();
        let count = (total - self.have).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        self.trailer[self.have..self.have + count].copy_from_slice(taken);
        self.have += count;
        if self.have == total {
            self.have = 0;
            if self.inner.parameters.framing.data_digest {
                let (padding, digest) = self.trailer[..total].split_at(total - DIGEST_LENGTH);
                self.crc.update(padding);
                if self.crc.wire() != digest {
                    return Err("a data digest is wrong".to_owned());
                }
            }
            self.stage = Stage::Header;
            self.finish()?;
        }
        Ok(rest)
    }

    /// The command whose data is to be received directly, where that begins in its buffer, and how many bytes are missing.
    fn direct(&self) -> Option<(u32, usize, usize)> {
        match self.sink {
            Sink::Command { tag, offset, seen: true } if self.stage == Stage::Data => {
                let missing = self.length - self.done;
                (missing >= DIRECT).then_some((tag, offset, missing))
            }
            _ => None,
        }
    }

    /// A PDU is complete.
    fn finish(&mut self) -> Result<(), Violation> {
        self.ended = self.ended.wrapping_add(1);
        let pdu = TargetPdu::decode(&self.bhs).map_err(|error| error.to_string())?;
        let inner = self.inner.clone();
        let mut state = inner.state.borrow_mut();
        match pdu {
            TargetPdu::DataIn(pdu) => {
                let with_status = pdu.flags.contains(DataInFlags::STATUS);
                state.advance(pdu.max_cmd_sn, with_status.then_some(pdu.stat_sn));
                self.ended = self.ended.wrapping_sub(u32::from(!with_status));
                let slot = state.slot(pdu.initiator_task_tag)?;
                slot.received += self.length;
                if with_status {
                    let moved = slot.received as u64;
                    let result = ending(pdu.status, moved, &[]);
                    state.finish(pdu.initiator_task_tag, result);
                }
            }
            TargetPdu::ScsiResponse(pdu) => {
                state.advance(pdu.max_cmd_sn, Some(pdu.stat_sn));
                let slot = state.slot(pdu.initiator_task_tag)?;
                let moved = moved(slot, &pdu);
                let result = match pdu.response {
                    ScsiResponseCode::COMMAND_COMPLETED_AT_TARGET => {
                        ending(pdu.status, moved, self.small_part())
                    }
                    other => Err(Cause::Connection(format!("the target failed: {other:?}").into()).into()),
                };
                state.finish(pdu.initiator_task_tag, result);
            }
            TargetPdu::R2t(pdu) => {
                state.advance(pdu.max_cmd_sn, None);
                inner.ready_to_transfer(&mut state, &pdu)?;
            }
            TargetPdu::NopIn(pdu) => {
                let answers = pdu.initiator_task_tag != RESERVED_TAG;
                state.advance(pdu.max_cmd_sn, answers.then_some(pdu.stat_sn));
                if pdu.target_transfer_tag != RESERVED_TAG {
                    inner.answer_ping(&mut state, &pdu);
                }
            }
            TargetPdu::TaskManagementResponse(pdu) => {
                state.advance(pdu.max_cmd_sn, Some(pdu.stat_sn));
                state.slot(pdu.initiator_task_tag)?;
                if pdu.response == TaskManagementResponseCode::FUNCTION_COMPLETE {
                    state.end_aborted(pdu.initiator_task_tag);
                }
                state.finish(pdu.initiator_task_tag, Ok(u64::from(pdu.response.0)));
            }
            TargetPdu::LogoutResponse(pdu) => {
                state.slot(pdu.initiator_task_tag)?;
                let closed = pdu.response == LogoutResponseCode::CLOSED_SUCCESSFULLY;
                let refused =
                    || Cause::Connection(format!("logout refused: {:?}", pdu.response).into()).into();
                state.finish(pdu.initiator_task_tag, if closed { Ok(0) } else { Err(refused()) });
            }
            TargetPdu::AsyncMessage(pdu) => {
                state.advance(pdu.max_cmd_sn, Some(pdu.stat_sn));
                return notice(&pdu);
            }
            TargetPdu::Reject(pdu) => {
                state.advance(pdu.max_cmd_sn, Some(pdu.stat_sn));
                return Err(rejection(&pdu, &self.small));
            }
            TargetPdu::LoginResponse(_) | TargetPdu::TextResponse(_) => {
                return Err("it answered a request that was not made".to_owned());
            }
        }
        Ok(())
    }

    /// The data segment of a PDU that is no Data-In.
    fn small_part(&self) -> &[u8] {
        if self.length == 0 { &[] } else { &self.small }
    }
}

/// The result that status and sense mean. `data` is a SCSI Response's data segment (section 11.4.7).
fn ending(status: u8, moved: u64, data: &[u8]) -> Result<u64, IoError> {
    if status == Status::Good as u8 || status == Status::ConditionMet as u8 {
        return Ok(moved);
    }
    let sense = data.split_first_chunk::<2>().and_then(|(length, rest)| {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        Sense::decode(&rest[..length]).ok()
    });
    Err(Cause::Scsi { status, sense }.into())
}

/// Bytes that a command moved, by what was received or by what was left over.
fn moved(slot: &Slot<Asked>, response: &ScsiResponse) -> u64 {
    if slot.expected > 0 {
        return slot.received as u64;
    }
    let sent = slot.data.len() as u64;
    if response.flags.contains(ScsiResponseFlags::UNDERFLOW) {
        sent.saturating_sub(u64::from(response.residual_count))
    } else {
        sent
    }
}

/// What the target says unasked.
fn notice(message: &AsyncMessage) -> Result<(), Violation> {
    match message.event {
        // Unit attentions come with the commands anyway.
        AsyncEvent::SCSI_EVENT | AsyncEvent::VENDOR_SPECIFIC | AsyncEvent::TASKS_TERMINATED => Ok(()),
        AsyncEvent::LOGOUT_REQUESTED => Err("it asked for a logout".to_owned()),
        AsyncEvent::CONNECTION_DROPPED => Err("it announced to drop the connection".to_owned()),
        AsyncEvent::SESSION_DROPPED => Err("it announced to drop the session".to_owned()),
        other => Err(format!("it sent {other:?}, which we cannot follow")),
    }
}

fn rejection(reject: &Reject, header: &[u8]) -> Violation {
    let what = header.first_chunk::<BHS_LENGTH>().and_then(|bhs| Opcode::of(bhs).ok());
    match what {
        Some(opcode) => format!("it rejected a {opcode:?} ({:?})", reject.reason),
        None => format!("it rejected something ({:?})", reject.reason),
    }
}
