//! How a connection begins: the transport's greeting, and the Connect command.

use std::rc::Rc;
use std::time::Duration;

use ring::{Buffer, Ring, SendList, Socket};
use sha2::{Digest, Sha256};
use wire::nvme::fabrics::{Connect, ConnectAttributes, ConnectData, ConnectResult, InvalidParameter};
use wire::nvme::tcp::{
    CommonHeader, DataAlignment, DigestFlags, Framing, ICReq, ICResp, MIN_MAXH2CDATA, PFV_1_0, PduType,
    Sender, TermReq,
};
use wire::nvme::{CNTLID_DYNAMIC, NqnField, Status};

use super::queue::Queue;
use crate::initiator::table::Transfer;
use crate::initiator::{Cause, OpenError, OpenOptions};
use crate::target::NvmeTarget;

/// How long the greeting may take.
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// R2Ts that one command may have open, 0's based.
const MAXR2T: u32 = 15;

/// What a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    /// Digests and alignments.
    pub(super) framing: Framing,
    /// Most bytes of data in one H2CData.
    pub(super) maxh2cdata: u32,
}

/// Why a controller could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It says nothing, or nothing that NVMe/TCP knows.
    #[error(
        "the other side does not speak NVMe/TCP ({0}); hint: the port of NVMe/TCP is 4420, that of iSCSI is 3260"
    )]
    Foreign(String),
    /// It did not answer in time.
    #[error("no answer to the greeting within {} s; hint: is it an NVMe/TCP port?", .0.as_secs())]
    Silent(Duration),
    /// A termination request.
    #[error("the target ended the connection at its start: {0}")]
    Terminated(String),
    /// ICResp says what we cannot do.
    #[error("the target's greeting makes no sense: {0}")]
    Greeting(String),
    /// We asked for digests and got none.
    #[error("the target does not use {0} digests; hint: leave them out, or enable them at the target")]
    NoDigest(&'static str),
    /// The Connect command was refused.
    #[error("{}", refusal(*.status, *.result, .queue))]
    Refused {
        /// Which queue.
        queue: &'static str,
        /// Why.
        status: Status,
        /// Dword 0.
        result: u64,
    },
    /// In-band authentication is wanted.
    #[error(
        "the target wants in-band authentication, which the lab does not do yet; hint: switch it off there"
    )]
    AuthenticationWanted,
    /// Enabling failed.
    #[error("the controller did not become ready: {0}")]
    NotReady(String),
}

fn refusal(status: Status, result: u64, queue: &str) -> String {
    let sentence = format!("the target refused to connect the {queue} queue: {status}");
    let hint = match status.plain() {
        Status::CONNECT_INVALID_HOST => "; hint: allow this host's NQN at the target, or give --host-nqn",
        Status::CONNECT_INVALID_PARAMETERS => match InvalidParameter::from_result(result) {
            InvalidParameter::SUBNQN => "; hint: no subsystem has this NQN; nvme discover lists them",
            InvalidParameter::HOSTNQN => "; hint: the host's NQN is not accepted",
            InvalidParameter { in_data, offset } => {
                let place = if in_data { "its data" } else { "the command" };
                return format!("{sentence} (byte {offset} of {place})");
            }
        },
        Status::CONNECT_CONTROLLER_BUSY => "; hint: the target has no controller left",
        _ => "",
    };
    format!("{sentence}{hint}")
}

/// Who we are: an identifier that belongs to the name.
pub(super) fn host_identifier(nqn: &str) -> [u8; 16] {
    let digest = Sha256::digest(nqn.as_bytes());
    let mut identifier = [0; 16];
    for (slot, byte) in identifier.iter_mut().zip(digest) {
        *slot = byte;
    }
    // Version 8 of RFC 9562: made from a name by a way of one's own.
    identifier[6] = identifier[6] & 0x0f | 0x80;
    identifier[8] = identifier[8] & 0x3f | 0x80;
    identifier
}

/// Greets the controller on a fresh connection: ICReq and ICResp.
pub(super) async fn greet(
    ring: &Ring,
    socket: &Socket,
    options: &OpenOptions,
) -> Result<Agreed, ConnectError> {
    let mut wanted = DigestFlags::empty();
    wanted.set(DigestFlags::HEADER, options.header_digest);
    wanted.set(DigestFlags::DATA, options.data_digest);
    let mut request = [0; ICReq::LENGTH];
    ICReq::new(0, wanted, MAXR2T).encode(&mut request);
    let mut list = SendList::new();
    list.push_bytes(&request);
    let foreign = |error: std::io::Error| ConnectError::Foreign(error.to_string());
    socket.send(list).await.0.map_err(foreign)?;
    let answer = ring.timeout(GREETING_PATIENCE, response(socket)).await;
    let agreed = judge(&answer.ok_or(ConnectError::Silent(GREETING_PATIENCE))??, wanted)?;
    // PDUs of data end at a multiple of 4 bytes, and none is empty.
    Ok(Agreed { maxh2cdata: agreed.maxh2cdata.min(options.data_pdu.max(4) & !3), ..agreed })
}

