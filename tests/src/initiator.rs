//! A plain initiator of the beds' own, so that a bed sees each PDU and can stop or spoil it at any byte.
//!
//! It shares no code with the target: the layouts are read once more from RFC 7143 section 11.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::node::lun;
use crate::volume::target;

/// Bytes of a basic header segment.
pub const HEADER: usize = 48;
/// A target that has not answered within this time has failed.
const PATIENCE: Duration = Duration::from_secs(30);

const SCSI_COMMAND: u8 = 0x01;
const LOGIN_REQUEST: u8 = 0x43;
const NOP_OUT: u8 = 0x40;
const NOP_IN: u8 = 0x20;
const SCSI_RESPONSE: u8 = 0x21;
const LOGIN_RESPONSE: u8 = 0x23;
const DATA_IN: u8 = 0x25;
const TEXT_REQUEST: u8 = 0x04;
const TEXT_RESPONSE: u8 = 0x24;
const DATA_OUT: u8 = 0x05;
const READY_TO_TRANSFER: u8 = 0x31;

/// Which way the data of a command go, as the flags of its PDU.
const READS: u8 = 0x40;
const WRITES: u8 = 0x20;

/// A logged-in session of one connection.
pub struct Initiator {
    stream: TcpStream,
    command: u32,
    max_command: u32,
    expected_status: u32,
    next_tag: u32,
    immediate_limit: usize,
    segment_limit: usize,
    /// Data of writes that the target has yet to ask for, by tag.
    unsent: HashMap<u32, Vec<u8>>,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The tag that was returned when it was sent.
    pub tag: u32,
    /// SCSI status; 0 is GOOD, 2 is CHECK CONDITION.
    pub status: u8,
    /// Sense key, additional sense code and its qualifier.
    pub sense: (u8, u8, u8),
    /// What it read.
    pub data: Vec<u8>,
}

/// A PDU: its header and data segment.
pub struct Pdu {
    /// Basic header segment.
    pub header: [u8; HEADER],
    /// Data segment without padding.
    pub data: Vec<u8>,
}

impl Pdu {
    fn opcode(&self) -> u8 {
        self.header[0] & 0x3f
    }

    fn word(&self, offset: usize) -> u32 {
        u32::from_be_bytes(self.header[offset..offset + 4].try_into().expect("four bytes"))
    }
}

/// Keys and values of a negotiation, in their order.
pub type Keys = Vec<(String, String)>;

