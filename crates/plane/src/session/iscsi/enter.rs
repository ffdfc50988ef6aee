//! The login of a connection: PDUs to [`super::login`] and back, then the way into a session.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ring::{Buffer, SendList, Socket};
use wire::iscsi::frame::{ahs_length, data_segment_length, padding};
use wire::iscsi::{Bhs, IscsiName, LoginRequest, LoginStatus, Opcode};

use super::claim::Claim;
use super::login::{
    Action, ChapEntropy, Event, LoginConfig, LoginError, LoginOutcome, OperationalLimits, Response,
};
use super::registry::{Place, SessionKey};
use super::service::{Entrance, Node, Service};
use super::target::PORTAL_GROUP_TAG;
use crate::limits::{LOGIN_RESPONSE_BYTES, LOGIN_TIME};
use crate::log::trouble;
use crate::session::notice::{self, Notice, What};
use crate::session::traffic::Portal;
use crate::transport::{Gone, Reader};

/// A connection that is logging in, as others see it.
pub struct Login {
    socket: Socket,
    peer: SocketAddr,
    portal: Arc<Portal>,
    reason: RefCell<Option<&'static str>>,
}

impl Login {
    /// A connection that has just come by a portal.
    pub fn new(socket: Socket, peer: SocketAddr, portal: Arc<Portal>) -> Rc<Login> {
        Rc::new(Login { socket, peer, portal, reason: RefCell::new(None) })
    }

    /// Ends it.
    pub fn give_up(&self, reason: &'static str) {
        self.reason.borrow_mut().get_or_insert(reason);
        self.socket.shutdown();
    }
}

/// Why a login came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Gone(#[from] Gone),
    #[error("not a login request but a PDU with {0} bytes of headers and {1} bytes of data")]
    Garbage(usize, usize),
    #[error("{0}")]
    Refused(String),
    #[error("it took longer than {} seconds", LOGIN_TIME.as_secs())]
    TooLong,
    #[error("sending failed: {0}")]
    Send(std::io::Error),
    #[error("no random bytes for a challenge: {0}")]
    Entropy(getrandom::Error),
}

/// Logs a connection in and sends it to the core of its session.
pub async fn log_in(service: &Rc<Service>, login: Rc<Login>, socket: Socket) {
    let ring = service.shard().ring().clone();
    let mut reader = Reader::to_hand_on(ring.clone(), socket);
    let result = match ring.timeout(LOGIN_TIME, negotiate(service, &login, &mut reader)).await {
        Some(result) => result,
        None => Err(Failure::TooLong),
    };
    let peer = login.peer;
    match result {
        Ok(entered) => {
            let ends = (peer, login.socket.local().unwrap_or(peer));
            let portal = login.portal.clone();
            drop(login);
            let (socket, rest) = reader.into_parts();
            hand_over(service, socket, (ends, portal), rest, entered);
        }
        Err(failure) => {
            let reason = login.reason.borrow().map_or_else(|| failure.to_string(), str::to_owned);
            if !matches!(failure, Failure::Gone(Gone::Closed)) || login.reason.borrow().is_some() {
                trouble!("{peer}: closed during login: {reason}");
            }
            login.socket.shutdown();
        }
    }
}

struct Entered {
    outcome: Box<LoginOutcome>,
    claim: Claim,
    again: bool,
}

fn hand_over(
    service: &Rc<Service>,
    socket: Socket,
    (ends, portal): ((SocketAddr, SocketAddr), Arc<Portal>),
    rest: Vec<u8>,
    entered: Entered,
) {
    let Entered { outcome, claim, again } = entered;
    let Some(socket) = socket.detach() else {
        trouble!("{}: closed, its socket is still in use after login", ends.0);
        return;
    };
    let shard = claim.place().shard;
    let entrance = Entrance { socket, ends, portal, rest, outcome, claim, again };
    service.shard().tell(shard, move |shard| {
        if let Some(service) = shard.service::<Service>() {
            service.admit(entrance);
        }
    });
}

async fn negotiate(
    service: &Rc<Service>,
    login: &Rc<Login>,
    reader: &mut Reader,
) -> Result<Entered, Failure> {
    let node: Arc<Node> = service.node().clone();
    let entropy = entropy().map_err(Failure::Entropy)?;
    let config =
        LoginConfig { limits: OperationalLimits::default(), portal_group_tag: PORTAL_GROUP_TAG, entropy };
    let mut machine = super::login::Login::new(config);
    let mut entered: Option<Entered> = None;
    loop {
        let (bhs, text) = receive(reader).await?;
        let header = LoginRequest::decode(&bhs);
        let is_login = Opcode::of(&bhs).is_ok_and(|opcode| opcode == Opcode::LoginRequest);
        let event = if is_login { Event::Request { header: &header, text: &text } } else { Event::OtherPdu };
        let mut action = machine.handle(event, &*node.targets.get());
        if let Action::Establish(outcome) = action {
            let event = match establish(service, outcome).await {
                Ok((found, numbers)) => {
                    let tsih = found.claim.place().tsih;
                    entered = Some(found);
                    Event::Established { tsih, exp_cmd_sn: numbers.0, max_cmd_sn: numbers.1 }
                }
                Err(status) => Event::Refused(status),
            };
            action = machine.handle(event, &*node.targets.get());
        }
        match (action, entered.take()) {
            (Action::Respond(response), None) => {
                reader.put_aside();
                send(&login.socket, &response).await?;
            }
            (Action::Complete(response), Some(found)) => {
                send(&login.socket, &response).await?;
                return Ok(found);
            }
            (Action::Refuse(response, error), _) => {
                if let (true, Some(names)) = (error.is_kept_out(), machine.names()) {
                    tell_refusal(service, login, names, &error);
                }
                send(&login.socket, &response).await?;
                return Err(Failure::Refused(error.to_string()));
            }
            (Action::Close(error), _) => return Err(Failure::Refused(error.to_string())),
            (other, _) => return Err(Failure::Refused(format!("the login went astray: {other:?}"))),
        }
    }
}

