//! One connection of an initiator that does exactly what it is told. What holds for everything that a target
//! sends is checked at every PDU: `StatSN` follows, `ExpCmdSN` and `MaxCmdSN` never go back, digests fit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ring::{SendList, Socket};
use wire::iscsi::digest::{data_digest, header_digest};
use wire::iscsi::frame::{data_segment_length, padding};
use wire::iscsi::{
    Bhs, DataOut, Final, Framing, Immediate, InitiatorPdu, Isid, LoginFlags, LoginRequest, LoginResponse,
    LoginStage, LoginStatus, LoginTransit, Lun, NopOut, R2t, RESERVED_TAG, ScsiCommand, ScsiCommandFlags,
    ScsiResponse, SerialNumber, TargetPdu, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResponseCode, U24,
};

use super::bed::{BLOCK, Bed, TARGET};

/// How long a target may take for what it does at once.
const SOON: Duration = Duration::from_secs(5);
/// The first `CmdSN` of every session.
pub const FIRST: u32 = 100;

/// The usual keys; a test names those that it wants otherwise.
const USUAL: [(&str, &str); 10] = [
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("MaxBurstLength", "262144"),
    ("FirstBurstLength", "65536"),
    ("MaxOutstandingR2T", "1"),
    ("MaxConnections", "4"),
    ("MaxRecvDataSegmentLength", "65536"),
    ("HeaderDigest", "None"),
    ("DataDigest", "None"),
    ("ErrorRecoveryLevel", "0"),
];

/// Who logs in, and to what.
#[derive(Clone, Copy)]
pub struct Joining<'a> {
    pub isid: u16,
    /// 0 for a new session.
    pub tsih: u16,
    pub cid: u16,
    /// `Key=Value` with spaces in between.
    pub keys: &'a str,
    /// None for discovery.
    pub target: Option<&'a str>,
}

impl Default for Joining<'_> {
    fn default() -> Self {
        Joining { isid: 1, tsih: 0, cid: 0, keys: "", target: Some(TARGET) }
    }
}

/// What the connections of one session share.
struct Shared {
    isid: Cell<u16>,
    tsih: Cell<u16>,
    cmd_sn: Cell<SerialNumber>,
    tag: Cell<u32>,
    /// What the target told last.
    expected: Cell<SerialNumber>,
    maximum: Cell<SerialNumber>,
}

/// One connection.
pub struct Peer {
    pub bed: Bed,
    pub cid: Cell<u16>,
    socket: Socket,
    received: RefCell<Vec<u8>>,
    framing: Cell<Framing>,
    stat_sn: Cell<SerialNumber>,
    shared: RefCell<Rc<Shared>>,
}

/// A SCSI command as a test wants it sent.
#[derive(Clone)]
pub struct Scsi {
    pub cdb: [u8; 16],
    pub flags: ScsiCommandFlags,
    pub expected: u32,
    /// Immediate data.
    pub data: Vec<u8>,
    pub immediate: bool,
    pub lun: Lun,
    /// Another tag than the next one.
    pub tag: Option<u32>,
    /// Another number than the next one, which then is not used up.
    pub cmd_sn: Option<SerialNumber>,
}

impl Scsi {
    /// A command without data.
    pub fn plain(cdb: &[u8]) -> Scsi {
        let mut sixteen = [0; 16];
        sixteen[..cdb.len()].copy_from_slice(cdb);
        Scsi {
            cdb: sixteen,
            flags: ScsiCommandFlags::FINAL,
            expected: 0,
            data: Vec::new(),
            immediate: false,
            lun: Lun::default(),
            tag: None,
            cmd_sn: None,
        }
    }

    pub fn test_unit_ready() -> Scsi {
        Scsi::plain(&[0; 6])
    }

    /// A command that takes data.
    pub fn input(cdb: &[u8], expected: u32) -> Scsi {
        let flags = ScsiCommandFlags::FINAL | ScsiCommandFlags::READ;
        Scsi { flags, expected, ..Scsi::plain(cdb) }
    }

    /// READ(16).
    pub fn read(lba: u64, blocks: u32) -> Scsi {
        Scsi::input(&sixteen(0x88, lba, blocks), blocks * BLOCK as u32)
    }

    /// WRITE(16) whose data the target has to ask for.
    pub fn write(lba: u64, blocks: u32) -> Scsi {
        let flags = ScsiCommandFlags::FINAL | ScsiCommandFlags::WRITE;
        Scsi { flags, expected: blocks * BLOCK as u32, ..Scsi::plain(&sixteen(0x8a, lba, blocks)) }
    }

