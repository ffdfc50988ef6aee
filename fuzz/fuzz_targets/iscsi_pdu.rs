//! Any bytes as a PDU: lengths, additional headers and the headers of both directions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::iscsi::frame::{self, AdditionalHeaders, BHS_LENGTH, Framing};
use wire::iscsi::{InitiatorPdu, TargetPdu};

fuzz_target!(|data: &[u8]| {
    let Some((bhs, rest)) = data.split_first_chunk::<BHS_LENGTH>() else { return };
    let framing = Framing { header_digest: true, data_digest: true };
    assert!(framing.total_length(bhs) >= BHS_LENGTH + frame::ahs_length(bhs));
    let ahs = &rest[..rest.len().min(frame::ahs_length(bhs))];
    assert!(AdditionalHeaders::new(ahs).count() <= ahs.len() / 3 + 1);
    let mut again = [0xaa; BHS_LENGTH];
    if let Ok(pdu) = InitiatorPdu::decode(bhs) {
        pdu.encode(&mut again);
        assert_eq!(InitiatorPdu::decode(&again), Ok(pdu));
    }
    if let Ok(pdu) = TargetPdu::decode(bhs) {
        pdu.encode(&mut again);
        assert_eq!(TargetPdu::decode(&again), Ok(pdu));
    }
});
