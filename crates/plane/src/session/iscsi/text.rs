//! Text negotiation in full-feature phase: RFC 7143 sections 11.10, 11.11 and appendix C, as a state
//! machine without I/O. One negotiation at a time is held for a connection.

use wire::iscsi::text::{TextFull, TextPairs, TextWriter, parse_number};
use wire::iscsi::{RESERVED_TAG, RejectReason, TextFlags, TextRequest, TextResponse, U24, key};

use super::login::SessionType;
use super::login::keys::{self, Class, IRRELEVANT, NOT_UNDERSTOOD, Operational, REJECT};
use crate::limits::{REQUEST_PAIRS, REQUEST_TEXT_BYTES, TEXT_ANSWER_BYTES};

/// The targets that an initiator may see.
pub trait TargetList {
    /// Calls `visit` with the name of each target and its `TargetAddress` values
    /// (`address:port,portal-group-tag`, section 13.8).
    fn visit(&self, visit: &mut dyn FnMut(&str, &[String]));
}

/// What a text request is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextAction {
    /// Send it; the caller sets `StatSN`, `ExpCmdSN` and `MaxCmdSN`.
    Respond {
        /// Header with all but the sequence numbers.
        header: TextResponse,
        /// Data segment without padding.
        text: Vec<u8>,
    },
    /// Refuse the request; the negotiation is over.
    Reject(RejectReason),
}

#[derive(Debug, Clone)]
struct Exchange {
    initiator_task_tag: u32,
    target_transfer_tag: u32,
    gathered: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

/// The text negotiation of one connection.
#[derive(Debug, Clone)]
pub struct TextNegotiation {
    session_type: SessionType,
    /// The target of a normal session.
    target: Option<String>,
    /// Bytes the initiator takes in one PDU.
    initiator_max_recv_data_segment_length: u32,
    exchange: Option<Exchange>,
    last_tag: u32,
}

impl TextNegotiation {
    /// `target` is that of a normal session; the length is what the initiator declared at login.
    pub const fn new(
        session_type: SessionType,
        target: Option<String>,
        initiator_max_recv_data_segment_length: u32,
    ) -> Self {
        Self { session_type, target, initiator_max_recv_data_segment_length, exchange: None, last_tag: 0 }
    }

    /// Bytes the initiator takes in one PDU: it may declare anew at any time (section 13.12), so the
    /// connection looks here after each text request.
    pub const fn initiator_max_recv_data_segment_length(&self) -> u32 {
        self.initiator_max_recv_data_segment_length
    }

    /// Answers a request.
    pub fn handle(&mut self, header: &TextRequest, text: &[u8], targets: &dyn TargetList) -> TextAction {
        match self.step(header, text, targets) {
            Ok(action) => action,
            Err(reason) => {
                self.exchange = None;
                TextAction::Reject(reason)
            }
        }
    }

    fn step(
        &mut self,
        header: &TextRequest,
        text: &[u8],
        targets: &dyn TargetList,
    ) -> Result<TextAction, RejectReason> {
        let mut exchange = self.take_exchange(header)?;
        let is_continued = header.flags.contains(TextFlags::CONTINUE);
        if is_continued && header.flags.contains(TextFlags::FINAL)
            || exchange.gathered.len() + text.len() > REQUEST_TEXT_BYTES
        {
            return Err(RejectReason::PROTOCOL_ERROR);
        }
        let is_sending = exchange.sent < exchange.answer.len();
        if is_sending && !text.is_empty() {
            // The initiator may only ask for the rest.
            return Err(RejectReason::PROTOCOL_ERROR);
        }
        exchange.gathered.extend_from_slice(text);
        if !is_continued && !is_sending {
            let gathered = std::mem::take(&mut exchange.gathered);
            exchange.answer = self.answer(&gathered, targets)?;
            exchange.sent = 0;
        }
        Ok(self.respond(header, exchange, is_continued))
    }

    /// The exchange a request belongs to. One without a target transfer tag begins anew and ends
    /// what there was (section 11.10.4).
    fn take_exchange(&mut self, header: &TextRequest) -> Result<Exchange, RejectReason> {
        let exchange = self.exchange.take();
        if header.target_transfer_tag != RESERVED_TAG {
            return exchange
                .filter(|exchange| {
                    exchange.initiator_task_tag == header.initiator_task_tag
                        && exchange.target_transfer_tag == header.target_transfer_tag
                })
                .ok_or(RejectReason::INVALID_PDU_FIELD);
        }
        // Never the reserved value, and another one than last time.
        self.last_tag = (self.last_tag + 1) % RESERVED_TAG;
        Ok(Exchange {
            initiator_task_tag: header.initiator_task_tag,
            target_transfer_tag: self.last_tag,
            gathered: Vec::new(),
            answer: Vec::new(),
            sent: 0,
        })
    }

