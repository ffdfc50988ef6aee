//! What a login may agree on, and what it did.

use wire::iscsi::Framing;

use crate::limits;

/// The most a `DataSegmentLength` can say.
pub(super) const MAX_SEGMENT_LENGTH: u32 = 0x00ff_ffff;

/// What this target is ready to do; the other side may ask for less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationalLimits {
    /// Connections in a session, 1 to 65535.
    pub max_connections: u16,
    /// The target insists on an R2T before data that is not immediate.
    pub initial_r2t: bool,
    /// The target takes data within the command PDU.
    pub immediate_data: bool,
    /// Bytes of data the target takes in one PDU, 512 to 2^24-1.
    pub max_recv_data_segment_length: u32,
    /// Bytes in one solicited sequence, 512 to 2^24-1.
    pub max_burst_length: u32,
    /// Bytes of unsolicited data of a command, 512 to `max_burst_length`.
    pub first_burst_length: u32,
    /// Seconds before a reconnection, 0 to 3600.
    pub default_time2wait_s: u16,
    /// Seconds for which tasks outlive their connection, 0 to 3600.
    pub default_time2retain_s: u16,
    /// R2Ts of one command at a time, 1 to 65535.
    pub max_outstanding_r2t: u16,
    /// Header digests may be used.
    pub header_digest: bool,
    /// Data digests may be used.
    pub data_digest: bool,
    /// The session keeps the response fence of section 4.2.2.3.2 when tasks are ended.
    pub response_fence: bool,
}

/// A limit outside of the range that the standard gives its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}, but it has to be {low} to {high} (RFC 7143 section 13)")]
pub struct LimitError {
    /// The limit.
    pub name: &'static str,
    /// What it was.
    pub value: u32,
    /// The least it may be.
    pub low: u32,
    /// The most it may be.
    pub high: u32,
}

impl OperationalLimits {
    /// Checks the ranges; a target that answered with a value out of them would break the protocol.
    pub fn check(&self) -> Result<(), LimitError> {
        let checks = [
            ("max_connections", self.max_connections.into(), 1, 65535),
            ("max_recv_data_segment_length", self.max_recv_data_segment_length, 512, MAX_SEGMENT_LENGTH),
            ("max_burst_length", self.max_burst_length, 512, MAX_SEGMENT_LENGTH),
            ("first_burst_length", self.first_burst_length, 512, self.max_burst_length),
            ("default_time2wait_s", self.default_time2wait_s.into(), 0, 3600),
            ("default_time2retain_s", self.default_time2retain_s.into(), 0, 3600),
            ("max_outstanding_r2t", self.max_outstanding_r2t.into(), 1, 65535),
        ];
        for (name, value, low, high) in checks {
            if value < low || value > high {
                return Err(LimitError { name, value, low, high });
            }
        }
        Ok(())
    }
}

impl Default for OperationalLimits {
    fn default() -> Self {
        Self {
            max_connections: limits::CONNECTIONS_PER_SESSION,
            initial_r2t: false,
            immediate_data: true,
            max_recv_data_segment_length: limits::RECEIVE_DATA_SEGMENT_BYTES as u32,
            max_burst_length: limits::BURST_BYTES as u32,
            // One PDU of ours; more unsolicited data only fills buffers before they are wanted.
            first_burst_length: limits::RECEIVE_DATA_SEGMENT_BYTES as u32,
            default_time2wait_s: 2,
            // Nothing outlives its connection at error recovery level 0.
            default_time2retain_s: 0,
            max_outstanding_r2t: 8,
            header_digest: true,
            data_digest: true,
            response_fence: false,
        }
    }
}

/// `TaskReporting`, section 13.23: when the end of tasks is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskReporting {
    /// As RFC 3720 had it.
    #[default]
    Rfc3720,
    /// A response fence (section 4.2.2.3.2) around what ends tasks.
    ResponseFence,
}

/// What holds for all connections of a session; agreed on by the leading one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionParameters {
    /// Connections the session may have.
    pub max_connections: u16,
    /// Unsolicited Data-Out PDUs are forbidden.
    pub initial_r2t: bool,
    /// Immediate data is allowed.
    pub immediate_data: bool,
    /// Bytes in one sequence of Data-In or solicited Data-Out.
    pub max_burst_length: u32,
    /// Bytes of unsolicited data of a command, immediate data included.
    pub first_burst_length: u32,
    /// Seconds before a reconnection.
    pub default_time2wait_s: u16,
    /// Seconds for which tasks outlive their connection.
    pub default_time2retain_s: u16,
    /// R2Ts of one command at a time.
    pub max_outstanding_r2t: u16,
    /// Data PDUs of a sequence come in order.
    pub data_pdu_in_order: bool,
    /// Sequences of a command come in order.
    pub data_sequence_in_order: bool,
    /// Always 0.
    pub error_recovery_level: u8,
    /// When the end of tasks is reported.
    pub task_reporting: TaskReporting,
    /// `iSCSIProtocolLevel`: 1 is RFC 7143.
    pub protocol_level: u8,
}

/// What holds for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// Digests; they begin with the first PDU after login.
    pub framing: Framing,
    /// Bytes of data the initiator takes in one PDU.
    pub initiator_max_recv_data_segment_length: u32,
    /// Bytes of data the target takes in one PDU, as it declared.
    pub target_max_recv_data_segment_length: u32,
}
