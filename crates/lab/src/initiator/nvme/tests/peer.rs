//! A controller that follows a script.

use std::time::Duration;

use ring::{Buffer, Listener, Ring, SendList, Socket};
use wire::nvme::admin;
use wire::nvme::admin::identify::*;
use wire::nvme::fabrics::{
    self, Capabilities, CommandType, Connect, ConnectAttributes, ConnectData, ConnectResult,
    ControllerConfiguration, Property, PropertyGet, PropertySet, Shutdown,
};
use wire::nvme::tcp::*;
use wire::nvme::{Command, Completion, NqnField, SglKind, Status};

use super::super::NvmeSession;
use crate::initiator::{OpenError, OpenOptions};
use crate::target::NvmeTarget;

const NAME: &str = "nqn.2026-11.internal.fels:peer";

/// How the peer behaves until the session is open.
#[derive(Clone, Copy)]
pub struct Script {
    pub digests: DigestFlags,
    pub cpda: u8,
    pub maxh2cdata: u32,
    /// What the host wishes to be at most in one H2CData.
    pub data_pdu: u32,
    /// Bytes of in-capsule data of the I/O queue.
    pub in_capsule: u32,
    /// What the host wishes to be at most in one capsule.
    pub along: u32,
    pub commands: OptionalCommands,
    /// DMRSL.
    pub dataset_blocks: u32,
    /// How Connect of the admin queue ends, with dword 0.
    pub connect: (Status, u64),
    /// It does not know NVMe.
    pub garbage: bool,
    /// So often it says after a reset that it is still ready, and then that it is not, or that it has failed.
    pub lingers: u32,
    pub fails: bool,
    pub depth: u32,
    /// What the host is to say in Connect.
    pub attributes: ConnectAttributes,
    pub timeout: Duration,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            digests: DigestFlags::empty(),
            cpda: 0,
            maxh2cdata: 8192,
            data_pdu: u32::MAX,
            in_capsule: 4096,
            along: u32::MAX,
            commands: OptionalCommands::all(),
            dataset_blocks: 0,
            connect: (Status::SUCCESSFUL_COMPLETION, 0),
            garbage: false,
            lingers: 0,
            fails: false,
            depth: 8,
            attributes: ConnectAttributes::empty(),
            timeout: Duration::from_secs(20),
        }
    }
}

pub struct Peer {
    socket: Socket,
    received: Vec<u8>,
    pub framing: Framing,
    /// The next data digest is wrong.
    pub spoil: bool,
}

/// Opens a session with a peer that behaves by `script` until it is open and by `then` on the I/O queue afterwards.
pub async fn open<F: Future<Output = ()> + 'static>(
    ring: &Ring,
    script: Script,
    then: impl FnOnce(Peer) -> F + 'static,
) -> Result<NvmeSession, OpenError> {
    let listener = Listener::bind(ring, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let spawner = ring.clone();
    ring.spawn_later(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut admin = Peer::new(socket);
        if script.garbage {
            admin.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
            admin.next().await;
            return;
        }
        admin.greet(&script).await;
        spawner.spawn_later(admin.serve_admin(script));
        let (socket, _) = listener.accept().await.unwrap();
        let mut peer = Peer::new(socket);
        peer.greet(&script).await;
        let (command, data) = peer.command().await;
        let connect = Connect::of(&command);
        assert_eq!((connect.qid, u32::from(connect.sqsize)), (1, script.depth));
        assert_eq!(connect.cattr, script.attributes);
        assert_eq!(ConnectData::decode(data.first_chunk().unwrap()).cntlid, 7);
        peer.end(&command, Status::SUCCESSFUL_COMPLETION, 7).await;
        then(peer).await;
    });
    let target =
        NvmeTarget { host: address.ip().to_string(), port: address.port(), name: NAME.to_owned(), nsid: 1 };
    let options = OpenOptions {
        header_digest: script.digests.contains(DigestFlags::HEADER),
        data_digest: script.digests.contains(DigestFlags::DATA),
        depth: script.depth,
        data_pdu: script.data_pdu,
        in_capsule: script.along,
        without_flow_control: script.attributes.contains(ConnectAttributes::DISABLE_SQ_FLOW_CONTROL),
        timeout: script.timeout,
        ..OpenOptions::default()
    };
    NvmeSession::open(ring, &target, &options).await
}

impl Peer {
    fn new(socket: Socket) -> Peer {
        Peer { socket, received: Vec::new(), framing: Framing::default(), spoil: false }
    }

    async fn raw(&mut self, bytes: &[u8]) {
        let mut list = SendList::new();
        list.push(Buffer::copy_of(bytes).share());
        // The host may have hung up already.
        let _ = self.socket.send(list).await;
    }

