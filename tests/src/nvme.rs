//! A plain NVMe/TCP host of the beds' own, so that a bed sees each PDU and can stop or spoil it at any byte.
//!
//! It shares no code with the controller: the layouts are read once more from the NVMe/TCP Transport Specification 1.0
//! section 3.6 and the NVMe Base Specification 2.0. It asks for no digests.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A controller that has not answered within this time has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a logical block.
const BLOCK: usize = 512;

// Types of PDUs.

/// Initialize Connection Request.
pub const IC_REQ: u8 = 0x00;
/// Initialize Connection Response.
pub const IC_RESP: u8 = 0x01;
/// Controller to Host Terminate Connection Request.
pub const C2H_TERM_REQ: u8 = 0x03;
/// Command Capsule.
pub const CAPSULE_CMD: u8 = 0x04;
/// Response Capsule.
pub const CAPSULE_RESP: u8 = 0x05;
/// Host to Controller Data Transfer.
pub const H2C_DATA: u8 = 0x06;
/// Controller to Host Data Transfer.
pub const C2H_DATA: u8 = 0x07;
/// Ready to Transfer.
pub const R2T: u8 = 0x09;

/// LAST_PDU of H2CData.
pub const LAST_PDU: u8 = 0x04;

/// Bytes of a submission queue entry.
pub const ENTRY: usize = 64;

const FABRICS: u8 = 0x7f;
const READ: u8 = 0x02;
const WRITE: u8 = 0x01;

/// A PDU that has come.
pub struct Pdu {
    /// The whole of it, from its common header on.
    pub bytes: Vec<u8>,
}

impl Pdu {
    /// PDU-Type.
    pub fn kind(&self) -> u8 {
        self.bytes[0]
    }

    /// The 16 bits at `offset`.
    pub fn half(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.bytes[offset..offset + 2].try_into().expect("two bytes"))
    }

    /// The 32 bits at `offset`.
    pub fn word(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes[offset..offset + 4].try_into().expect("four bytes"))
    }

    /// FES and FEI of a termination request.
    pub fn fatal(&self) -> Option<(u16, u32)> {
        (self.kind() == C2H_TERM_REQ).then(|| (self.half(8), self.word(10)))
    }

    /// Of a response capsule: the status without its phase and its Do Not Retry bit.
    pub fn status(&self) -> Option<u16> {
        (self.kind() == CAPSULE_RESP).then(|| self.half(22) >> 1 & 0x3fff)
    }
}

