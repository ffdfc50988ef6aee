//! The states of a login.

use wire::iscsi::text::{TextPairs, TextWriter};
use wire::iscsi::{
    Bhs, IscsiName, Isid, LoginFlags, LoginRequest, LoginResponse, LoginStage, LoginStatus, LoginTransit,
    SerialNumber, U24, VERSION, key,
};

use super::chap::{self, Algorithm, Authentication, ChapAccess, ChapEntropy, ChapError, ChapReply};
use super::error::LoginError;
use super::keys::{self, Answer, Class, NONE, NOT_UNDERSTOOD, Negotiation, REJECT, choose};
use super::parameters::{ConnectionParameters, OperationalLimits, SessionParameters};
use crate::limits::{LOGIN_EXCHANGES, LOGIN_RESPONSE_BYTES, REQUEST_PAIRS, REQUEST_TEXT_BYTES};

/// `SessionType`, section 13.21.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionType {
    /// SCSI commands.
    Normal,
    /// `SendTargets` only.
    Discovery,
}

/// What the target side of a login is given.
#[derive(Debug, Clone)]
pub struct LoginConfig {
    /// What we are ready to do.
    pub limits: OperationalLimits,
    /// `TargetPortalGroupTag` of the portal the connection came to.
    pub portal_group_tag: u16,
    /// Random bytes, new for each connection.
    pub entropy: ChapEntropy,
}

/// What an initiator may do with a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetAccess {
    /// `TargetAlias`, told to the initiator.
    pub alias: Option<String>,
    /// What the initiator has to prove.
    pub authentication: Authentication,
}

/// The look-ups of a login; pure reads of what is configured.
pub trait Directory {
    /// May `initiator` try to log in to `target`? `Err` is the status to refuse with:
    /// [`LoginStatus::NOT_FOUND`], [`LoginStatus::TARGET_REMOVED`],
    /// [`LoginStatus::AUTHORIZATION_FAILURE`], [`LoginStatus::SERVICE_UNAVAILABLE`].
    fn target(&self, target: &IscsiName, initiator: &IscsiName) -> Result<TargetAccess, LoginStatus>;

    /// What a discovery session asks of `initiator`.
    fn discovery(&self, initiator: &IscsiName) -> Result<Authentication, LoginStatus>;
}

/// What happens to a login.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A login request, with its data segment without padding.
    Request {
        /// Its header.
        header: &'a LoginRequest,
        /// Its text.
        text: &'a [u8],
    },
    /// Any other PDU.
    OtherPdu,
    /// The session for [`Action::Establish`] is there.
    Established {
        /// The handle of the session.
        tsih: u16,
        /// The next command number the session expects.
        exp_cmd_sn: SerialNumber,
        /// The last command number the session would take.
        max_cmd_sn: SerialNumber,
    },
    /// There will be no session for [`Action::Establish`].
    Refused(LoginStatus),
}

/// A login response: header (with `DataSegmentLength` set) and text without padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Header.
    pub header: LoginResponse,
    /// Text.
    pub text: Vec<u8>,
}

impl Response {
    /// The header as it is sent.
    pub fn bhs(&self) -> Bhs {
        let mut bhs = [0; wire::iscsi::frame::BHS_LENGTH];
        self.header.encode(&mut bhs);
        bhs
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send it and read on.
    Respond(Response),
    /// Find or make the session, then come back with [`Event::Established`] or [`Event::Refused`].
    Establish(Box<LoginOutcome>),
    /// Send it; from the next PDU on this is full-feature phase.
    Complete(Response),
    /// Send it, log the reason, close.
    Refuse(Response, LoginError),
    /// Log the reason, close without an answer.
    Close(LoginError),
}

/// What a login came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginOutcome {
    /// `InitiatorName`.
    pub initiator_name: IscsiName,
    /// `InitiatorAlias`.
    pub initiator_alias: Option<String>,
    /// ISID.
    pub isid: Isid,
    /// `TargetName`; `None` in a discovery session.
    pub target: Option<IscsiName>,
    /// `SessionType`.
    pub session_type: SessionType,
    /// 0 for a new session (or its reinstatement, if initiator, ISID and target have one), else the
    /// session this connection wants to join.
    pub tsih_requested: u16,
    /// CID; one that the session already has means connection reinstatement.
    pub cid: u16,
    /// The CHAP user.
    pub user: Option<String>,
    /// Parameters of the session; on a connection that joins one (`tsih_requested` not 0) they are
    /// defaults and those of the session hold.
    pub session: SessionParameters,
    /// Parameters of the connection.
    pub connection: ConnectionParameters,
    /// `CmdSN` of the last request: the first command of a new session has this number.
    pub cmd_sn: SerialNumber,
    /// The `StatSN` that follows the last login response.
    pub next_stat_sn: SerialNumber,
}