    /// The next PDU: its header, and its data. None at the end of the connection.
    pub async fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        loop {
            if let Some(first) = self.received.first_chunk() {
                let header = CommonHeader::decode(first);
                let shape = self.framing.shape(&header, Sender::Host, 1 << 20).unwrap();
                if self.received.len() >= shape.total() {
                    let pdu: Vec<u8> = self.received.drain(..shape.total()).collect();
                    let head = pdu[..shape.header].to_vec();
                    if shape.header_digest {
                        assert_eq!(pdu[shape.header..shape.digested_header()], header_digest(&head));
                    }
                    let data = pdu[shape.data_offset..shape.data_offset + shape.data].to_vec();
                    if shape.data_digest {
                        assert_eq!(pdu[shape.data_offset + shape.data..], crc32c(&data).to_le_bytes());
                    }
                    return Some((head, data));
                }
            }
            let chunk = self.socket.receive().await.ok().filter(|chunk| !chunk.is_empty())?;
            self.received.extend_from_slice(&chunk);
        }
    }

    /// Sends one PDU.
    pub async fn send(&mut self, kind: PduType, header: &[u8], data: &[u8]) {
        let mut bytes = header.to_vec();
        let digested = !matches!(kind, PduType::IC_RESP | PduType::C2H_TERM_REQ);
        if self.framing.header_digest && digested {
            bytes.extend(header_digest(header));
        }
        if !data.is_empty() {
            bytes.resize(usize::from(self.framing.data_offset(kind)), 0);
            bytes.extend(data);
            if self.framing.data_digest {
                let mut digest = crc32c(data).to_le_bytes();
                digest[0] ^= u8::from(std::mem::take(&mut self.spoil));
                bytes.extend(digest);
            }
        }
        self.raw(&bytes).await;
    }

    async fn greet(&mut self, script: &Script) {
        let (header, _) = self.next().await.unwrap();
        let request = ICReq::decode(header.first_chunk().unwrap());
        assert_eq!((request.pfv, request.digests), (PFV_1_0, script.digests));
        let mut bytes = [0; ICResp::LENGTH];
        ICResp::new(script.cpda, script.digests, script.maxh2cdata).encode(&mut bytes);
        self.send(PduType::IC_RESP, &bytes, &[]).await;
        self.framing = Framing {
            header_digest: script.digests.contains(DigestFlags::HEADER),
            data_digest: script.digests.contains(DigestFlags::DATA),
            hpda: DataAlignment::new(request.hpda).unwrap(),
            cpda: DataAlignment::new(script.cpda).unwrap(),
        };
    }

    /// The admin queue, for as long as it is there.
    async fn serve_admin(mut self, script: Script) {
        let (mut enabled, mut left, mut lingers) = (false, false, 0);
        while let Some((header, data)) = self.next().await {
            let command = CapsuleCmd::decode(header.first_chunk().unwrap()).command;
            if command.opcode != fabrics::OPCODE {
                self.answer(&command, &script).await;
                continue;
            }
            let (mut status, mut result) = (Status::SUCCESSFUL_COMPLETION, 0);
            match CommandType::of(&command) {
                CommandType::CONNECT => {
                    let data = ConnectData::decode(data.first_chunk().unwrap());
                    assert_eq!((data.subnqn.name(), data.cntlid), (Ok(NAME), 0xffff));
                    assert!(data.hostnqn.name().is_ok() && data.hostid != [0; 16]);
                    (status, result) = script.connect;
                    if status.is_success() {
                        result = ConnectResult { cntlid: 7, ..ConnectResult::default() }.result();
                    }
                }
                CommandType::PROPERTY_GET => match PropertyGet::of(&command).offset {
                    Property::CAP => result = Capabilities::default().with_mqes(127).with_to(2).0,
                    Property::CSTS if lingers > 0 => {
                        lingers -= 1;
                        result = if script.fails && lingers == 0 { 0b11 } else { 0b01 };
                    }
                    Property::CSTS => result = u64::from(enabled) | u64::from(left) << 3,
                    other => panic!("{other:?}"),
                },
                CommandType::PROPERTY_SET => {
                    let value = ControllerConfiguration(PropertySet::of(&command).value as u32);
                    lingers = if enabled && value.en() == 0 { script.lingers } else { 0 };
                    (enabled, left) = (value.en() == 1, value.shutdown() == Shutdown::Normal);
                }
                other => panic!("{other:?}"),
            }
            self.end(&command, status, result).await;
        }
    }

    async fn answer(&mut self, command: &Command, script: &Script) {
        let mut page = [0; IDENTIFY_LENGTH];
        match (admin::Opcode(command.opcode), Identify::of(command).cns) {
            (admin::Opcode::IDENTIFY, Cns::CONTROLLER) => IdentifyController {
                cntlid: 7,
                mdts: 5,
                oncs: script.commands,
                fuses: FusedOperations::COMPARE_AND_WRITE,
                subnqn: NqnField::new(NAME),
                ..IdentifyController::default()
            }
            .with_in_capsule_data(script.in_capsule)
            .encode(&mut page),
            (admin::Opcode::IDENTIFY, Cns::NAMESPACE) if command.nsid == 1 => IdentifyNamespace {
                nsze: 1 << 20,
                nsfeat: NamespaceFeatures::OPTIMAL_SIZES,
                npwg: 7,
                lbaf: LbaFormats::one(LbaFormat { ms: 0, lbads: 9, rp: 0 }),
                ..IdentifyNamespace::default()
            }
            .encode(&mut page),
            (admin::Opcode::IDENTIFY, Cns::COMMAND_SET_CONTROLLER) if script.dataset_blocks > 0 => {
                NvmController { dmrsl: script.dataset_blocks, ..NvmController::default() }.encode(&mut page);
            }
            (admin::Opcode::IDENTIFY, _) => {
                return self.end(command, Status::INVALID_FIELD_IN_COMMAND.do_not_retry(), 0).await;
            }
            _ => return self.end(command, Status::SUCCESSFUL_COMPLETION, 0).await,
        }
        self.input(command, 0, &page, PduFlags::LAST_PDU).await;
        self.end(command, Status::SUCCESSFUL_COMPLETION, 0).await;
    }

    /// The next command and its in-capsule data; waits for ever at the end of the connection.
    pub async fn command(&mut self) -> (Command, Vec<u8>) {
        let Some((header, data)) = self.next().await else { return std::future::pending().await };
        let capsule = CapsuleCmd::decode(header.first_chunk().unwrap());
        assert_eq!(capsule.header.pdu_type, PduType::CAPSULE_CMD);
        let inside = capsule.command.sgl.kind == SglKind::DATA_BLOCK_OFFSET;
        assert_eq!(data.is_empty(), !inside, "{capsule:?}");
        capsule.command.data_place(data.len() as u32).unwrap();
        (capsule.command, data)
    }

    /// A response capsule.
    pub async fn end(&mut self, command: &Command, status: Status, result: u64) {
        let completion = Completion { result, sqhd: 0, cid: command.cid, status };
        let mut header = [0; CapsuleResp::LENGTH];
        CapsuleResp::new(self.framing, completion).encode(&mut header);
        self.send(PduType::CAPSULE_RESP, &header, &[]).await;
    }

    /// A piece of input.
    pub async fn input(&mut self, command: &Command, offset: usize, data: &[u8], flags: PduFlags) {
        let mut header = [0; C2HData::LENGTH];
        let length = data.len() as u32;
        C2HData::new(self.framing, flags, command.cid, offset as u32, length).encode(&mut header);
        self.send(PduType::C2H_DATA, &header, data).await;
    }

    /// All input of a command, which ends it, the header alone and ahead of the data.
    pub async fn late_input(&mut self, command: &Command, data: &[u8], clock: &Ring) {
        let (mut header, length) = ([0; C2HData::LENGTH], data.len() as u32);
        let flags = PduFlags::LAST_PDU | PduFlags::SUCCESS;
        C2HData::new(self.framing, flags, command.cid, 0, length).encode(&mut header);
        self.raw(&header).await;
        clock.sleep(Duration::from_millis(30)).await;
        self.raw(data).await;
    }

    /// Asks for output and receives it, in PDUs of at most `most` bytes.
    pub async fn output(
        &mut self,
        command: &Command,
        ttag: u16,
        offset: u32,
        length: u32,
        most: u32,
    ) -> Vec<u8> {
        let mut header = [0; R2T::LENGTH];
        R2T::new(self.framing, command.cid, ttag, offset, length).encode(&mut header);
        self.send(PduType::R2T, &header, &[]).await;
        let mut got = Vec::new();
        while got.len() < length as usize {
            let (header, data) = self.next().await.unwrap();
            let pdu = H2CData::decode(header.first_chunk().unwrap());
            assert_eq!((pdu.header.pdu_type, pdu.cccid, pdu.ttag), (PduType::H2C_DATA, command.cid, ttag));
            assert_eq!((pdu.datao, pdu.datal), (offset + got.len() as u32, data.len() as u32));
            assert!(pdu.datal <= most);
            got.extend(data);
            assert_eq!(pdu.header.flags.contains(PduFlags::LAST_PDU), got.len() == length as usize);
        }
        got
    }
}
