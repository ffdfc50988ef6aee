//! The security stage.

use wire::iscsi::LoginStatus;
use wire::iscsi::text::{parse_binary, to_hex};

use super::super::chap::{Algorithm, check};
use super::*;

const AUTHENTICATION: Outcome = Outcome::Refused(LoginStatus::AUTHENTICATION_FAILURE);
const INITIATOR: Outcome = Outcome::Refused(LoginStatus::INITIATOR_ERROR);

fn names(target: &str) -> String {
    format!("InitiatorName=iqn.2026-11.test:me TargetName=iqn.2026-11.test:{target}")
}

/// `CHAP_N` and `CHAP_R` of a user that answers our challenge.
fn reply(algorithm: Algorithm, name: &str, secret: &str) -> String {
    let response = algorithm.respond(ENTROPY.identifier, &Secret::new(secret), &ENTROPY.challenge);
    format!("CHAP_N={name} CHAP_R={}", to_hex(&response))
}

/// An initiator that was challenged.
fn challenged(target: &str, algorithms: &str) -> Peer {
    let mut peer = Peer::new();
    let offer = format!("{} AuthMethod=CHAP,None", names(target));
    // libiscsi asks for the next stage at once; it has to wait.
    assert_eq!(peer.go(SECURITY, OPERATIONAL, &offer), answer(false, &format!("{TARGET} AuthMethod=CHAP")));
    assert!(matches!(peer.stay(SECURITY, &format!("CHAP_A={algorithms}")), Outcome::Answer(false, _)));
    peer
}

#[test]
fn one_way_with_every_algorithm() {
    for (list, algorithm) in [
        ("5", Algorithm::Md5),
        ("6,5", Algorithm::Sha1),
        ("5,7,6", Algorithm::Sha256),
        ("5,6,7,8", Algorithm::Sha3),
        ("99,5", Algorithm::Md5),
    ] {
        let mut peer = Peer::new();
        peer.go(SECURITY, OPERATIONAL, &format!("{} AuthMethod=CHAP", names("chap")));
        let challenge = format!("CHAP_A={} CHAP_I=77 CHAP_C={}", algorithm as u8, to_hex(&ENTROPY.challenge));
        assert_eq!(peer.stay(SECURITY, &format!("CHAP_A={list}")), answer(false, &challenge));
        let reply = reply(algorithm, "bob", "bob's secret");
        assert_eq!(peer.go(SECURITY, OPERATIONAL, &reply), answer(true, ""));
        let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, "") else { panic!() };
        assert_eq!(outcome.user.as_deref(), Some("bob"));
    }
}

/// Hashes of 1, "secret" and 00..0f, computed with Python's hashlib.
const VECTORS: [(Algorithm, &str); 4] = [
    (Algorithm::Md5, "0x740e86463bda3a4d7017d6e0fba0699d"),
    (Algorithm::Sha1, "0x3890198f5112376188a9742805758384545583a6"),
    (Algorithm::Sha256, "0x28b96c916cf784528bbfaa6ad7e012cab293437604aae8d66a3295b319132cef"),
    (Algorithm::Sha3, "0xbdceca071be509f41acf88309bb6d12e51526c23a2d18f22c2bb8ed199c36fd8"),
];

#[test]
fn responses_of_known_value() {
    let challenge: Vec<u8> = (0..16).collect();
    for (algorithm, response) in VECTORS {
        assert_eq!(to_hex(&algorithm.respond(1, &Secret::new("secret"), &challenge)), response);
    }
}

#[test]
fn base64_and_upper_case_hex_are_read() {
    let access = ChapAccess { users: vec![credential("u", "secret")], mutual: None };
    let response = Algorithm::Md5.respond(ENTROPY.identifier, &Secret::new("secret"), &ENTROPY.challenge);
    let upper = to_hex(&response).to_uppercase().replace("0X", "0x");
    for response in [upper, to_base64(&response)] {
        let reply = super::super::chap::ChapReply { name: "u", response: &response, mutual: None };
        assert_eq!(check(&access, Algorithm::Md5, &ENTROPY, reply), Ok(None), "{response}");
    }
}

