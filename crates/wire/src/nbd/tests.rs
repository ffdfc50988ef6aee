//! What is written is read; what is not NBD is refused; bytes on the wire are those of the standard.

use proptest::prelude::*;

use super::*;

#[test]
fn the_first_bytes_are_those_of_the_standard() {
    let greeting = Greeting { flags: HandshakeFlags::all() }.encode();
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\x00\x03");
    assert_eq!(Greeting::decode(b"NBDMAGICIHAVEOPX\x00\x03"), Err(NotNbd::Magic));
    assert_eq!(Greeting::decode(b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0"), Err(NotNbd::OldStyle));
}

/// A read of 512 bytes from 4096 as the Linux kernel sends it.
#[test]
fn a_request_is_laid_out_as_the_standard_has_it() {
    let bytes =
        [0x25, 0x60, 0x95, 0x13, 0, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0];
    let request = Request::decode(&bytes).unwrap();
    assert_eq!((request.flags, request.command), (CommandFlags::DF, Command::READ));
    assert_eq!((request.cookie, request.offset, request.length), (0x0102_0304_0506_0708, 4096, 512));
    assert_eq!(request.encode(), bytes);
    let mut wrong = bytes;
    wrong[3] = 0x14;
    assert_eq!(Request::decode(&wrong), Err(NotARequest(0x2560_9514)));
}

#[test]
fn replies_are_laid_out_as_the_standard_has_them() {
    let reply = SimpleReply { error: Errno::EIO, cookie: 7 }.encode();
    assert_eq!(reply, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7]);
    let hole = hole_chunk(7, 4096, 512, true);
    assert_eq!(
        hole,
        [
            0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0x10,
            0, 0, 0, 2, 0
        ]
    );
    let error = error_chunk(7, Errno::EINVAL, "no");
    assert_eq!(error[4..8], [0, 1, 0x80, 1]);
    assert_eq!(error[16..], [0, 0, 0, 8, 0, 0, 0, 22, 0, 2]);
    let mut payload = error[20..].to_vec();
    payload.extend_from_slice(b"no");
    assert_eq!(decode_error(ChunkType::ERROR, &payload).unwrap(), (Errno::EINVAL, "no".into(), None));
    payload.extend_from_slice(&9u64.to_be_bytes());
    let (error, text, offset) = decode_error(ChunkType::ERROR_OFFSET, &payload).unwrap();
    assert_eq!((error, &*text, offset), (Errno::EINVAL, "no", Some(9)));
    assert_eq!(decode_error(ChunkType::ERROR, &payload), Err(Malformed::Trailing));
}

#[test]
fn options_that_end_early_or_late_are_refused() {
    let mut go = Vec::new();
    encode_info_request("demo", &[InfoType::BLOCK_SIZE, InfoType::NAME], &mut go);
    assert_eq!(go, b"\0\0\0\x04demo\0\x02\0\x03\0\x01");
    let request = InfoRequest::decode(&go).unwrap();
    assert_eq!(request.name, "demo");
    assert!(request.asks_for(InfoType::NAME) && !request.asks_for(InfoType::DESCRIPTION));
    for length in 0..go.len() {
        assert_eq!(InfoRequest::decode(&go[..length]), Err(Malformed::Truncated), "{length}");
    }
    go.push(0);
    assert_eq!(InfoRequest::decode(&go), Err(Malformed::Trailing));

    let mut set = Vec::new();
    encode_context_request("demo", &[BASE_ALLOCATION, "qemu:dirty"], &mut set);
    let request = ContextRequest::decode(&set).unwrap();
    assert_eq!(request.queries().collect::<Vec<_>>(), [BASE_ALLOCATION, "qemu:dirty"]);
    for length in 0..set.len() {
        assert_eq!(ContextRequest::decode(&set[..length]), Err(Malformed::Truncated), "{length}");
    }
    set.push(0);
    assert_eq!(ContextRequest::decode(&set), Err(Malformed::Trailing));
}

#[test]
fn strings_are_bounded_and_text() {
    let mut data = 4097u32.to_be_bytes().to_vec();
    data.extend_from_slice(&[b'a'; 4097]);
    data.extend_from_slice(&[0, 0]);
    assert_eq!(InfoRequest::decode(&data), Err(Malformed::TooLong));
    assert_eq!(InfoRequest::decode(b"\0\0\0\x01\xff\0\0"), Err(Malformed::NotText));
    // A count that no memory could hold is no reason to try.
    assert_eq!(ContextRequest::decode(b"\0\0\0\0\xff\xff\xff\xff"), Err(Malformed::Truncated));
}

#[test]
fn only_replies_with_the_highest_bit_are_errors() {
    assert!(OptionReplyType::ERR_TOO_BIG.is_error() && !OptionReplyType::META_CONTEXT.is_error());
    assert!(ChunkType(0x804d).is_error() && !ChunkType::BLOCK_STATUS.is_error());
}

fn name() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..64).prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #[test]
    fn requests_are_read_as_written(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
        let flags = CommandFlags::from_bits_retain(flags);
        let request = Request { flags, command: Command(command), cookie, offset, length };
        prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn replies_are_read_as_written(done: bool, kind: u16, cookie: u64, offset: u64, length: u32, error: u32) {
        let simple = SimpleReply { error: Errno(error), cookie };
        prop_assert_eq!(SimpleReply::decode(&simple.encode()), Ok(simple));
        let chunk = ChunkHeader { done, kind: ChunkType(kind), cookie, length };
        prop_assert_eq!(ChunkHeader::decode(&chunk.encode()), Ok(chunk));
        let hole = hole_chunk(cookie, offset, length, done);
        prop_assert_eq!(decode_hole(&hole[CHUNK_HEADER_LENGTH..]), Ok((offset, length)));
        let extent = StatusExtent { length, flags: StateFlags::from_bits_retain(error) };
        prop_assert_eq!(StatusExtent::decode(&extent.encode()), Ok(extent));
    }

    #[test]
    fn options_are_read_as_written(option: u32, name in name(), queries in proptest::collection::vec(name(), 0..8), types: Vec<u16>) {
        let types: Vec<_> = types.into_iter().map(InfoType).collect();
        let mut data = Vec::new();
        encode_info_request(&name, &types, &mut data);
        let request = InfoRequest::decode(&data).unwrap();
        prop_assert_eq!((request.name, request.types().collect::<Vec<_>>()), (name.as_str(), types));
        let mut out = Vec::new();
        encode_option(OptionCode(option), &data, &mut out);
        let header = OptionHeader::decode(out.first_chunk().unwrap()).unwrap();
        prop_assert_eq!(header, OptionHeader { option: OptionCode(option), length: data.len() as u32 });

        let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
        data.clear();
        encode_context_request(&name, &queries, &mut data);
        let request = ContextRequest::decode(&data).unwrap();
        prop_assert_eq!((request.name, request.queries().collect::<Vec<_>>()), (name.as_str(), queries));
    }

    #[test]
    fn option_replies_are_read_as_written(option: u32, name in name(), description in name(), size: u64, flags: u16, sizes: [u32; 3], id: u32) {
        let option = OptionCode(option);
        let mut out = Vec::new();
        encode_option_reply(option, OptionReplyType::SERVER, &mut out, |out| {
            ListEntry { name: &name, description: &description }.encode(out);
        });
        let (header, data) = out.split_first_chunk().unwrap();
        let header = OptionReplyHeader::decode(header).unwrap();
        prop_assert_eq!(header.length as usize, data.len());
        prop_assert_eq!((header.option, header.kind), (option, OptionReplyType::SERVER));
        prop_assert_eq!(ListEntry::decode(data), Ok(ListEntry { name: &name, description: &description }));
        let [minimum, preferred, maximum] = sizes;
        for info in [
            Info::Export { size, flags: TransmissionFlags::from_bits_retain(flags) },
            Info::Name(&name),
            Info::Description(&description),
            Info::BlockSize(BlockSizes { minimum, preferred, maximum }),
        ] {
            let mut out = Vec::new();
            info.encode(&mut out);
            prop_assert_eq!(Info::decode(&out), Ok(info));
        }
        let mut out = Vec::new();
        ContextReply { id, name: &name }.encode(&mut out);
        prop_assert_eq!(ContextReply::decode(&out), Ok(ContextReply { id, name: &name }));
        let reply = ExportNameReply { size, flags: TransmissionFlags::from_bits_retain(flags) };
        prop_assert_eq!(ExportNameReply::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = InfoRequest::decode(&bytes).map(|request| request.types().count());
        let _ = ContextRequest::decode(&bytes).map(|request| request.queries().count());
        let _ = (ListEntry::decode(&bytes), Info::decode(&bytes), ContextReply::decode(&bytes));
        let _ = (decode_hole(&bytes), decode_error(ChunkType::ERROR_OFFSET, &bytes), StatusExtent::decode(&bytes));
    }
}
