//! One connection of a host. What holds for everything that a controller sends is checked at every PDU.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::Duration;

use ring::{SendList, Socket};
use wire::nvme::admin::log::{GetLogPage, LogPage};
use wire::nvme::fabrics::{
    Connect, ConnectData, ConnectResult, ControllerConfiguration, Property, PropertyGet, PropertySet,
    PropertySize,
};
use wire::nvme::io::{BlockRange, Opcode};
use wire::nvme::tcp::{
    C2HData, CapsuleCmd, CapsuleResp, CommonHeader, DataAlignment, DigestFlags, FatalError, Framing, H2CData,
    ICReq, ICResp, PduType, R2T, Sender, TermReq, crc32c, header_digest,
};
use wire::nvme::{CNTLID_DYNAMIC, Command, CommandFlags, Completion, Fuse, NqnField, SglDescriptor, Status};

use super::bed::{BLOCK, Bed, SUBSYSTEM};
use crate::limits::NVME_MAXH2CDATA;

/// How long a controller may take for what it does at once.
const SOON: Duration = Duration::from_secs(5);

/// What a controller sends.
#[derive(Debug, PartialEq)]
pub enum Received {
    Initialized(ICResp),
    Completed(Completion),
    Data(C2HData, Vec<u8>),
    Ready(R2T),
    Terminated(FatalError),
    Closed,
}

/// One connection.
pub struct Host {
    pub bed: Bed,
    socket: Socket,
    received: RefCell<Vec<u8>>,
    framing: Cell<Framing>,
    cid: Cell<u16>,
    spoils: Cell<bool>,
}

/// Who this host is, and what it wants.
pub fn identity(nqn: &str) -> ConnectData {
    ConnectData {
        hostid: [7; 16],
        cntlid: CNTLID_DYNAMIC,
        subnqn: NqnField::new(nqn),
        hostnqn: NqnField::new("nqn.2014-08.com.example:host"),
    }
}

pub fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
    let mut bytes = [0; N];
    encode(&mut bytes);
    bytes.to_vec()
}

impl Host {
    /// A connection on which nothing has been said.
    pub async fn open(bed: &Bed) -> Host {
        Host::open_at(bed, bed.portal).await
    }

    pub async fn open_at(bed: &Bed, portal: SocketAddr) -> Host {
        let socket = Socket::connect(&bed.ring, portal).await.unwrap();
        let (received, framing) = (RefCell::default(), Cell::default());
        Host { bed: bed.clone(), socket, received, framing, cid: Cell::new(0), spoils: Cell::default() }
    }

    /// A connection with these digests.
    pub async fn initialized(bed: &Bed, digests: DigestFlags) -> Host {
        let host = Host::open(bed).await;
        host.initialize(digests, 0).await;
        host
    }

    /// Agrees on digests and on the alignment of what the controller sends, HPDA.
    pub async fn initialize(&self, digests: DigestFlags, hpda: u8) {
        self.send(&encoded(|bytes| ICReq::new(hpda, digests, 0).encode(bytes))).await;
        let Received::Initialized(response) = self.next().await else { panic!("an ICResp was expected") };
        assert_eq!(response.digests, digests);
        assert_eq!((response.pfv, response.cpda, response.maxh2cdata), (0, 0, NVME_MAXH2CDATA));
        self.framing.set(Framing {
            header_digest: digests.contains(DigestFlags::HEADER),
            data_digest: digests.contains(DigestFlags::DATA),
            hpda: DataAlignment::new(hpda).unwrap(),
            cpda: DataAlignment::default(),
        });
    }

    /// The alignment of what this host sends: more than the controller asks for, if it likes.
    pub fn align(&self, cpda: u8) {
        self.framing.set(Framing { cpda: DataAlignment::new(cpda).unwrap(), ..self.framing.get() });
    }

    /// Asks for a queue.
    pub async fn connect(&self, connect: Connect, cntlid: u16) -> Completion {
        self.connect_as(connect, &ConnectData { cntlid, ..identity(SUBSYSTEM) }).await
    }

    /// Asks for a queue by any name.
    pub async fn connect_as(&self, connect: Connect, data: &ConnectData) -> Completion {
        self.capsule(connect.command(self.next_cid()), &encoded(|bytes| data.encode(bytes))).await;
        self.completed().await
    }

    /// A controller that is ready, by its admin queue, and its identifier.
    pub async fn admin(bed: &Bed, kato: u32) -> (Host, u16) {
        Host::admin_of(bed, SUBSYSTEM, kato).await
    }

    /// The same of any subsystem.
    pub async fn admin_of(bed: &Bed, nqn: &str, kato: u32) -> (Host, u16) {
        let host = Host::initialized(bed, DigestFlags::empty()).await;
        let connect = Connect { sqsize: 31, kato, ..Connect::default() };
        let completion = host.connect_as(connect, &identity(nqn)).await;
        assert_eq!(completion.status, Status::SUCCESSFUL_COMPLETION);
        host.set_configuration(ControllerConfiguration::ENABLED).await;
        (host, ConnectResult::from_result(completion.result).cntlid)
    }

