//! The names of the text keys: RFC 7143 sections 12 and 13, RFC 7144.

/// One line per key keeps constant and spelling side by side.
macro_rules! keys {
    ($( $constant:ident = $spelling:literal, )+) => {
        $(
            #[doc = concat!("`", $spelling, "`")]
            pub const $constant: &str = $spelling;
        )+
    };
}

keys! {
    AUTH_METHOD = "AuthMethod",
    CHAP_A = "CHAP_A",
    CHAP_C = "CHAP_C",
    CHAP_I = "CHAP_I",
    CHAP_N = "CHAP_N",
    CHAP_R = "CHAP_R",
    DATA_DIGEST = "DataDigest",
    DATA_PDU_IN_ORDER = "DataPDUInOrder",
    DATA_SEQUENCE_IN_ORDER = "DataSequenceInOrder",
    DEFAULT_TIME2RETAIN = "DefaultTime2Retain",
    DEFAULT_TIME2WAIT = "DefaultTime2Wait",
    ERROR_RECOVERY_LEVEL = "ErrorRecoveryLevel",
    FIRST_BURST_LENGTH = "FirstBurstLength",
    HEADER_DIGEST = "HeaderDigest",
    IF_MARK_INT = "IFMarkInt",
    IF_MARKER = "IFMarker",
    IMMEDIATE_DATA = "ImmediateData",
    INITIAL_R2T = "InitialR2T",
    INITIATOR_ALIAS = "InitiatorAlias",
    INITIATOR_NAME = "InitiatorName",
    ISCSI_PROTOCOL_LEVEL = "iSCSIProtocolLevel",
    MAX_BURST_LENGTH = "MaxBurstLength",
    MAX_CONNECTIONS = "MaxConnections",
    MAX_OUTSTANDING_R2T = "MaxOutstandingR2T",
    MAX_RECV_DATA_SEGMENT_LENGTH = "MaxRecvDataSegmentLength",
    OF_MARK_INT = "OFMarkInt",
    OF_MARKER = "OFMarker",
    SEND_TARGETS = "SendTargets",
    SESSION_TYPE = "SessionType",
    TARGET_ADDRESS = "TargetAddress",
    TARGET_ALIAS = "TargetAlias",
    TARGET_NAME = "TargetName",
    TARGET_PORTAL_GROUP_TAG = "TargetPortalGroupTag",
    TASK_REPORTING = "TaskReporting",
}