    /// With data in the command itself.
    pub fn with(self, data: &[u8]) -> Scsi {
        Scsi { data: data.to_vec(), ..self }
    }

    /// Data-Out follows without having been asked for.
    pub fn unsolicited(self) -> Scsi {
        Scsi { flags: self.flags - ScsiCommandFlags::FINAL, ..self }
    }

    pub fn immediate(self) -> Scsi {
        Scsi { immediate: true, ..self }
    }

    pub fn numbered(self, cmd_sn: SerialNumber) -> Scsi {
        Scsi { cmd_sn: Some(cmd_sn), ..self }
    }

    pub fn tagged(self, tag: u32) -> Scsi {
        Scsi { tag: Some(tag), ..self }
    }

    pub fn expecting(self, expected: u32) -> Scsi {
        Scsi { expected, ..self }
    }
}

fn sixteen(opcode: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Bytes that tell from where they are.
pub fn pattern(salt: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / BLOCK) as u8 ^ (at % 251) as u8 ^ salt).collect()
}

/// Takes the next PDU, which has to be of this kind; gives its header and its data.
macro_rules! next {
    ($peer:expr, $kind:ident) => {
        match $peer.receive().await {
            (wire::iscsi::TargetPdu::$kind(pdu), data) => (pdu, data),
            other => panic!("a {} was expected and not {other:?}", stringify!($kind)),
        }
    };
}
pub(super) use next;

impl Peer {
    pub async fn connect(bed: &Bed) -> Peer {
        let shared = Shared {
            isid: Cell::new(0),
            tsih: Cell::new(0),
            cmd_sn: Cell::new(SerialNumber(FIRST)),
            tag: Cell::new(0),
            expected: Cell::new(SerialNumber(FIRST)),
            maximum: Cell::new(SerialNumber(FIRST)),
        };
        Peer {
            bed: bed.clone(),
            cid: Cell::new(0),
            socket: Socket::connect(&bed.ring, bed.portal).await.unwrap(),
            received: RefCell::default(),
            framing: Cell::default(),
            stat_sn: Cell::default(),
            shared: RefCell::new(Rc::new(shared)),
        }
    }

    /// Logs in with one request; gives the answers.
    pub async fn log_in(&self, joining: Joining<'_>) -> Result<String, LoginStatus> {
        self.ask_to_log_in(joining).await;
        self.logged_in().await
    }

    /// Sends the login request.
    pub async fn ask_to_log_in(&self, joining: Joining<'_>) {
        let mut text = "InitiatorName=iqn.2026-11.internal.test:host\0".to_owned();
        match joining.target {
            Some(target) => text.extend(["SessionType=Normal\0TargetName=", target, "\0"]),
            None => text.push_str("SessionType=Discovery\0"),
        }
        let given =
            |key: &str| joining.keys.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        let leading = joining.tsih == 0 && joining.target.is_some();
        for (key, value) in USUAL {
            let session_wide = !key.ends_with("Digest") && key != "MaxRecvDataSegmentLength";
            if leading || !session_wide {
                text.extend([key, "=", given(key).unwrap_or(value), "\0"]);
            }
        }
        self.cid.set(joining.cid);
        self.shared.borrow().isid.set(joining.isid);
        let transit =
            LoginTransit::new(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeaturePhase);
        let request = LoginRequest {
            immediate: Immediate(true),
            flags: LoginFlags::TRANSIT,
            transit,
            isid: Isid::random(0x1234, joining.isid),
            tsih: joining.tsih,
            cid: joining.cid,
            cmd_sn: self.shared.borrow().cmd_sn.get(),
            ..LoginRequest::default()
        };
        self.send(InitiatorPdu::LoginRequest(request), text.as_bytes()).await;
    }

    /// Awaits the login response.
    pub async fn logged_in(&self) -> Result<String, LoginStatus> {
        let (bhs, text) = self.frame(SOON).await.expect("a login response");
        let response = LoginResponse::decode(&bhs);
        if response.status != LoginStatus::SUCCESS {
            return Err(response.status);
        }
        assert!(response.flags.contains(LoginFlags::TRANSIT));
        let text = String::from_utf8(text).unwrap();
        let digest = |key: &str| text.split('\0').any(|pair| pair == format!("{key}=CRC32C"));
        self.framing
            .set(Framing { header_digest: digest("HeaderDigest"), data_digest: digest("DataDigest") });
        self.stat_sn.set(response.stat_sn.next());
        let shared = self.shared.borrow();
        shared.tsih.set(response.tsih);
        shared.expected.set(response.exp_cmd_sn);
        shared.maximum.set(response.max_cmd_sn);
        Ok(text.replace('\0', " "))
    }

