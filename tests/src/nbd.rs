//! A plain NBD client of the beds' own, so that a bed sees each reply and can stop or spoil a request at any byte.
//!
//! It shares no code with the server: the layouts are read once more from the NBD project's `doc/proto.md`.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that has not answered within this time has failed.
const PATIENCE: Duration = Duration::from_secs(30);

// Commands.

/// Fills the answer.
pub const READ: u16 = 0;
/// Its payload follows.
pub const WRITE: u16 = 1;
/// The end, without an answer.
pub const DISC: u16 = 2;
/// Makes durable.
pub const FLUSH: u16 = 3;
/// Gives space back.
pub const TRIM: u16 = 4;
/// Will be read soon.
pub const CACHE: u16 = 5;
/// Makes zeroes.
pub const WRITE_ZEROES: u16 = 6;
/// Asks for holes.
pub const BLOCK_STATUS: u16 = 7;

// Command flags.

/// On stable media at the answer.
pub const FUA: u16 = 1;
/// Zeroes keep their space.
pub const NO_HOLE: u16 = 2;
/// The data in one piece.
pub const DF: u16 = 4;
/// One run.
pub const REQ_ONE: u16 = 8;
/// Fast or not at all.
pub const FAST_ZERO: u16 = 16;

// Kinds of structured chunks.

/// Nothing.
pub const NONE: u16 = 0;
/// Data.
pub const OFFSET_DATA: u16 = 1;
/// A hole.
pub const OFFSET_HOLE: u16 = 2;
/// Runs of block status.
pub const STATUS: u16 = 5;
/// An error.
pub const ERROR: u16 = 0x8001;

const EXPORT_NAME: u32 = 1;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
/// With what a simple reply begins.
pub const SIMPLE_MAGIC: [u8; 4] = [0x67, 0x44, 0x66, 0x98];
const CHUNK_MAGIC: [u8; 4] = [0x66, 0x8e, 0x33, 0xef];

/// A connection in transmission.
pub struct Client {
    stream: TcpStream,
    structured: bool,
    next: u64,
    /// Lengths of reads that have not been answered to the end: a simple reply does not tell them.
    reads: HashMap<u64, usize>,
    /// Bytes of the export.
    pub size: u64,
    /// Transmission flags.
    pub flags: u16,
}

/// One reply, or one chunk of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// Of the request.
    pub cookie: u64,
    /// 0, or what the server says is wrong.
    pub error: u32,
    /// Kind of the chunk; a simple reply is [`NONE`] or [`OFFSET_DATA`].
    pub kind: u16,
    /// Whether it is the last one.
    pub done: bool,
    /// Where data and holes begin.
    pub offset: u64,
    /// The data, the runs of block status, or the text of an error; of a hole as many zeroes as it has.
    pub data: Vec<u8>,
}

/// Connects, and goes as far as the client flags.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    stream.write_all(&3_u32.to_be_bytes())?;
    Ok(stream)
}

/// The bytes of an option.
pub fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Reads a reply to an option: its kind and its data.
pub fn option_reply(stream: &mut TcpStream) -> io::Result<(u32, Vec<u8>)> {
    let mut header = [0; 20];
    stream.read_exact(&mut header)?;
    assert_eq!(header[..8], [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9], "magic of an option reply");
    let mut data = vec![0; word(&header, 16) as usize];
    stream.read_exact(&mut data)?;
    Ok((word(&header, 12), data))
}

