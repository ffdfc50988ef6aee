//! What we ask for in the login and what was agreed: RFC 7143 section 13.

use wire::iscsi::text::{TextFull, TextPairs, TextWriter, parse_number};
use wire::iscsi::{Framing, key};

use crate::initiator::OpenOptions;

/// The most bytes of one data segment that we take.
pub(super) const RECEIVE_LIMIT: u32 = 256 << 10;
/// `MaxRecvDataSegmentLength` of a target that says nothing (section 13.12).
const DEFAULT_SEND_LIMIT: u32 = 8192;
/// The largest length that a key may have (sections 13.12 to 13.14), and the smallest.
const LENGTHS: std::ops::RangeInclusive<u64> = 512..=0x00ff_ffff;

/// How we ask to send the data of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// `ImmediateData`.
    pub immediate_data: bool,
    /// `InitialR2T`.
    pub initial_r2t: bool,
    /// `FirstBurstLength`, in bytes, at most `max_burst`.
    pub first_burst: u32,
    /// `MaxBurstLength`, in bytes.
    pub max_burst: u32,
}

impl Default for Wishes {
    fn default() -> Self {
        Wishes { immediate_data: true, initial_r2t: false, first_burst: 256 << 10, max_burst: 1 << 20 }
    }
}

/// What was agreed for a connection and its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Digests.
    pub framing: Framing,
    /// Data may go with the command.
    pub immediate_data: bool,
    /// Data may not go unasked after the command.
    pub initial_r2t: bool,
    /// Most bytes unasked for a command, immediate data included.
    pub first_burst: u32,
    /// Most bytes of one R2T.
    pub max_burst: u32,
    /// Most bytes of a data segment that the target takes.
    pub send_limit: u32,
}

impl Default for Parameters {
    /// The values of keys that nobody spoke of.
    fn default() -> Self {
        Parameters {
            framing: Framing::default(),
            immediate_data: true,
            initial_r2t: true,
            first_burst: 64 << 10,
            max_burst: 256 << 10,
            send_limit: DEFAULT_SEND_LIMIT,
        }
    }
}

/// The target's answer makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the target answered {key}={value}")]
pub struct Disagreement {
    key: String,
    value: String,
}

/// Writes what we ask for.
pub(super) fn offer(options: &OpenOptions, text: &mut TextWriter) -> Result<(), TextFull> {
    let digest = |wanted: bool| if wanted { "CRC32C" } else { "None" };
    let boolean = |wanted: bool| if wanted { "Yes" } else { "No" };
    let wishes = &options.wishes;
    text.push(key::HEADER_DIGEST, digest(options.header_digest))?;
    text.push(key::DATA_DIGEST, digest(options.data_digest))?;
    text.push(key::MAX_RECV_DATA_SEGMENT_LENGTH, &RECEIVE_LIMIT.to_string())?;
    text.push(key::IMMEDIATE_DATA, boolean(wishes.immediate_data))?;
    text.push(key::INITIAL_R2T, boolean(wishes.initial_r2t))?;
    text.push(key::FIRST_BURST_LENGTH, &wishes.first_burst.to_string())?;
    text.push(key::MAX_BURST_LENGTH, &wishes.max_burst.to_string())?;
    text.push(key::MAX_OUTSTANDING_R2T, "16")?;
    text.push(key::MAX_CONNECTIONS, "1")?;
    text.push(key::DATA_PDU_IN_ORDER, "Yes")?;
    text.push(key::DATA_SEQUENCE_IN_ORDER, "Yes")?;
    text.push(key::DEFAULT_TIME2WAIT, "2")?;
    text.push(key::DEFAULT_TIME2RETAIN, "0")?;
    text.push(key::ERROR_RECOVERY_LEVEL, "0")
}

/// Takes in the target's answers. Keys that do not change what we do are passed over.
pub(super) fn take_in(parameters: &mut Parameters, text: &[u8]) -> Result<(), Disagreement> {
    for pair in TextPairs::new(text) {
        let (name, value) = pair.map_err(|error| Disagreement {
            key: "text that cannot be read".to_owned(),
            value: error.to_string(),
        })?;
        let wrong = || Disagreement { key: name.to_owned(), value: value.to_owned() };
        if matches!(value, "Reject" | "Irrelevant" | "NotUnderstood") {
            continue;
        }
        match name {
            key::HEADER_DIGEST => parameters.framing.header_digest = digest(value).ok_or_else(wrong)?,
            key::DATA_DIGEST => parameters.framing.data_digest = digest(value).ok_or_else(wrong)?,
            key::IMMEDIATE_DATA => parameters.immediate_data = boolean(value).ok_or_else(wrong)?,
            key::INITIAL_R2T => parameters.initial_r2t = boolean(value).ok_or_else(wrong)?,
            key::FIRST_BURST_LENGTH => parameters.first_burst = length(value).ok_or_else(wrong)?,
            key::MAX_BURST_LENGTH => parameters.max_burst = length(value).ok_or_else(wrong)?,
            key::MAX_RECV_DATA_SEGMENT_LENGTH => parameters.send_limit = length(value).ok_or_else(wrong)?,
            key::ERROR_RECOVERY_LEVEL if value != "0" => return Err(wrong()),
            key::DATA_PDU_IN_ORDER | key::DATA_SEQUENCE_IN_ORDER if value != "Yes" => return Err(wrong()),
            _ => {}
        }
    }
    parameters.first_burst = parameters.first_burst.min(parameters.max_burst);
    Ok(())
}

fn digest(value: &str) -> Option<bool> {
    match value {
        "CRC32C" => Some(true),
        "None" => Some(false),
        _ => None,
    }
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn length(value: &str) -> Option<u32> {
    parse_number(value).filter(|length| LENGTHS.contains(length)).map(|length| length as u32)
}

impl Parameters {
    /// Bytes of a write's data that go with its command.
    pub(super) fn immediate_length(&self, length: u32) -> u32 {
        if self.immediate_data { length.min(self.first_burst).min(self.send_limit) } else { 0 }
    }

    /// Bytes of a write's data that go without being asked for, immediate data included.
    pub(super) fn unsolicited_length(&self, length: u32) -> u32 {
        if self.initial_r2t { self.immediate_length(length) } else { length.min(self.first_burst) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_in_and_bounded() {
        let mut parameters = Parameters::default();
        let text = b"HeaderDigest=CRC32C\0InitialR2T=No\0FirstBurstLength=65536\0MaxBurstLength=16384\0\
            MaxRecvDataSegmentLength=0x2000\0X-vendor=1\0IFMarker=Reject\0";
        take_in(&mut parameters, text).unwrap();
        assert!(parameters.framing.header_digest && !parameters.initial_r2t);
        assert_eq!((parameters.first_burst, parameters.send_limit), (16384, 8192));
        assert_eq!(parameters.immediate_length(100_000), 8192);
        assert_eq!(parameters.unsolicited_length(100_000), 16384);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            &b"ImmediateData=Maybe\0"[..],
            b"MaxBurstLength=12\0",
            b"MaxRecvDataSegmentLength=99999999999\0",
            b"ErrorRecoveryLevel=2\0",
            b"HeaderDigest=MD5\0",
            b"no equals",
        ] {
            assert!(take_in(&mut Parameters::default(), text).is_err());
        }
    }

    #[test]
    fn without_immediate_data_nothing_goes_with_the_command() {
        let parameters = Parameters { immediate_data: false, ..Parameters::default() };
        assert_eq!((parameters.immediate_length(4096), parameters.unsolicited_length(4096)), (0, 0));
    }
}
