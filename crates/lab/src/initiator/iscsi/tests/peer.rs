//! A peer that follows a script.

use std::time::Duration;

use ring::{Buffer, Listener, Ring, SendList, Socket};
use wire::iscsi::digest::{data_digest, header_digest};
use wire::iscsi::frame::{BHS_LENGTH, data_segment_length, padding};
use wire::iscsi::{
    Bhs, DataIn, DataInFlags, DataOut, Framing, LoginFlags, LoginRequest, LoginResponse, Opcode, R2t,
    RESERVED_TAG, ScsiCommand, ScsiResponse, SerialNumber, TaskManagementRequest, TaskManagementResponse,
    TaskManagementResponseCode, U24,
};
use wire::scsi::Command;
use wire::scsi::capacity::Capacity;
use wire::scsi::inquiry::{BlockLimits, Peripheral, Standard};

use super::super::IscsiSession;
use crate::initiator::{OpenError, OpenOptions};
use crate::target::IscsiTarget;

/// How the peer behaves until the session is open.
#[derive(Clone, Copy)]
pub struct Script {
    pub header_digest: bool,
    pub data_digest: bool,
    /// What it answers in the operational stage.
    pub answers: &'static str,
    /// It does not know iSCSI.
    pub garbage: bool,
    /// Commands beyond the last one received that may come.
    pub window: u32,
    /// MAXIMUM UNMAP LBA COUNT; 0 is no page of block limits.
    pub maximum_unmap: u32,
    /// Of the initiator's commands.
    pub timeout: Duration,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            header_digest: false,
            data_digest: false,
            answers: "",
            garbage: false,
            window: 64,
            maximum_unmap: 0,
            timeout: Duration::from_secs(20),
        }
    }
}

pub struct Peer {
    socket: Socket,
    received: Vec<u8>,
    framing: Framing,
    pub stat_sn: SerialNumber,
    exp_cmd_sn: SerialNumber,
    window: u32,
    /// The next data digest is wrong.
    pub spoil: bool,
}

/// Opens a session with a peer that behaves by `script` until it is open and by `then` afterwards.
pub async fn open<F: Future<Output = ()> + 'static>(
    ring: &Ring,
    script: Script,
    then: impl FnOnce(Peer) -> F + 'static,
) -> Result<IscsiSession, OpenError> {
    let listener = Listener::bind(ring, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let Script { garbage, answers, window, maximum_unmap, .. } = script;
    let framing = Framing { header_digest: script.header_digest, data_digest: script.data_digest };
    ring.spawn_later(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut peer = Peer {
            socket,
            received: Vec::new(),
            framing: Framing::default(),
            stat_sn: SerialNumber(5),
            exp_cmd_sn: SerialNumber(1),
            window,
            spoil: false,
        };
        if garbage {
            peer.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
            peer.next().await;
            return;
        }
        peer.login(answers, framing).await;
        peer.introduce(maximum_unmap).await;
        then(peer).await;
    });
    let target = IscsiTarget {
        host: address.ip().to_string(),
        port: address.port(),
        name: "iqn.2026-11.internal.fels:peer".to_owned(),
        lun: 0,
        chap: None,
        mutual: None,
    };
    let options = OpenOptions {
        header_digest: script.header_digest,
        data_digest: script.data_digest,
        timeout: script.timeout,
        ..OpenOptions::default()
    };
    IscsiSession::open(ring, &target, &options).await
}

impl Peer {
    pub fn max_cmd_sn(&self) -> SerialNumber {
        self.exp_cmd_sn.plus(self.window).minus(1)
    }

    async fn raw(&mut self, bytes: &[u8]) {
        let mut list = SendList::new();
        list.push(Buffer::copy_of(bytes).share());
        // The initiator may have hung up already.
        let _ = self.socket.send(list).await;
    }

    /// Sends one PDU.
    pub async fn send(&mut self, encode: impl FnOnce(&mut Bhs), data: &[u8]) {
        let mut bhs: Bhs = [0; BHS_LENGTH];
        encode(&mut bhs);
        let length = (data.len() as u32).to_be_bytes();
        bhs[5..8].copy_from_slice(&length[1..]);
        let mut bytes = bhs.to_vec();
        if self.framing.header_digest {
            bytes.extend(header_digest(&bhs));
        }
        bytes.extend(data);
        bytes.extend(&[0; 3][..padding(data.len())]);
        if self.framing.data_digest && !data.is_empty() {
            let mut digest = data_digest(data);
            digest[0] ^= u8::from(std::mem::take(&mut self.spoil));
            bytes.extend(digest);
        }
        self.raw(&bytes).await;
    }