    /// Adds a connection to this session.
    pub async fn join(&self, cid: u16) -> Result<Peer, LoginStatus> {
        let peer = self.bed.connect().await;
        peer.be_of(self);
        let (isid, tsih) = (self.shared.borrow().isid.get(), self.tsih());
        peer.log_in(Joining { isid, tsih, cid, ..Joining::default() }).await?;
        Ok(peer)
    }

    /// Counts with the other's numbers from now on.
    pub fn be_of(&self, other: &Peer) {
        self.shared.replace(other.shared.borrow().clone());
    }

    pub fn tsih(&self) -> u16 {
        self.shared.borrow().tsih.get()
    }

    /// The number of the next command.
    pub fn cmd_sn(&self) -> SerialNumber {
        self.shared.borrow().cmd_sn.get()
    }

    /// Uses up the number of the next command without sending one.
    pub fn skip_cmd_sn(&self) -> SerialNumber {
        let shared = self.shared.borrow();
        shared.cmd_sn.replace(shared.cmd_sn.get().next())
    }

    /// `ExpCmdSN` as the target told it last.
    pub fn expected(&self) -> SerialNumber {
        self.shared.borrow().expected.get()
    }

    /// `MaxCmdSN` as the target told it last.
    pub fn maximum(&self) -> SerialNumber {
        self.shared.borrow().maximum.get()
    }

    pub fn next_tag(&self) -> u32 {
        let shared = self.shared.borrow();
        shared.tag.set(shared.tag.get() + 1);
        shared.tag.get()
    }

    /// Sends a PDU with its data.
    pub async fn send(&self, pdu: InitiatorPdu, data: &[u8]) {
        let bytes = self.encode(pdu, data);
        self.send_bytes(&bytes).await;
    }