fn to_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("0b");
    for chunk in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(word);
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place) & 63) as usize;
            text.push(if place > chunk.len() { '=' } else { char::from(ALPHABET[sextet]) });
        }
    }
    text
}

#[test]
fn wrong_replies() {
    let md5 = Algorithm::Md5;
    let right = reply(md5, "alice", "alice's secret");
    for (text, expected) in [
        (reply(md5, "alice", "bob's secret"), AUTHENTICATION),
        (reply(md5, "nobody", "alice's secret"), AUTHENTICATION),
        (reply(Algorithm::Sha1, "alice", "alice's secret"), AUTHENTICATION),
        ("CHAP_N=alice CHAP_R=0x00".to_owned(), AUTHENTICATION),
        ("CHAP_N=alice CHAP_R=0x".to_owned(), INITIATOR),
        ("CHAP_N=alice CHAP_R=secret".to_owned(), INITIATOR),
        (format!("CHAP_N=alice CHAP_R=0x{}", "00".repeat(33)), INITIATOR),
        ("CHAP_N=alice".to_owned(), INITIATOR),
        (right.replace("CHAP_N=alice ", ""), INITIATOR),
        (format!("{right} CHAP_I=1"), INITIATOR),
        (format!("{right} CHAP_C=0x01"), INITIATOR),
        (format!("{right} CHAP_A=5"), INITIATOR),
        (format!("{right} AuthMethod=CHAP"), INITIATOR),
        // Mutual CHAP with a target that has no credentials.
        (format!("{right} CHAP_I=1 CHAP_C=0x0102"), AUTHENTICATION),
    ] {
        assert_eq!(challenged("chap", "5").go(SECURITY, OPERATIONAL, &text), expected, "{text}");
    }
}

#[test]
fn mutual() {
    let mut peer = challenged("mutual", "7");
    let reply = reply(Algorithm::Sha256, "alice", "alice's secret");
    let text = format!("{reply} CHAP_I=200 CHAP_C=0x0102030405060708");
    let Outcome::Answer(true, answers) = peer.go(SECURITY, OPERATIONAL, &text) else { panic!() };
    let expected = Algorithm::Sha256.respond(
        200,
        &Secret::new("the target's secret"),
        &parse_binary("0x0102030405060708", 8).unwrap(),
    );
    assert_eq!(answers, format!("CHAP_N=target CHAP_R={}", to_hex(&expected)));
    assert!(matches!(peer.go(OPERATIONAL, FULL, ""), Outcome::Establish(_)));
}

#[test]
fn mutual_is_the_initiators_choice() {
    let mut peer = challenged("mutual", "5");
    let reply = reply(Algorithm::Md5, "alice", "alice's secret");
    assert_eq!(peer.go(SECURITY, OPERATIONAL, &reply), answer(true, ""));
}

#[test]
fn mutual_refusals() {
    let right = reply(Algorithm::Md5, "alice", "alice's secret");
    let reflected = format!("{right} CHAP_I=1 CHAP_C={}", to_hex(&ENTROPY.challenge));
    for (target, text, expected) in [
        ("mutual", reflected, AUTHENTICATION),
        ("same", format!("{right} CHAP_I=1 CHAP_C=0x0102"), AUTHENTICATION),
        ("mutual", format!("{right} CHAP_I=256 CHAP_C=0x0102"), INITIATOR),
        ("mutual", format!("{right} CHAP_I=1 CHAP_C=0x"), INITIATOR),
        ("mutual", format!("{right} CHAP_I=1 CHAP_C=0x{}", "ab".repeat(1025)), INITIATOR),
        // The initiator's proof comes first: a wrong one gets no response of ours.
        ("mutual", format!("{} CHAP_I=1 CHAP_C=0x01", reply(Algorithm::Md5, "alice", "x")), AUTHENTICATION),
    ] {
        assert_eq!(challenged(target, "5").go(SECURITY, OPERATIONAL, &text), expected, "{text}");
    }
}