    /// The next PDU; none at the end of the connection.
    pub async fn next(&mut self) -> Option<(Bhs, Vec<u8>)> {
        loop {
            if let Some(bhs) = self.received.first_chunk::<BHS_LENGTH>().copied() {
                let (head, total) = (self.framing.header_length(&bhs), self.framing.total_length(&bhs));
                if self.received.len() >= total {
                    let data = self.received[head..head + data_segment_length(&bhs)].to_vec();
                    self.received.drain(..total);
                    return Some((bhs, data));
                }
            }
            let chunk = self.socket.receive().await.ok().filter(|chunk| !chunk.is_empty())?;
            self.received.extend_from_slice(&chunk);
        }
    }

    async fn login(&mut self, answers: &str, framing: Framing) {
        for stage in 0..2 {
            let (bhs, _) = self.next().await.unwrap();
            let request = LoginRequest::decode(&bhs);
            let digest = |wanted: bool| if wanted { "CRC32C" } else { "None" };
            let text = if stage == 0 {
                "AuthMethod=None\0".to_owned()
            } else {
                let digests = (digest(framing.header_digest), digest(framing.data_digest));
                format!("HeaderDigest={}\0DataDigest={}\0{answers}", digests.0, digests.1)
            };
            let response = LoginResponse {
                flags: LoginFlags::TRANSIT,
                transit: request.transit,
                data_segment_length: U24::saturating(text.len()),
                isid: request.isid,
                tsih: 1,
                initiator_task_tag: request.initiator_task_tag,
                stat_sn: self.stat_sn,
                exp_cmd_sn: self.exp_cmd_sn,
                max_cmd_sn: self.max_cmd_sn(),
                ..LoginResponse::default()
            };
            self.stat_sn = self.stat_sn.next();
            self.send(|bhs| response.encode(bhs), text.as_bytes()).await;
        }
        self.framing = framing;
    }

