//! Every key, and what comes of it.

use wire::iscsi::{Framing, LoginFlags, LoginStatus, LoginTransit};

use super::*;

/// What an offer is answered with, without the parts that every answer has.
fn ask_with(config: LoginConfig, text: &str) -> (String, Box<LoginOutcome>) {
    let (answers, outcome) = login_with(config, text);
    let rest = answers.replace(TARGET, "").replace(LENGTH, "");
    (rest.split_whitespace().collect::<Vec<_>>().join(" "), outcome)
}

fn ask(text: &str) -> String {
    ask_with(config(), text).0
}

fn limits(change: impl Fn(&mut OperationalLimits)) -> LoginConfig {
    let mut config = config();
    change(&mut config.limits);
    config
}

#[test]
fn every_key_of_the_standard() {
    for (offer, expected) in [
        // Lists: the first of theirs that we can take.
        ("HeaderDigest=None", "HeaderDigest=None"),
        ("HeaderDigest=CRC32C,None", "HeaderDigest=CRC32C"),
        ("HeaderDigest=None,CRC32C", "HeaderDigest=None"),
        ("HeaderDigest=MD4,CRC32C", "HeaderDigest=CRC32C"),
        ("HeaderDigest=MD4", "HeaderDigest=Reject"),
        ("DataDigest=CRC32C", "DataDigest=CRC32C"),
        ("DataDigest=", "DataDigest=Reject"),
        // Minimum.
        ("MaxConnections=1", "MaxConnections=1"),
        ("MaxConnections=65535", "MaxConnections=8"),
        ("MaxConnections=0", "MaxConnections=Reject"),
        ("MaxConnections=65536", "MaxConnections=Reject"),
        ("MaxConnections=many", "MaxConnections=Reject"),
        ("MaxBurstLength=512", "MaxBurstLength=512"),
        ("MaxBurstLength=0x40000", "MaxBurstLength=262144"),
        ("MaxBurstLength=16776192", "MaxBurstLength=1048576"),
        ("MaxBurstLength=511", "MaxBurstLength=Reject"),
        ("MaxBurstLength=16777216", "MaxBurstLength=Reject"),
        ("MaxBurstLength=99999999999999999999", "MaxBurstLength=Reject"),
        ("FirstBurstLength=65536", "FirstBurstLength=65536"),
        ("FirstBurstLength=16777215", "FirstBurstLength=262144"),
        ("FirstBurstLength=1", "FirstBurstLength=Reject"),
        ("MaxOutstandingR2T=1", "MaxOutstandingR2T=1"),
        ("MaxOutstandingR2T=65535", "MaxOutstandingR2T=8"),
        ("MaxOutstandingR2T=0", "MaxOutstandingR2T=Reject"),
        ("DefaultTime2Retain=20", "DefaultTime2Retain=0"),
        ("DefaultTime2Retain=3601", "DefaultTime2Retain=Reject"),
        ("ErrorRecoveryLevel=2", "ErrorRecoveryLevel=0"),
        ("ErrorRecoveryLevel=3", "ErrorRecoveryLevel=Reject"),
        ("iSCSIProtocolLevel=2", "iSCSIProtocolLevel=1"),
        ("iSCSIProtocolLevel=0", "iSCSIProtocolLevel=0"),
        ("iSCSIProtocolLevel=32", "iSCSIProtocolLevel=Reject"),
        // Maximum.
        ("DefaultTime2Wait=0", "DefaultTime2Wait=2"),
        ("DefaultTime2Wait=60", "DefaultTime2Wait=60"),
        ("DefaultTime2Wait=3601", "DefaultTime2Wait=Reject"),
        // Or.
        ("InitialR2T=Yes", "InitialR2T=Yes"),
        ("InitialR2T=No", "InitialR2T=No"),
        ("InitialR2T=yes", "InitialR2T=Reject"),
        ("DataPDUInOrder=No", "DataPDUInOrder=Yes"),
        ("DataSequenceInOrder=No", "DataSequenceInOrder=Yes"),
        // And.
        ("ImmediateData=Yes", "ImmediateData=Yes"),
        ("ImmediateData=No", "ImmediateData=No"),
        ("ImmediateData=", "ImmediateData=Reject"),
        // Declared: no answer.
        ("MaxRecvDataSegmentLength=65536", ""),
        ("MaxRecvDataSegmentLength=511", "MaxRecvDataSegmentLength=Reject"),
        ("InitiatorAlias=somebody", ""),
        // Others.
        ("TaskReporting=RFC3720", "TaskReporting=RFC3720"),
        ("TaskReporting=FastAbort,ResponseFence,RFC3720", "TaskReporting=RFC3720"),
        ("TaskReporting=FastAbort", "TaskReporting=Reject"),
        ("IFMarker=Yes", "IFMarker=No"),
        ("OFMarker=No", "OFMarker=No"),
        ("IFMarkInt=2048~65535", "IFMarkInt=Reject"),
        ("OFMarkInt=2048", "OFMarkInt=Reject"),
        ("TargetAlias=mine", "TargetAlias=Reject"),
        ("TargetAddress=1.2.3.4", "TargetAddress=Reject"),
        ("TargetPortalGroupTag=1", "TargetPortalGroupTag=Reject"),
        ("SendTargets=All", "SendTargets=Reject"),
        ("X-com.acme.Speed=9", "X-com.acme.Speed=NotUnderstood"),
        ("X#NodeArchitecture=acme,1.0", "X#NodeArchitecture=NotUnderstood"),
        ("Whatever=1", "Whatever=NotUnderstood"),
        ("headerdigest=None", "headerdigest=NotUnderstood"),
        // Answers are not answered.
        ("Whatever=NotUnderstood", ""),
        ("TargetAlias=Irrelevant", ""),
        ("HeaderDigest=Reject", ""),
        ("MaxBurstLength=Irrelevant", ""),
    ] {
        assert_eq!(ask(offer), expected, "{offer}");
    }
}