/// What must not change from request to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    isid: Isid,
    tsih: u16,
    cid: u16,
    initiator_task_tag: u32,
}

impl Identity {
    const fn of(header: &LoginRequest) -> Self {
        Self {
            isid: header.isid,
            tsih: header.tsih,
            cid: header.cid,
            initiator_task_tag: header.initiator_task_tag,
        }
    }
}

/// Who wants what, from the first complete text.
#[derive(Debug, Clone)]
struct Party {
    initiator_name: IscsiName,
    initiator_alias: Option<String>,
    target: Option<IscsiName>,
    session_type: SessionType,
    authentication: Authentication,
}

/// How far the security stage has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Security {
    Start,
    ChapAgreed,
    Challenged(Algorithm),
    Done { user: Option<String> },
}

#[derive(Debug, Clone)]
enum Phase {
    /// Before the first request.
    Fresh,
    /// The initiator's turn.
    Requests,
    /// The caller's turn; this response waits for the session.
    Establishing(Box<Response>),
    Over,
}

/// A login of one connection.
#[derive(Debug, Clone)]
pub struct Login {
    config: LoginConfig,
    phase: Phase,
    identity: Option<Identity>,
    stage: LoginStage,
    exchanges: u32,
    gathered: Vec<u8>,
    /// Who it says it is, and what it wants, whether it may or not.
    names: Option<(IscsiName, Option<IscsiName>)>,
    party: Option<Party>,
    security: Security,
    negotiation: Negotiation,
    /// We told how much we take in one PDU.
    is_length_declared: bool,
    stat_sn: SerialNumber,
    last: LoginRequest,
}

impl Login {
    /// A connection that has sent nothing yet.
    pub fn new(config: LoginConfig) -> Self {
        let negotiation = Negotiation::new(&config.limits);
        Self {
            config,
            phase: Phase::Fresh,
            identity: None,
            stage: LoginStage::SecurityNegotiation,
            exchanges: 0,
            gathered: Vec::new(),
            names: None,
            party: None,
            security: Security::Start,
            negotiation,
            is_length_declared: false,
            stat_sn: SerialNumber(0),
            last: LoginRequest::default(),
        }
    }

    /// Who it says it is, and the target that it wants; none in discovery.
    pub fn names(&self) -> Option<(&IscsiName, Option<&IscsiName>)> {
        self.names.as_ref().map(|(initiator, target)| (initiator, target.as_ref()))
    }

    /// One step. After [`Action::Complete`], [`Action::Refuse`] and [`Action::Close`] there is no
    /// further one: whatever comes is answered with [`Action::Close`].
    pub fn handle(&mut self, event: Event<'_>, directory: &dyn Directory) -> Action {
        match (event, &self.phase) {
            (_, Phase::Over)
            | (Event::Established { .. } | Event::Refused(_), Phase::Fresh | Phase::Requests) => {
                self.close(LoginError::OutOfTurn)
            }
            (Event::OtherPdu, Phase::Fresh) => self.close(LoginError::NotALogin),
            (Event::OtherPdu, _) => self.refuse(LoginError::OtherPdu),
            (Event::Request { .. }, Phase::Establishing(_)) => self.refuse(LoginError::OutOfTurn),
            (Event::Request { header, text }, _) => match self.request(header, text, directory) {
                Ok(action) => action,
                Err(error) => self.refuse(error),
            },
            (Event::Established { tsih, exp_cmd_sn, max_cmd_sn }, Phase::Establishing(response)) => {
                let mut response = (**response).clone();
                response.header.tsih = tsih;
                response.header.exp_cmd_sn = exp_cmd_sn;
                response.header.max_cmd_sn = max_cmd_sn;
                self.phase = Phase::Over;
                Action::Complete(response)
            }
            (Event::Refused(status), Phase::Establishing(response)) => {
                // That response was never sent: its number is free again.
                self.stat_sn = response.header.stat_sn;
                self.refuse(LoginError::Session(status))
            }
        }
    }

