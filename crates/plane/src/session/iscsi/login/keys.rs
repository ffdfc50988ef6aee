//! Every text key and how it is answered: RFC 7143 sections 12 and 13.
//!
//! | key | sent by | stage | session | scope | result |
//! |---|---|---|---|---|---|
//! | `AuthMethod` | initiator | security | all | connection | first we can take of the list |
//! | `CHAP_A` `CHAP_N` `CHAP_R` `CHAP_I` `CHAP_C` | both | security | all | connection | section 12.1.3 |
//! | `InitiatorName` | initiator | first request | all | connection | declared, must be there |
//! | `TargetName` | initiator | first request | normal | connection | declared, must be there |
//! | `SessionType` | initiator | first request | all | leading | declared, default `Normal` |
//! | `InitiatorAlias` | initiator | any | all | connection | declared |
//! | `TargetAlias` `TargetAddress` `TargetPortalGroupTag` | target | any | | | from an initiator: `Reject` |
//! | `HeaderDigest` `DataDigest` | both | operational | all | connection | first we can take of the list |
//! | `MaxRecvDataSegmentLength` | both | operational, full feature | all | connection | declared, default 8192 |
//! | `MaxConnections` | both | operational | normal | leading | minimum, default 1 |
//! | `InitialR2T` | both | operational | normal | leading | or, default `Yes` |
//! | `ImmediateData` | both | operational | normal | leading | and, default `Yes` |
//! | `MaxBurstLength` | both | operational | normal | leading | minimum, default 262144 |
//! | `FirstBurstLength` | both | operational | normal | leading | minimum, default 65536, at most `MaxBurstLength` |
//! | `DefaultTime2Wait` | both | operational | all | leading | maximum, default 2 |
//! | `DefaultTime2Retain` | both | operational | all | leading | minimum, default 20 |
//! | `MaxOutstandingR2T` | both | operational | normal | leading | minimum, default 1 |
//! | `DataPDUInOrder` `DataSequenceInOrder` | both | operational | normal | leading | or, default `Yes`; we say `Yes` |
//! | `ErrorRecoveryLevel` | both | operational | all | leading | minimum, default 0; we say 0 |
//! | `TaskReporting` | both | operational | normal | leading | first we can take of the list |
//! | `iSCSIProtocolLevel` | both | operational | normal | leading | minimum, default 1; we say 1 |
//! | `IFMarker` `OFMarker` | both | operational | all | connection | obsolete (13.25): `No` |
//! | `IFMarkInt` `OFMarkInt` | both | operational | all | connection | obsolete (13.25): `Reject` |
//! | `SendTargets` | initiator | full feature | all | | in login: `Reject` |
//! | `X-...`, `X#...` and all others | both | any | all | | `NotUnderstood` |
//!
//! A value outside of its range is answered with `Reject` and the default stays. A key of a normal
//! session is `Irrelevant` in a discovery session, and so is a key of the leading connection on a
//! further one.
//!
//! # Where we are more liberal than the standard, and for whom
//!
//! - Operational keys in the security stage are answered instead of refused: there are initiators
//!   that send everything in their first request.
//! - A declaration (`InitiatorName`, `TargetName`, `SessionType`, `InitiatorAlias`) may come again
//!   with the same value in a later request: some versions of libiscsi, and with it QEMU, repeat
//!   them in the operational stage after CHAP. `MaxRecvDataSegmentLength` may be declared anew in a
//!   later request, as conformance suites do. Any other key that comes twice ends the login.
//! - `FirstBurstLength` is answered with a number even where it is irrelevant (`InitialR2T=Yes` and
//!   `ImmediateData=No`): libiscsi reads whatever comes as a number.

use wire::iscsi::Framing;
use wire::iscsi::key;
use wire::iscsi::text::parse_number;

use super::parameters::{
    ConnectionParameters, MAX_SEGMENT_LENGTH, OperationalLimits, SessionParameters, TaskReporting,
};

/// The constants of section 6.2 that answer a key instead of a value.
pub const REJECT: &str = "Reject";
/// The key does not matter here.
pub const IRRELEVANT: &str = "Irrelevant";
/// The key is not known.
pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// A method or digest of none.
pub const NONE: &str = "None";
/// Boolean true.
pub const YES: &str = "Yes";
/// Boolean false.
pub const NO: &str = "No";
/// The one digest there is besides `None`.
pub const CRC32C: &str = "CRC32C";

