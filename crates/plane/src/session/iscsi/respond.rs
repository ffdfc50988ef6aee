//! What goes back for a SCSI command: Data-In, status, sense, residuals. RFC 7143 sections 11.4 and 11.7.

use ring::{Buffer, Shared};
use wire::iscsi::{
    Bhs, DataIn, DataInFlags, RESERVED_TAG, Reject, RejectReason, ScsiResponse, ScsiResponseCode,
    ScsiResponseFlags, SerialNumber, U24,
};

use super::connection::Connection;
use super::session::Session;
use super::tasks::Task;
use crate::session::scsi::{Prepared, Response};

/// How much data a command wanted, for the residual.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// It was refused before it was known.
    Nothing,
    /// So many bytes from the initiator.
    Output(u32),
    /// As many bytes to the initiator as the response has.
    Input,
}

impl Wanted {
    /// What a judged command wants.
    pub fn of(prepared: &Prepared) -> Wanted {
        if prepared.data_out() > 0 { Wanted::Output(prepared.data_out()) } else { Wanted::Input }
    }
}

/// What of a command its response needs.
pub struct Asked<'a> {
    /// Where it came from.
    pub connection: &'a Connection,
    /// Initiator task tag.
    pub initiator_task_tag: u32,
    /// Expected Data Transfer Length.
    pub expected: u32,
    /// The initiator sends data.
    pub writes: bool,
    /// The initiator takes data.
    pub reads: bool,
    /// R2Ts that were sent for it.
    pub requests: u32,
}

impl Asked<'_> {
    /// Of a task.
    pub fn by(task: &Task) -> Asked<'_> {
        Asked {
            connection: &task.connection,
            initiator_task_tag: task.initiator_task_tag,
            expected: task.expected,
            writes: task.writes,
            reads: task.reads,
            requests: task.transfer.requests(),
        }
    }
}

/// A response and what it takes to compute its residual.
pub struct Reply {
    /// From the device server.
    pub response: Response,
    /// What the command wanted.
    pub wanted: Wanted,
}

/// The difference between what the initiator expected and what the command wanted, section 11.4.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Residual {
    overflow: bool,
    underflow: bool,
    count: u32,
}

impl Residual {
    fn between(expected: u32, moved: u32) -> Residual {
        Residual { overflow: moved > expected, underflow: moved < expected, count: moved.abs_diff(expected) }
    }
}

impl Session {
    /// Sends data and status of a command.
    pub fn respond(&self, asked: &Asked, reply: Reply) {
        let Reply { mut response, wanted } = reply;
        let data_in = std::mem::take(&mut response.data_in);
        let moved = match wanted {
            Wanted::Output(bytes) => bytes,
            Wanted::Nothing | Wanted::Input => data_in.len() as u32,
        };
        // The length that was announced is that of the direction that was (section 11.3.4): nothing goes the other way.
        let is_announced = match wanted {
            Wanted::Output(_) => asked.writes,
            Wanted::Input => asked.reads || moved == 0,
            Wanted::Nothing => true,
        };
        let residual = Residual::between(if is_announced { asked.expected } else { 0 }, moved);
        let fits = if asked.reads { (data_in.len() as u32).min(asked.expected) } else { 0 };
        let status_follows = response.sense.is_some() || fits == 0;
        let pdus = if fits > 0 {
            self.send_data(asked, data_in, fits, residual, &response, !status_follows)
        } else {
            0
        };
        if status_follows {
            self.send_status(asked, &response, residual, pdus);
        }
    }

    /// Sends the status of a write of `bytes` that has been carried out.
    pub fn respond_to_write(&self, asked: &Asked, bytes: u32) {
        self.send_status(asked, &Response::good(), Residual::between(asked.expected, bytes), 0);
    }