    /// Answers the commands at the start of a session, the first of them with a unit attention.
    async fn introduce(&mut self, maximum_unmap: u32) {
        let (first, _) = self.command().await;
        let attention = [0, 18, 0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0, 0, 0, 0, 0];
        self.status(&first, 2, &attention).await;
        loop {
            let (command, _) = self.command().await;
            match Command::decode(&command.cdb).unwrap() {
                Command::Inquiry { page: None, .. } => {
                    let standard = Standard {
                        peripheral: Peripheral::DirectAccess,
                        removable: false,
                        vendor: "FELS",
                        product: "PEER",
                        revision: "1",
                        target_port_groups: 0,
                        third_party_copy: false,
                        multiple_ports: false,
                    };
                    self.data_in(&command, 0, 0, &standard.encode(), true).await;
                }
                Command::TestUnitReady => self.status(&command, 0, &[]).await,
                Command::ReadCapacity16 { .. } => {
                    let capacity = Capacity {
                        blocks: 1 << 20,
                        block_size: 512,
                        physical_exponent: 3,
                        lowest_aligned: 0,
                        provisioning: maximum_unmap > 0,
                        reads_zeros: false,
                    };
                    self.data_in(&command, 0, 0, &capacity.encode_16(), true).await;
                }
                Command::Inquiry { .. } if maximum_unmap > 0 => {
                    let mut page = Vec::new();
                    let limits =
                        BlockLimits { maximum_unmap, maximum_unmap_descriptors: 1, ..BlockLimits::default() };
                    limits.encode(&mut page);
                    return self.data_in(&command, 0, 0, &page, true).await;
                }
                Command::Inquiry { .. } => {
                    // ILLEGAL REQUEST: no such page. The last command of the start.
                    let sense = [0, 18, 0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0];
                    return self.status(&command, 2, &sense).await;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next SCSI command and its immediate data; waits for ever at the end of the connection.
    pub async fn command(&mut self) -> (ScsiCommand, Vec<u8>) {
        let Some((bhs, data)) = self.next().await else { return std::future::pending().await };
        assert_eq!(Opcode::of(&bhs), Ok(Opcode::ScsiCommand));
        let command = ScsiCommand::decode(&bhs);
        assert_eq!(command.cmd_sn, self.exp_cmd_sn, "commands are numbered in order");
        assert!(command.cmd_sn.precedes_or_equals(self.max_cmd_sn()));
        self.exp_cmd_sn = self.exp_cmd_sn.next();
        (command, data)
    }

    /// A SCSI response.
    pub async fn status(&mut self, command: &ScsiCommand, status: u8, data: &[u8]) {
        let response = ScsiResponse {
            status,
            initiator_task_tag: command.initiator_task_tag,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            ..ScsiResponse::default()
        };
        self.stat_sn = self.stat_sn.next();
        self.send(|bhs| response.encode(bhs), data).await;
    }

    /// A piece of input; the last one has the status.
    pub async fn data_in(
        &mut self,
        command: &ScsiCommand,
        number: u32,
        offset: usize,
        data: &[u8],
        last: bool,
    ) {
        let flags = if last { DataInFlags::FINAL | DataInFlags::STATUS } else { DataInFlags::empty() };
        let pdu = DataIn {
            flags,
            initiator_task_tag: command.initiator_task_tag,
            target_transfer_tag: RESERVED_TAG,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            data_sn: SerialNumber(number),
            buffer_offset: offset as u32,
            ..DataIn::default()
        };
        if last {
            self.stat_sn = self.stat_sn.next();
        }
        self.send(|bhs| pdu.encode(bhs), data).await;
    }

    /// All input of a command with its status, the header alone and ahead of the data.
    pub async fn late_data_in(&mut self, command: &ScsiCommand, data: &[u8], clock: &Ring) {
        let pdu = DataIn {
            flags: DataInFlags::FINAL | DataInFlags::STATUS,
            initiator_task_tag: command.initiator_task_tag,
            target_transfer_tag: RESERVED_TAG,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            data_segment_length: U24::saturating(data.len()),
            ..DataIn::default()
        };
        self.stat_sn = self.stat_sn.next();
        let mut bhs: Bhs = [0; BHS_LENGTH];
        pdu.encode(&mut bhs);
        self.raw(&bhs).await;
        clock.sleep(Duration::from_millis(30)).await;
        self.raw(data).await;
    }

    /// Asks for output.
    pub async fn r2t(&mut self, command: &ScsiCommand, number: u32, offset: u32, length: u32) {
        let pdu = R2t {
            initiator_task_tag: command.initiator_task_tag,
            target_transfer_tag: 9000 + number,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            r2t_sn: SerialNumber(number),
            buffer_offset: offset,
            desired_data_transfer_length: length,
            ..R2t::default()
        };
        self.send(|bhs| pdu.encode(bhs), &[]).await;
    }

    /// One sequence of Data-Out PDUs of so many bytes.
    pub async fn sequence(&mut self, length: usize) -> Vec<u8> {
        let mut got = Vec::new();
        let mut first = None;
        for number in 0.. {
            let (bhs, data) = self.next().await.unwrap();
            assert_eq!(Opcode::of(&bhs), Ok(Opcode::DataOut));
            let pdu = DataOut::decode(&bhs);
            assert_eq!(pdu.data_sn, SerialNumber(number));
            let start = *first.get_or_insert(pdu.buffer_offset as usize);
            assert_eq!(pdu.buffer_offset as usize, start + got.len());
            got.extend(data);
            assert_eq!(pdu.is_final.0, got.len() == length, "F ends the sequence");
            if pdu.is_final.0 {
                break;
            }
        }
        got
    }

    /// A task management request.
    pub async fn management(&mut self) -> TaskManagementRequest {
        let (bhs, _) = self.next().await.unwrap();
        assert_eq!(Opcode::of(&bhs), Ok(Opcode::TaskManagementRequest));
        TaskManagementRequest::decode(&bhs)
    }

    /// Its answer.
    pub async fn managed(&mut self, request: &TaskManagementRequest, response: TaskManagementResponseCode) {
        let pdu = TaskManagementResponse {
            response,
            initiator_task_tag: request.initiator_task_tag,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        self.stat_sn = self.stat_sn.next();
        self.send(|bhs| pdu.encode(bhs), &[]).await;
    }
}
