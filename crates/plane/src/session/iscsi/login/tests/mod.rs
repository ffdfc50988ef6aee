//! An initiator in few words, and what every test of the login needs.

mod authentication;
mod negotiation;
mod stages;

use std::sync::Arc;

use wire::iscsi::{
    Immediate, IscsiName, Isid, LoginFlags, LoginRequest, LoginStage, LoginStatus, LoginTransit, SerialNumber,
};

use super::*;
use crate::limits::{LOGIN_EXCHANGES, LOGIN_RESPONSE_BYTES, REQUEST_PAIRS, REQUEST_TEXT_BYTES};

pub(super) const SECURITY: LoginStage = LoginStage::SecurityNegotiation;
pub(super) const OPERATIONAL: LoginStage = LoginStage::LoginOperationalNegotiation;
pub(super) const FULL: LoginStage = LoginStage::FullFeaturePhase;

pub(super) const NAMES: &str = "InitiatorName=iqn.2026-11.test:me TargetName=iqn.2026-11.test:open";

/// Targets by the last part of their name: `open`, `chap` and `mutual` can be used.
pub(super) struct Book;

pub(super) fn credential(name: &str, secret: &str) -> ChapCredential {
    ChapCredential { name: name.into(), secret: Secret::new(secret) }
}

pub(super) fn chap_access(mutual: Option<ChapCredential>) -> Authentication {
    let users = vec![credential("alice", "alice's secret"), credential("bob", "bob's secret")];
    Authentication::Chap(Arc::new(ChapAccess { users, mutual }))
}

impl Directory for Book {
    fn target(&self, target: &IscsiName, initiator: &IscsiName) -> Result<TargetAccess, LoginStatus> {
        if initiator.as_str().ends_with(":mallory") {
            return Err(LoginStatus::AUTHORIZATION_FAILURE);
        }
        let authentication = match target.as_str().rsplit(':').next() {
            Some("open") => Authentication::None,
            Some("chap") => chap_access(None),
            Some("mutual") => chap_access(Some(credential("target", "the target's secret"))),
            Some("same") => chap_access(Some(credential("target", "alice's secret"))),
            Some("gone") => return Err(LoginStatus::TARGET_REMOVED),
            Some("off") => return Err(LoginStatus::SERVICE_UNAVAILABLE),
            _ => return Err(LoginStatus::NOT_FOUND),
        };
        Ok(TargetAccess { alias: Some("a rock".into()), authentication })
    }

    fn discovery(&self, initiator: &IscsiName) -> Result<Authentication, LoginStatus> {
        if initiator.as_str().ends_with(":careful") {
            Ok(chap_access(None))
        } else {
            Ok(Authentication::None)
        }
    }
}

pub(super) const ENTROPY: ChapEntropy = ChapEntropy { identifier: 77, challenge: [0x5a; 32] };

pub(super) fn config() -> LoginConfig {
    LoginConfig { limits: OperationalLimits::default(), portal_group_tag: 1, entropy: ENTROPY }
}

/// An initiator: its header is kept from request to request.
pub(super) struct Peer {
    pub login: Login,
    pub header: LoginRequest,
}

/// What came of a request, in a form that is easy to compare.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// Whether the stage was left, and the answers.
    Answer(bool, String),
    Establish(Box<LoginOutcome>),
    Complete(String),
    Refused(LoginStatus),
    Closed,
}

impl Peer {
    pub fn new() -> Self {
        Self::with(config())
    }

    pub fn with(config: LoginConfig) -> Self {
        let header = LoginRequest {
            immediate: Immediate(true),
            isid: Isid::random(0x1234, 1),
            initiator_task_tag: 9,
            cid: 3,
            cmd_sn: SerialNumber(100),
            exp_stat_sn: SerialNumber(500),
            ..LoginRequest::default()
        };
        Self { login: Login::new(config), header }
    }