    fn request(
        &mut self,
        header: &LoginRequest,
        text: &[u8],
        directory: &dyn Directory,
    ) -> Result<Action, LoginError> {
        if matches!(self.phase, Phase::Fresh) {
            self.phase = Phase::Requests;
            self.stage = header.transit.current().unwrap_or_default();
            // Any start will do; the number the initiator expects is right even for initiators that
            // look at it before they should.
            self.stat_sn = header.exp_stat_sn;
        }
        self.last = *header;
        self.check_header(header)?;
        if self.gathered.len() + text.len() > REQUEST_TEXT_BYTES {
            return Err(LoginError::TextTooLong);
        }
        self.gathered.extend_from_slice(text);
        if header.flags.contains(LoginFlags::CONTINUE) {
            return Ok(Action::Respond(self.respond(None, Vec::new())));
        }
        let gathered = std::mem::take(&mut self.gathered);
        let pairs = read_pairs(&gathered)?;
        let mut answers = TextWriter::new(LOGIN_RESPONSE_BYTES);
        self.identify(&pairs, directory, &mut answers)?;
        self.check_authentication_is_possible()?;
        let has_operational_keys = self.answer_keys(&pairs, &mut answers)?;
        if self.stage == LoginStage::SecurityNegotiation {
            self.authenticate(&pairs, &mut answers)?;
        }
        self.declare_length(has_operational_keys, &mut answers)?;
        let next = header.flags.contains(LoginFlags::TRANSIT).then(|| header.transit.next()).flatten();
        let granted = match next {
            Some(next) if self.may_leave(next, &mut answers)? => Some(next),
            _ => None,
        };
        let response = self.respond(granted, answers.into_bytes());
        self.advance(granted, response)
    }

    fn check_header(&mut self, header: &LoginRequest) -> Result<(), LoginError> {
        self.exchanges += 1;
        if self.exchanges > LOGIN_EXCHANGES {
            return Err(LoginError::TooManyExchanges);
        }
        if *self.identity.get_or_insert(Identity::of(header)) != Identity::of(header) {
            return Err(LoginError::IdentityChanged);
        }
        if header.version_min > VERSION {
            return Err(LoginError::UnsupportedVersion { min: header.version_min, max: header.version_max });
        }
        // A first request may begin in either stage, but not in full-feature phase.
        let current = header.transit.current().filter(|stage| *stage != LoginStage::FullFeaturePhase);
        if current != Some(self.stage) {
            return Err(LoginError::WrongStage);
        }
        if header.flags.contains(LoginFlags::TRANSIT) {
            if header.flags.contains(LoginFlags::CONTINUE) {
                return Err(LoginError::ContinuedTransit);
            }
            match header.transit.next() {
                Some(next) if next as u8 > self.stage as u8 => {}
                _ => return Err(LoginError::WrongNextStage),
            }
        }
        Ok(())
    }

