//! The login of a session's only connection: RFC 7143 sections 6 and 11.12.

use std::time::Duration;

use ring::{Ring, SendList, Socket};
use wire::iscsi::frame::{BHS_LENGTH, Framing, ahs_length, data_segment_length, padding};
use wire::iscsi::text::{TextFull, TextPairs, TextWriter, parse_binary, parse_number, to_hex};
use wire::iscsi::{
    Bhs, Isid, LoginFlags, LoginRequest, LoginResponse, LoginStage, LoginStatus, LoginTransit, Opcode,
    SerialNumber, U24, key,
};

use super::chap::{self, Algorithm};
use super::parameters::{self, Disagreement, Parameters};
use crate::initiator::OpenOptions;
use crate::target::{Credentials, IscsiTarget};

/// Bytes of text that one login may bring.
const MAX_TEXT: usize = 16 << 10;
/// `MaxRecvDataSegmentLength` during a login (section 6.1).
const MAX_LOGIN_SEGMENT: usize = 8192;
/// Requests in one login.
const MAX_REQUESTS: usize = 32;
/// How long the target may take for one answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes of the challenge that a target has to answer.
const CHALLENGE: usize = 16;
/// Our only connection.
const CID: u16 = 0;

/// Why a login did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The target said no.
    #[error("the target refused the login ({status}){}", refusal_hint(*.status))]
    Refused {
        /// Class and detail.
        status: LoginStatus,
    },
    /// It lives elsewhere now.
    #[error("the target has moved to {address}; hint: use this address")]
    Moved {
        /// `TargetAddress`.
        address: String,
    },
    /// It wants CHAP.
    #[error("the target wants CHAP; hint: write user%secret@ before the host, or user@ and FELS_CHAP_SECRET")]
    ChapWanted,
    /// It does not want CHAP.
    #[error("the target does not offer CHAP ({answer}); hint: leave the user out of the address")]
    NoChap {
        /// What it answered.
        answer: String,
    },
    /// The target could not prove who it is.
    #[error("the target did not prove its identity (mutual CHAP): {0}; hint: check the target's own secret")]
    NotAuthentic(&'static str),
    /// It did not follow the protocol.
    #[error("the target does not follow the protocol in its login: {0}")]
    Protocol(String),
    /// It took too long.
    #[error("the target did not answer the login within {} s; hint: is this an iSCSI port?", PATIENCE.as_secs())]
    Silent,
    /// It hung up.
    #[error("the connection ended during the login ({0}); hint: the target's log says why")]
    Ended(String),
}

impl From<Disagreement> for LoginError {
    fn from(error: Disagreement) -> Self {
        LoginError::Protocol(error.to_string())
    }
}

impl From<TextFull> for LoginError {
    fn from(error: TextFull) -> Self {
        LoginError::Protocol(error.to_string())
    }
}

fn refusal_hint(status: LoginStatus) -> &'static str {
    match status {
        LoginStatus::INITIATOR_ERROR => "; hint: the target's log says why; with CHAP, check user and secret",
        LoginStatus::AUTHENTICATION_FAILURE => "; hint: check the CHAP user and secret",
        LoginStatus::AUTHORIZATION_FAILURE => "; hint: the target does not allow this initiator name",
        LoginStatus::NOT_FOUND | LoginStatus::TARGET_REMOVED => {
            "; hint: check the target's name in the address"
        }
        LoginStatus::OUT_OF_RESOURCES | LoginStatus::SERVICE_UNAVAILABLE => {
            "; hint: the target is busy or full, try later or with fewer jobs"
        }
        _ => "",
    }
}

/// A login that succeeded.
pub(super) struct LoggedIn {
    pub(super) parameters: Parameters,
    pub(super) cmd_sn: SerialNumber,
    pub(super) max_cmd_sn: SerialNumber,
    pub(super) exp_stat_sn: SerialNumber,
    /// Bytes behind the last response.
    pub(super) rest: Vec<u8>,
}

