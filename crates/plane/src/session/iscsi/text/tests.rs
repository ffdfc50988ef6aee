use super::*;
use proptest::prelude::*;

struct Targets(Vec<(String, Vec<String>)>);

impl TargetList for Targets {
    fn visit(&self, visit: &mut dyn FnMut(&str, &[String])) {
        self.0.iter().for_each(|(name, addresses)| visit(name, addresses));
    }
}

fn two_targets() -> Targets {
    let portal = |number: u8| format!("127.0.0.{number}:3260,1");
    Targets(vec![
        ("iqn.2026-11.internal.fels:a".into(), vec![portal(1), portal(2)]),
        ("iqn.2026-11.internal.fels:b".into(), vec![portal(1)]),
    ])
}

fn request(flags: TextFlags, target_transfer_tag: u32) -> TextRequest {
    TextRequest { flags, initiator_task_tag: 7, target_transfer_tag, ..TextRequest::default() }
}

const FINAL: TextFlags = TextFlags::FINAL;

fn discovery(limit: u32) -> TextNegotiation {
    TextNegotiation::new(SessionType::Discovery, None, limit)
}

fn normal() -> TextNegotiation {
    TextNegotiation::new(SessionType::Normal, Some("iqn.2026-11.internal.fels:b".into()), 8192)
}

/// One request that is answered at once.
fn ask(negotiation: &mut TextNegotiation, text: &str) -> String {
    match negotiation.handle(&request(FINAL, RESERVED_TAG), text.as_bytes(), &two_targets()) {
        TextAction::Respond { header, text } => {
            assert_eq!(header.flags, FINAL);
            assert_eq!(header.target_transfer_tag, RESERVED_TAG);
            assert_eq!(header.data_segment_length.get(), text.len());
            String::from_utf8(text).unwrap().replace('\0', " ").trim_end().to_owned()
        }
        TextAction::Reject(reason) => format!("{reason:?}"),
    }
}

const A: &str = "TargetName=iqn.2026-11.internal.fels:a TargetAddress=127.0.0.1:3260,1 \
                 TargetAddress=127.0.0.2:3260,1";
const B: &str = "TargetName=iqn.2026-11.internal.fels:b TargetAddress=127.0.0.1:3260,1";

#[test]
fn send_targets_by_kind_of_session() {
    for (text, in_discovery, in_normal) in [
        ("SendTargets=All\0", format!("{A} {B}"), "SendTargets=Reject".to_owned()),
        ("SendTargets=\0", "SendTargets=Reject".to_owned(), B.to_owned()),
        ("SendTargets=iqn.2026-11.internal.fels:a\0", A.to_owned(), "SendTargets=Reject".to_owned()),
        ("SendTargets=IQN.2026-11.internal.fels:b\0", B.to_owned(), B.to_owned()),
        ("SendTargets=iqn.unknown\0", String::new(), "SendTargets=Reject".to_owned()),
    ] {
        assert_eq!(ask(&mut discovery(8192), text), in_discovery, "discovery: {text}");
        assert_eq!(ask(&mut normal(), text), in_normal, "normal: {text}");
    }
}

#[test]
fn other_keys() {
    for (text, answer) in [
        ("X-com.acme.speed=9\0", "X-com.acme.speed=NotUnderstood"),
        ("MaxBurstLength=65536\0", "MaxBurstLength=Reject"),
        ("AuthMethod=None\0", "AuthMethod=Reject"),
        ("InitiatorName=iqn.x\0", "InitiatorName=Reject"),
        ("TargetAlias=x\0", "TargetAlias=Reject"),
        ("InitiatorAlias=me\0", ""),
        ("MaxRecvDataSegmentLength=511\0", "MaxRecvDataSegmentLength=Reject"),
        ("X=NotUnderstood\0HeaderDigest=Reject\0", ""),
        ("A=1\0A=2\0", "PROTOCOL_ERROR"),
        ("A=1", "PROTOCOL_ERROR"),
        ("", ""),
    ] {
        assert_eq!(ask(&mut normal(), text), answer, "{text}");
    }
}

#[test]
fn a_new_segment_length_holds_from_then_on() {
    let mut negotiation = normal();
    assert_eq!(ask(&mut negotiation, "MaxRecvDataSegmentLength=65536\0"), "");
    assert_eq!(negotiation.initiator_max_recv_data_segment_length(), 65536);
    assert_eq!(
        ask(&mut negotiation, "MaxRecvDataSegmentLength=16777216\0"),
        "MaxRecvDataSegmentLength=Reject"
    );
    assert_eq!(negotiation.initiator_max_recv_data_segment_length(), 65536);
}

