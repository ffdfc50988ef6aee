//! Any row of PDUs as a login. Each is: a byte of what happens, byte 1 of the header, two bytes of
//! text length, the text.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use plane::limits::{LOGIN_EXCHANGES, LOGIN_RESPONSE_BYTES};
use plane::session::iscsi::login::{
    Action, Authentication, ChapAccess, ChapCredential, ChapEntropy, Directory, Event, Login, LoginConfig,
    OperationalLimits, Secret, TargetAccess,
};
use wire::iscsi::frame::BHS_LENGTH;
use wire::iscsi::{IscsiName, LoginRequest, LoginStatus, SerialNumber};

/// Names that end in `c` ask for CHAP, all others for nothing.
struct Book;

fn authentication(name: &IscsiName) -> Authentication {
    let credential = |name: &str| ChapCredential { name: name.into(), secret: Secret::new(name) };
    if !name.as_str().ends_with('c') {
        return Authentication::None;
    }
    Authentication::Chap(Arc::new(ChapAccess { users: vec![credential("u")], mutual: Some(credential("t")) }))
}

impl Directory for Book {
    fn target(&self, target: &IscsiName, _: &IscsiName) -> Result<TargetAccess, LoginStatus> {
        Ok(TargetAccess { alias: None, authentication: authentication(target) })
    }

    fn discovery(&self, initiator: &IscsiName) -> Result<Authentication, LoginStatus> {
        Ok(authentication(initiator))
    }
}

fuzz_target!(|data: &[u8]| {
    let entropy = ChapEntropy { identifier: 1, challenge: [7; 32] };
    let limits = OperationalLimits { immediate_data: false, ..OperationalLimits::default() };
    let mut login = Login::new(LoginConfig { limits, portal_group_tag: 1, entropy });
    let mut rest = data;
    let mut answers = 0;
    let mut is_over = false;
    while let [kind, byte, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (text, after) = after.split_at(length);
        rest = after;
        let mut bhs = [0; BHS_LENGTH];
        bhs[0] = 0x43;
        bhs[1] = *byte;
        bhs[15] = *kind >> 7;
        let header = LoginRequest::decode(&bhs);
        let action = login.handle(
            match kind & 0x7f {
                0 => Event::OtherPdu,
                1 => Event::Refused(LoginStatus::OUT_OF_RESOURCES),
                2 => Event::Established { tsih: 1, exp_cmd_sn: SerialNumber(0), max_cmd_sn: SerialNumber(9) },
                _ => Event::Request { header: &header, text },
            },
            &Book,
        );
        assert!(!is_over || matches!(action, Action::Close(_)));
        match action {
            Action::Respond(response) => {
                assert!(response.text.len() <= LOGIN_RESPONSE_BYTES);
                answers += 1;
            }
            Action::Establish(outcome) => {
                assert!(outcome.session.first_burst_length <= outcome.session.max_burst_length);
                let must_prove = |name: &IscsiName| authentication(name) != Authentication::None;
                let name = outcome.target.as_ref().unwrap_or(&outcome.initiator_name);
                assert!(!must_prove(name) || outcome.user.is_some(), "nobody gets past without proof");
            }
            Action::Complete(_) | Action::Refuse(..) | Action::Close(_) => is_over = true,
        }
        assert!(answers <= LOGIN_EXCHANGES);
    }
});