/// The bytes of a request without its payload.
pub fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&command.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&offset.to_be_bytes());
    bytes[24..].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Client {
    /// Enters an export; with structured replies `base:allocation` is chosen too.
    pub fn enter(address: SocketAddr, export: &str, structured: bool) -> io::Result<Client> {
        let mut stream = connect(address)?;
        if structured {
            stream.write_all(&option(STRUCTURED_REPLY, &[]))?;
            assert_eq!(option_reply(&mut stream)?.0, 1, "structured replies");
            let mut data = (export.len() as u32).to_be_bytes().to_vec();
            data.extend_from_slice(export.as_bytes());
            data.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 15]);
            data.extend_from_slice(b"base:allocation");
            stream.write_all(&option(SET_META_CONTEXT, &data))?;
            assert_eq!(option_reply(&mut stream)?.0, 4, "the context");
            assert_eq!(option_reply(&mut stream)?.0, 1, "the end of the contexts");
        }
        stream.write_all(&option(EXPORT_NAME, export.as_bytes()))?;
        let mut entered = [0; 10];
        stream.read_exact(&mut entered)?;
        let (size, flags) = (long(&entered, 0), u16::from_be_bytes([entered[8], entered[9]]));
        Ok(Client { stream, structured, next: 1, reads: HashMap::new(), size, flags })
    }

    /// The connection itself.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends a request and gives its cookie.
    pub fn send(
        &mut self,
        flags: u16,
        command: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> io::Result<u64> {
        let cookie = self.next;
        self.next += 1;
        if command == READ {
            self.reads.insert(cookie, length as usize);
        }
        self.stream.write_all(&request(flags, command, cookie, offset, length))?;
        self.stream.write_all(data)?;
        Ok(cookie)
    }

    /// The next reply or chunk.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut magic = [0; 4];
        self.stream.read_exact(&mut magic)?;
        match magic {
            SIMPLE_MAGIC => self.receive_simple(),
            CHUNK_MAGIC => self.receive_chunk(),
            other => panic!("{other:x?} is the magic of no reply"),
        }
    }

    fn receive_simple(&mut self) -> io::Result<Reply> {
        let mut header = [0; 12];
        self.stream.read_exact(&mut header)?;
        let (error, cookie) = (word(&header, 0), long(&header, 4));
        let length = self.reads.remove(&cookie);
        assert!(!self.structured || length.is_none(), "reads are answered in chunks");
        let length = length.filter(|_| error == 0);
        let mut data = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut data)?;
        let kind = if length.is_some() { OFFSET_DATA } else { NONE };
        Ok(Reply { cookie, error, kind, done: true, offset: 0, data })
    }

    fn receive_chunk(&mut self) -> io::Result<Reply> {
        assert!(self.structured, "chunks were not asked for");
        let mut header = [0; 16];
        self.stream.read_exact(&mut header)?;
        let done = header[1] & 1 == 1;
        let kind = u16::from_be_bytes([header[2], header[3]]);
        let mut payload = vec![0; word(&header, 12) as usize];
        self.stream.read_exact(&mut payload)?;
        let mut reply = Reply { cookie: long(&header, 4), error: 0, kind, done, offset: 0, data: Vec::new() };
        if done {
            self.reads.remove(&reply.cookie);
        }
        match kind {
            NONE => assert!(payload.is_empty()),
            OFFSET_DATA => {
                reply.offset = long(&payload, 0);
                reply.data = payload.split_off(8);
            }
            OFFSET_HOLE => {
                reply.offset = long(&payload, 0);
                reply.data = vec![0; word(&payload, 8) as usize];
            }
            STATUS => {
                assert_eq!(word(&payload, 0), 1, "the context");
                reply.data = payload.split_off(4);
            }
            ERROR => {
                reply.error = word(&payload, 0);
                reply.data = payload.split_off(6);
            }
            other => panic!("a chunk of kind {other:#x}"),
        }
        Ok(reply)
    }

    /// Sends one request and waits for all of its answer.
    pub fn ask(
        &mut self,
        flags: u16,
        command: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> io::Result<Vec<Reply>> {
        let cookie = self.send(flags, command, offset, length, data)?;
        let mut replies: Vec<Reply> = Vec::new();
        while replies.last().is_none_or(|reply| !reply.done) {
            let reply = self.receive()?;
            assert_eq!(reply.cookie, cookie, "an answer to something else");
            replies.push(reply);
        }
        Ok(replies)
    }

    /// The error of one request, 0 if there is none.
    pub fn error(&mut self, flags: u16, command: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        let replies = self.ask(flags, command, offset, length, data).expect("an answer");
        replies.last().map_or(0, |reply| reply.error)
    }

    /// Runs of block status: length and flags (1 hole, 2 zeroes).
    pub fn status(&mut self, flags: u16, offset: u64, length: u32) -> Vec<(u32, u32)> {
        let replies = self.ask(flags, BLOCK_STATUS, offset, length, &[]).expect("an answer");
        assert_eq!((replies.len(), replies[0].kind), (1, STATUS), "{replies:?}");
        replies[0].data.chunks_exact(8).map(|run| (word(run, 0), word(run, 4))).collect()
    }
}
