//! The rules of option haggling, without I/O.

use wire::nbd::{
    BASE_ALLOCATION, BlockSizes, ClientFlags, ContextReply, ContextRequest, EXPORT_NAME_ZEROES,
    ExportNameReply, HandshakeFlags, Info, InfoRequest, InfoType, ListEntry, OptionCode, OptionReplyType,
    TransmissionFlags, encode_option_reply,
};

use crate::limits::NBD_OPTIONS;

/// The number by which block status speaks of `base:allocation`.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// What clients may send that do not ask for block sizes, in bytes.
const ASSUMED_MINIMUM: u32 = 512;

/// An export as the handshake tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// Its name.
    pub name: &'a str,
    /// For people; may be empty.
    pub description: &'a str,
    /// Bytes.
    pub size: u64,
    /// What it can do; `SEND_DF` is added here.
    pub flags: TransmissionFlags,
    /// What requests have to keep to.
    pub sizes: BlockSizes,
}

/// Where exports are looked up.
pub trait Directory {
    /// How many there are.
    fn count(&self) -> usize;
    /// The place of the one with this name.
    fn find(&self, name: &str) -> Option<usize>;
    /// The one at this place, which is below `count`.
    fn get(&self, index: usize) -> Offered<'_>;
}

/// What was agreed at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The export's place.
    pub export: usize,
    /// Replies are structured.
    pub structured: bool,
    /// Block status of `base:allocation` may be asked for.
    pub base_allocation: bool,
}

/// What follows an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The next option.
    Continue,
    /// Transmission.
    Enter(Entry),
    /// The client is leaving.
    Leave,
}

/// Why a handshake cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Client flags that are not known.
    #[error("it sent client flags that are not known: {0:#x}")]
    Flags(u32),
    /// `NBD_OPT_EXPORT_NAME`, which can say no only by the end of the connection.
    #[error("there is no export {0:?}")]
    NoExport(String),
    /// An export of large blocks, and a client that cannot be told.
    #[error("the export {0:?} has blocks of 4096 bytes, and the client does not ask for block sizes")]
    BlockSizes(String),
    /// Too many options.
    #[error("it sent more than {NBD_OPTIONS} options")]
    Endless,
}

/// The state of one handshake.
#[derive(Debug)]
pub struct Handshake {
    no_zeroes: bool,
    structured: bool,
    /// The export for which `base:allocation` was chosen.
    context: Option<usize>,
    options: u32,
    /// An export that was to be entered and is not there.
    unknown: Option<String>,
}

impl Handshake {
    /// What we say first.
    pub const FLAGS: HandshakeFlags = HandshakeFlags::all();

    /// After the client's flags.
    pub fn new(flags: u32) -> Result<Handshake, Refusal> {
        let flags = ClientFlags::from_bits(flags).ok_or(Refusal::Flags(flags))?;
        let no_zeroes = flags.contains(ClientFlags::NO_ZEROES);
        Ok(Handshake { no_zeroes, structured: false, context: None, options: 0, unknown: None })
    }

    /// The export that the last option wanted to enter, if there is none of that name; told once.
    pub fn take_unknown(&mut self) -> Option<String> {
        self.unknown.take()
    }

    fn count(&mut self) -> Result<(), Refusal> {
        self.options += 1;
        if self.options > NBD_OPTIONS { Err(Refusal::Endless) } else { Ok(()) }
    }

    /// Refuses an option whose data was not kept.
    pub fn too_long(&mut self, option: OptionCode, out: &mut Vec<u8>) -> Result<Step, Refusal> {
        self.count()?;
        refuse(option, OptionReplyType::ERR_TOO_BIG, "more data than is taken with an option", out);
        Ok(Step::Continue)
    }