/// The exchange, before it has digests and windows.
struct Exchange<'a> {
    ring: &'a Ring,
    socket: &'a Socket,
    isid: Isid,
    stage: LoginStage,
    requests: usize,
    cmd_sn: SerialNumber,
    exp_stat_sn: SerialNumber,
    max_cmd_sn: SerialNumber,
    list: Option<Box<SendList>>,
    received: Vec<u8>,
}

/// Logs in to `target` with a normal session.
pub(super) async fn login(
    ring: &Ring,
    socket: &Socket,
    target: &IscsiTarget,
    options: &OpenOptions,
    algorithms: &str,
) -> Result<LoggedIn, LoginError> {
    // Of the session's number every bit counts, and an ISID has room for 40.
    let folded = options.session_id ^ options.session_id >> 40;
    let mut exchange = Exchange {
        ring,
        socket,
        isid: Isid::random((folded >> 16) as u32, folded as u16),
        stage: LoginStage::SecurityNegotiation,
        requests: 0,
        cmd_sn: SerialNumber(1),
        exp_stat_sn: SerialNumber(0),
        max_cmd_sn: SerialNumber(0),
        list: None,
        received: Vec::new(),
    };
    security(&mut exchange, target, options, algorithms).await?;
    let mut agreed = Parameters::default();
    let mut text = TextWriter::new(MAX_LOGIN_SEGMENT);
    parameters::offer(options, &mut text)?;
    let mut request = text.into_bytes();
    while exchange.stage != LoginStage::FullFeaturePhase {
        let answer = exchange.ask(&request, Some(LoginStage::FullFeaturePhase)).await?;
        parameters::take_in(&mut agreed, &answer)?;
        request = Vec::new();
    }
    Ok(LoggedIn {
        parameters: agreed,
        cmd_sn: exchange.cmd_sn,
        max_cmd_sn: exchange.max_cmd_sn,
        exp_stat_sn: exchange.exp_stat_sn,
        rest: exchange.received,
    })
}

/// The security stage; ends in the operational one, or beyond.
async fn security(
    exchange: &mut Exchange<'_>,
    target: &IscsiTarget,
    options: &OpenOptions,
    algorithms: &str,
) -> Result<(), LoginError> {
    let operational = Some(LoginStage::LoginOperationalNegotiation);
    let mut text = TextWriter::new(MAX_LOGIN_SEGMENT);
    text.push(key::INITIATOR_NAME, &options.initiator_name)?;
    text.push(key::SESSION_TYPE, "Normal")?;
    text.push(key::TARGET_NAME, &target.name)?;
    text.push(key::AUTH_METHOD, if target.chap.is_some() { "CHAP" } else { "None" })?;
    let Some(chap) = &target.chap else {
        let answer = match exchange.ask(text.as_bytes(), operational).await {
            Err(LoginError::Refused { status: LoginStatus::AUTHENTICATION_FAILURE }) => {
                return Err(LoginError::ChapWanted);
            }
            answer => answer?,
        };
        match value(&answer, key::AUTH_METHOD)? {
            None | Some("None") => {}
            Some("CHAP" | "Reject") => return Err(LoginError::ChapWanted),
            Some(other) => return Err(LoginError::Protocol(format!("AuthMethod={other}"))),
        }
        while exchange.stage == LoginStage::SecurityNegotiation {
            exchange.ask(&[], operational).await?;
        }
        return Ok(());
    };
    let answer = exchange.ask(text.as_bytes(), None).await?;
    match value(&answer, key::AUTH_METHOD)? {
        Some("CHAP") => {}
        other => return Err(LoginError::NoChap { answer: format!("AuthMethod={}", other.unwrap_or("")) }),
    }
    prove(exchange, algorithms, chap, target.mutual.as_ref()).await
}