#[test]
fn methods() {
    for (target, method, expected) in [
        ("open", "None", answer(true, &format!("{TARGET} AuthMethod=None"))),
        ("open", "CHAP,None", answer(true, &format!("{TARGET} AuthMethod=None"))),
        ("open", "CHAP", AUTHENTICATION),
        ("open", "Reject", AUTHENTICATION),
        ("chap", "CHAP", answer(false, &format!("{TARGET} AuthMethod=CHAP"))),
        ("chap", "SRP,None,CHAP", answer(false, &format!("{TARGET} AuthMethod=CHAP"))),
        ("chap", "None", AUTHENTICATION),
        ("chap", "KRB5,SRP", AUTHENTICATION),
        ("chap", "", AUTHENTICATION),
    ] {
        let text = format!("{} AuthMethod={method}", names(target));
        assert_eq!(Peer::new().go(SECURITY, OPERATIONAL, &text), expected, "{target}: {method}");
    }
}

#[test]
fn nobody_gets_past_without_proof() {
    // Straight into the operational stage.
    assert_eq!(Peer::new().go(OPERATIONAL, FULL, &names("chap")), AUTHENTICATION);
    // Through the security stage without a word.
    assert_eq!(Peer::new().go(SECURITY, OPERATIONAL, &names("chap")), AUTHENTICATION);
    assert_eq!(Peer::new().go(SECURITY, FULL, &names("chap")), AUTHENTICATION);
    // After the method was agreed on, and after the challenge: asked for again, never let through.
    let mut peer = Peer::new();
    peer.go(SECURITY, OPERATIONAL, &format!("{} AuthMethod=CHAP", names("chap")));
    for next in [OPERATIONAL, FULL] {
        assert_eq!(peer.go(SECURITY, next, ""), answer(false, ""));
    }
    let mut peer = challenged("chap", "5");
    for next in [OPERATIONAL, FULL] {
        assert_eq!(peer.go(SECURITY, next, ""), answer(false, ""));
    }
}

#[test]
fn steps_out_of_order() {
    let reply = reply(Algorithm::Md5, "alice", "alice's secret");
    for first in ["CHAP_A=5".to_owned(), reply.clone(), "AuthMethod=CHAP CHAP_A=5".to_owned()] {
        let text = format!("{} {first}", names("chap"));
        assert_eq!(Peer::new().stay(SECURITY, &text), INITIATOR, "{first}");
    }
    let mut peer = Peer::new();
    peer.stay(SECURITY, &format!("{} AuthMethod=CHAP", names("chap")));
    assert_eq!(peer.stay(SECURITY, &reply), INITIATOR);
    // A second try is a new connection's.
    assert_eq!(challenged("chap", "5").stay(SECURITY, "CHAP_A=5"), INITIATOR);
    let mut peer = challenged("chap", "5");
    assert_eq!(peer.stay(SECURITY, &reply), answer(false, ""));
    assert_eq!(peer.stay(SECURITY, &reply), INITIATOR);
}

#[test]
fn unknown_algorithms() {
    for list in ["", "4", "none", "9,10"] {
        let mut peer = Peer::new();
        peer.stay(SECURITY, &format!("{} AuthMethod=CHAP", names("chap")));
        assert_eq!(peer.stay(SECURITY, &format!("CHAP_A={list}")), AUTHENTICATION, "{list}");
    }
}

#[test]
fn discovery_may_ask_for_chap() {
    let mut peer = Peer::new();
    let text = "InitiatorName=iqn.x:careful SessionType=Discovery AuthMethod=CHAP,None";
    assert_eq!(peer.go(SECURITY, OPERATIONAL, text), answer(false, "AuthMethod=CHAP"));
}

#[test]
fn secrets_are_not_shown() {
    let access = chap_access(Some(credential("target", "hush")));
    let shown = format!("{access:?} {:?}", Login::new(config()));
    assert!(shown.contains("alice") && shown.contains("***"));
    for hidden in ["hush", "secret\"", "5a5a", "90, 90"] {
        assert!(!shown.contains(hidden), "{hidden}");
    }
}