#[test]
fn a_long_answer_comes_in_pieces() {
    let targets = Targets(
        (0..100).map(|n| (format!("iqn.2026-11.internal.fels:{n}"), vec!["[::1]:3260,1".into()])).collect(),
    );
    let mut negotiation = discovery(512);
    let (mut whole, mut tag, mut text): (Vec<u8>, _, &[u8]) =
        (Vec::new(), RESERVED_TAG, b"SendTargets=All\0");
    loop {
        let TextAction::Respond { header, text: piece } =
            negotiation.handle(&request(FINAL, tag), text, &targets)
        else {
            panic!("rejected")
        };
        assert!(piece.len() <= 512);
        whole.extend(piece);
        if header.flags == FINAL {
            assert_eq!(header.target_transfer_tag, RESERVED_TAG);
            break;
        }
        assert_eq!(header.flags, TextFlags::CONTINUE);
        (tag, text) = (header.target_transfer_tag, b"");
    }
    let names = TextPairs::new(&whole).filter(|pair| pair.unwrap().0 == key::TARGET_NAME).count();
    assert_eq!(names, 100);
}

#[test]
fn a_long_question_comes_in_pieces() {
    let mut negotiation = discovery(8192);
    let TextAction::Respond { header, text } =
        negotiation.handle(&request(TextFlags::CONTINUE, RESERVED_TAG), b"SendTar", &two_targets())
    else {
        panic!("rejected")
    };
    assert!(text.is_empty() && header.flags.is_empty() && header.target_transfer_tag != RESERVED_TAG);
    let TextAction::Respond { header, text } =
        negotiation.handle(&request(FINAL, header.target_transfer_tag), b"gets=All\0", &two_targets())
    else {
        panic!("rejected")
    };
    assert_eq!(header.flags, FINAL);
    assert!(text.starts_with(b"TargetName="));
}

#[test]
fn without_f_the_exchange_stays_open() {
    let mut negotiation = discovery(8192);
    let TextAction::Respond { header, .. } =
        negotiation.handle(&request(TextFlags::empty(), RESERVED_TAG), b"X=1\0", &two_targets())
    else {
        panic!("rejected")
    };
    assert!(header.flags.is_empty());
    let tag = header.target_transfer_tag;
    let closing = negotiation.handle(&request(FINAL, tag), b"", &two_targets());
    assert!(matches!(closing, TextAction::Respond { header, .. } if header.flags == FINAL));
    let late = negotiation.handle(&request(FINAL, tag), b"", &two_targets());
    assert_eq!(late, TextAction::Reject(RejectReason::INVALID_PDU_FIELD));
}

#[test]
fn bad_steps_are_rejected() {
    let continued = TextFlags::CONTINUE;
    let mut negotiation = discovery(8192);
    let both = negotiation.handle(&request(FINAL | continued, RESERVED_TAG), b"A=1\0", &two_targets());
    assert_eq!(both, TextAction::Reject(RejectReason::PROTOCOL_ERROR));
    let mut tag = RESERVED_TAG;
    let piece = [b'x'; 8192];
    for _ in 0..REQUEST_TEXT_BYTES / piece.len() {
        match negotiation.handle(&request(continued, tag), &piece, &two_targets()) {
            TextAction::Respond { header, .. } => tag = header.target_transfer_tag,
            TextAction::Reject(reason) => panic!("{reason:?}"),
        }
    }
    let too_much = negotiation.handle(&request(continued, tag), b"x", &two_targets());
    assert_eq!(too_much, TextAction::Reject(RejectReason::PROTOCOL_ERROR));
}

#[test]
fn more_targets_than_fit_are_refused_and_not_cut_off() {
    let many =
        (0..20_000).map(|n| (format!("iqn.2026-11.internal.fels:{n}"), vec!["127.0.0.1:3260,1".into()]));
    let answer =
        discovery(8192).handle(&request(FINAL, RESERVED_TAG), b"SendTargets=All\0", &Targets(many.collect()));
    assert_eq!(answer, TextAction::Reject(RejectReason::LONG_OPERATION_REJECT));
}

proptest! {
    #[test]
    fn any_requests_are_answered_within_bounds(
        steps in prop::collection::vec((any::<u8>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20),
    ) {
        let mut negotiation = discovery(512);
        let mut tag = RESERVED_TAG;
        for (flags, anew, text) in steps {
            let header = request(TextFlags::from_bits_truncate(flags), if anew { RESERVED_TAG } else { tag });
            if let TextAction::Respond { header, text } = negotiation.handle(&header, &text, &two_targets()) {
                prop_assert!(text.len() <= 512);
                tag = header.target_transfer_tag;
            }
        }
    }
}
