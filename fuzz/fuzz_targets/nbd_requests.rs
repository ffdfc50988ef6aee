//! Any bytes as requests and as replies: no panic, what decodes encodes to the same bytes, and what is let through by
//! the rules lies within the export.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plane::Geometry;
use plane::limits::NBD_PAYLOAD_BYTES;
use plane::session::nbd::judge;
use wire::nbd::{
    CHUNK_HEADER_LENGTH, ChunkHeader, ChunkType, Command, REQUEST_LENGTH, Request, SimpleReply, StatusExtent,
    decode_error, decode_hole,
};

const GEOMETRY: Geometry = Geometry {
    block_size: 512,
    physical_block_size: 4096,
    blocks: 1 << 20,
    write_cache: true,
    read_only: false,
    discard: true,
    discard_zeroes: true,
    discard_granularity: 4096,
};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<REQUEST_LENGTH>() {
        let Ok(request) = Request::decode(head) else { break };
        assert_eq!(request.encode(), *head);
        for (structured, context) in [(false, false), (true, false), (true, true)] {
            if judge(&request, &GEOMETRY, structured, context).is_ok() {
                let end = request.offset.checked_add(u64::from(request.length)).expect("a number");
                assert!(end <= GEOMETRY.bytes() && end.is_multiple_of(512));
                let moves = matches!(request.command, Command::READ | Command::WRITE);
                assert!(!moves || request.length as usize <= NBD_PAYLOAD_BYTES);
            }
        }
        rest = behind;
    }
    if let Some(reply) = bytes.first_chunk().and_then(|bytes| SimpleReply::decode(bytes).ok()) {
        assert_eq!(reply.encode(), bytes[..reply.encode().len()]);
    }
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<CHUNK_HEADER_LENGTH>() {
        let Ok(header) = ChunkHeader::decode(head) else { return };
        let Some((payload, behind)) = behind.split_at_checked(header.length as usize) else { return };
        let _ = decode_hole(payload);
        let _ = StatusExtent::decode(payload);
        for kind in [header.kind, ChunkType::ERROR, ChunkType::ERROR_OFFSET] {
            let _ = decode_error(kind, payload);
        }
        rest = behind;
    }
});