/// A key whose value is negotiated or declared for the operation of a connection or session; the
/// index of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operational {
    /// `HeaderDigest`: 1 for CRC32C.
    HeaderDigest,
    /// `DataDigest`: 1 for CRC32C.
    DataDigest,
    /// `MaxRecvDataSegmentLength` of the initiator.
    MaxRecvDataSegmentLength,
    /// `MaxConnections`.
    MaxConnections,
    /// `InitialR2T`.
    InitialR2t,
    /// `ImmediateData`.
    ImmediateData,
    /// `MaxBurstLength`.
    MaxBurstLength,
    /// `FirstBurstLength`.
    FirstBurstLength,
    /// `DefaultTime2Wait`.
    DefaultTime2Wait,
    /// `DefaultTime2Retain`.
    DefaultTime2Retain,
    /// `MaxOutstandingR2T`.
    MaxOutstandingR2t,
    /// `DataPDUInOrder`.
    DataPduInOrder,
    /// `DataSequenceInOrder`.
    DataSequenceInOrder,
    /// `ErrorRecoveryLevel`.
    ErrorRecoveryLevel,
    /// `TaskReporting`: 1 for `ResponseFence`.
    TaskReporting,
    /// `iSCSIProtocolLevel`.
    ProtocolLevel,
    /// `IFMarker`: always 0.
    IfMarker,
    /// `OFMarker`: always 0.
    OfMarker,
    /// `IFMarkInt`: never agreed on.
    IfMarkInt,
    /// `OFMarkInt`: never agreed on.
    OfMarkInt,
}

const OPERATIONAL_COUNT: usize = Operational::OfMarkInt as usize + 1;

/// What kind of key it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Tells who wants what: read from the first request.
    Identity,
    /// Belongs to the security stage.
    Security,
    /// Negotiated.
    Operational(Operational),
    /// Only a target may send it, or only in full-feature phase.
    NotForLogin,
}

/// How the result of a key comes about, section 6.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    And,
    Or,
    Minimum(u32, u32),
    Maximum(u32, u32),
    /// A number the initiator declares, which needs no answer.
    Declared(u32, u32),
    /// A list; the texts for 0 and 1.
    List(&'static str, &'static str),
    /// Always `No`.
    Never,
    /// Always `Reject`.
    Refused,
}

struct Row {
    name: &'static str,
    rule: Rule,
    /// Only the leading connection negotiates it.
    leading_only: bool,
    /// It means something in a discovery session.
    in_discovery: bool,
    default: u32,
}

const fn session(name: &'static str, rule: Rule, default: u32) -> Row {
    Row { name, rule, leading_only: true, in_discovery: false, default }
}

const fn connection(name: &'static str, rule: Rule, default: u32) -> Row {
    Row { name, rule, leading_only: false, in_discovery: true, default }
}

/// In the order of [`Operational`].
static ROWS: [Row; OPERATIONAL_COUNT] = [
    connection(key::HEADER_DIGEST, Rule::List(NONE, CRC32C), 0),
    connection(key::DATA_DIGEST, Rule::List(NONE, CRC32C), 0),
    connection(key::MAX_RECV_DATA_SEGMENT_LENGTH, Rule::Declared(512, MAX_SEGMENT_LENGTH), 8192),
    session(key::MAX_CONNECTIONS, Rule::Minimum(1, 65535), 1),
    session(key::INITIAL_R2T, Rule::Or, 1),
    session(key::IMMEDIATE_DATA, Rule::And, 1),
    session(key::MAX_BURST_LENGTH, Rule::Minimum(512, MAX_SEGMENT_LENGTH), 262_144),
    session(key::FIRST_BURST_LENGTH, Rule::Minimum(512, MAX_SEGMENT_LENGTH), 65536),
    Row { in_discovery: true, ..session(key::DEFAULT_TIME2WAIT, Rule::Maximum(0, 3600), 2) },
    Row { in_discovery: true, ..session(key::DEFAULT_TIME2RETAIN, Rule::Minimum(0, 3600), 20) },
    session(key::MAX_OUTSTANDING_R2T, Rule::Minimum(1, 65535), 1),
    session(key::DATA_PDU_IN_ORDER, Rule::Or, 1),
    session(key::DATA_SEQUENCE_IN_ORDER, Rule::Or, 1),
    Row { in_discovery: true, ..session(key::ERROR_RECOVERY_LEVEL, Rule::Minimum(0, 2), 0) },
    session(key::TASK_REPORTING, Rule::List("RFC3720", "ResponseFence"), 0),
    session(key::ISCSI_PROTOCOL_LEVEL, Rule::Minimum(0, 31), 1),
    connection(key::IF_MARKER, Rule::Never, 0),
    connection(key::OF_MARKER, Rule::Never, 0),
    connection(key::IF_MARK_INT, Rule::Refused, 0),
    connection(key::OF_MARK_INT, Rule::Refused, 0),
];