    /// Reads the names from the first text; later ones may only repeat them.
    fn identify(
        &mut self,
        pairs: &[(&str, &str)],
        directory: &dyn Directory,
        answers: &mut TextWriter,
    ) -> Result<(), LoginError> {
        if let Some(party) = &self.party {
            return party.check_repeats(pairs);
        }
        let value_of = |key: &str| find(pairs, key);
        let name_of = |key: &'static str| {
            let text = value_of(key).ok_or(LoginError::Missing(key))?;
            IscsiName::accept(text).map_err(|error| LoginError::Name { key, error })
        };
        let initiator_name = name_of(key::INITIATOR_NAME)?;
        let session_type = parse_session_type(value_of(key::SESSION_TYPE))?;
        let initiator_alias = value_of(key::INITIATOR_ALIAS).map(str::to_owned);
        let (target, authentication) = match session_type {
            SessionType::Discovery if self.last.tsih != 0 => return Err(LoginError::DiscoveryIsSingle),
            SessionType::Discovery => {
                self.names = Some((initiator_name.clone(), None));
                (None, directory.discovery(&initiator_name).map_err(LoginError::Directory)?)
            }
            SessionType::Normal => {
                let target = name_of(key::TARGET_NAME)?;
                self.names = Some((initiator_name.clone(), Some(target.clone())));
                let access = directory.target(&target, &initiator_name).map_err(LoginError::Directory)?;
                // Section 13.9: in the first response to TargetName.
                push(answers, key::TARGET_PORTAL_GROUP_TAG, &self.config.portal_group_tag.to_string())?;
                if let Some(alias) = &access.alias {
                    push(answers, key::TARGET_ALIAS, alias)?;
                }
                (Some(target), access.authentication)
            }
        };
        self.party = Some(Party { initiator_name, initiator_alias, target, session_type, authentication });
        Ok(())
    }

    /// Who begins in the operational stage skips the proof (section 6.3.3).
    fn check_authentication_is_possible(&self) -> Result<(), LoginError> {
        let is_past = self.stage != LoginStage::SecurityNegotiation;
        if is_past && !self.is_authenticated() { Err(LoginError::AuthenticationRequired) } else { Ok(()) }
    }

    fn is_authenticated(&self) -> bool {
        match (&self.security, &self.party) {
            (Security::Done { .. }, _) => true,
            (Security::Start, Some(party)) => party.authentication == Authentication::None,
            _ => false,
        }
    }

    /// Answers all keys but those of names and security. Tells whether there was an operational one.
    fn answer_keys(&mut self, pairs: &[(&str, &str)], answers: &mut TextWriter) -> Result<bool, LoginError> {
        let is_discovery =
            self.party.as_ref().is_some_and(|party| party.session_type == SessionType::Discovery);
        let is_leading = self.last.tsih == 0;
        let mut has_operational = false;
        // FirstBurstLength depends on MaxBurstLength, whichever came first.
        let (last, first): (Vec<_>, Vec<_>) =
            pairs.iter().partition(|(name, _)| *name == key::FIRST_BURST_LENGTH);
        for (name, value) in first.into_iter().chain(last) {
            match keys::class(name) {
                None => {
                    // A peer that does not understand what we do not understand would go on for ever.
                    if value != NOT_UNDERSTOOD {
                        push(answers, name, NOT_UNDERSTOOD)?;
                    }
                }
                Some(Class::Identity) => {}
                Some(Class::Security) if self.stage == LoginStage::SecurityNegotiation => {}
                Some(Class::Security) => return Err(LoginError::SecurityKeyOutside(name.to_owned())),
                Some(Class::NotForLogin) if matches!(value, keys::IRRELEVANT | NOT_UNDERSTOOD | REJECT) => {}
                Some(Class::NotForLogin) => push(answers, name, REJECT)?,
                Some(Class::Operational(operational)) => {
                    has_operational = true;
                    match self.negotiation.hear(operational, value, is_leading, is_discovery) {
                        Ok(Answer::Silent) => {}
                        Ok(Answer::Value(answer)) => push(answers, name, &answer)?,
                        Err(keys::DuplicateKey) => return Err(LoginError::Duplicate(name.to_owned())),
                    }
                }
            }
        }
        Ok(has_operational)
    }

    /// One step of the security stage, section 12.1.
    fn authenticate(&mut self, pairs: &[(&str, &str)], answers: &mut TextWriter) -> Result<(), LoginError> {
        let Some(party) = &self.party else { return Ok(()) };
        let access = match &party.authentication {
            Authentication::Chap(access) => Some(access.clone()),
            Authentication::None => None,
        };
        if !pairs.iter().any(|(name, _)| keys::class(name) == Some(Class::Security)) {
            return Ok(());
        }
        let method = find(pairs, key::AUTH_METHOD);
        let algorithms = find(pairs, key::CHAP_A);
        let reply = ChapReply::find(pairs);
        self.security = match (&self.security, access, method, algorithms, reply) {
            (Security::Start, access, Some(list), None, None) => {
                agree_method(access.as_deref(), list, answers)?
            }
            (Security::ChapAgreed, Some(_), None, Some(list), None) => self.challenge(list, answers)?,
            (Security::Challenged(algorithm), Some(access), None, None, Some(reply)) => {
                let own = chap::check(&access, *algorithm, &self.config.entropy, reply)?;
                if let Some((name, response)) = own {
                    push(answers, key::CHAP_N, &name)?;
                    push(answers, key::CHAP_R, &response)?;
                }
                Security::Done { user: Some(reply.name.to_owned()) }
            }
            _ => return Err(ChapError::Step.into()),
        };
        Ok(())
    }

    fn challenge(&self, list: &str, answers: &mut TextWriter) -> Result<Security, LoginError> {
        let algorithm = Algorithm::choose(list).ok_or_else(|| ChapError::Algorithm(list.to_owned()))?;
        let entropy = &self.config.entropy;
        push(answers, key::CHAP_A, &(algorithm as u8).to_string())?;
        push(answers, key::CHAP_I, &entropy.identifier.to_string())?;
        push(answers, key::CHAP_C, &wire::iscsi::text::to_hex(&entropy.challenge))?;
        Ok(Security::Challenged(algorithm))
    }

    /// Declares how much we take in one PDU: once, when operational things are spoken of.
    fn declare_length(&mut self, has_operational: bool, answers: &mut TextWriter) -> Result<(), LoginError> {
        let is_time = self.stage == LoginStage::LoginOperationalNegotiation || has_operational;
        if is_time && !self.is_length_declared {
            self.is_length_declared = true;
            let length = self.config.limits.max_recv_data_segment_length.to_string();
            push(answers, key::MAX_RECV_DATA_SEGMENT_LENGTH, &length)?;
        }
        Ok(())
    }

    /// Whether the stage may be left now; if not because of us, the answers get our offers.
    fn may_leave(&mut self, next: LoginStage, answers: &mut TextWriter) -> Result<bool, LoginError> {
        if !self.is_authenticated() {
            // Asked to prove nothing, an initiator that goes on without a word never will.
            return match self.security {
                Security::Start => Err(LoginError::AuthenticationRequired),
                _ => Ok(false),
            };
        }
        let is_session_negotiated = self.stage == LoginStage::LoginOperationalNegotiation
            && next == LoginStage::FullFeaturePhase
            && self.last.tsih == 0
            && self.party.as_ref().is_some_and(|party| party.session_type == SessionType::Normal);
        if !is_session_negotiated {
            return Ok(true);
        }
        let offers = self.negotiation.own_offers();
        for (name, value) in &offers {
            push(answers, name, value)?;
        }
        Ok(offers.is_empty())
    }

    /// Goes to the next stage, if that was granted.
    fn advance(&mut self, granted: Option<LoginStage>, response: Response) -> Result<Action, LoginError> {
        let Some(next) = granted else { return Ok(Action::Respond(response)) };
        self.stage = next;
        if next != LoginStage::FullFeaturePhase {
            return Ok(Action::Respond(response));
        }
        let party = self.party.as_ref().ok_or(LoginError::Missing(key::INITIATOR_NAME))?;
        let outcome = LoginOutcome {
            initiator_name: party.initiator_name.clone(),
            initiator_alias: party.initiator_alias.clone(),
            isid: self.last.isid,
            target: party.target.clone(),
            session_type: party.session_type,
            tsih_requested: self.last.tsih,
            cid: self.last.cid,
            user: match &self.security {
                Security::Done { user } => user.clone(),
                _ => None,
            },
            session: self.negotiation.session_parameters(),
            connection: self.negotiation.connection_parameters(self.is_length_declared),
            cmd_sn: self.last.cmd_sn,
            next_stat_sn: self.stat_sn,
        };
        self.phase = Phase::Establishing(Box::new(response));
        Ok(Action::Establish(Box::new(outcome)))
    }

    /// A response of this stage; `granted` is the stage that follows.
    fn respond(&mut self, granted: Option<LoginStage>, text: Vec<u8>) -> Response {
        let mut header = self.response_header();
        header.data_segment_length = U24::saturating(text.len());
        header.transit = match granted {
            Some(next) => LoginTransit::new(self.stage, next),
            None => LoginTransit::new(self.stage, LoginStage::SecurityNegotiation),
        };
        header.flags.set(LoginFlags::TRANSIT, granted.is_some());
        self.stat_sn = self.stat_sn.next();
        Response { header, text }
    }

    fn response_header(&self) -> LoginResponse {
        LoginResponse {
            version_max: VERSION,
            version_active: VERSION,
            isid: self.last.isid,
            tsih: self.last.tsih,
            initiator_task_tag: self.last.initiator_task_tag,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.last.cmd_sn,
            max_cmd_sn: self.last.cmd_sn,
            ..LoginResponse::default()
        }
    }

    fn refuse(&mut self, error: LoginError) -> Action {
        self.phase = Phase::Over;
        let mut header = self.response_header();
        header.transit = self.last.transit;
        header.status = error.status();
        Action::Refuse(Response { header, text: Vec::new() }, error)
    }

    fn close(&mut self, error: LoginError) -> Action {
        self.phase = Phase::Over;
        Action::Close(error)
    }
}

