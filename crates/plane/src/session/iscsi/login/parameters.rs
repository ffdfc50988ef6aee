//! What a login may agree on, and what it did.

use wire::iscsi::Framing;

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
}

impl Default for OperationalLimits {
    fn default() -> Self {
        Self {
            max_connections: 8,
            initial_r2t: false,
            immediate_data: true,
            max_recv_data_segment_length: 256 * 1024,
            max_burst_length: 1024 * 1024,
            first_burst_length: 256 * 1024,
            default_time2wait_s: 2,
            // Nothing outlives its connection at error recovery level 0.
            default_time2retain_s: 0,
            max_outstanding_r2t: 8,
            header_digest: true,
            data_digest: true,
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