#[test]
fn defaults_hold_for_what_nobody_spoke_of() {
    let (_, outcome) = ask_with(config(), "");
    assert_eq!(
        outcome.session,
        SessionParameters {
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_burst_length: 262_144,
            first_burst_length: 65536,
            default_time2wait_s: 2,
            default_time2retain_s: 20,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            task_reporting: TaskReporting::Rfc3720,
            protocol_level: 1,
        }
    );
    assert_eq!(
        outcome.connection,
        ConnectionParameters {
            framing: Framing { header_digest: false, data_digest: false },
            initiator_max_recv_data_segment_length: 8192,
            target_max_recv_data_segment_length: 262_144,
        }
    );
}

#[test]
fn results_are_what_was_answered() {
    let (_, outcome) = ask_with(
        limits(|limits| limits.response_fence = true),
        "HeaderDigest=CRC32C DataDigest=CRC32C,None MaxRecvDataSegmentLength=131072 MaxConnections=4 \
         InitialR2T=No ImmediateData=No MaxBurstLength=524288 FirstBurstLength=4096 DefaultTime2Wait=5 \
         DefaultTime2Retain=7 MaxOutstandingR2T=3 DataPDUInOrder=Yes ErrorRecoveryLevel=1 \
         TaskReporting=ResponseFence iSCSIProtocolLevel=1",
    );
    let session = outcome.session;
    assert_eq!((session.max_connections, session.max_outstanding_r2t), (4, 3));
    assert_eq!((session.initial_r2t, session.immediate_data), (false, false));
    assert_eq!((session.max_burst_length, session.first_burst_length), (524_288, 4096));
    assert_eq!((session.default_time2wait_s, session.default_time2retain_s), (5, 0));
    assert_eq!((session.error_recovery_level, session.task_reporting), (0, TaskReporting::ResponseFence));
    assert_eq!(outcome.connection.framing, Framing { header_digest: true, data_digest: true });
    assert_eq!(outcome.connection.initiator_max_recv_data_segment_length, 131_072);
}

#[test]
fn a_rejected_value_leaves_the_default() {
    let (_, outcome) = ask_with(config(), "MaxBurstLength=1 ImmediateData=maybe MaxRecvDataSegmentLength=0");
    assert_eq!((outcome.session.max_burst_length, outcome.session.immediate_data), (262_144, true));
    assert_eq!(outcome.connection.initiator_max_recv_data_segment_length, 8192);
}