/// Somebody is to know that an initiator was not let in.
fn tell_refusal(
    service: &Rc<Service>,
    login: &Login,
    (initiator, target): (&IscsiName, Option<&IscsiName>),
    error: &LoginError,
) {
    let what = What::Refused(error.for_people());
    let (initiator, from) = (initiator.as_str().to_owned(), login.peer.to_string());
    let target = target.map_or("discovery", IscsiName::as_str).to_owned();
    notice::tell(service.shard(), Notice { protocol: "iscsi", initiator, from, target, what });
}

fn entropy() -> Result<ChapEntropy, getrandom::Error> {
    let mut random = [0; 33];
    getrandom::fill(&mut random)?;
    let [identifier, challenge @ ..] = random;
    Ok(ChapEntropy { identifier, challenge })
}

async fn receive(reader: &mut Reader) -> Result<(Bhs, Buffer), Failure> {
    let mut bhs: Bhs = [0; 48];
    reader.first(&mut bhs).await?;
    let (ahs, length) = (ahs_length(&bhs), data_segment_length(&bhs));
    if ahs > 0 || length > LOGIN_RESPONSE_BYTES {
        return Err(Failure::Garbage(ahs, length));
    }
    let text = reader.fill(Buffer::new(length), 0, length).await?;
    reader.skip(padding(length)).await?;
    Ok((bhs, text))
}

async fn send(socket: &Socket, response: &Response) -> Result<(), Failure> {
    let mut list = SendList::new();
    list.push_bytes(&response.bhs());
    list.push_bytes(&response.text);
    list.push_bytes(&[0; 3][..padding(response.text.len())]);
    socket.send(list).await.0.map_err(Failure::Send)
}

type Numbers = (wire::iscsi::SerialNumber, wire::iscsi::SerialNumber);

/// Finds or makes the session.
async fn establish(
    service: &Rc<Service>,
    outcome: Box<LoginOutcome>,
) -> Result<(Entered, Numbers), LoginStatus> {
    let key = SessionKey {
        initiator: outcome.initiator_name.clone(),
        isid: outcome.isid,
        target: outcome.target.clone(),
    };
    if outcome.tsih_requested != 0 {
        return join(service, key, outcome).await;
    }
    let (here, registry) = (service.shard().index(), &service.node().registry);
    let mut again = false;
    loop {
        match registry.enter(key.clone(), here) {
            Ok(tsih) => {
                let numbers = (outcome.cmd_sn, outcome.cmd_sn.plus(crate::limits::COMMAND_WINDOW - 1));
                let place = Place { tsih, shard: here, key };
                let claim = Claim::leading(service.node().clone(), service.shard().peers().clone(), place);
                return Ok((Entered { outcome, claim, again }, numbers));
            }
            Err(Some(old)) => {
                // Session reinstatement: nothing of the old one may be under way when the new one begins.
                again = true;
                let end = move |shard: Rc<crate::shard::Shard>| async move {
                    if let Some(service) = shard.service::<Service>() {
                        service.end_session(old.tsih, "reinstated by a new session").await;
                    }
                };
                service.shard().call(old.shard, end).await;
            }
            Err(None) => return Err(LoginStatus::OUT_OF_RESOURCES),
        }
    }
}

async fn join(
    service: &Rc<Service>,
    key: SessionKey,
    outcome: Box<LoginOutcome>,
) -> Result<(Entered, Numbers), LoginStatus> {
    let place = service.node().registry.find(outcome.tsih_requested).filter(|place| place.key == key);
    let place = place.ok_or(LoginStatus::SESSION_DOES_NOT_EXIST)?;
    let (shard, cid) = (place.shard, outcome.cid);
    let make_room = move |shard: Rc<crate::shard::Shard>| async move {
        match shard.service::<Service>() {
            Some(service) => service.make_room(place, cid).await,
            None => Err(LoginStatus::SESSION_DOES_NOT_EXIST),
        }
    };
    let (claim, numbers) = service.shard().call(shard, make_room).await?;
    Ok((Entered { outcome, claim, again: false }, numbers))
}