impl Party {
    /// A later request may repeat the names, but not change them.
    fn check_repeats(&self, pairs: &[(&str, &str)]) -> Result<(), LoginError> {
        for (name, value) in pairs {
            let is_same = match *name {
                key::INITIATOR_NAME => IscsiName::accept(value).as_ref() == Ok(&self.initiator_name),
                key::TARGET_NAME => self.target.is_none() || IscsiName::accept(value).ok() == self.target,
                key::SESSION_TYPE => parse_session_type(Some(value))? == self.session_type,
                key::INITIATOR_ALIAS => self.initiator_alias.as_deref().is_none_or(|alias| alias == *value),
                _ => true,
            };
            if !is_same {
                return Err(LoginError::Duplicate((*name).to_owned()));
            }
        }
        Ok(())
    }
}

impl<'a> ChapReply<'a> {
    /// The reply, if all of its keys are there.
    fn find(pairs: &[(&'a str, &'a str)]) -> Option<Self> {
        let name = find(pairs, key::CHAP_N)?;
        let response = find(pairs, key::CHAP_R)?;
        let mutual = match (find(pairs, key::CHAP_I), find(pairs, key::CHAP_C)) {
            (None, None) => None,
            (Some(identifier), Some(challenge)) => Some((identifier, challenge)),
            _ => return None,
        };
        Some(Self { name, response, mutual })
    }
}