    /// Sends `length` bytes as Data-In PDUs; the last one carries the status when `with_status`. Gives their
    /// number.
    fn send_data(
        &self,
        asked: &Asked,
        mut data: Shared,
        length: u32,
        residual: Residual,
        response: &Response,
        with_status: bool,
    ) -> u32 {
        let connection = asked.connection;
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let (segment, burst) = (connection.segment() as u32, self.parameters.max_burst_length);
        let (mut offset, mut burst_end, mut data_sn) = (0, burst.min(length), 0);
        while offset < length {
            let end = (offset + segment).min(burst_end);
            let last = end == length;
            let mut pdu = DataIn {
                flags: if end == burst_end { DataInFlags::FINAL } else { DataInFlags::empty() },
                data_segment_length: U24::saturating((end - offset) as usize),
                initiator_task_tag: asked.initiator_task_tag,
                target_transfer_tag: RESERVED_TAG,
                exp_cmd_sn,
                max_cmd_sn,
                data_sn: SerialNumber(data_sn),
                buffer_offset: offset,
                ..DataIn::default()
            };
            if last && with_status {
                pdu.flags |= DataInFlags::STATUS;
                pdu.flags.set(DataInFlags::OVERFLOW, residual.overflow);
                pdu.flags.set(DataInFlags::UNDERFLOW, residual.underflow);
                pdu.residual_count = residual.count;
                pdu.status = response.status as u8;
                pdu.stat_sn = connection.next_stat_sn();
            }
            let whole = offset == 0 && last;
            let part =
                if whole { std::mem::take(&mut data) } else { data.slice(offset as usize..end as usize) };
            connection.send(|header| pdu.encode(header), Some(part.cut((end - offset) as usize)));
            offset = end;
            burst_end = if end == burst_end { (end + burst).min(length) } else { burst_end };
            data_sn += 1;
        }
        data_sn
    }

    fn send_status(&self, asked: &Asked, response: &Response, residual: Residual, data_in_pdus: u32) {
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let sense = response.sense_bytes().map(|sense| sense_segment(sense.as_slice()));
        let mut flags = ScsiResponseFlags::empty();
        flags.set(ScsiResponseFlags::OVERFLOW, residual.overflow);
        flags.set(ScsiResponseFlags::UNDERFLOW, residual.underflow);
        let length = U24::saturating(sense.as_ref().map_or(0, |sense| sense.len()));
        let pdu = || ScsiResponse {
            flags,
            response: ScsiResponseCode::COMMAND_COMPLETED_AT_TARGET,
            status: response.status as u8,
            data_segment_length: length,
            initiator_task_tag: asked.initiator_task_tag,
            stat_sn: asked.connection.next_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
            exp_data_sn: SerialNumber(data_in_pdus + asked.requests),
            residual_count: residual.count,
            ..ScsiResponse::default()
        };
        // Made where it is sent: what was stored in parts and is loaded waits for what was written before.
        asked.connection.send(|header| pdu().encode(header), sense);
    }

    /// Refuses a PDU; its header goes back as the data (section 11.17).
    pub fn reject(&self, connection: &Connection, bhs: &Bhs, reason: RejectReason) {
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let pdu = Reject {
            reason,
            data_segment_length: U24::saturating(bhs.len()),
            initiator_task_tag: RESERVED_TAG,
            stat_sn: connection.next_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
            ..Reject::default()
        };
        connection.send(|header| pdu.encode(header), Some(Buffer::copy_of(bhs).share()));
    }
}

/// `SenseLength` and sense data, section 11.4.7.
fn sense_segment(sense: &[u8]) -> Shared {
    let mut segment = Buffer::new(2 + sense.len());
    segment[..2].copy_from_slice(&(sense.len() as u16).to_be_bytes());
    segment[2..].copy_from_slice(sense);
    segment.share()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residuals_tell_what_was_not_expected_and_what_was_not_moved() {
        let plain = Residual { overflow: false, underflow: false, count: 0 };
        assert_eq!(Residual::between(512, 512), plain);
        assert_eq!(Residual::between(512, 1024), Residual { overflow: true, count: 512, ..plain });
        assert_eq!(Residual::between(1024, 36), Residual { underflow: true, count: 988, ..plain });
    }
}
