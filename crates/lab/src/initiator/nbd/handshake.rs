//! The handshake: `NBD_OPT_GO` for one export.

use ring::{Chunk, SendList, Socket};
use wire::nbd::{
    BlockSizes, ClientFlags, Greeting, HandshakeFlags, Info, InfoType, Malformed, NotNbd,
    OPTION_REPLY_LENGTH, OptionCode, OptionReplyHeader, OptionReplyType, TransmissionFlags,
    encode_info_request, encode_option,
};

/// Bytes of one reply that are taken: the longest has a string of 4096 bytes.
const MAX_REPLY: u32 = 8192;
/// Replies to one option that are taken.
const MAX_REPLIES: u32 = 64;

/// Why the export could not be had.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The server is something else.
    #[error("this is no NBD server: {0}")]
    NotNbd(#[from] NotNbd),
    /// The server is older than 2011.
    #[error("the server speaks NBD without fixed newstyle, which is too old")]
    Old,
    /// There is no such export.
    #[error("the server has no export {0:?}; hint: `nbdinfo --list` shows those it has")]
    NoExport(String),
    /// It refused for another reason.
    #[error("the server refused: {kind}{text}")]
    Refused {
        /// The kind of refusal.
        kind: OptionReplyType,
        /// What it says, with a colon in front; may be empty.
        text: String,
    },
    /// Its answers make no sense.
    #[error("the server breaks the rules of the handshake: {0}")]
    Broken(String),
    /// The connection ended.
    #[error("the connection ended during the handshake ({0})")]
    Ended(String),
    /// No answer.
    #[error("the server does not answer")]
    Silent,
}

impl From<Malformed> for HandshakeError {
    fn from(malformed: Malformed) -> Self {
        HandshakeError::Broken(malformed.to_string())
    }
}

/// What was learnt of the export.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub(super) size: u64,
    pub(super) flags: TransmissionFlags,
    pub(super) sizes: Option<BlockSizes>,
}

/// Bytes of the handshake, as many as wanted.
struct Incoming<'a> {
    socket: &'a Socket,
    chunk: Option<Chunk>,
    position: usize,
}

impl Incoming<'_> {
    async fn fill(&mut self, into: &mut [u8]) -> Result<(), HandshakeError> {
        let mut done = 0;
        while done < into.len() {
            let part = self.chunk.as_ref().map_or(&[][..], |chunk| &chunk[self.position..]);
            if part.is_empty() {
                self.chunk = None;
                let received = self.socket.receive().await;
                let chunk = received.map_err(|error| HandshakeError::Ended(error.to_string()))?;
                if chunk.is_empty() {
                    return Err(HandshakeError::Ended("closed by the server".to_owned()));
                }
                (self.chunk, self.position) = (Some(chunk), 0);
                continue;
            }
            let count = part.len().min(into.len() - done);
            into[done..done + count].copy_from_slice(&part[..count]);
            (self.position, done) = (self.position + count, done + count);
        }
        Ok(())
    }

    /// Whether something came that was not asked for.
    fn has_more(&self) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| chunk.len() > self.position)
    }
}

async fn send(socket: &Socket, bytes: &[u8]) -> Result<(), HandshakeError> {
    let mut list = SendList::new();
    list.push_bytes(bytes);
    socket.send(list).await.0.map_err(|error| HandshakeError::Ended(error.to_string()))
}

/// Leads the handshake up to the transmission of `name`.
pub(super) async fn go(socket: &Socket, name: &str) -> Result<Export, HandshakeError> {
    let mut incoming = Incoming { socket, chunk: None, position: 0 };
    let mut greeting = [0; Greeting::LENGTH];
    incoming.fill(&mut greeting).await?;
    let greeting = Greeting::decode(&greeting)?;
    if !greeting.flags.contains(HandshakeFlags::FIXED_NEWSTYLE) {
        return Err(HandshakeError::Old);
    }
    let mut flags = ClientFlags::FIXED_NEWSTYLE;
    flags.set(ClientFlags::NO_ZEROES, greeting.flags.contains(HandshakeFlags::NO_ZEROES));
    let mut bytes = flags.bits().to_be_bytes().to_vec();
    let mut data = Vec::new();
    encode_info_request(name, &[InfoType::BLOCK_SIZE], &mut data);
    encode_option(OptionCode::GO, &data, &mut bytes);
    send(socket, &bytes).await?;
    let export = answer(&mut incoming, name).await?;
    if incoming.has_more() {
        return Err(HandshakeError::Broken("it speaks before it is asked".to_owned()));
    }
    Ok(export)
}

async fn answer(incoming: &mut Incoming<'_>, name: &str) -> Result<Export, HandshakeError> {
    let (mut found, mut sizes) = (None, None);
    for _ in 0..MAX_REPLIES {
        let mut header = [0; OPTION_REPLY_LENGTH];
        incoming.fill(&mut header).await?;
        let header = OptionReplyHeader::decode(&header)?;
        if header.option != OptionCode::GO || header.length > MAX_REPLY {
            return Err(HandshakeError::Broken(format!("{header:?} is no answer to NBD_OPT_GO")));
        }
        let mut data = vec![0; header.length as usize];
        incoming.fill(&mut data).await?;
        match header.kind {
            OptionReplyType::INFO => match Info::decode(&data)? {
                Info::Export { size, flags } => found = Some((size, flags)),
                Info::BlockSize(told) => sizes = Some(told),
                _ => {}
            },
            OptionReplyType::ACK => {
                let (size, flags) =
                    found.ok_or_else(|| HandshakeError::Broken("it does not tell the size".to_owned()))?;
                return Ok(Export { size, flags, sizes });
            }
            OptionReplyType::ERR_UNKNOWN => return Err(HandshakeError::NoExport(name.to_owned())),
            kind => {
                let said = String::from_utf8_lossy(&data);
                let text = if said.is_empty() { String::new() } else { format!(": {said}") };
                return Err(HandshakeError::Refused { kind, text });
            }
        }
    }
    Err(HandshakeError::Broken("its answer has no end".to_owned()))
}