/// The three steps of CHAP.
async fn prove(
    exchange: &mut Exchange<'_>,
    algorithms: &str,
    chap: &Credentials,
    mutual: Option<&Credentials>,
) -> Result<(), LoginError> {
    let mut text = TextWriter::new(MAX_LOGIN_SEGMENT);
    text.push(key::CHAP_A, algorithms)?;
    let answer = exchange.ask(text.as_bytes(), None).await?;
    let missing = |key: &str| LoginError::Protocol(format!("no usable {key} in its answer"));
    let number = |key: &str| Ok::<_, LoginError>(value(&answer, key)?.and_then(parse_number));
    let algorithm = number(key::CHAP_A)?.and_then(Algorithm::from_number);
    let algorithm = algorithm.ok_or_else(|| missing(key::CHAP_A))?;
    let identifier = number(key::CHAP_I)?.and_then(|identifier| u8::try_from(identifier).ok());
    let identifier = identifier.ok_or_else(|| missing(key::CHAP_I))?;
    let challenge = value(&answer, key::CHAP_C)?.and_then(|text| parse_binary(text, chap::MAX_CHALLENGE));
    let challenge = challenge.ok_or_else(|| missing(key::CHAP_C))?;

    let response = algorithm.response(identifier, chap.secret.as_bytes(), &challenge);
    let mut text = TextWriter::new(MAX_LOGIN_SEGMENT);
    text.push(key::CHAP_N, &chap.user)?;
    text.push(key::CHAP_R, &to_hex(&response))?;
    let ours = mutual.map(|_| our_challenge(&challenge)).transpose()?;
    if let Some((identifier, challenge)) = &ours {
        text.push(key::CHAP_I, &identifier.to_string())?;
        text.push(key::CHAP_C, &to_hex(challenge))?;
    }
    let answer = exchange.ask(text.as_bytes(), Some(LoginStage::LoginOperationalNegotiation)).await?;
    if let (Some(expected), Some((identifier, challenge))) = (mutual, ours) {
        let proof = algorithm.response(identifier, expected.secret.as_bytes(), &challenge);
        if value(&answer, key::CHAP_N)? != Some(expected.user.as_str()) {
            return Err(LoginError::NotAuthentic("it gave another name"));
        }
        let given = value(&answer, key::CHAP_R)?.and_then(|text| parse_binary(text, proof.len()));
        if given != Some(proof) {
            return Err(LoginError::NotAuthentic("its response is wrong"));
        }
    }
    while exchange.stage == LoginStage::SecurityNegotiation {
        exchange.ask(&[], Some(LoginStage::LoginOperationalNegotiation)).await?;
    }
    Ok(())
}

/// An identifier and a challenge that is not the target's own: it would only have to be sent back.
fn our_challenge(theirs: &[u8]) -> Result<(u8, [u8; CHALLENGE]), LoginError> {
    let mut random = [0; CHALLENGE + 1];
    getrandom::fill(&mut random)
        .map_err(|error| LoginError::Protocol(format!("no random numbers for a challenge: {error}")))?;
    let mut challenge = [0; CHALLENGE];
    challenge.copy_from_slice(&random[1..]);
    if challenge == theirs {
        return Err(LoginError::NotAuthentic("it knew our challenge"));
    }
    Ok((random[0], challenge))
}