#[test]
fn first_burst_never_exceeds_max_burst() {
    for text in
        ["FirstBurstLength=262144 MaxBurstLength=65536", "MaxBurstLength=65536 FirstBurstLength=262144"]
    {
        let (answers, outcome) = ask_with(config(), text);
        assert_eq!(answers, "MaxBurstLength=65536 FirstBurstLength=65536");
        assert_eq!(outcome.session.first_burst_length, 65536);
    }
    // The default of one and a small value of the other.
    let (_, outcome) = ask_with(config(), "MaxBurstLength=4096");
    assert_eq!(outcome.session.first_burst_length, 4096);
}

#[test]
fn the_targets_own_limits_count() {
    for (change, offer, expected) in [
        ((|l| l.initial_r2t = true) as fn(&mut OperationalLimits), "InitialR2T=No", "InitialR2T=Yes"),
        (|l| l.immediate_data = false, "ImmediateData=Yes", "ImmediateData=No"),
        (|l| l.header_digest = false, "HeaderDigest=CRC32C,None", "HeaderDigest=None"),
        (|l| l.data_digest = false, "DataDigest=CRC32C", "DataDigest=Reject"),
        (|l| l.response_fence = true, "TaskReporting=ResponseFence,RFC3720", "TaskReporting=ResponseFence"),
        (|l| l.max_connections = 1, "MaxConnections=9", "MaxConnections=1"),
        (|l| l.max_burst_length = 4096, "FirstBurstLength=8192", "FirstBurstLength=4096"),
    ] {
        assert_eq!(ask_with(limits(change), offer).0, expected, "{offer}");
    }
}

#[test]
fn what_the_initiator_may_not_assume_is_offered_once() {
    let strict = limits(|limits| {
        limits.immediate_data = false;
        limits.first_burst_length = 4096;
    });
    let mut peer = Peer::with(strict.clone());
    let offers = "ImmediateData=No FirstBurstLength=4096";
    assert_eq!(peer.go(OPERATIONAL, FULL, NAMES), answer(false, &format!("{TARGET} {LENGTH} {offers}")));
    let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, offers) else { panic!() };
    assert_eq!((outcome.session.immediate_data, outcome.session.first_burst_length), (false, 4096));

    // An initiator that does not answer is not asked again, and one that spoke of it is not asked.
    let mut silent = Peer::with(strict.clone());
    assert!(matches!(silent.go(OPERATIONAL, FULL, NAMES), Outcome::Answer(false, _)));
    assert!(matches!(silent.go(OPERATIONAL, FULL, ""), Outcome::Establish(_)));
    let text = format!("{NAMES} ImmediateData=Yes FirstBurstLength=65536");
    let Outcome::Establish(outcome) = Peer::with(strict).go(OPERATIONAL, FULL, &text) else { panic!() };
    assert!(!outcome.session.immediate_data);
}

#[test]
fn a_key_that_comes_twice_ends_the_login() {
    let twice = Outcome::Refused(LoginStatus::INITIATOR_ERROR);
    let same = format!("{NAMES} MaxBurstLength=4096 MaxBurstLength=4096");
    assert_eq!(Peer::new().go(OPERATIONAL, FULL, &same), twice);
    let mut peer = Peer::new();
    assert!(matches!(peer.stay(OPERATIONAL, &format!("{NAMES} InitialR2T=No")), Outcome::Answer(false, _)));
    assert_eq!(peer.stay(OPERATIONAL, "InitialR2T=No"), twice);
}

#[test]
fn a_length_may_be_declared_anew_in_a_later_request() {
    let mut peer = Peer::new();
    let text = format!("{NAMES} MaxRecvDataSegmentLength=4096");
    assert!(matches!(peer.stay(OPERATIONAL, &text), Outcome::Answer(false, _)));
    let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, "MaxRecvDataSegmentLength=65536") else {
        panic!()
    };
    assert_eq!(outcome.connection.initiator_max_recv_data_segment_length, 65536);
}

#[test]
fn operational_keys_in_the_security_stage_are_answered() {
    let mut peer = Peer::new();
    let text = format!("{NAMES} AuthMethod=None HeaderDigest=None MaxRecvDataSegmentLength=65536");
    let Outcome::Establish(outcome) = peer.go(SECURITY, FULL, &text) else { panic!() };
    assert_eq!(outcome, login_with(config(), "MaxRecvDataSegmentLength=65536").1);
}

