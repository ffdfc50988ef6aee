//! Any bytes as an NVMe/TCP PDU from either side. The first byte says which digests and alignments were agreed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::nvme::tcp::{
    C2HData, CapsuleCmd, CapsuleResp, CommonHeader, DataAlignment, Framing, H2CData, ICReq, ICResp, PduType,
    R2T, Sender, TermReq,
};

/// Bytes of data that we take.
const LIMIT: u32 = 1 << 20;

macro_rules! again {
    ($type:ty, $bytes:expr) => {
        if let Some(bytes) = $bytes.first_chunk::<{ <$type>::LENGTH }>() {
            let pdu = <$type>::decode(bytes);
            let mut again = [0xaa; <$type>::LENGTH];
            pdu.encode(&mut again);
            assert_eq!(<$type>::decode(&again), pdu);
        }
    };
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let alignment = DataAlignment::new(choice >> 3).unwrap_or_default();
    let framing = Framing {
        header_digest: choice & 1 != 0,
        data_digest: choice & 2 != 0,
        hpda: alignment,
        cpda: alignment,
    };
    let sender = if choice & 4 != 0 { Sender::Host } else { Sender::Controller };
    let Some(first) = bytes.first_chunk() else { return };
    let header = CommonHeader::decode(first);
    let Ok(shape) = framing.shape(&header, sender, LIMIT) else { return };
    assert_eq!(shape.total(), header.plen as usize);
    assert!(shape.digested_header() + shape.padding() == shape.data_offset && shape.data <= LIMIT as usize);
    match header.pdu_type {
        PduType::IC_REQ => again!(ICReq, bytes),
        PduType::IC_RESP => again!(ICResp, bytes),
        PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => again!(TermReq, bytes),
        PduType::CAPSULE_CMD => again!(CapsuleCmd, bytes),
        PduType::CAPSULE_RESP => again!(CapsuleResp, bytes),
        PduType::H2C_DATA => again!(H2CData, bytes),
        PduType::C2H_DATA => again!(C2HData, bytes),
        PduType::R2T => again!(R2T, bytes),
        other => unreachable!("{other:?} has a shape"),
    }
});