    /// An I/O queue of that controller.
    pub async fn io(bed: &Bed, cntlid: u16, digests: DigestFlags) -> Host {
        let host = Host::initialized(bed, digests).await;
        host.join(SUBSYSTEM, cntlid, 1).await;
        host
    }

    /// Becomes an I/O queue of any controller.
    pub async fn join(&self, nqn: &str, cntlid: u16, qid: u16) {
        let connect = Connect { qid, sqsize: 127, ..Connect::default() };
        let completion = self.connect_as(connect, &ConnectData { cntlid, ..identity(nqn) }).await;
        assert_eq!(completion.status, Status::SUCCESSFUL_COMPLETION);
    }

    /// Sends an admin or I/O command without data and gives its completion.
    pub async fn ask(&self, command: Command) -> Completion {
        self.capsule(Command { cid: self.next_cid(), ..command }, &[]).await;
        self.completed().await
    }

    /// Sends a command that gives data; the status when it fails.
    pub async fn fetch(&self, command: Command) -> Result<Vec<u8>, Status> {
        self.capsule(Command { cid: self.next_cid(), ..command }, &[]).await;
        let mut got = Vec::new();
        loop {
            match self.next().await {
                Received::Data(header, data) => {
                    assert_eq!(header.datao as usize, got.len(), "data comes in order");
                    got.extend_from_slice(&data);
                }
                Received::Completed(completion) if completion.status.is_success() => return Ok(got),
                Received::Completed(completion) => return Err(completion.status),
                other => panic!("data was expected and not {other:?}"),
            }
        }
    }

    /// A log page from its start; `retain` leaves its event as it is.
    pub async fn log(&self, page: LogPage, length: u32, retain: bool) -> Vec<u8> {
        let get = GetLogPage { retain_event: retain, ..GetLogPage::new(page, 0, length) };
        self.fetch(get.command(0)).await.unwrap()
    }

    pub async fn set_configuration(&self, configuration: ControllerConfiguration) {
        let set =
            PropertySet { size: PropertySize::FOUR, offset: Property::CC, value: configuration.0.into() };
        self.capsule(set.command(self.next_cid()), &[]).await;
        assert_eq!(self.completed().await.status, Status::SUCCESSFUL_COMPLETION);
    }

    pub async fn property(&self, offset: Property) -> u64 {
        let get = PropertyGet { size: PropertySize::FOUR, offset };
        self.capsule(get.command(self.next_cid()), &[]).await;
        self.completed().await.result
    }

    /// Waits until CSTS is `status`.
    pub async fn until_status(&self, status: u64, within: Duration) {
        let before = self.bed.ring.now();
        loop {
            let found = self.property(Property::CSTS).await;
            if found == status {
                return;
            }
            let waited = self.bed.ring.now().since(before);
            assert!(waited < within, "CSTS is {found:#x} after {waited:?} and not {status:#x}");
            self.bed.pass(Duration::from_millis(20)).await;
        }
    }

    /// Nothing comes for so long.
    pub async fn is_silent(&self, span: Duration) {
        let received = self.bed.ring.timeout(span, self.socket.receive()).await;
        assert!(received.is_none() && self.received.borrow().is_empty(), "something came");
    }

    pub fn next_cid(&self) -> u16 {
        self.cid.set(self.cid.get() + 1);
        self.cid.get()
    }

    /// A write, compare or read of whole blocks from `lba`; data in the capsule if `in_capsule`. Gives its identifier.
    pub async fn blocks(&self, opcode: Opcode, lba: u64, data: &[u8], in_capsule: bool, fuse: Fuse) -> u16 {
        let command = self.command(opcode, lba, data.len(), in_capsule, fuse);
        self.capsule(command, if in_capsule { data } else { &[] }).await;
        command.cid
    }

    /// Such a command, which is not sent.
    pub fn command(&self, opcode: Opcode, lba: u64, bytes: usize, in_capsule: bool, fuse: Fuse) -> Command {
        let (cid, length) = (self.next_cid(), bytes as u32);
        let range = BlockRange { slba: lba, nlb: (bytes / BLOCK - 1) as u16, ..BlockRange::default() };
        let sgl =
            if in_capsule { SglDescriptor::in_capsule(0, length) } else { SglDescriptor::transport(length) };
        Command { flags: CommandFlags::SGL.with_fuse(fuse), ..range.command(opcode, cid, 1, sgl) }
    }

    /// Reads `blocks` from `lba`, which has to succeed.
    pub async fn read(&self, lba: u64, blocks: usize) -> Vec<u8> {
        let wanted = vec![0; blocks * BLOCK];
        self.blocks(Opcode::READ, lba, &wanted, false, Fuse::Normal).await;
        let mut got = Vec::new();
        loop {
            match self.next().await {
                Received::Data(header, data) => {
                    assert_eq!(header.datao as usize, got.len(), "data comes in order");
                    got.extend_from_slice(&data);
                }
                Received::Completed(completion) => {
                    assert_eq!(completion.status, Status::SUCCESSFUL_COMPLETION);
                    assert_eq!(got.len(), wanted.len());
                    return got;
                }
                other => panic!("data was expected and not {other:?}"),
            }
        }
    }

