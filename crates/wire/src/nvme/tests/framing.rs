use proptest::prelude::*;

use crate::nvme::tcp::*;

fn any_framing() -> impl Strategy<Value = Framing> {
    (any::<bool>(), any::<bool>(), 0u8..32, 0u8..32).prop_map(|(header_digest, data_digest, hpda, cpda)| {
        Framing {
            header_digest,
            data_digest,
            hpda: DataAlignment::new(hpda).unwrap(),
            cpda: DataAlignment::new(cpda).unwrap(),
        }
    })
}

const WITH_DATA: [PduType; 3] = [PduType::CAPSULE_CMD, PduType::H2C_DATA, PduType::C2H_DATA];

#[test]
fn a_capsule_without_digests_and_alignment() {
    let framing = Framing::default();
    let header = framing.header(PduType::CAPSULE_CMD, PduFlags::empty(), 1024);
    let mut bytes = [0; 8];
    header.encode(&mut bytes);
    // 72 bytes of header, data right behind it.
    assert_eq!(bytes, [4, 0, 72, 72, 0x48, 4, 0, 0]);
    let shape = framing.shape(&header, Sender::Host, 8192).unwrap();
    assert_eq!((shape.header, shape.data_offset, shape.data, shape.total()), (72, 72, 1024, 1096));
}

#[test]
fn digests_and_alignment_move_the_data() {
    let framing = Framing {
        header_digest: true,
        data_digest: true,
        hpda: DataAlignment::new(31).unwrap(),
        cpda: DataAlignment::new(3).unwrap(),
    };
    let read = framing.header(PduType::C2H_DATA, PduFlags::LAST_PDU, 4096);
    assert_eq!((read.hlen, read.pdo, read.plen), (24, 128, 128 + 4096 + 4));
    assert_eq!(read.flags, PduFlags::LAST_PDU | PduFlags::HEADER_DIGEST | PduFlags::DATA_DIGEST);
    let write = framing.header(PduType::CAPSULE_CMD, PduFlags::empty(), 512);
    // 72 and 4 bytes, to the next multiple of 16.
    assert_eq!((write.pdo, write.plen), (80, 80 + 512 + 4));
    let shape = framing.shape(&write, Sender::Host, 512).unwrap();
    assert_eq!((shape.digested_header(), shape.padding(), shape.trailer()), (76, 4, 4));
    // Without data there is no data digest, and no offset.
    let empty = framing.header(PduType::CAPSULE_CMD, PduFlags::empty(), 0);
    assert_eq!((empty.flags, empty.pdo, empty.plen), (PduFlags::HEADER_DIGEST, 0, 76));
    // What begins and ends a connection has no digest.
    let begin = framing.header(PduType::IC_REQ, PduFlags::empty(), 0);
    assert_eq!((begin.flags, begin.plen), (PduFlags::empty(), 128));
}

#[test]
fn an_alignment_that_is_no_power_of_two_counts_in_its_own_multiples() {
    let alignment = DataAlignment::new(17).unwrap();
    let framing = Framing { header_digest: true, data_digest: false, hpda: alignment, cpda: alignment };
    assert_eq!(framing.data_offset(PduType::CAPSULE_CMD), 144);
    assert_eq!(framing.data_offset(PduType::C2H_DATA), 72);
}