fn parse(text: &[u8]) -> Keys {
    let text = String::from_utf8_lossy(text);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A login request with all keys in one PDU, from the operational stage straight to full feature phase.
pub fn login_request(initiator: &str, keys: &[(&str, &str)]) -> Vec<u8> {
    let mut header = [0; HEADER];
    header[0] = LOGIN_REQUEST;
    header[1] = 0x87;
    // A random ISID, qualified as one: two sessions of one initiator name never reinstate each other.
    header[8] = 0x80;
    header[9..14].copy_from_slice(&fastrand::u64(..).to_be_bytes()[..5]);
    header[24..28].copy_from_slice(&1_u32.to_be_bytes());
    let name = format!("InitiatorName=iqn.2026-11.internal.fels:{initiator}\0");
    let keys = keys.iter().map(|(key, value)| format!("{key}={value}\0"));
    pdu(header, std::iter::once(name).chain(keys).collect::<String>().as_bytes())
}

/// The bytes of a PDU: the length is set and the padding added.
pub fn pdu(mut header: [u8; HEADER], data: &[u8]) -> Vec<u8> {
    header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Reads one PDU (without digests).
pub fn read_pdu(stream: &mut TcpStream) -> io::Result<Pdu> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
    let mut data = vec![0; (length + usize::from(header[4]) * 4).next_multiple_of(4)];
    stream.read_exact(&mut data)?;
    data.truncate(length);
    Ok(Pdu { header, data })
}

impl Initiator {
    /// Logs in to `volume` without authentication and clears the unit attentions of a new session.
    pub fn login(address: SocketAddr, volume: &str) -> io::Result<Self> {
        let (mut session, _) = Self::negotiate(
            address,
            volume,
            &[
                ("HeaderDigest", "None"),
                ("DataDigest", "None"),
                ("InitialR2T", "No"),
                ("ImmediateData", "Yes"),
                ("MaxRecvDataSegmentLength", "262144"),
            ],
        )?;
        for _ in 0..8 {
            if session.test_unit_ready()?.status == 0 {
                return Ok(session);
            }
        }
        Err(io::Error::other("the unit does not get ready"))
    }

    /// Logs in to `volume` with `keys` and returns the keys of the answer.
    pub fn negotiate(address: SocketAddr, volume: &str, keys: &[(&str, &str)]) -> io::Result<(Self, Keys)> {
        let target = target(volume);
        Self::open(address, &[&[("TargetName", target.as_str()), ("SessionType", "Normal")], keys].concat())
    }

    /// What the node tells of its targets: pairs of `TargetName` and `TargetAddress`.
    pub fn discover(address: SocketAddr) -> io::Result<Keys> {
        let (mut session, _) = Self::open(address, &[("SessionType", "Discovery")])?;
        let mut header = [0; HEADER];
        header[0] = TEXT_REQUEST;
        header[1] = 0x80;
        header[16..20].copy_from_slice(&1_u32.to_be_bytes());
        header[20..24].copy_from_slice(&u32::MAX.to_be_bytes());
        header[24..28].copy_from_slice(&session.command.to_be_bytes());
        header[28..32].copy_from_slice(&session.expected_status.to_be_bytes());
        session.stream.write_all(&pdu(header, b"SendTargets=All\0"))?;
        let answer = read_pdu(&mut session.stream)?;
        if answer.opcode() != TEXT_RESPONSE || answer.header[1] & 0x80 == 0 {
            return Err(io::Error::other(format!("not a whole text response: {:02x?}", &answer.header[..2])));
        }
        let mut name = String::new();
        let mut targets = Keys::new();
        for (key, value) in parse(&answer.data) {
            match key.as_str() {
                "TargetName" => name = value,
                "TargetAddress" => targets.push((name.clone(), value)),
                _ => return Err(io::Error::other(format!("{key} in an answer to SendTargets"))),
            }
        }
        Ok(targets)
    }

    fn open(address: SocketAddr, keys: &[(&str, &str)]) -> io::Result<(Self, Keys)> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let request = login_request("bed", keys);
        stream.write_all(&request)?;
        let mut text = Vec::new();
        // A target may take several steps; each is asked for with an empty request.
        let mut steps = 0;
        let answer = loop {
            steps += 1;
            let answer = read_pdu(&mut stream)?;
            if answer.opcode() != LOGIN_RESPONSE || answer.header[36] != 0 {
                let status = (answer.header[36], answer.header[37]);
                return Err(io::Error::other(format!("login refused, status {status:02x?}")));
            }
            text.extend_from_slice(&answer.data);
            if answer.header[1] & 0x80 != 0 {
                break answer;
            }
            if steps == 8 {
                return Err(io::Error::other("the target never ends the login"));
            }
            let mut header: [u8; HEADER] = request[..HEADER].try_into().expect("a header");
            header[28..32].copy_from_slice(&answer.word(24).wrapping_add(1).to_be_bytes());
            stream.write_all(&pdu(header, &[]))?;
        };
        let pairs = parse(&text);
        let value = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        let number = |key, default| value(key).and_then(|value| value.parse().ok()).unwrap_or(default);
        // The defaults of RFC 7143 section 13, which hold for what neither side names.
        let segment_limit = number("MaxRecvDataSegmentLength", 8192);
        let immediate_limit = match value("ImmediateData") {
            Some("No") => 0,
            _ => segment_limit.min(number("FirstBurstLength", 65536)),
        };
        let session = Self {
            stream,
            command: 1,
            max_command: answer.word(32),
            expected_status: answer.word(24).wrapping_add(1),
            next_tag: 1,
            immediate_limit,
            segment_limit,
            unsent: HashMap::new(),
        };
        Ok((session, pairs))
    }

    /// The connection itself, for what a good initiator would not do.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// How many commands the target's window still takes.
    pub fn window(&self) -> u32 {
        (self.max_command.wrapping_sub(self.command).cast_signed() + 1).max(0).cast_unsigned()
    }

    /// Sends WRITE (10) with as much of `data` as may go with it; the target asks for the rest. Returns its tag.
    pub fn send_write(&mut self, block: u32, data: &[u8], force_unit_access: bool) -> io::Result<u32> {
        let flags = if force_unit_access { 0x08 } else { 0 };
        let blocks = (data.len() / 512) as u16;
        self.send(WRITES, data.len() as u32, &ten(0x2a, flags, block, blocks), data)
    }

    /// Sends READ (10); returns its tag.
    pub fn send_read(&mut self, block: u32, blocks: u16) -> io::Result<u32> {
        self.send(READS, u32::from(blocks) * 512, &ten(0x28, 0, block, blocks), &[])
    }

    /// Sends SYNCHRONIZE CACHE (10) for the whole volume; returns its tag.
    pub fn send_synchronize_cache(&mut self) -> io::Result<u32> {
        self.send(0, 0, &ten(0x35, 0, 0, 0), &[])
    }

    /// Writes and waits for the answer.
    pub fn write(&mut self, block: u32, data: &[u8]) -> io::Result<Answer> {
        self.send_write(block, data, false)?;
        self.answer()
    }

    /// Reads `blocks` of 512 bytes; anything but status GOOD is an error.
    pub fn read(&mut self, block: u32, blocks: u16) -> io::Result<Vec<u8>> {
        self.send_read(block, blocks)?;
        let answer = self.answer()?;
        if answer.status != 0 || answer.data.len() != usize::from(blocks) * 512 {
            return Err(io::Error::other(format!("read: {} bytes, {:?}", answer.data.len(), answer.sense)));
        }
        Ok(answer.data)
    }

    /// Sends UNMAP for one range and waits for the answer.
    pub fn unmap(&mut self, block: u32, blocks: u32) -> io::Result<Answer> {
        let mut list = [0; 24];
        list[1] = 22;
        list[3] = 16;
        list[12..16].copy_from_slice(&block.to_be_bytes());
        list[16..20].copy_from_slice(&blocks.to_be_bytes());
        let mut command = [0; 16];
        command[0] = 0x42;
        command[8] = 24;
        self.send(WRITES, 24, &command, &list)?;
        self.answer()
    }

    /// TEST UNIT READY.
    pub fn test_unit_ready(&mut self) -> io::Result<Answer> {
        self.send(0, 0, &[0; 16], &[])?;
        self.answer()
    }

    fn send(&mut self, direction: u8, length: u32, command: &[u8; 16], data: &[u8]) -> io::Result<u32> {
        let tag = self.next_tag;
        self.next_tag += 1;
        let mut header = [0; HEADER];
        header[0] = SCSI_COMMAND;
        header[1] = 0x81 | direction;
        header[9] = lun();
        header[16..20].copy_from_slice(&tag.to_be_bytes());
        header[20..24].copy_from_slice(&length.to_be_bytes());
        header[24..28].copy_from_slice(&self.command.to_be_bytes());
        header[28..32].copy_from_slice(&self.expected_status.to_be_bytes());
        header[32..48].copy_from_slice(command);
        self.command = self.command.wrapping_add(1);
        let immediate = data.len().min(self.immediate_limit);
        if immediate < data.len() {
            self.unsent.insert(tag, data.to_vec());
        }
        self.stream.write_all(&pdu(header, &data[..immediate]))?;
        Ok(tag)
    }

    /// Sends the part of a write's data that the target asks for.
    fn send_data(&mut self, request: &Pdu) -> io::Result<()> {
        let (tag, offset, length) = (request.word(16), request.word(40) as usize, request.word(44) as usize);
        let unsent = self.unsent.get(&tag).and_then(|data| data.get(offset..offset + length));
        let data = unsent.ok_or_else(|| io::Error::other("the target asks for data that is not there"))?;
        let parts = data.chunks(self.segment_limit);
        let last = parts.len() - 1;
        for (number, part) in parts.enumerate() {
            let mut header = [0; HEADER];
            header[0] = DATA_OUT;
            header[1] = if number == last { 0x80 } else { 0 };
            header[8..24].copy_from_slice(&request.header[8..24]);
            header[28..32].copy_from_slice(&self.expected_status.to_be_bytes());
            header[36..40].copy_from_slice(&(number as u32).to_be_bytes());
            let at = offset + number * self.segment_limit;
            header[40..44].copy_from_slice(&(at as u32).to_be_bytes());
            self.stream.write_all(&pdu(header, part))?;
        }
        Ok(())
    }

    /// Waits for the end of any command; answers the target's pings meanwhile.
    ///
    /// Data of several reads at once are not told apart: one read at a time.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let mut data = Vec::new();
        loop {
            let answer = read_pdu(&mut self.stream)?;
            self.max_command = answer.word(32);
            let with_status = answer.opcode() == SCSI_RESPONSE
                || (answer.opcode() == DATA_IN && answer.header[1] & 0x01 != 0);
            if with_status {
                self.expected_status = answer.word(24).wrapping_add(1);
            }
            match answer.opcode() {
                SCSI_RESPONSE => {
                    // The data segment is the length of the sense data, then the sense data in fixed format.
                    let byte = |index: usize| answer.data.get(index + 2).copied().unwrap_or(0);
                    let sense = (byte(2) & 0x0f, byte(12), byte(13));
                    self.unsent.remove(&answer.word(16));
                    return Ok(Answer { tag: answer.word(16), status: answer.header[3], sense, data });
                }
                DATA_IN => {
                    data.extend_from_slice(&answer.data);
                    if with_status {
                        let status = answer.header[3];
                        return Ok(Answer { tag: answer.word(16), status, sense: (0, 0, 0), data });
                    }
                }
                READY_TO_TRANSFER => self.send_data(&answer)?,
                NOP_IN => self.answer_ping(&answer)?,
                opcode => return Err(io::Error::other(format!("the target sent opcode {opcode:#04x}"))),
            }
        }
    }

    fn answer_ping(&mut self, ping: &Pdu) -> io::Result<()> {
        if ping.word(20) == u32::MAX {
            return Ok(());
        }
        let mut header = [0; HEADER];
        header[0] = NOP_OUT;
        header[1] = 0x80;
        header[8..16].copy_from_slice(&ping.header[8..16]);
        header[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        header[20..24].copy_from_slice(&ping.header[20..24]);
        header[24..28].copy_from_slice(&self.command.to_be_bytes());
        header[28..32].copy_from_slice(&self.expected_status.to_be_bytes());
        self.stream.write_all(&pdu(header, &ping.data))
    }
}

fn ten(code: u8, flags: u8, block: u32, blocks: u16) -> [u8; 16] {
    let mut command = [0; 16];
    command[0] = code;
    command[1] = flags;
    command[2..6].copy_from_slice(&block.to_be_bytes());
    command[7..9].copy_from_slice(&blocks.to_be_bytes());
    command
}