    fn respond(&mut self, request: &TextRequest, mut exchange: Exchange, is_continued: bool) -> TextAction {
        let limit = self.initiator_max_recv_data_segment_length as usize;
        let rest = exchange.answer.get(exchange.sent..).unwrap_or_default();
        let text = rest[..rest.len().min(limit)].to_vec();
        exchange.sent += text.len();
        let mut header = TextResponse {
            data_segment_length: U24::saturating(text.len()),
            lun: request.lun,
            initiator_task_tag: request.initiator_task_tag,
            target_transfer_tag: exchange.target_transfer_tag,
            ..TextResponse::default()
        };
        if exchange.sent < exchange.answer.len() {
            header.flags = TextFlags::CONTINUE;
        } else if request.flags.contains(TextFlags::FINAL) && !is_continued {
            header.flags = TextFlags::FINAL;
            header.target_transfer_tag = RESERVED_TAG;
            return TextAction::Respond { header, text };
        }
        self.exchange = Some(exchange);
        TextAction::Respond { header, text }
    }

    fn answer(&mut self, text: &[u8], targets: &dyn TargetList) -> Result<Vec<u8>, RejectReason> {
        let mut answers = TextWriter::new(TEXT_ANSWER_BYTES);
        let mut seen: Vec<&str> = Vec::new();
        for pair in TextPairs::new(text) {
            let (name, value) = pair.map_err(|_| RejectReason::PROTOCOL_ERROR)?;
            if seen.len() == REQUEST_PAIRS || seen.contains(&name) {
                return Err(RejectReason::PROTOCOL_ERROR);
            }
            seen.push(name);
            self.answer_key(name, value, targets, &mut answers)
                .map_err(|TextFull { .. }| RejectReason::LONG_OPERATION_REJECT)?;
        }
        Ok(answers.into_bytes())
    }

    fn answer_key(
        &mut self,
        name: &str,
        value: &str,
        targets: &dyn TargetList,
        answers: &mut TextWriter,
    ) -> Result<(), TextFull> {
        if matches!(value, REJECT | IRRELEVANT | NOT_UNDERSTOOD) {
            // Never answer an answer.
            return Ok(());
        }
        match keys::class(name) {
            None => answers.push(name, NOT_UNDERSTOOD),
            _ if name == key::SEND_TARGETS => self.send_targets(value, targets, answers),
            _ if name == key::INITIATOR_ALIAS => Ok(()),
            Some(Class::Operational(Operational::MaxRecvDataSegmentLength)) => {
                let length = parse_number(value).and_then(|length| u32::try_from(length).ok());
                match length.filter(|length| (512..=0x00ff_ffff).contains(length)) {
                    Some(length) => self.initiator_max_recv_data_segment_length = length,
                    None => answers.push(name, REJECT)?,
                }
                Ok(())
            }
            // All else is settled at login.
            Some(_) => answers.push(name, REJECT),
        }
    }

    /// Appendix C: all targets for discovery sessions only, one's own for normal ones only.
    fn send_targets(
        &self,
        value: &str,
        targets: &dyn TargetList,
        answers: &mut TextWriter,
    ) -> Result<(), TextFull> {
        let own = self.target.as_deref();
        let wanted = match (self.session_type, value) {
            (SessionType::Discovery, "All") => None,
            (SessionType::Normal, "") if own.is_some() => own,
            (_, "" | "All") => return answers.push(key::SEND_TARGETS, REJECT),
            (SessionType::Normal, name) if !own.is_some_and(|own| own.eq_ignore_ascii_case(name)) => {
                return answers.push(key::SEND_TARGETS, REJECT);
            }
            (_, name) => Some(name),
        };
        let mut result = Ok(());
        targets.visit(&mut |name, addresses| {
            if result.is_err() || wanted.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(name)) {
                return;
            }
            result = answers.push(key::TARGET_NAME, name).and_then(|()| {
                addresses.iter().try_for_each(|address| answers.push(key::TARGET_ADDRESS, address))
            });
        });
        result
    }
}

#[cfg(test)]
mod tests;