fn value<'a>(text: &'a [u8], key: &str) -> Result<Option<&'a str>, LoginError> {
    for pair in TextPairs::new(text) {
        let (name, value) = pair.map_err(|error| LoginError::Protocol(error.to_string()))?;
        if name == key {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

impl Exchange<'_> {
    /// Sends `text`, ready to go to `next` (or not ready to leave this stage), and gives the whole answer.
    async fn ask(&mut self, text: &[u8], next: Option<LoginStage>) -> Result<Vec<u8>, LoginError> {
        let mut answer = Vec::new();
        let mut text = text;
        loop {
            self.requests += 1;
            if self.requests > MAX_REQUESTS {
                return Err(LoginError::Protocol("it never comes to an end".to_owned()));
            }
            let request = LoginRequest {
                immediate: wire::iscsi::Immediate(true),
                flags: if next.is_some() { LoginFlags::TRANSIT } else { LoginFlags::empty() },
                transit: LoginTransit::new(self.stage, next.unwrap_or_default()),
                version_max: wire::iscsi::VERSION,
                version_min: wire::iscsi::VERSION,
                data_segment_length: U24::saturating(text.len()),
                isid: self.isid,
                tsih: 0,
                initiator_task_tag: 0,
                cid: CID,
                cmd_sn: self.cmd_sn,
                exp_stat_sn: self.exp_stat_sn,
            };
            self.send(&request, text).await?;
            let response = match self.ring.timeout(PATIENCE, self.response(&mut answer)).await {
                Some(response) => response?,
                None => return Err(LoginError::Silent),
            };
            self.take_in(&response, &answer)?;
            if !response.flags.contains(LoginFlags::CONTINUE) {
                return Ok(answer);
            }
            text = &[];
        }
    }

    fn take_in(&mut self, response: &LoginResponse, answer: &[u8]) -> Result<(), LoginError> {
        match response.status.class() {
            0 => {}
            1 => {
                let address = value(answer, key::TARGET_ADDRESS)?.unwrap_or("an unknown address").to_owned();
                return Err(LoginError::Moved { address });
            }
            _ => return Err(LoginError::Refused { status: response.status }),
        }
        self.exp_stat_sn = response.stat_sn.next();
        self.max_cmd_sn = response.max_cmd_sn;
        if response.flags.contains(LoginFlags::TRANSIT) {
            let next = response.transit.next().filter(|next| *next as u8 > self.stage as u8);
            self.stage = next.ok_or_else(|| LoginError::Protocol("it goes to a wrong stage".to_owned()))?;
        }
        Ok(())
    }

    async fn send(&mut self, request: &LoginRequest, text: &[u8]) -> Result<(), LoginError> {
        let mut bhs: Bhs = [0; BHS_LENGTH];
        request.encode(&mut bhs);
        let mut list = self.list.take().unwrap_or_else(SendList::new);
        list.clear();
        list.push_bytes(&bhs);
        list.push_bytes(text);
        list.push_bytes(&[0; 3][..padding(text.len())]);
        let (sent, list) = self.socket.send(list).await;
        self.list = Some(list);
        sent.map_err(|error| LoginError::Ended(error.to_string()))
    }

    /// One login response; its text goes behind `answer`.
    async fn response(&mut self, answer: &mut Vec<u8>) -> Result<LoginResponse, LoginError> {
        self.fill(BHS_LENGTH).await?;
        let bhs: &Bhs = self.received.first_chunk().expect("filled");
        if Opcode::of(bhs) != Ok(Opcode::LoginResponse) {
            return Err(LoginError::Protocol(format!("it sent a PDU of opcode {:#04x}", bhs[0] & 0x3f)));
        }
        let (header, length) = (BHS_LENGTH + ahs_length(bhs), data_segment_length(bhs));
        let total = Framing::default().total_length(bhs);
        let response = LoginResponse::decode(bhs);
        if length > MAX_LOGIN_SEGMENT || answer.len() + length > MAX_TEXT {
            return Err(LoginError::Protocol(format!("it sent {length} bytes of text")));
        }
        self.fill(total).await?;
        answer.extend_from_slice(&self.received[header..header + length]);
        self.received.drain(..total);
        Ok(response)
    }

    async fn fill(&mut self, length: usize) -> Result<(), LoginError> {
        while self.received.len() < length {
            let chunk = self.socket.receive().await.map_err(|error| LoginError::Ended(error.to_string()))?;
            if chunk.is_empty() {
                return Err(LoginError::Ended("the target closed it".to_owned()));
            }
            self.received.extend_from_slice(&chunk);
        }
        Ok(())
    }
}