/// The pairs of a text, each key at most once.
fn read_pairs(text: &[u8]) -> Result<Vec<(&str, &str)>, LoginError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in TextPairs::new(text) {
        let pair = pair?;
        if pairs.len() == REQUEST_PAIRS {
            return Err(LoginError::TextTooLong);
        }
        if find(&pairs, pair.0).is_some() {
            return Err(LoginError::Duplicate(pair.0.to_owned()));
        }
        pairs.push(pair);
    }
    Ok(pairs)
}

fn find<'a>(pairs: &[(&'a str, &'a str)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
}

fn parse_session_type(value: Option<&str>) -> Result<SessionType, LoginError> {
    match value {
        None | Some("Normal") => Ok(SessionType::Normal),
        Some("Discovery") => Ok(SessionType::Discovery),
        Some(other) => Err(LoginError::SessionType(other.to_owned())),
    }
}

/// `AuthMethod`, section 12.1.
fn agree_method(
    access: Option<&ChapAccess>,
    list: &str,
    answers: &mut TextWriter,
) -> Result<Security, LoginError> {
    const CHAP: &str = "CHAP";
    if access.is_some() {
        choose(list, &[CHAP]).ok_or(LoginError::AuthenticationRequired)?;
        push(answers, key::AUTH_METHOD, CHAP)?;
        return Ok(Security::ChapAgreed);
    }
    choose(list, &[NONE]).ok_or_else(|| LoginError::NoCommonMethod(list.to_owned()))?;
    push(answers, key::AUTH_METHOD, NONE)?;
    Ok(Security::Done { user: None })
}

fn push(answers: &mut TextWriter, key: &str, value: &str) -> Result<(), LoginError> {
    answers.push(key, value).map_err(|_| LoginError::AnswerTooLong)
}
