//! Stages, names, bounds, order of events.

use proptest::prelude::*;
use wire::iscsi::{LoginFlags, LoginStatus, LoginTransit, SerialNumber};

use super::*;

const T: LoginFlags = LoginFlags::TRANSIT;

#[test]
fn operational_stage_only_as_qemu_does() {
    let (text, outcome) = login_with(config(), "SessionType=Normal InitiatorAlias=x");
    assert_eq!(text, format!("{TARGET} {LENGTH}"));
    assert_eq!(outcome.initiator_name.as_str(), "iqn.2026-11.test:me");
    assert_eq!(outcome.initiator_alias.as_deref(), Some("x"));
    assert_eq!(outcome.target.as_ref().map(IscsiName::as_str), Some("iqn.2026-11.test:open"));
    assert_eq!(outcome.session_type, SessionType::Normal);
    assert_eq!((outcome.tsih_requested, outcome.cid), (0, 3));
    assert_eq!(outcome.cmd_sn, SerialNumber(100));
    assert_eq!(outcome.next_stat_sn, SerialNumber(501), "one response was sent, beginning with 500");
    assert_eq!(outcome.user, None);
}

#[test]
fn both_stages_as_open_iscsi_does() {
    let mut peer = Peer::new();
    let text = format!("{NAMES} SessionType=Normal AuthMethod=None");
    assert_eq!(peer.go(SECURITY, OPERATIONAL, &text), answer(true, &format!("{TARGET} AuthMethod=None")));
    let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, "HeaderDigest=None") else { panic!() };
    assert_eq!(outcome.next_stat_sn, SerialNumber(502));
}

#[test]
fn the_last_response_carries_what_the_session_says() {
    let mut peer = Peer::new();
    assert!(matches!(peer.go(OPERATIONAL, FULL, NAMES), Outcome::Establish(_)));
    let established =
        Event::Established { tsih: 42, exp_cmd_sn: SerialNumber(7), max_cmd_sn: SerialNumber(70) };
    let Action::Complete(response) = peer.login.handle(established, &Book) else { panic!() };
    let header = response.header;
    assert_eq!((header.tsih, header.exp_cmd_sn, header.max_cmd_sn), (42, SerialNumber(7), SerialNumber(70)));
    assert_eq!(header.stat_sn, SerialNumber(500));
    assert_eq!(response.bhs()[1], 0x87, "T, from operational to full-feature phase");
}

#[test]
fn from_security_straight_to_full_feature_phase() {
    let mut peer = Peer::new();
    let Outcome::Establish(outcome) = peer.go(SECURITY, FULL, NAMES) else { panic!() };
    // We had no chance to declare more than the default.
    assert_eq!(outcome.connection.target_max_recv_data_segment_length, 8192);
}

#[test]
fn a_stage_may_be_stayed_in() {
    let mut peer = Peer::new();
    assert_eq!(peer.stay(SECURITY, NAMES), answer(false, TARGET));
    assert_eq!(peer.stay(SECURITY, ""), answer(false, ""));
    assert_eq!(peer.go(SECURITY, OPERATIONAL, ""), answer(true, ""));
    assert_eq!(peer.stay(OPERATIONAL, ""), answer(false, LENGTH));
    assert!(matches!(peer.go(OPERATIONAL, FULL, ""), Outcome::Establish(_)));
}

#[test]
fn illegal_moves_between_stages() {
    for (first, current, next) in [
        (SECURITY, SECURITY, SECURITY),
        (OPERATIONAL, OPERATIONAL, OPERATIONAL),
        (OPERATIONAL, OPERATIONAL, SECURITY),
        (OPERATIONAL, SECURITY, OPERATIONAL),
        (SECURITY, OPERATIONAL, FULL),
    ] {
        let mut peer = Peer::new();
        assert!(matches!(peer.stay(first, NAMES), Outcome::Answer(false, _)));
        assert_eq!(
            peer.go(current, next, ""),
            Outcome::Refused(LoginStatus::INITIATOR_ERROR),
            "{first:?}: {current:?} to {next:?}"
        );
    }
}