const OPERATIONAL: [Operational; OPERATIONAL_COUNT] = [
    Operational::HeaderDigest,
    Operational::DataDigest,
    Operational::MaxRecvDataSegmentLength,
    Operational::MaxConnections,
    Operational::InitialR2t,
    Operational::ImmediateData,
    Operational::MaxBurstLength,
    Operational::FirstBurstLength,
    Operational::DefaultTime2Wait,
    Operational::DefaultTime2Retain,
    Operational::MaxOutstandingR2t,
    Operational::DataPduInOrder,
    Operational::DataSequenceInOrder,
    Operational::ErrorRecoveryLevel,
    Operational::TaskReporting,
    Operational::ProtocolLevel,
    Operational::IfMarker,
    Operational::OfMarker,
    Operational::IfMarkInt,
    Operational::OfMarkInt,
];

/// The class of a key; `None` for a key we do not know.
pub fn class(name: &str) -> Option<Class> {
    match name {
        key::INITIATOR_NAME | key::TARGET_NAME | key::SESSION_TYPE | key::INITIATOR_ALIAS => {
            Some(Class::Identity)
        }
        key::AUTH_METHOD | key::CHAP_A | key::CHAP_C | key::CHAP_I | key::CHAP_N | key::CHAP_R => {
            Some(Class::Security)
        }
        key::TARGET_ALIAS | key::TARGET_ADDRESS | key::TARGET_PORTAL_GROUP_TAG | key::SEND_TARGETS => {
            Some(Class::NotForLogin)
        }
        _ => OPERATIONAL.into_iter().find(|&key| row(key).name == name).map(Class::Operational),
    }
}

fn row(key: Operational) -> &'static Row {
    &ROWS[key as usize]
}

/// The first entry of a comma-separated list that is one of ours.
pub fn choose<'a>(list: &str, ours: &[&'a str]) -> Option<&'a str> {
    list.split(',').find_map(|entry| ours.iter().copied().find(|own| *own == entry))
}

/// What an initiator's value is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: it was a declaration, or itself an answer.
    Silent,
    /// `key=` this.
    Value(String),
}

impl Answer {
    fn constant(text: &str) -> Self {
        Self::Value(text.to_owned())
    }
}

/// The operational keys of one connection: what we wish, what is agreed, what was said.
#[derive(Debug, Clone)]
pub struct Negotiation {
    wishes: [u32; OPERATIONAL_COUNT],
    results: [u32; OPERATIONAL_COUNT],
    /// Bit per key: the initiator has spoken of it.
    heard: u32,
    /// Bit per key: we offered it and wait for the answer.
    offered: u32,
}

impl Negotiation {
    /// Nothing said yet: results are the defaults of section 13.
    pub fn new(limits: &OperationalLimits) -> Self {
        let first_burst_length = limits.first_burst_length.min(limits.max_burst_length);
        let wishes = [
            u32::from(limits.header_digest),
            u32::from(limits.data_digest),
            limits.max_recv_data_segment_length,
            u32::from(limits.max_connections),
            u32::from(limits.initial_r2t),
            u32::from(limits.immediate_data),
            limits.max_burst_length,
            first_burst_length,
            u32::from(limits.default_time2wait_s),
            u32::from(limits.default_time2retain_s),
            u32::from(limits.max_outstanding_r2t),
            // We send in order and want it so.
            1,
            1,
            // Error recovery level 0 only.
            0,
            u32::from(limits.response_fence),
            1,
            0,
            0,
            0,
            0,
        ];
        Self { wishes, results: std::array::from_fn(|index| ROWS[index].default), heard: 0, offered: 0 }
    }

    /// Takes the initiator's value of a key. `Err` when the key came before.
    pub fn hear(
        &mut self,
        key: Operational,
        value: &str,
        is_leading: bool,
        is_discovery: bool,
    ) -> Result<Answer, DuplicateKey> {
        let bit = 1 << key as usize;
        let row = row(key);
        if self.heard & bit != 0 && !matches!(row.rule, Rule::Declared(..)) {
            return Err(DuplicateKey);
        }
        self.heard |= bit;
        let is_answer = self.offered & bit != 0;
        self.offered &= !bit;
        if matches!(value, REJECT | IRRELEVANT | NOT_UNDERSTOOD) {
            // Never answer an answer. The default stays.
            return Ok(Answer::Silent);
        }
        if is_discovery && !row.in_discovery || !is_leading && row.leading_only {
            return Ok(Answer::constant(IRRELEVANT));
        }
        let answer = self.judge(key, row.rule, value);
        Ok(if is_answer { Answer::Silent } else { answer })
    }