    /// The next PDU, which has to be an R2T.
    pub async fn ready(&self) -> R2T {
        match self.next().await {
            Received::Ready(r2t) => r2t,
            other => panic!("an R2T was expected and not {other:?}"),
        }
    }

    /// The next PDU, which has to be a completion.
    pub async fn completed(&self) -> Completion {
        match self.next().await {
            Received::Completed(completion) => completion,
            other => panic!("a completion was expected and not {other:?}"),
        }
    }

    /// Sends a command with its data.
    pub async fn capsule(&self, command: Command, data: &[u8]) {
        let bytes = self.encode_capsule(command, data);
        self.send(&bytes).await;
    }

    /// A command with its data as it goes out.
    pub fn encode_capsule(&self, command: Command, data: &[u8]) -> Vec<u8> {
        let pdu = CapsuleCmd::new(self.framing.get(), command, data.len() as u32);
        let mut bytes = self.framed(&encoded(|bytes| pdu.encode(bytes)), pdu.header, data);
        if self.spoils.take() {
            *bytes.last_mut().unwrap() ^= 1;
        }
        bytes
    }

    /// Damages the digest of the data of the next capsule.
    pub fn spoil_next(&self) {
        self.spoils.set(true);
    }

    /// Sends a part of what an R2T asked for; `spoil` damages its digest.
    pub async fn data(&self, r2t: &R2T, offset: usize, data: &[u8], last: bool, spoil: bool) {
        let framing = self.framing.get();
        let pdu = H2CData::new(framing, r2t.cccid, r2t.ttag, offset as u32, data.len() as u32, last);
        let mut bytes = self.framed(&encoded(|bytes| pdu.encode(bytes)), pdu.header, data);
        if spoil {
            *bytes.last_mut().unwrap() ^= 1;
        }
        self.send(&bytes).await;
    }

    fn framed(&self, header: &[u8], common: CommonHeader, data: &[u8]) -> Vec<u8> {
        let framing = self.framing.get();
        let mut bytes = header.to_vec();
        if framing.header_digest {
            bytes.extend_from_slice(&header_digest(header));
        }
        if !data.is_empty() {
            bytes.resize(common.pdo.into(), 0);
            bytes.extend_from_slice(data);
            if framing.data_digest {
                bytes.extend_from_slice(&crc32c(data).to_le_bytes());
            }
        }
        assert_eq!(bytes.len(), common.plen as usize);
        bytes
    }

    pub async fn send(&self, bytes: &[u8]) {
        let mut list = SendList::new();
        list.push_bytes(bytes);
        self.socket.send(list).await.0.expect("the controller takes what is sent");
    }

    /// The next PDU.
    pub async fn next(&self) -> Received {
        self.next_within(SOON).await
    }

    pub async fn next_within(&self, within: Duration) -> Received {
        if !self.fill(CommonHeader::LENGTH, within).await {
            return Received::Closed;
        }
        let common = CommonHeader::decode(self.received.borrow().first_chunk().unwrap());
        let shape = self.framing.get().shape(&common, Sender::Controller, u32::MAX).unwrap();
        assert!(self.fill(shape.total(), within).await, "the connection ends in the middle of a PDU");
        let pdu: Vec<u8> = self.received.borrow_mut().drain(..shape.total()).collect();
        if shape.header_digest {
            assert_eq!(pdu[shape.header..][..4], header_digest(&pdu[..shape.header]));
        }
        let data = pdu[shape.data_offset..][..shape.data].to_vec();
        if shape.data_digest {
            assert_eq!(pdu[pdu.len() - 4..], crc32c(&data).to_le_bytes());
        }
        match common.pdu_type {
            PduType::IC_RESP => Received::Initialized(ICResp::decode(pdu.first_chunk().unwrap())),
            PduType::CAPSULE_RESP => {
                Received::Completed(CapsuleResp::decode(pdu.first_chunk().unwrap()).completion)
            }
            PduType::C2H_DATA => Received::Data(C2HData::decode(pdu.first_chunk().unwrap()), data),
            PduType::R2T => Received::Ready(R2T::decode(pdu.first_chunk().unwrap())),
            _ => {
                let term = TermReq::decode(pdu.first_chunk().unwrap());
                Received::Terminated(FatalError { fes: term.fes, fei: term.fei })
            }
        }
    }

    /// Gathers so many bytes; false when the connection ends first.
    async fn fill(&self, bytes: usize, within: Duration) -> bool {
        while self.received.borrow().len() < bytes {
            match self.bed.ring.timeout(within, self.socket.receive()).await {
                None => panic!("nothing came for {within:?}"),
                Some(Ok(chunk)) if !chunk.is_empty() => {
                    self.received.borrow_mut().extend_from_slice(&chunk);
                }
                Some(_) => return false,
            }
        }
        true
    }
}