#[test]
fn reserved_stages_and_full_feature_phase_are_no_start() {
    for byte in [0x08, 0x0c, 0x0f, 0x82, 0x88, 0x8f] {
        let mut peer = Peer::new();
        let mut bhs = [0; 48];
        peer.header.encode(&mut bhs);
        bhs[1] = byte;
        peer.header = LoginRequest::decode(&bhs);
        let (flags, transit) = (peer.header.flags, peer.header.transit);
        assert_eq!(
            peer.send(flags, transit, NAMES),
            Outcome::Refused(LoginStatus::INITIATOR_ERROR),
            "{byte:#04x}"
        );
    }
}

#[test]
fn names_that_are_missing_bad_or_unknown() {
    for (text, status) in [
        ("", LoginStatus::MISSING_PARAMETER),
        ("TargetName=iqn.2026-11.test:open", LoginStatus::MISSING_PARAMETER),
        ("InitiatorName=a", LoginStatus::MISSING_PARAMETER),
        ("InitiatorName=a SessionType=Normal", LoginStatus::MISSING_PARAMETER),
        ("SessionType=Discovery", LoginStatus::MISSING_PARAMETER),
        ("InitiatorName= TargetName=b", LoginStatus::INITIATOR_ERROR),
        ("InitiatorName=a TargetName=b,c", LoginStatus::INITIATOR_ERROR),
        (
            "InitiatorName=a TargetName=iqn.x:open SessionType=Strange",
            LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
        ),
        ("InitiatorName=a TargetName=iqn.x:unknown", LoginStatus::NOT_FOUND),
        ("InitiatorName=a TargetName=iqn.x:gone", LoginStatus::TARGET_REMOVED),
        ("InitiatorName=a TargetName=iqn.x:off", LoginStatus::SERVICE_UNAVAILABLE),
        ("InitiatorName=iqn.x:mallory TargetName=iqn.x:open", LoginStatus::AUTHORIZATION_FAILURE),
    ] {
        for stage in [SECURITY, OPERATIONAL] {
            assert_eq!(Peer::new().go(stage, FULL, text), Outcome::Refused(status), "{text}");
        }
    }
}

#[test]
fn names_are_compared_without_case() {
    let mut peer = Peer::new();
    let text = "InitiatorName=IQN.x:Me TargetName=IQN.2026-11.Test:OPEN";
    let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, text) else { panic!() };
    assert_eq!(outcome.initiator_name.as_str(), "iqn.x:me");
}

#[test]
fn names_may_come_again_but_not_change() {
    // Some versions of libiscsi repeat their names in the operational stage after CHAP.
    let repeat = format!("{NAMES} SessionType=Normal InitiatorAlias=x");
    let mut peer = Peer::new();
    assert!(matches!(peer.go(SECURITY, OPERATIONAL, &repeat), Outcome::Answer(true, _)));
    assert!(matches!(peer.go(OPERATIONAL, FULL, &repeat), Outcome::Establish(_)));
    for change in ["InitiatorName=other", "TargetName=other", "SessionType=Discovery", "InitiatorAlias=y"] {
        let mut peer = Peer::new();
        assert!(matches!(peer.go(SECURITY, OPERATIONAL, &repeat), Outcome::Answer(true, _)));
        let refused = Outcome::Refused(LoginStatus::INITIATOR_ERROR);
        assert_eq!(peer.go(OPERATIONAL, FULL, change), refused, "{change}");
    }
}

#[test]
fn discovery_needs_no_target() {
    let mut peer = Peer::new();
    let text = "InitiatorName=a SessionType=Discovery AuthMethod=None";
    assert_eq!(peer.go(SECURITY, OPERATIONAL, text), answer(true, "AuthMethod=None"));
    let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, "") else { panic!() };
    assert_eq!((outcome.session_type, outcome.target), (SessionType::Discovery, None));
}

#[test]
fn a_discovery_session_takes_no_second_connection() {
    let mut peer = Peer::new();
    peer.header.tsih = 5;
    let text = "InitiatorName=a SessionType=Discovery";
    assert_eq!(peer.go(OPERATIONAL, FULL, text), Outcome::Refused(LoginStatus::INITIATOR_ERROR));
}

#[test]
fn versions() {
    let mut peer = Peer::new();
    (peer.header.version_min, peer.header.version_max) = (0, 9);
    assert!(matches!(peer.stay(SECURITY, NAMES), Outcome::Answer(false, _)));
    let mut peer = Peer::new();
    (peer.header.version_min, peer.header.version_max) = (1, 9);
    assert_eq!(peer.stay(SECURITY, NAMES), Outcome::Refused(LoginStatus::UNSUPPORTED_VERSION));
}

