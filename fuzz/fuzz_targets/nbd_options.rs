//! Any bytes as client flags and options: no panic, every option answered by whole replies, the answers bounded; and
//! the same bytes as a server's replies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plane::session::nbd::handshake::{Directory, Handshake, Offered, Step};
use wire::nbd::{
    BlockSizes, ContextReply, ContextRequest, ExportNameReply, Greeting, Info, InfoRequest, ListEntry,
    OPTION_HEADER_LENGTH, OptionCode, OptionHeader, OptionReplyHeader, OptionReplyType, TransmissionFlags,
};

struct One;

impl Directory for One {
    fn count(&self) -> usize {
        1
    }

    fn find(&self, name: &str) -> Option<usize> {
        ["", "demo"].contains(&name).then_some(0)
    }

    fn get(&self, _: usize) -> Offered<'_> {
        Offered {
            name: "demo",
            description: "for trying",
            size: 1 << 20,
            flags: TransmissionFlags::HAS_FLAGS,
            sizes: BlockSizes { minimum: 512, preferred: 4096, maximum: 32 << 20 },
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    as_replies(bytes);
    let Some((flags, mut rest)) = bytes.split_first_chunk::<4>() else { return };
    let Ok(mut handshake) = Handshake::new(u32::from_be_bytes(*flags)) else { return };
    while let Some((header, data)) = rest.split_first_chunk::<OPTION_HEADER_LENGTH>() {
        let Ok(header) = OptionHeader::decode(header) else { return };
        let Some((data, behind)) = data.split_at_checked(header.length as usize) else { return };
        rest = behind;
        let mut out = Vec::new();
        match handshake.option(header.option, data, &One, &mut out) {
            Ok(step) => {
                assert!(out.len() < 4096, "an answer of {} bytes", out.len());
                if header.option == OptionCode::EXPORT_NAME {
                    assert!(ExportNameReply::decode(&out).is_ok());
                } else {
                    check(header.option, &out);
                }
                if step != Step::Continue {
                    return;
                }
            }
            Err(_) => return,
        }
    }
});

/// Replies are whole, to this option, and the last one is an end.
fn check(option: OptionCode, mut out: &[u8]) {
    let mut last = None;
    while let Some((header, data)) = out.split_first_chunk() {
        let header = OptionReplyHeader::decode(header).expect("our own reply");
        assert_eq!(header.option, option);
        out = &data[header.length as usize..];
        last = Some(header.kind);
    }
    assert!(out.is_empty());
    assert!(last.is_some_and(|kind| kind == OptionReplyType::ACK || kind.is_error()));
}

/// What our own client reads of a server.
fn as_replies(bytes: &[u8]) {
    if let Some(greeting) = bytes.first_chunk().and_then(|bytes| Greeting::decode(bytes).ok()) {
        assert_eq!(greeting.encode(), bytes[..Greeting::LENGTH]);
    }
    let mut again = Vec::new();
    if let Ok(info) = Info::decode(bytes)
        && !matches!(info, Info::Other(_))
    {
        info.encode(&mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Ok(entry) = ListEntry::decode(bytes) {
        entry.encode(&mut again);
        assert_eq!(again, bytes);
    }
    again.clear();
    if let Ok(reply) = ContextReply::decode(bytes) {
        reply.encode(&mut again);
        assert_eq!(again, bytes);
    }
    let _ = InfoRequest::decode(bytes).map(|request| request.types().count());
    let _ = ContextRequest::decode(bytes).map(|request| request.queries().count());
}
