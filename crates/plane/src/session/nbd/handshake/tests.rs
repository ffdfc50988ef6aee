//! What each option is answered with.

use super::*;
use crate::limits::NBD_OPTIONS;
use proptest::prelude::*;
use wire::nbd::{
    BASE_ALLOCATION, BlockSizes, ContextReply, ExportNameReply, Info, InfoType, ListEntry, OptionCode,
    OptionReplyHeader, OptionReplyType, TransmissionFlags, encode_context_request, encode_info_request,
};

struct Two;

impl Directory for Two {
    fn count(&self) -> usize {
        2
    }

    fn find(&self, name: &str) -> Option<usize> {
        ["demo", "big"].iter().position(|known| *known == name)
    }

    fn get(&self, index: usize) -> Offered<'_> {
        let (name, description, minimum) = [("demo", "for trying", 512), ("big", "", 4096)][index];
        Offered {
            name,
            description,
            size: 1 << 20,
            flags: TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH,
            sizes: BlockSizes { minimum, preferred: 4096, maximum: 32 << 20 },
        }
    }
}

fn handshake() -> Handshake {
    Handshake::new(3).unwrap()
}

/// The step and the replies, each with its data.
fn ask(
    handshake: &mut Handshake,
    option: OptionCode,
    data: &[u8],
) -> (Step, Vec<(OptionReplyType, Vec<u8>)>) {
    let mut out = Vec::new();
    let step = handshake.option(option, data, &Two, &mut out).unwrap();
    (step, replies(option, &out))
}

fn replies(option: OptionCode, mut out: &[u8]) -> Vec<(OptionReplyType, Vec<u8>)> {
    let mut replies = Vec::new();
    while let Some((header, rest)) = out.split_first_chunk() {
        let header = OptionReplyHeader::decode(header).unwrap();
        assert_eq!(header.option, option);
        let (data, rest) = rest.split_at(header.length as usize);
        replies.push((header.kind, data.to_vec()));
        out = rest;
    }
    assert!(out.is_empty());
    replies
}

fn info(name: &str, types: &[InfoType]) -> Vec<u8> {
    let mut data = Vec::new();
    encode_info_request(name, types, &mut data);
    data
}

fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    encode_context_request(name, queries, &mut data);
    data
}