    /// Pairs are written with spaces instead of NUL bytes; a value's own spaces as `_`.
    pub fn send(&mut self, flags: LoginFlags, transit: LoginTransit, text: &str) -> Outcome {
        let mut bytes: Vec<u8> = Vec::new();
        for pair in text.split_whitespace() {
            bytes.extend_from_slice(pair.replace('_', " ").replace("CHAP ", "CHAP_").as_bytes());
            bytes.push(0);
        }
        self.send_bytes(flags, transit, &bytes)
    }

    pub fn send_bytes(&mut self, flags: LoginFlags, transit: LoginTransit, text: &[u8]) -> Outcome {
        (self.header.flags, self.header.transit) = (flags, transit);
        self.event(Event::Request { header: &self.header.clone(), text })
    }

    pub fn event(&mut self, event: Event<'_>) -> Outcome {
        match self.login.handle(event, &Book) {
            Action::Respond(response) => {
                self.check(&response, LoginStatus::SUCCESS);
                let transit = response.header.flags.contains(LoginFlags::TRANSIT);
                Outcome::Answer(transit, readable(&response.text))
            }
            Action::Establish(outcome) => Outcome::Establish(outcome),
            Action::Complete(response) => {
                self.check(&response, LoginStatus::SUCCESS);
                assert!(response.header.flags.contains(LoginFlags::TRANSIT));
                assert_eq!(response.header.transit.next(), Some(FULL));
                Outcome::Complete(readable(&response.text))
            }
            Action::Refuse(response, error) => {
                self.check(&response, error.status());
                assert!(!error.to_string().is_empty());
                Outcome::Refused(response.header.status)
            }
            Action::Close(_) => Outcome::Closed,
        }
    }

    fn check(&self, response: &Response, status: LoginStatus) {
        let header = &response.header;
        assert_eq!(header.isid, self.header.isid);
        assert_eq!(header.initiator_task_tag, self.header.initiator_task_tag);
        assert_eq!(header.status, status);
        assert_eq!(header.data_segment_length.get(), response.text.len());
        assert!(response.text.len() <= LOGIN_RESPONSE_BYTES);
    }

    /// Stays in the stage.
    pub fn stay(&mut self, stage: LoginStage, text: &str) -> Outcome {
        self.send(LoginFlags::empty(), LoginTransit::new(stage, SECURITY), text)
    }

    /// Asks for the next stage.
    pub fn go(&mut self, stage: LoginStage, next: LoginStage, text: &str) -> Outcome {
        self.send(LoginFlags::TRANSIT, LoginTransit::new(stage, next), text)
    }

    /// The text goes on.
    pub fn part(&mut self, stage: LoginStage, text: &[u8]) -> Outcome {
        self.send_bytes(LoginFlags::CONTINUE, LoginTransit::new(stage, SECURITY), text)
    }
}

pub(super) fn readable(text: &[u8]) -> String {
    let text = str::from_utf8(text).expect("answers are text");
    text.replace(' ', "_").replace('\0', " ").trim_end().to_owned()
}

pub(super) fn answer(transit: bool, text: &str) -> Outcome {
    Outcome::Answer(transit, text.to_owned())
}

pub(super) const TARGET: &str = "TargetPortalGroupTag=1 TargetAlias=a_rock";
pub(super) const LENGTH: &str = "MaxRecvDataSegmentLength=262144";

/// Logs in with one request in the operational stage.
pub(super) fn login_with(config: LoginConfig, text: &str) -> (String, Box<LoginOutcome>) {
    let mut peer = Peer::with(config);
    let Outcome::Establish(outcome) = peer.go(OPERATIONAL, FULL, &format!("{NAMES} {text}")) else {
        panic!("no session for {text}")
    };
    let established =
        Event::Established { tsih: 42, exp_cmd_sn: SerialNumber(100), max_cmd_sn: SerialNumber(131) };
    match peer.event(established) {
        Outcome::Complete(text) => (text, outcome),
        other => panic!("{other:?}"),
    }
}