#[test]
fn headers_that_do_not_fit_together_name_the_field() {
    let framing = Framing { header_digest: true, data_digest: true, ..Framing::default() };
    let good = framing.header(PduType::CAPSULE_CMD, PduFlags::empty(), 512);
    assert!(framing.shape(&good, Sender::Host, 512).is_ok());
    let refused = |header: CommonHeader| framing.shape(&header, Sender::Host, 512).unwrap_err();
    assert_eq!(refused(CommonHeader { pdu_type: PduType(8), ..good }), FatalError::field(0));
    assert_eq!(refused(CommonHeader { pdu_type: PduType::C2H_DATA, ..good }), FatalError::field(0));
    assert_eq!(refused(CommonHeader { flags: PduFlags::DATA_DIGEST, ..good }), FatalError::field(1));
    assert_eq!(refused(CommonHeader { flags: PduFlags::HEADER_DIGEST, ..good }), FatalError::field(1));
    assert_eq!(refused(CommonHeader { hlen: 71, ..good }), FatalError::field(2));
    assert_eq!(refused(CommonHeader { pdo: 75, ..good }), FatalError::field(3));
    assert_eq!(refused(CommonHeader { pdo: 72, ..good }), FatalError::field(3));
    assert_eq!(refused(CommonHeader { plen: 0, ..good }), FatalError::field(4));
    assert_eq!(refused(CommonHeader { plen: 80, ..good }), FatalError::field(4));
    assert_eq!(refused(CommonHeader { plen: u32::MAX, ..good }), FatalError::field(4));
    let data = framing.header(PduType::H2C_DATA, PduFlags::LAST_PDU, 513);
    assert_eq!(refused(data), FatalError::LIMIT);
    assert_eq!(refused(framing.header(PduType::H2C_DATA, PduFlags::LAST_PDU, 0)), FatalError::field(4));
    let end = Framing::default().header(PduType::H2C_TERM_REQ, PduFlags::empty(), 129);
    assert_eq!(refused(end), FatalError::field(4));
}

#[test]
fn a_termination_request_repeats_a_header() {
    let request = TermReq::new(PduType::C2H_TERM_REQ, FatalError::field(4), 300);
    let mut bytes = [0; 24];
    request.encode(&mut bytes);
    #[rustfmt::skip]
    assert_eq!(bytes, [3, 0, 24, 0, 152, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let framing = Framing { header_digest: true, data_digest: true, ..Framing::default() };
    let shape = framing.shape(&request.header, Sender::Controller, 0).unwrap();
    assert_eq!((shape.data, shape.data_digest, shape.data_offset), (128, false, 24));
}

#[test]
fn ends_of_a_connections_start_lie_where_the_standard_says() {
    let mut bytes = [0xff; 128];
    ICReq::new(1, DigestFlags::HEADER, 15).encode(&mut bytes);
    assert_eq!(&bytes[..17], [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 1, 1, 15, 0, 0, 0, 0]);
    ICResp::new(0, DigestFlags::all(), 0x20000).encode(&mut bytes);
    assert_eq!(&bytes[..17], [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 2, 0, 0]);
    let mut bytes = [0xff; 24];
    R2T::new(Framing::default(), 0x0102, 0x0304, 4096, 8192).encode(&mut bytes);
    #[rustfmt::skip]
    assert_eq!(bytes, [9, 0, 24, 0, 24, 0, 0, 0, 2, 1, 4, 3, 0, 16, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0]);
    C2HData::new(Framing::default(), PduFlags::LAST_PDU | PduFlags::SUCCESS, 7, 0, 512).encode(&mut bytes);
    #[rustfmt::skip]
    assert_eq!(bytes, [7, 12, 24, 24, 24, 2, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
}

proptest! {
    #[test]
    fn what_is_framed_is_read_as_it_was(framing in any_framing(), kind in 0usize..3, length in 1u32..1 << 24) {
        let kind = WITH_DATA[kind];
        let header = framing.header(kind, PduFlags::LAST_PDU, length);
        let shape = framing.shape(&header, kind.sender().unwrap(), length).unwrap();
        prop_assert_eq!(shape.data, length as usize);
        prop_assert_eq!(shape.total(), header.plen as usize);
        prop_assert_eq!(shape.data_offset, usize::from(framing.data_offset(kind)));
        let alignment = if kind == PduType::C2H_DATA { framing.hpda } else { framing.cpda };
        prop_assert_eq!(shape.data_offset % alignment.bytes(), 0);
        prop_assert!(shape.data_offset <= 144 && shape.padding() < alignment.bytes());
    }

    #[test]
    fn any_header_is_refused_or_fits_its_length(
        framing in any_framing(), bytes in any::<[u8; 8]>(), host in any::<bool>(), limit in any::<u32>(),
    ) {
        let header = CommonHeader::decode(&bytes);
        let sender = if host { Sender::Host } else { Sender::Controller };
        if let Ok(shape) = framing.shape(&header, sender, limit) {
            prop_assert_eq!(shape.total(), header.plen as usize);
            prop_assert!(shape.data_offset >= shape.digested_header() && shape.data_offset <= 255);
            prop_assert!(shape.data <= limit as usize || shape.data <= MAX_TERM_REQ_DATA);
        }
    }
}