#[test]
fn the_identity_of_the_connection_stays() {
    let changes: [fn(&mut LoginRequest); 4] = [
        |header| header.isid = Isid([1; 6]),
        |header| header.tsih = 9,
        |header| header.cid = 9,
        |header| header.initiator_task_tag = 10,
    ];
    for change in changes {
        let mut peer = Peer::new();
        assert!(matches!(peer.stay(SECURITY, NAMES), Outcome::Answer(false, _)));
        change(&mut peer.header);
        assert_eq!(peer.stay(SECURITY, ""), Outcome::Refused(LoginStatus::INITIATOR_ERROR));
    }
}

#[test]
fn text_in_parts_with_the_c_bit() {
    let mut peer = Peer::new();
    assert_eq!(peer.part(OPERATIONAL, b"InitiatorName=iqn.x:a\0Tar"), answer(false, ""));
    assert_eq!(peer.part(OPERATIONAL, b"getName=iqn.x:op"), answer(false, ""));
    let transit = LoginTransit::new(OPERATIONAL, FULL);
    let Outcome::Establish(outcome) = peer.send_bytes(T, transit, b"en\0") else { panic!() };
    assert_eq!(outcome.target.unwrap().as_str(), "iqn.x:open");
    assert_eq!(outcome.next_stat_sn, SerialNumber(503));
}

#[test]
fn c_and_t_exclude_each_other() {
    let both = T | LoginFlags::CONTINUE;
    let outcome = Peer::new().send(both, LoginTransit::new(OPERATIONAL, FULL), NAMES);
    assert_eq!(outcome, Outcome::Refused(LoginStatus::INITIATOR_ERROR));
}

#[test]
fn endless_text_is_cut_off() {
    let mut peer = Peer::new();
    let part = [b'x'; LOGIN_RESPONSE_BYTES];
    for _ in 0..REQUEST_TEXT_BYTES / part.len() {
        assert_eq!(peer.part(SECURITY, &part), answer(false, ""));
    }
    assert_eq!(peer.part(SECURITY, b"x"), Outcome::Refused(LoginStatus::INITIATOR_ERROR));
}

#[test]
fn endless_logins_are_cut_off() {
    let mut peer = Peer::new();
    assert!(matches!(peer.stay(SECURITY, NAMES), Outcome::Answer(false, _)));
    for _ in 1..LOGIN_EXCHANGES {
        assert_eq!(peer.stay(SECURITY, ""), answer(false, ""));
    }
    assert_eq!(peer.stay(SECURITY, ""), Outcome::Refused(LoginStatus::INITIATOR_ERROR));
}

#[test]
fn too_many_pairs_and_too_long_answers_are_refused() {
    use std::fmt::Write;
    let keys = |count: usize, length: usize| {
        (0..count).fold(NAMES.to_owned(), |mut text, n| {
            write!(text, " X-{n:0length$}=1").unwrap();
            text
        })
    };
    let send = |text: &str| Peer::new().stay(SECURITY, text);
    assert!(matches!(send(&keys(200, 4)), Outcome::Answer(false, _)));
    assert_eq!(send(&keys(REQUEST_PAIRS, 4)), Outcome::Refused(LoginStatus::INITIATOR_ERROR));
    assert_eq!(send(&keys(200, 60)), Outcome::Refused(LoginStatus::OUT_OF_RESOURCES));
}

#[test]
fn garbage_is_refused() {
    for text in [&b"InitiatorName"[..], b"=\0", b"\xff\xfe=\0", b"A=1\0A=2\0", b"A=\xc0\0"] {
        let outcome = Peer::new().send_bytes(T, LoginTransit::new(OPERATIONAL, FULL), text);
        assert_eq!(outcome, Outcome::Refused(LoginStatus::INITIATOR_ERROR), "{text:?}");
    }
}

#[test]
fn other_pdus_before_and_during_login() {
    assert_eq!(Peer::new().event(Event::OtherPdu), Outcome::Closed);
    let mut peer = Peer::new();
    assert!(matches!(peer.stay(SECURITY, NAMES), Outcome::Answer(false, _)));
    assert_eq!(peer.event(Event::OtherPdu), Outcome::Refused(LoginStatus::INVALID_REQUEST_DURING_LOGIN));
    assert_eq!(peer.event(Event::OtherPdu), Outcome::Closed);
}