/// Receives the answer to the greeting, and nothing behind it.
async fn response(socket: &Socket) -> Result<ICResp, ConnectError> {
    let foreign = |problem: &str| ConnectError::Foreign(problem.to_owned());
    let mut bytes = Vec::with_capacity(ICResp::LENGTH);
    loop {
        let chunk = socket.receive().await.map_err(|error| ConnectError::Foreign(error.to_string()))?;
        if chunk.is_empty() {
            return Err(foreign("it closed the connection"));
        }
        bytes.extend_from_slice(&chunk);
        let Some(first) = bytes.first_chunk() else { continue };
        let header = CommonHeader::decode(first);
        let shape = Framing::default().shape(&header, Sender::Controller, 0);
        let shape = shape.map_err(|_| foreign("its answer is no PDU"))?;
        match header.pdu_type {
            PduType::IC_RESP if bytes.len() == shape.total() => {
                let whole = bytes.first_chunk().ok_or_else(|| foreign("its answer is short"))?;
                return Ok(ICResp::decode(whole));
            }
            PduType::C2H_TERM_REQ if bytes.len() >= TermReq::LENGTH => {
                let whole = bytes.first_chunk().ok_or_else(|| foreign("its answer is short"))?;
                let TermReq { fes, fei, .. } = TermReq::decode(whole);
                return Err(ConnectError::Terminated(format!("{fes:?} ({fei:#x})")));
            }
            PduType::IC_RESP | PduType::C2H_TERM_REQ if bytes.len() < shape.total() => {}
            PduType::IC_RESP => return Err(foreign("it speaks before it is asked")),
            _ => return Err(foreign("it does not answer the greeting")),
        }
    }
}

fn judge(answer: &ICResp, wanted: DigestFlags) -> Result<Agreed, ConnectError> {
    if answer.pfv != PFV_1_0 {
        return Err(ConnectError::Greeting(format!("PDU format version {}", answer.pfv)));
    }
    let cpda = DataAlignment::new(answer.cpda)
        .ok_or_else(|| ConnectError::Greeting(format!("CPDA {} is above 31", answer.cpda)))?;
    if answer.maxh2cdata < MIN_MAXH2CDATA || !answer.maxh2cdata.is_multiple_of(4) {
        return Err(ConnectError::Greeting(format!("MAXH2CDATA {}", answer.maxh2cdata)));
    }
    if !wanted.contains(answer.digests) {
        return Err(ConnectError::Greeting("digests that nobody asked for".to_owned()));
    }
    let missing = wanted - answer.digests;
    if missing.contains(DigestFlags::HEADER) {
        return Err(ConnectError::NoDigest("header"));
    }
    if missing.contains(DigestFlags::DATA) {
        return Err(ConnectError::NoDigest("data"));
    }
    let framing = Framing {
        header_digest: wanted.contains(DigestFlags::HEADER),
        data_digest: wanted.contains(DigestFlags::DATA),
        hpda: DataAlignment::default(),
        cpda,
    };
    Ok(Agreed { framing, maxh2cdata: answer.maxh2cdata })
}

/// Sends Connect: the queue with number `qid` and `entries` entries. `cntlid` is that of the admin queue's
/// controller. Gives the controller's.
pub(super) async fn connect_queue(
    queue: &Rc<Queue>,
    target: &NvmeTarget,
    options: &OpenOptions,
    qid: u16,
    entries: u16,
    kato: Duration,
    cntlid: Option<u16>,
) -> Result<u16, OpenError> {
    let mut cattr = ConnectAttributes::empty();
    cattr.set(ConnectAttributes::DISABLE_SQ_FLOW_CONTROL, options.without_flow_control);
    let command = Connect {
        recfmt: 0,
        qid,
        sqsize: entries - 1,
        cattr,
        kato: if qid == 0 { kato.as_millis() as u32 } else { 0 },
    };
    let data = ConnectData {
        hostid: host_identifier(&options.host_nqn),
        cntlid: cntlid.unwrap_or(CNTLID_DYNAMIC),
        subnqn: NqnField::new(&target.name),
        hostnqn: NqnField::new(&options.host_nqn),
    };
    let mut bytes = [0; ConnectData::LENGTH];
    data.encode(&mut bytes);
    let transfer = Transfer::Out(Buffer::copy_of(&bytes).share());
    match queue.command("Connect", command.command(0), transfer).await.result {
        Ok(result) => {
            let result = ConnectResult::from_result(result);
            if result.authentication || result.secure_channel {
                return Err(ConnectError::AuthenticationWanted.into());
            }
            Ok(result.cntlid)
        }
        Err(source) => match *source.cause() {
            Cause::Nvme { status, result } => {
                let queue = if qid == 0 { "admin" } else { "I/O" };
                Err(ConnectError::Refused { queue, status, result }.into())
            }
            _ => Err(OpenError::Start { command: "Connect", source }),
        },
    }
}