    fn judge(&mut self, key: Operational, rule: Rule, value: &str) -> Answer {
        let wish = self.wish(key);
        let number = |low: u32, high: u32| {
            let number = parse_number(value).and_then(|number| u32::try_from(number).ok());
            number.filter(|number| (low..=high).contains(number))
        };
        let boolean = || match value {
            YES => Some(1),
            NO => Some(0),
            _ => None,
        };
        let result = match rule {
            Rule::And => boolean().map(|theirs| theirs & wish),
            Rule::Or => boolean().map(|theirs| theirs | wish),
            Rule::Minimum(low, high) => number(low, high).map(|theirs| theirs.min(wish)),
            Rule::Maximum(low, high) => number(low, high).map(|theirs| theirs.max(wish)),
            Rule::Declared(low, high) => number(low, high),
            Rule::List(zero, one) => {
                let ours: &[&str] = if wish == 0 { &[zero] } else { &[zero, one] };
                choose(value, ours).map(|chosen| u32::from(chosen == one))
            }
            Rule::Never => boolean().map(|_| 0),
            Rule::Refused => None,
        };
        let Some(result) = result else { return Answer::constant(REJECT) };
        self.results[key as usize] = result;
        match rule {
            Rule::Declared(..) => Answer::Silent,
            Rule::And | Rule::Or | Rule::Never => Answer::constant(if result == 0 { NO } else { YES }),
            Rule::List(zero, one) => Answer::constant(if result == 0 { zero } else { one }),
            _ => Answer::Value(result.to_string()),
        }
    }

    /// Our wish, where it depends on another key's result.
    fn wish(&self, key: Operational) -> u32 {
        let wish = self.wishes[key as usize];
        match key {
            Operational::FirstBurstLength => wish.min(self.results[Operational::MaxBurstLength as usize]),
            _ => wish,
        }
    }

    /// What the defaults would have us take although we do not want it and the initiator did not
    /// speak of it: we have to offer it ourselves. Only what an initiator may send unasked counts;
    /// all other limits we keep by ourselves. Each key is offered once.
    pub fn own_offers(&mut self) -> Vec<(&'static str, String)> {
        let mut offers = Vec::new();
        let immediate_data = Operational::ImmediateData;
        if self.is_due(immediate_data) && self.wish(immediate_data) == 0 {
            offers.push((key::IMMEDIATE_DATA, NO.to_owned()));
            self.offered |= 1 << immediate_data as usize;
        }
        let first_burst = Operational::FirstBurstLength;
        // An initiator that asked for a short MaxBurstLength knows that this bounds the first burst too.
        let assumed = self.result(first_burst).min(self.result(Operational::MaxBurstLength));
        if self.is_due(first_burst) && self.wish(first_burst) < assumed {
            offers.push((key::FIRST_BURST_LENGTH, self.wish(first_burst).to_string()));
            self.offered |= 1 << first_burst as usize;
        }
        offers
    }

    fn is_due(&self, key: Operational) -> bool {
        (self.heard | self.offered) & 1 << key as usize == 0
    }

    fn is_set(&self, key: Operational) -> bool {
        self.results[key as usize] != 0
    }

    fn result(&self, key: Operational) -> u32 {
        self.results[key as usize]
    }

    /// A result that fits into 16 bits by its range.
    fn result16(&self, key: Operational) -> u16 {
        u16::try_from(self.result(key)).unwrap_or(u16::MAX)
    }

    /// The session's part of the results.
    pub fn session_parameters(&self) -> SessionParameters {
        let max_burst_length = self.result(Operational::MaxBurstLength);
        SessionParameters {
            max_connections: self.result16(Operational::MaxConnections),
            initial_r2t: self.is_set(Operational::InitialR2t),
            immediate_data: self.is_set(Operational::ImmediateData),
            max_burst_length,
            // MaxBurstLength may have come after FirstBurstLength, or alone.
            first_burst_length: self.result(Operational::FirstBurstLength).min(max_burst_length),
            default_time2wait_s: self.result16(Operational::DefaultTime2Wait),
            default_time2retain_s: self.result16(Operational::DefaultTime2Retain),
            max_outstanding_r2t: self.result16(Operational::MaxOutstandingR2t),
            data_pdu_in_order: self.is_set(Operational::DataPduInOrder),
            data_sequence_in_order: self.is_set(Operational::DataSequenceInOrder),
            error_recovery_level: self.result(Operational::ErrorRecoveryLevel) as u8,
            task_reporting: if self.is_set(Operational::TaskReporting) {
                TaskReporting::ResponseFence
            } else {
                TaskReporting::Rfc3720
            },
            protocol_level: self.result(Operational::ProtocolLevel) as u8,
        }
    }

    /// The connection's part of the results; `declared` is whether we told the initiator how much
    /// we take, else the default holds.
    pub fn connection_parameters(&self, declared: bool) -> ConnectionParameters {
        let key = Operational::MaxRecvDataSegmentLength;
        ConnectionParameters {
            framing: Framing {
                header_digest: self.is_set(Operational::HeaderDigest),
                data_digest: self.is_set(Operational::DataDigest),
            },
            initiator_max_recv_data_segment_length: self.result(key),
            target_max_recv_data_segment_length: if declared {
                self.wishes[key as usize]
            } else {
                row(key).default
            },
        }
    }
}

/// The key came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateKey;