/// The bytes of a PDU: `header` is what follows the common header; `data`, if there is any, comes right after it.
pub fn pdu(kind: u8, flags: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let length = 8 + header.len();
    let offset = if data.is_empty() { 0 } else { length as u8 };
    let mut bytes = vec![kind, flags, length as u8, offset];
    bytes.extend_from_slice(&((length + data.len()) as u32).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(data);
    bytes
}

/// The first PDU of a connection, without digests.
pub fn ic_req() -> Vec<u8> {
    pdu(IC_REQ, 0, &[0; 120], &[])
}

/// An H2CData.
pub fn h2c_data(command: u16, tag: u16, offset: u32, data: &[u8], flags: u8) -> Vec<u8> {
    let mut header = [0; 16];
    header[..2].copy_from_slice(&command.to_le_bytes());
    header[2..4].copy_from_slice(&tag.to_le_bytes());
    header[4..8].copy_from_slice(&offset.to_le_bytes());
    header[8..12].copy_from_slice(&(data.len() as u32).to_le_bytes());
    pdu(H2C_DATA, flags, &header, data)
}

/// Data that lies in the capsule: a data block descriptor with an offset.
fn in_capsule(entry: &mut [u8; ENTRY], length: usize) {
    entry[32..36].copy_from_slice(&(length as u32).to_le_bytes());
    entry[39] = 0x01;
}

/// Data that the transport carries: a transport data block descriptor.
fn by_transport(entry: &mut [u8; ENTRY], length: usize) {
    entry[32..36].copy_from_slice(&(length as u32).to_le_bytes());
    entry[39] = 0x5a;
}

/// A Connect command and its data, as a bed may change them before they are sent.
pub struct Connect {
    /// The submission queue entry.
    pub entry: [u8; ENTRY],
    /// What comes with it.
    pub data: [u8; 1024],
}

impl Connect {
    /// Asks for queue number `queue` of `entries` entries, at controller `controller` of the subsystem of `volume`; FFFFh
    /// is any controller.
    pub fn new(volume: &str, controller: u16, queue: u16, entries: u16) -> Connect {
        let mut entry = [0; ENTRY];
        (entry[0], entry[1], entry[4]) = (FABRICS, 0x40, 0x01);
        in_capsule(&mut entry, 1024);
        entry[42..44].copy_from_slice(&queue.to_le_bytes());
        entry[44..46].copy_from_slice(&(entries - 1).to_le_bytes());
        let mut data = [0; 1024];
        data[..16].fill(7);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        let names = [
            (256, format!("nqn.2026-11.internal.fels:{volume}")),
            (512, "nqn.2014-08.com.example:bed".into()),
        ];
        for (at, name) in names {
            data[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
        Connect { entry, data }
    }

    /// Its capsule.
    pub fn capsule(&self) -> Vec<u8> {
        pdu(CAPSULE_CMD, 0, &self.entry, &self.data)
    }
}

/// Connects.
pub fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects and agrees on what a connection needs.
pub fn initialized(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = open(address)?;
    stream.write_all(&ic_req())?;
    let answer = read_pdu(&mut stream)?;
    if answer.kind() == IC_RESP { Ok(stream) } else { Err(io::Error::other("no ICResp")) }
}

/// Reads one PDU.
pub fn read_pdu(stream: &mut TcpStream) -> io::Result<Pdu> {
    let mut bytes = vec![0; 8];
    stream.read_exact(&mut bytes)?;
    let length = u32::from_le_bytes(bytes[4..].try_into().expect("four bytes")) as usize;
    bytes.resize(length.max(8), 0);
    stream.read_exact(&mut bytes[8..])?;
    Ok(Pdu { bytes })
}

/// One queue of a controller.
pub struct Queue {
    stream: TcpStream,
    next: u16,
}

impl Queue {
    /// A controller of the subsystem of `volume`, ready; gives its admin queue and its number.
    pub fn admin(address: SocketAddr, volume: &str) -> io::Result<(Queue, u16)> {
        let mut stream = initialized(address)?;
        stream.write_all(&Connect::new(volume, 0xffff, 0, 32).capsule())?;
        let mut queue = Queue { stream, next: 1 };
        let controller = queue.completion()?.half(8);
        // CC: enabled, entries of 64 and 16 bytes.
        let mut set = [0; ENTRY];
        (set[0], set[1], set[44]) = (FABRICS, 0x40, 0x14);
        by_transport(&mut set, 0);
        set[48..52].copy_from_slice(&0x0046_0001_u32.to_le_bytes());
        queue.send(set, &[])?;
        queue.completion()?;
        Ok((queue, controller))
    }

    /// I/O queue number `queue` of a controller, with `entries` entries.
    pub fn io(
        address: SocketAddr,
        volume: &str,
        controller: u16,
        queue: u16,
        entries: u16,
    ) -> io::Result<Queue> {
        let mut stream = initialized(address)?;
        stream.write_all(&Connect::new(volume, controller, queue, entries).capsule())?;
        let mut queue = Queue { stream, next: 1 };
        queue.completion()?;
        Ok(queue)
    }

    /// The connection itself, for what a good host would not do.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends a command with `data` in its capsule; gives its identifier.
    pub fn send(&mut self, mut entry: [u8; ENTRY], data: &[u8]) -> io::Result<u16> {
        let identifier = self.next;
        self.next = self.next.wrapping_add(1);
        entry[2..4].copy_from_slice(&identifier.to_le_bytes());
        self.stream.write_all(&pdu(CAPSULE_CMD, 0, &entry, data))?;
        Ok(identifier)
    }

    /// Sends a read; gives its identifier.
    pub fn send_read(&mut self, block: u64, bytes: usize) -> io::Result<u16> {
        let mut entry = transfer(READ, block, bytes);
        by_transport(&mut entry, bytes);
        self.send(entry, &[])
    }

    /// Sends `count` reads at once, one behind the other on the volume.
    pub fn send_reads(&mut self, count: u16, bytes: usize) -> io::Result<()> {
        let mut capsules = Vec::new();
        for number in 0..count {
            let mut entry = transfer(READ, u64::from(number) * (bytes / BLOCK) as u64, bytes);
            by_transport(&mut entry, bytes);
            entry[2..4].copy_from_slice(&self.next.to_le_bytes());
            self.next = self.next.wrapping_add(1);
            capsules.extend(pdu(CAPSULE_CMD, 0, &entry, &[]));
        }
        self.stream.write_all(&capsules)
    }

    /// Sends a write whose data is to be asked for; gives its identifier.
    pub fn send_write(&mut self, block: u64, bytes: usize) -> io::Result<u16> {
        let mut entry = transfer(WRITE, block, bytes);
        by_transport(&mut entry, bytes);
        self.send(entry, &[])
    }

    /// Sends a write with its data in the capsule; gives its identifier.
    pub fn send_write_in_capsule(&mut self, block: u64, data: &[u8]) -> io::Result<u16> {
        let mut entry = transfer(WRITE, block, data.len());
        in_capsule(&mut entry, data.len());
        self.send(entry, data)
    }

    /// The next PDU.
    pub fn receive(&mut self) -> io::Result<Pdu> {
        read_pdu(&mut self.stream)
    }

    /// The next PDU, which has to be a completion without an error.
    pub fn completion(&mut self) -> io::Result<Pdu> {
        let answer = self.receive()?;
        match answer.status() {
            Some(0) => Ok(answer),
            status => Err(io::Error::other(format!("PDU {:#04x} with status {status:x?}", answer.kind()))),
        }
    }

    /// Writes `data` from its capsule and waits for the end.
    pub fn write(&mut self, block: u64, data: &[u8]) -> io::Result<()> {
        self.send_write_in_capsule(block, data)?;
        self.completion().map(drop)
    }

    /// Reads `bytes`.
    pub fn read(&mut self, block: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.send_read(block, bytes)?;
        let mut data = vec![0; bytes];
        loop {
            let answer = self.receive()?;
            if answer.kind() != C2H_DATA {
                return match answer.status() {
                    Some(0) => Ok(data),
                    status => Err(io::Error::other(format!("a read ended with {status:x?}"))),
                };
            }
            let (from, to) = (usize::from(answer.bytes[3]), answer.word(12) as usize);
            let part = &answer.bytes[from..];
            data.get_mut(to..to + part.len())
                .ok_or_else(|| io::Error::other("data beyond what was asked for"))?
                .copy_from_slice(part);
        }
    }
}

fn transfer(opcode: u8, block: u64, bytes: usize) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    (entry[0], entry[1], entry[4]) = (opcode, 0x40, 1);
    entry[40..48].copy_from_slice(&block.to_le_bytes());
    entry[48..50].copy_from_slice(&((bytes / BLOCK - 1) as u16).to_le_bytes());
    entry
}