#[test]
fn the_session_layer_may_refuse() {
    for status in [
        LoginStatus::SESSION_DOES_NOT_EXIST,
        LoginStatus::TOO_MANY_CONNECTIONS,
        LoginStatus::CANNOT_INCLUDE_IN_SESSION,
        LoginStatus::OUT_OF_RESOURCES,
    ] {
        let mut peer = Peer::new();
        peer.header.tsih = 77;
        let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, NAMES) else { panic!() };
        assert_eq!(outcome.tsih_requested, 77);
        assert_eq!(peer.event(Event::Refused(status)), Outcome::Refused(status));
        assert_eq!(peer.stay(OPERATIONAL, ""), Outcome::Closed);
    }
}

#[test]
fn a_refused_session_does_not_skip_a_status_number() {
    let mut peer = Peer::new();
    assert!(matches!(peer.go(OPERATIONAL, FULL, NAMES), Outcome::Establish(_)));
    let action = peer.login.handle(Event::Refused(LoginStatus::OUT_OF_RESOURCES), &Book);
    let Action::Refuse(response, _) = action else { panic!() };
    assert_eq!(response.header.stat_sn, SerialNumber(500));
}

#[test]
fn events_out_of_turn() {
    let established =
        Event::Established { tsih: 1, exp_cmd_sn: SerialNumber(0), max_cmd_sn: SerialNumber(0) };
    assert_eq!(Peer::new().event(established), Outcome::Closed);
    let mut peer = Peer::new();
    assert!(matches!(peer.go(OPERATIONAL, FULL, NAMES), Outcome::Establish(_)));
    assert_eq!(peer.go(OPERATIONAL, FULL, ""), Outcome::Refused(LoginStatus::INITIATOR_ERROR));
    let mut peer = Peer::new();
    assert!(matches!(peer.go(OPERATIONAL, FULL, NAMES), Outcome::Establish(_)));
    assert!(matches!(peer.event(established), Outcome::Complete(_)));
    assert_eq!(peer.go(OPERATIONAL, FULL, ""), Outcome::Closed);
}

/// Pieces of text that lead deep into the machine, among bytes that lead nowhere.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "InitiatorName=a\0TargetName=iqn.x:open\0",
        "InitiatorName=a\0TargetName=iqn.x:mutual\0AuthMethod=CHAP,None\0",
        "AuthMethod=None\0",
        "CHAP_A=7,5\0",
        "CHAP_N=alice\0CHAP_R=0x00\0",
        "CHAP_I=1\0CHAP_C=0bAAAA\0",
        "MaxBurstLength=1000\0FirstBurstLength=512\0",
        "HeaderDigest=CRC32C,None\0ImmediateData=No\0",
        "SessionType=Discovery\0",
    ]);
    let piece = prop_oneof![
        4 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "[A-Z][A-Za-z]{1,8}=[0-9A-Za-z,]{0,9}\0".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_requests_end_within_bounds(requests in prop::collection::vec((any::<u8>(), text(), 0u8..20), 1..40)) {
        let mut peer = Peer::new();
        let mut is_over = false;
        for (byte, text, event) in requests {
            let mut bhs = [0; 48];
            peer.header.encode(&mut bhs);
            bhs[1] = byte;
            peer.header = LoginRequest::decode(&bhs);
            let (flags, transit) = (peer.header.flags, peer.header.transit);
            let outcome = match event {
                0 => peer.event(Event::OtherPdu),
                1 => peer.event(Event::Refused(LoginStatus::OUT_OF_RESOURCES)),
                _ => peer.send_bytes(flags, transit, &text),
            };
            prop_assert!(!is_over || outcome == Outcome::Closed, "nothing follows the end");
            is_over |= matches!(outcome, Outcome::Refused(_) | Outcome::Closed | Outcome::Complete(_));
        }
    }

    #[test]
    fn well_formed_logins_never_run_longer_than_the_bound(texts in prop::collection::vec(text(), 40)) {
        let mut peer = Peer::new();
        let mut answered = 0;
        for text in texts {
            match peer.send_bytes(LoginFlags::empty(), LoginTransit::new(SECURITY, SECURITY), &text) {
                Outcome::Answer(..) => answered += 1,
                _ => break,
            }
        }
        prop_assert!(answered <= LOGIN_EXCHANGES);
    }
}