    /// Answers an option; replies are appended to `out`.
    pub fn option(
        &mut self,
        option: OptionCode,
        data: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) -> Result<Step, Refusal> {
        self.count()?;
        match option {
            OptionCode::EXPORT_NAME => return self.export_name(data, directory, out),
            OptionCode::ABORT => {
                acknowledge(option, out);
                return Ok(Step::Leave);
            }
            OptionCode::LIST if data.is_empty() => list(directory, out),
            OptionCode::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                acknowledge(option, out);
            }
            OptionCode::LIST | OptionCode::STRUCTURED_REPLY => {
                refuse(option, OptionReplyType::ERR_INVALID, "this option has no data", out);
            }
            OptionCode::INFO | OptionCode::GO => return Ok(self.info(option, data, directory, out)),
            OptionCode::LIST_META_CONTEXT | OptionCode::SET_META_CONTEXT => {
                self.meta_context(option, data, directory, out);
            }
            OptionCode::STARTTLS => {
                refuse(option, OptionReplyType::ERR_UNSUP, "there is no TLS here", out);
            }
            _ => refuse(option, OptionReplyType::ERR_UNSUP, "this option is not known", out),
        }
        Ok(Step::Continue)
    }

    fn enter(&self, export: usize) -> Step {
        let base_allocation = self.context == Some(export);
        Step::Enter(Entry { export, structured: self.structured, base_allocation })
    }

    fn flags(&self, offered: &Offered<'_>) -> TransmissionFlags {
        let mut flags = offered.flags;
        flags.set(TransmissionFlags::SEND_DF, self.structured);
        flags
    }

    fn export_name(
        &mut self,
        data: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) -> Result<Step, Refusal> {
        let found = std::str::from_utf8(data).ok().and_then(|name| directory.find(name));
        let Some(index) = found else {
            let shown: String = String::from_utf8_lossy(data).chars().take(64).collect();
            self.unknown = Some(shown.clone());
            return Err(Refusal::NoExport(shown));
        };
        let offered = directory.get(index);
        if offered.sizes.minimum > ASSUMED_MINIMUM {
            return Err(Refusal::BlockSizes(offered.name.to_owned()));
        }
        let reply = ExportNameReply { size: offered.size, flags: self.flags(&offered) };
        out.extend_from_slice(&reply.encode());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        Ok(self.enter(index))
    }

    fn info(
        &mut self,
        option: OptionCode,
        data: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) -> Step {
        let request = match InfoRequest::decode(data) {
            Ok(request) => request,
            Err(malformed) => {
                refuse(option, OptionReplyType::ERR_INVALID, &malformed.to_string(), out);
                return Step::Continue;
            }
        };
        let Some(index) = directory.find(request.name) else {
            refuse(option, OptionReplyType::ERR_UNKNOWN, "there is no such export", out);
            if option == OptionCode::GO {
                self.unknown = Some(request.name.chars().take(64).collect());
            }
            return Step::Continue;
        };
        let offered = directory.get(index);
        let mut tell = |info: Info<'_>| {
            encode_option_reply(option, OptionReplyType::INFO, out, |out| info.encode(out));
        };
        tell(Info::Export { size: offered.size, flags: self.flags(&offered) });
        tell(Info::BlockSize(offered.sizes));
        if request.asks_for(InfoType::NAME) {
            tell(Info::Name(offered.name));
        }
        if request.asks_for(InfoType::DESCRIPTION) && !offered.description.is_empty() {
            tell(Info::Description(offered.description));
        }
        if offered.sizes.minimum > ASSUMED_MINIMUM && !request.asks_for(InfoType::BLOCK_SIZE) {
            let why = "this export is for clients that ask for block sizes";
            refuse(option, OptionReplyType::ERR_BLOCK_SIZE_REQD, why, out);
            return Step::Continue;
        }
        acknowledge(option, out);
        if option == OptionCode::GO { self.enter(index) } else { Step::Continue }
    }

    fn meta_context(
        &mut self,
        option: OptionCode,
        data: &[u8],
        directory: &dyn Directory,
        out: &mut Vec<u8>,
    ) {
        let sets = option == OptionCode::SET_META_CONTEXT;
        if sets {
            // Whatever becomes of this one, it takes the place of an earlier one.
            self.context = None;
        }
        if !self.structured {
            let why = "metadata contexts need structured replies, which were not asked for";
            return refuse(option, OptionReplyType::ERR_INVALID, why, out);
        }
        let request = match ContextRequest::decode(data) {
            Ok(request) => request,
            Err(malformed) => {
                return refuse(option, OptionReplyType::ERR_INVALID, &malformed.to_string(), out);
            }
        };
        let Some(index) = directory.find(request.name) else {
            return refuse(option, OptionReplyType::ERR_UNKNOWN, "there is no such export", out);
        };
        let matches = |query: &str| query == BASE_ALLOCATION || !sets && query == "base:";
        let everything = !sets && request.queries().next().is_none();
        if everything || request.queries().any(matches) {
            let id = if sets { BASE_ALLOCATION_ID } else { 0 };
            encode_option_reply(option, OptionReplyType::META_CONTEXT, out, |out| {
                ContextReply { id, name: BASE_ALLOCATION }.encode(out);
            });
            if sets {
                self.context = Some(index);
            }
        }
        acknowledge(option, out);
    }
}

fn list(directory: &dyn Directory, out: &mut Vec<u8>) {
    for index in 0..directory.count() {
        let Offered { name, description, .. } = directory.get(index);
        encode_option_reply(OptionCode::LIST, OptionReplyType::SERVER, out, |out| {
            ListEntry { name, description }.encode(out);
        });
    }
    acknowledge(OptionCode::LIST, out);
}

fn acknowledge(option: OptionCode, out: &mut Vec<u8>) {
    encode_option_reply(option, OptionReplyType::ACK, out, |_| {});
}

/// An error; `why` is for people.
fn refuse(option: OptionCode, kind: OptionReplyType, why: &str, out: &mut Vec<u8>) {
    encode_option_reply(option, kind, out, |out| out.extend_from_slice(why.as_bytes()));
}