fn kinds(replies: &[(OptionReplyType, Vec<u8>)]) -> Vec<OptionReplyType> {
    replies.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn client_flags_that_nobody_knows_end_the_connection() {
    assert_eq!(Handshake::new(4).err(), Some(Refusal::Flags(4)));
    assert!(Handshake::new(0).is_ok());
}

#[test]
fn exports_are_listed_with_what_people_may_read() {
    let (step, replies) = ask(&mut handshake(), OptionCode::LIST, &[]);
    assert_eq!(step, Step::Continue);
    assert_eq!(kinds(&replies), [OptionReplyType::SERVER, OptionReplyType::SERVER, OptionReplyType::ACK]);
    let entry = ListEntry { name: "demo", description: "for trying" };
    assert_eq!(ListEntry::decode(&replies[0].1), Ok(entry));
    let (_, replies) = ask(&mut handshake(), OptionCode::LIST, b"x");
    assert_eq!(kinds(&replies), [OptionReplyType::ERR_INVALID]);
}

#[test]
fn go_tells_what_was_asked_for_and_enters() {
    let types = [InfoType::NAME, InfoType::DESCRIPTION, InfoType::BLOCK_SIZE, InfoType(77)];
    for option in [OptionCode::INFO, OptionCode::GO] {
        let (step, replies) = ask(&mut handshake(), option, &info("demo", &types));
        let told: Vec<_> = replies[..4].iter().map(|(_, data)| Info::decode(data).unwrap()).collect();
        let sizes = BlockSizes { minimum: 512, preferred: 4096, maximum: 32 << 20 };
        let flags = TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH;
        let expected = [
            Info::Export { size: 1 << 20, flags },
            Info::BlockSize(sizes),
            Info::Name("demo"),
            Info::Description("for trying"),
        ];
        assert_eq!(told, expected);
        assert_eq!((replies[4].0, replies.len()), (OptionReplyType::ACK, 5));
        let entry = Entry { export: 0, structured: false, base_allocation: false };
        assert_eq!(step, if option == OptionCode::GO { Step::Enter(entry) } else { Step::Continue });
    }
}

#[test]
fn an_export_that_is_not_there_is_refused_and_the_client_may_try_again() {
    let mut handshake = handshake();
    let (step, replies) = ask(&mut handshake, OptionCode::GO, &info("nobody", &[]));
    assert_eq!((step, kinds(&replies)), (Step::Continue, vec![OptionReplyType::ERR_UNKNOWN]));
    let (step, replies) = ask(&mut handshake, OptionCode::GO, b"\0\0\0\x09demo");
    assert_eq!((step, kinds(&replies)), (Step::Continue, vec![OptionReplyType::ERR_INVALID]));
    assert!(matches!(ask(&mut handshake, OptionCode::GO, &info("demo", &[])).0, Step::Enter(_)));
}

#[test]
fn large_blocks_are_for_clients_that_ask() {
    let (step, replies) = ask(&mut handshake(), OptionCode::GO, &info("big", &[]));
    assert_eq!(step, Step::Continue);
    assert_eq!(replies.last().unwrap().0, OptionReplyType::ERR_BLOCK_SIZE_REQD);
    let (step, _) = ask(&mut handshake(), OptionCode::GO, &info("big", &[InfoType::BLOCK_SIZE]));
    assert!(matches!(step, Step::Enter(Entry { export: 1, .. })));
    let refused = handshake().option(OptionCode::EXPORT_NAME, b"big", &Two, &mut Vec::new());
    assert_eq!(refused, Err(Refusal::BlockSizes("big".into())));
}

#[test]
fn the_old_way_in_has_no_header_and_as_many_zeroes_as_agreed() {
    for (flags, length) in [(3, 10), (1, 134)] {
        let mut out = Vec::new();
        let mut handshake = Handshake::new(flags).unwrap();
        let step = handshake.option(OptionCode::EXPORT_NAME, b"demo", &Two, &mut out).unwrap();
        assert!(matches!(step, Step::Enter(Entry { export: 0, .. })));
        assert_eq!(out.len(), length);
        assert_eq!(ExportNameReply::decode(&out).unwrap().size, 1 << 20);
    }
    let refused = handshake().option(OptionCode::EXPORT_NAME, b"nobody", &Two, &mut Vec::new());
    assert_eq!(refused, Err(Refusal::NoExport("nobody".into())));
}

#[test]
fn df_is_offered_with_structured_replies_only() {
    let mut handshake = handshake();
    let flags = |handshake: &mut Handshake| {
        let (_, replies) = ask(handshake, OptionCode::INFO, &info("demo", &[]));
        match Info::decode(&replies[0].1) {
            Ok(Info::Export { flags, .. }) => flags,
            other => panic!("{other:?}"),
        }
    };
    assert!(!flags(&mut handshake).contains(TransmissionFlags::SEND_DF));
    ask(&mut handshake, OptionCode::STRUCTURED_REPLY, &[]);
    assert!(flags(&mut handshake).contains(TransmissionFlags::SEND_DF));
}

#[test]
fn contexts_need_structured_replies_and_belong_to_their_export() {
    let mut handshake = handshake();
    let set = |handshake: &mut Handshake, name: &str, queries: &[&str]| {
        ask(handshake, OptionCode::SET_META_CONTEXT, &contexts(name, queries)).1
    };
    let early = set(&mut handshake, "demo", &[BASE_ALLOCATION]);
    assert_eq!(kinds(&early), [OptionReplyType::ERR_INVALID]);
    ask(&mut handshake, OptionCode::STRUCTURED_REPLY, &[]);
    let chosen = set(&mut handshake, "demo", &["qemu:dirty", BASE_ALLOCATION]);
    assert_eq!(kinds(&chosen), [OptionReplyType::META_CONTEXT, OptionReplyType::ACK]);
    let reply = ContextReply { id: BASE_ALLOCATION_ID, name: BASE_ALLOCATION };
    assert_eq!(ContextReply::decode(&chosen[0].1), Ok(reply));
    let go = |handshake: &mut Handshake, name: &str| match ask(
        handshake,
        OptionCode::GO,
        &info(name, &[InfoType::BLOCK_SIZE]),
    )
    .0
    {
        Step::Enter(entry) => entry.base_allocation,
        other => panic!("{other:?}"),
    };
    assert!(go(&mut handshake, "demo") && !go(&mut handshake, "big"));
    // A later choice takes the place of an earlier one, whatever becomes of it.
    assert_eq!(kinds(&set(&mut handshake, "nobody", &[])), [OptionReplyType::ERR_UNKNOWN]);
    assert!(!go(&mut handshake, "demo"));
    // "base:" is for lists alone.
    assert_eq!(kinds(&set(&mut handshake, "demo", &["base:"])), [OptionReplyType::ACK]);
    assert!(!go(&mut handshake, "demo"));
}

#[test]
fn a_list_of_contexts_chooses_none() {
    let mut handshake = handshake();
    ask(&mut handshake, OptionCode::STRUCTURED_REPLY, &[]);
    for (queries, found) in
        [(&[][..], true), (&["base:"], true), (&[BASE_ALLOCATION], true), (&["x:"], false)]
    {
        let data = contexts("demo", queries);
        let (_, replies) = ask(&mut handshake, OptionCode::LIST_META_CONTEXT, &data);
        assert_eq!(replies.len() == 2, found, "{queries:?}");
    }
    let (step, _) = ask(&mut handshake, OptionCode::GO, &info("demo", &[]));
    assert_eq!(step, Step::Enter(Entry { export: 0, structured: true, base_allocation: false }));
}

#[test]
fn what_we_do_not_have_is_unsupported_and_the_handshake_goes_on() {
    for option in [OptionCode::STARTTLS, OptionCode::EXTENDED_HEADERS, OptionCode(4), OptionCode(999)] {
        let (step, replies) = ask(&mut handshake(), option, &[]);
        assert_eq!((step, kinds(&replies)), (Step::Continue, vec![OptionReplyType::ERR_UNSUP]));
    }
    let (step, replies) = ask(&mut handshake(), OptionCode::ABORT, &[]);
    assert_eq!((step, kinds(&replies)), (Step::Leave, vec![OptionReplyType::ACK]));
    let mut out = Vec::new();
    assert_eq!(handshake().too_long(OptionCode::GO, &mut out), Ok(Step::Continue));
    assert_eq!(kinds(&self::replies(OptionCode::GO, &out)), [OptionReplyType::ERR_TOO_BIG]);
}

#[test]
fn a_handshake_has_an_end() {
    let mut handshake = handshake();
    let mut out = Vec::new();
    for _ in 0..NBD_OPTIONS {
        out.clear();
        handshake.option(OptionCode::LIST, &[], &Two, &mut out).unwrap();
    }
    assert_eq!(handshake.option(OptionCode::LIST, &[], &Two, &mut out), Err(Refusal::Endless));
}

proptest! {
    /// Whatever the data: each option is answered by whole replies, the last of which is an end.
    #[test]
    fn every_option_is_answered(options in proptest::collection::vec((0u32..13, any::<Vec<u8>>()), 0..16)) {
        let mut handshake = handshake();
        for (option, data) in options {
            let (option, mut out) = (OptionCode(option), Vec::new());
            match handshake.option(option, &data, &Two, &mut out) {
                Ok(_) if option == OptionCode::EXPORT_NAME => {}
                Ok(_) => {
                    let last = replies(option, &out).last().unwrap().0;
                    prop_assert!(last == OptionReplyType::ACK || last.is_error());
                }
                Err(_) => prop_assert_eq!(option, OptionCode::EXPORT_NAME),
            }
        }
    }
}