#[test]
fn security_keys_in_the_operational_stage_are_refused() {
    for key in ["AuthMethod=None", "CHAP_A=5", "CHAP_N=alice"] {
        let outcome = Peer::new().go(OPERATIONAL, FULL, &format!("{NAMES} {key}"));
        assert_eq!(outcome, Outcome::Refused(LoginStatus::INITIATOR_ERROR), "{key}");
    }
}

#[test]
fn irrelevant_in_a_discovery_session() {
    let text = "InitiatorName=a SessionType=Discovery MaxConnections=1 InitialR2T=No ImmediateData=Yes \
                MaxBurstLength=4096 FirstBurstLength=4096 MaxOutstandingR2T=1 DataPDUInOrder=Yes \
                DataSequenceInOrder=Yes TaskReporting=RFC3720 iSCSIProtocolLevel=1 HeaderDigest=None \
                DefaultTime2Wait=2 DefaultTime2Retain=0 ErrorRecoveryLevel=0 MaxRecvDataSegmentLength=32768";
    let outcome = Peer::new().send(LoginFlags::empty(), LoginTransit::new(OPERATIONAL, SECURITY), text);
    let expected = "MaxConnections=Irrelevant InitialR2T=Irrelevant ImmediateData=Irrelevant \
                    MaxBurstLength=Irrelevant MaxOutstandingR2T=Irrelevant DataPDUInOrder=Irrelevant \
                    DataSequenceInOrder=Irrelevant TaskReporting=Irrelevant iSCSIProtocolLevel=Irrelevant \
                    HeaderDigest=None DefaultTime2Wait=2 DefaultTime2Retain=0 ErrorRecoveryLevel=0 \
                    FirstBurstLength=Irrelevant MaxRecvDataSegmentLength=262144";
    assert_eq!(outcome, answer(false, &expected.split_whitespace().collect::<Vec<_>>().join(" ")));
}

#[test]
fn keys_of_the_leading_connection_are_irrelevant_on_a_further_one() {
    let mut peer = Peer::with(limits(|limits| limits.immediate_data = false));
    peer.header.tsih = 5;
    let text = format!("{NAMES} SessionType=Normal MaxBurstLength=4096 HeaderDigest=CRC32C");
    assert_eq!(
        peer.stay(OPERATIONAL, &text),
        answer(false, &format!("{TARGET} MaxBurstLength=Irrelevant HeaderDigest=CRC32C {LENGTH}"))
    );
    let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, "") else {
        panic!("no offers of ours either")
    };
    assert!(outcome.connection.framing.header_digest);
}

#[test]
fn we_declare_our_length_once() {
    let mut peer = Peer::new();
    assert_eq!(peer.stay(OPERATIONAL, NAMES), answer(false, &format!("{TARGET} {LENGTH}")));
    assert_eq!(peer.stay(OPERATIONAL, "InitialR2T=Yes"), answer(false, "InitialR2T=Yes"));
}

#[test]
fn limits_are_within_the_ranges_of_the_standard() {
    assert_eq!(OperationalLimits::default().check(), Ok(()));
    for (change, name) in [
        ((|l| l.max_connections = 0) as fn(&mut OperationalLimits), "max_connections"),
        (|l| l.max_recv_data_segment_length = 511, "max_recv_data_segment_length"),
        (|l| l.max_recv_data_segment_length = 1 << 24, "max_recv_data_segment_length"),
        (|l| l.max_burst_length = 1 << 24, "max_burst_length"),
        (|l| l.first_burst_length = l.max_burst_length + 1, "first_burst_length"),
        (|l| l.default_time2wait_s = 3601, "default_time2wait_s"),
        (|l| l.default_time2retain_s = 3601, "default_time2retain_s"),
        (|l| l.max_outstanding_r2t = 0, "max_outstanding_r2t"),
    ] {
        let error = limits(change).limits.check().unwrap_err();
        assert_eq!(error.name, name);
        assert!(error.to_string().starts_with(name), "{error}");
    }
}