    /// A PDU as it goes out.
    pub fn encode(&self, pdu: InitiatorPdu, data: &[u8]) -> Vec<u8> {
        let mut bhs: Bhs = [0; 48];
        pdu.encode(&mut bhs);
        bhs[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        let mut bytes = bhs.to_vec();
        if self.framing.get().header_digest {
            bytes.extend_from_slice(&header_digest(&bhs));
        }
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(&[0; 3][..padding(data.len())]);
        if self.framing.get().data_digest && !data.is_empty() {
            bytes.extend_from_slice(&data_digest(data));
        }
        bytes
    }

    pub async fn send_bytes(&self, bytes: &[u8]) {
        let mut list = SendList::new();
        list.push_bytes(bytes);
        self.socket.send(list).await.0.expect("the target takes what is sent");
    }

    /// Sends a command; gives its tag.
    pub async fn command(&self, scsi: &Scsi) -> u32 {
        let (tag, bytes) = self.encode_command(scsi);
        self.send_bytes(&bytes).await;
        tag
    }

    /// A command as it goes out, and its tag.
    pub fn encode_command(&self, scsi: &Scsi) -> (u32, Vec<u8>) {
        let tag = scsi.tag.unwrap_or_else(|| self.next_tag());
        let pdu = ScsiCommand {
            immediate: Immediate(scsi.immediate),
            flags: scsi.flags,
            lun: scsi.lun,
            initiator_task_tag: tag,
            expected_data_transfer_length: scsi.expected,
            cmd_sn: scsi.cmd_sn.unwrap_or_else(|| self.number(scsi.immediate)),
            cdb: scsi.cdb,
            ..ScsiCommand::default()
        };
        (tag, self.encode(InitiatorPdu::ScsiCommand(pdu), &scsi.data))
    }

    fn number(&self, immediate: bool) -> SerialNumber {
        if immediate { self.cmd_sn() } else { self.skip_cmd_sn() }
    }

    /// Sends one Data-Out; `request` is the R2T it answers.
    pub async fn data_out(
        &self,
        tag: u32,
        request: Option<&R2t>,
        data_sn: u32,
        offset: usize,
        data: &[u8],
        last: bool,
    ) {
        let pdu = DataOut {
            is_final: Final(last),
            initiator_task_tag: tag,
            target_transfer_tag: request.map_or(RESERVED_TAG, |request| request.target_transfer_tag),
            data_sn: SerialNumber(data_sn),
            buffer_offset: offset as u32,
            ..DataOut::default()
        };
        self.send(InitiatorPdu::DataOut(pdu), data).await;
    }

    /// Answers an R2T with one PDU out of all of the command's data.
    pub async fn answer(&self, request: &R2t, data: &[u8]) {
        let start = request.buffer_offset as usize;
        let end = start + request.desired_data_transfer_length as usize;
        let tag = request.initiator_task_tag;
        self.data_out(tag, Some(request), 0, start, &data[start..end], true).await;
    }

    /// Pings; gives the tag.
    pub async fn ping(&self, data: &[u8], immediate: bool) -> u32 {
        let tag = self.next_tag();
        let nop = NopOut {
            immediate: Immediate(immediate),
            initiator_task_tag: tag,
            target_transfer_tag: RESERVED_TAG,
            cmd_sn: self.number(immediate),
            ..NopOut::default()
        };
        self.send(InitiatorPdu::NopOut(nop), data).await;
        tag
    }

    /// Pings and gets its answer: the connection is well, and all that was sent before has been looked at.
    pub async fn is_well(&self) {
        let tag = self.ping(b"well?", true).await;
        let (nop, data) = next!(self, NopIn);
        assert_eq!((nop.initiator_task_tag, &data[..]), (tag, &b"well?"[..]));
    }

    /// Sends an immediate task management function.
    pub async fn manage(&self, function: TaskManagementFunction, task: u32, number: SerialNumber) {
        let request = TaskManagementRequest {
            immediate: Immediate(true),
            function,
            initiator_task_tag: self.next_tag(),
            referenced_task_tag: task,
            cmd_sn: self.cmd_sn(),
            ref_cmd_sn: number,
            ..TaskManagementRequest::default()
        };
        self.send(InitiatorPdu::TaskManagementRequest(request), &[]).await;
    }

    /// The same, and its response.
    pub async fn managed(
        &self,
        function: TaskManagementFunction,
        task: u32,
        number: SerialNumber,
    ) -> TaskManagementResponseCode {
        self.manage(function, task, number).await;
        next!(self, TaskManagementResponse).0.response
    }

    /// The next PDU and its data.
    pub async fn receive(&self) -> (TargetPdu, Vec<u8>) {
        let (bhs, data) = match self.frame(SOON).await {
            Ok(frame) => frame,
            Err(error) => panic!("{error}; the log:\n{}", self.bed.logs.all()),
        };
        let pdu = TargetPdu::decode(&bhs).unwrap();
        self.check_numbers(&pdu);
        (pdu, data)
    }

    fn check_numbers(&self, pdu: &TargetPdu) {
        let (stat_sn, expected, maximum) = match pdu {
            TargetPdu::NopIn(pdu) if pdu.initiator_task_tag == RESERVED_TAG => {
                (None, pdu.exp_cmd_sn, pdu.max_cmd_sn)
            }
            TargetPdu::NopIn(pdu) => (Some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::ScsiResponse(pdu) => (Some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::TaskManagementResponse(pdu) => (Some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::TextResponse(pdu) => (Some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::DataIn(pdu) => {
                let with_status = pdu.flags.contains(wire::iscsi::DataInFlags::STATUS);
                (with_status.then_some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn)
            }
            TargetPdu::LogoutResponse(pdu) => (Some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::R2t(pdu) => (None, pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::AsyncMessage(pdu) => (Some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::Reject(pdu) => (Some(pdu.stat_sn), pdu.exp_cmd_sn, pdu.max_cmd_sn),
            TargetPdu::LoginResponse(_) => panic!("a login response after login"),
        };
        if let Some(number) = stat_sn {
            assert_eq!(number, self.stat_sn.get(), "StatSN of {pdu:?}");
            self.stat_sn.set(number.next());
        }
        let shared = self.shared.borrow();
        // Over several connections what was told earlier may arrive later.
        if shared.maximum.get().precedes(maximum) {
            shared.maximum.set(maximum);
        }
        if shared.expected.get().precedes(expected) {
            shared.expected.set(expected);
        }
        if Rc::strong_count(&shared) == 1 {
            assert_eq!(shared.maximum.get(), maximum, "MaxCmdSN went back");
            assert_eq!(shared.expected.get(), expected, "ExpCmdSN went back");
        }
    }

    /// One frame, or why there is none.
    async fn frame(&self, within: Duration) -> Result<(Bhs, Vec<u8>), String> {
        let mut bhs: Bhs = [0; 48];
        self.fill(48, within).await?;
        let framing = self.framing.get();
        bhs.copy_from_slice(&self.received.borrow()[..48]);
        let length = data_segment_length(&bhs);
        self.fill(framing.total_length(&bhs), within).await?;
        let whole: Vec<u8> = self.received.borrow_mut().drain(..framing.total_length(&bhs)).collect();
        let (header, rest) = whole.split_at(framing.header_length(&bhs));
        if framing.header_digest {
            assert_eq!(header[48..], header_digest(&bhs), "the header digest");
        }
        let (data, rest) = rest.split_at(length);
        if framing.data_digest && length > 0 {
            assert_eq!(rest[padding(length)..], data_digest(data), "the data digest");
        }
        Ok((bhs, data.to_vec()))
    }

    /// Gathers so many bytes.
    async fn fill(&self, bytes: usize, within: Duration) -> Result<(), String> {
        while self.received.borrow().len() < bytes {
            match self.bed.ring.timeout(within, self.socket.receive()).await {
                None => return Err(format!("nothing came for {within:?}")),
                Some(Err(error)) => return Err(format!("the connection broke: {error}")),
                Some(Ok(chunk)) if chunk.is_empty() => return Err("the connection is closed".into()),
                Some(Ok(chunk)) => self.received.borrow_mut().extend_from_slice(&chunk),
            }
        }
        Ok(())
    }

    /// The response of a command without data-in.
    pub async fn response(&self) -> (ScsiResponse, Vec<u8>) {
        next!(self, ScsiResponse)
    }

    /// The response of this command, which has to be GOOD.
    pub async fn good(&self, tag: u32) -> ScsiResponse {
        let (response, data) = self.response().await;
        assert_eq!((response.initiator_task_tag, response.status), (tag, 0), "{data:02x?}");
        response
    }

    /// The next response has to be CHECK CONDITION: sense key and additional sense code.
    pub async fn sense(&self) -> (u8, u8) {
        let (response, data) = self.response().await;
        assert_eq!(response.status, 2, "{response:?}");
        assert_eq!(usize::from(u16::from_be_bytes([data[0], data[1]])), data.len() - 2);
        (data[4] & 0xf, data[14])
    }

    /// TEST UNIT READY tells of a unit attention with this additional sense code.
    pub async fn take_attention(&self, additional: u8) {
        self.command(&Scsi::test_unit_ready()).await;
        assert_eq!(self.sense().await, (6, additional));
    }

    /// TEST UNIT READY tells that nothing is pending.
    pub async fn is_ready(&self) {
        let tag = self.command(&Scsi::test_unit_ready()).await;
        self.good(tag).await;
    }

    /// Writes with as many R2Ts as it takes.
    pub async fn write(&self, lba: u64, data: &[u8]) -> ScsiResponse {
        self.command(&Scsi::write(lba, (data.len() / BLOCK) as u32)).await;
        loop {
            match self.receive().await {
                (TargetPdu::R2t(request), _) => self.answer(&request, data).await,
                (TargetPdu::ScsiResponse(response), _) => return response,
                other => panic!("an R2T or a response was expected and not {other:?}"),
            }
        }
    }

    /// Reads; every byte has to come in order, and the status GOOD.
    pub async fn read(&self, lba: u64, blocks: u32) -> Vec<u8> {
        self.command(&Scsi::read(lba, blocks)).await;
        let mut bytes = Vec::new();
        while bytes.len() < blocks as usize * BLOCK {
            let (pdu, data) = next!(self, DataIn);
            assert_eq!((pdu.buffer_offset as usize, pdu.status), (bytes.len(), 0));
            bytes.extend_from_slice(&data);
        }
        bytes
    }

    /// Nothing comes.
    pub async fn hears_nothing(&self) {
        let silence = self.frame(Duration::from_millis(200)).await;
        assert_eq!(silence.unwrap_err(), "nothing came for 200ms");
    }

    /// The target closes the connection within `span`; PDUs that still come are given.
    pub async fn ends_within(&self, span: Duration) -> Vec<TargetPdu> {
        let mut last = Vec::new();
        loop {
            match self.frame(span).await {
                Ok((bhs, _)) => last.push(TargetPdu::decode(&bhs).unwrap()),
                Err(reason) => {
                    assert!(
                        !reason.contains("nothing came"),
                        "it is still open; the log:\n{}",
                        self.bed.logs.all()
                    );
                    return last;
                }
            }
        }
    }

    /// The target closes the connection soon.
    pub async fn ends(&self) -> Vec<TargetPdu> {
        self.ends_within(SOON).await
    }

    /// Changes what the encoded header says of its data's length, for bad PDUs.
    pub fn with_length(bytes: &mut [u8], length: usize) {
        let length = U24::saturating(length).get() as u32;
        bytes[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
    }
}
