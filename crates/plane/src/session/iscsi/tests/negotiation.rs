//! What was agreed on at login is kept: how data moves, how it is cut, digests.

use wire::iscsi::digest::Crc32c;
use wire::iscsi::frame::BHS_LENGTH;
use wire::iscsi::{
    DataInFlags, InitiatorPdu, NopOut, RESERVED_TAG, RejectReason, SerialNumber, TargetPdu, TextFlags,
    TextRequest,
};

use super::bed::{BLOCK, play};
use super::peer::{Peer, Scsi, next, pattern};

const KIB: usize = 1024;

/// Takes the next R2T, which has to ask for this.
async fn asked(peer: &Peer, offset: usize, length: usize) -> wire::iscsi::R2t {
    let (request, _) = next!(peer, R2t);
    let found = (request.buffer_offset as usize, request.desired_data_transfer_length as usize);
    assert_eq!(found, (offset, length));
    request
}

/// The target refuses what was sent last, and ends the connection.
async fn is_refused(peer: &Peer, words: &str) {
    let last = peer.ends().await;
    assert!(
        matches!(last[..], [TargetPdu::Reject(reject)] if reject.reason == RejectReason::PROTOCOL_ERROR),
        "{last:?}"
    );
    assert!(peer.bed.logs.has(words), "{}", peer.bed.logs.all());
}

#[test]
fn no_initial_r2t_and_immediate_data() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=No ImmediateData=Yes FirstBurstLength=8192").await;
        let data = pattern(1, 16 * KIB);
        let tag = peer.command(&Scsi::write(0, 32).with(&data[..4096]).unsolicited()).await;
        peer.data_out(tag, None, 0, 4096, &data[4096..6144], false).await;
        peer.data_out(tag, None, 1, 6144, &data[6144..8192], true).await;
        let request = asked(&peer, 8192, 8192).await;
        peer.answer(&request, &data).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 32).await, data);
    });
}

#[test]
fn no_initial_r2t_and_no_immediate_data() {
    play(|bed| async move {
        let keys = "InitialR2T=No ImmediateData=No FirstBurstLength=4096";
        let peer = bed.log_in(keys).await;
        let data = pattern(2, 8 * KIB);
        let tag = peer.command(&Scsi::write(0, 16).unsolicited()).await;
        peer.data_out(tag, None, 0, 0, &data[..4096], true).await;
        let request = asked(&peer, 4096, 4096).await;
        peer.answer(&request, &data).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 16).await, data);
        peer.command(&Scsi::write(0, 1).with(&data[..BLOCK])).await;
        is_refused(&peer, "immediate data that was not agreed").await;
    });
}

#[test]
fn initial_r2t_and_immediate_data() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes ImmediateData=Yes FirstBurstLength=4096").await;
        let data = pattern(3, 8 * KIB);
        let tag = peer.command(&Scsi::write(0, 16).with(&data[..2048])).await;
        let request = asked(&peer, 2048, 6144).await;
        peer.answer(&request, &data).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 16).await, data);
        peer.command(&Scsi::write(0, 16).unsolicited()).await;
        is_refused(&peer, "announces data which may only be sent when asked for").await;
    });
}

#[test]
fn initial_r2t_and_no_immediate_data() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes ImmediateData=No").await;
        let data = pattern(4, 8 * KIB);
        let tag = peer.command(&Scsi::write(0, 16)).await;
        let request = asked(&peer, 0, 8192).await;
        peer.answer(&request, &data).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 16).await, data);
        peer.command(&Scsi::write(0, 1).with(&data[..BLOCK])).await;
        is_refused(&peer, "immediate data that was not agreed").await;
    });
}

#[test]
fn immediate_data_has_the_length_of_the_first_burst_at_most() {
    play(|bed| async move {
        let peer = bed.log_in("FirstBurstLength=1024").await;
        let tag = peer.command(&Scsi::write(0, 2).with(&[7; 1024])).await;
        peer.good(tag).await;
        peer.command(&Scsi::write(0, 4).with(&[7; 1536])).await;
        is_refused(&peer, "more immediate data than FirstBurstLength").await;
    });
}

#[test]
fn unsolicited_data_beyond_the_first_burst_ends_the_command_and_not_the_session() {
    play(|bed| async move {
        let peer = bed.log_in("FirstBurstLength=1024").await;
        let tag = peer.command(&Scsi::write(0, 4).with(&[7; 512]).unsolicited()).await;
        peer.data_out(tag, None, 0, 512, &[7; 1024], true).await;
        assert_eq!(peer.sense().await, (0xb, 0x4b), "ABORTED COMMAND, DATA PHASE ERROR");
        assert_eq!(peer.write(8, &[8; BLOCK]).await.status, 0);
        assert_eq!(bed.on_volume(0, 4).await, [0; 4 * BLOCK]);
    });
}

#[test]
fn data_in_a_wrong_place_ends_the_command_and_not_the_session() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes MaxBurstLength=2048").await;
        // DataSN, offset, length, last.
        for (data_sn, offset, length, last) in [
            (1, 0, 2048, true),
            (0, 512, 1536, true),
            (0, 0, 2560, true),
            (0, 0, 1024, true),
            (0, 0, 2048, false),
        ] {
            let tag = peer.command(&Scsi::write(0, 8)).await;
            let request = asked(&peer, 0, 2048).await;
            peer.data_out(tag, Some(&request), data_sn, offset, &vec![7; length], last).await;
            assert_eq!(peer.sense().await, (0xb, 0x4b), "{data_sn} {offset} {length} {last}");
            // What still comes of it is forgotten.
            peer.data_out(tag, Some(&request), data_sn + 1, offset, &[7; 512], true).await;
            peer.is_well().await;
        }
        assert_eq!(bed.on_volume(0, 8).await, [0; 8 * BLOCK]);
    });
}

#[test]
fn r2ts_ask_for_a_burst_each_and_as_many_at_once_as_agreed() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes MaxBurstLength=4096 MaxOutstandingR2T=3").await;
        let data = pattern(5, 18 * KIB);
        let tag = peer.command(&Scsi::write(0, 36)).await;
        let mut due = std::collections::VecDeque::new();
        for number in 0..3 {
            let request = asked(&peer, number * 4096, 4096).await;
            assert_eq!((request.r2t_sn, request.initiator_task_tag), (SerialNumber(number as u32), tag));
            due.push_back(request);
        }
        peer.hears_nothing().await;
        for (number, length) in [(3, 4096), (4, 2048)] {
            peer.answer(&due.pop_front().unwrap(), &data).await;
            let request = asked(&peer, number * 4096, length).await;
            assert_eq!(request.r2t_sn, SerialNumber(number as u32));
            due.push_back(request);
        }
        for request in due {
            peer.answer(&request, &data).await;
        }
        let response = peer.good(tag).await;
        assert_eq!(response.exp_data_sn, SerialNumber(5), "R2Ts sent");
        assert_eq!(bed.on_volume(0, 36).await, data);
    });
}

#[test]
fn one_answer_to_an_r2t_may_come_in_pieces() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let data = pattern(6, 4 * KIB);
        let tag = peer.command(&Scsi::write(0, 8)).await;
        let request = asked(&peer, 0, 4096).await;
        for (data_sn, at) in [0, 700, 1400, 3000].into_iter().enumerate() {
            let end = [700, 1400, 3000, 4096][data_sn];
            peer.data_out(tag, Some(&request), data_sn as u32, at, &data[at..end], end == 4096).await;
        }
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 8).await, data);
    });
}

#[test]
fn data_in_is_cut_by_what_the_initiator_takes_and_by_bursts() {
    play(|bed| async move {
        let peer = bed.log_in("MaxRecvDataSegmentLength=1536 MaxBurstLength=4096").await;
        let data = pattern(7, 10 * KIB);
        peer.write(0, &data).await;
        let tag = peer.command(&Scsi::read(0, 20)).await;
        let (mut at, mut cuts) = (0, Vec::new());
        for data_sn in 0.. {
            let (pdu, bytes) = next!(peer, DataIn);
            assert_eq!((pdu.data_sn, pdu.buffer_offset as usize), (SerialNumber(data_sn), at));
            assert_eq!(bytes, data[at..at + bytes.len()]);
            assert_eq!((pdu.initiator_task_tag, pdu.target_transfer_tag), (tag, RESERVED_TAG));
            at += bytes.len();
            let is_final = pdu.flags.contains(DataInFlags::FINAL);
            assert_eq!(pdu.flags.contains(DataInFlags::STATUS), at == data.len());
            assert_eq!(pdu.residual_count, 0);
            cuts.push((bytes.len(), is_final));
            if at == data.len() {
                break;
            }
        }
        let burst = [(1536, false), (1536, false), (1024, true)];
        assert_eq!(cuts, [&burst[..], &burst, &[(1536, false), (512, true)]].concat());
        peer.hears_nothing().await;
    });
}

#[test]
fn the_initiator_may_declare_anew_how_much_it_takes() {
    play(|bed| async move {
        let peer = bed.log_in("MaxRecvDataSegmentLength=512").await;
        let request = TextRequest {
            flags: TextFlags::FINAL,
            initiator_task_tag: peer.next_tag(),
            target_transfer_tag: RESERVED_TAG,
            cmd_sn: peer.skip_cmd_sn(),
            ..TextRequest::default()
        };
        peer.send(InitiatorPdu::TextRequest(request), b"MaxRecvDataSegmentLength=2048\0").await;
        next!(peer, TextResponse);
        peer.command(&Scsi::read(0, 4)).await;
        assert_eq!(next!(peer, DataIn).1.len(), 2048);
    });
}

#[test]
fn digests_are_made_and_checked_in_both_directions() {
    for keys in ["HeaderDigest=CRC32C", "DataDigest=CRC32C", "HeaderDigest=CRC32C DataDigest=CRC32C"] {
        play(move |bed| async move {
            let peer = bed.log_in(keys).await;
            let data = pattern(8, 6 * KIB);
            assert_eq!(peer.write(3, &data).await.status, 0);
            assert_eq!(peer.read(3, 12).await, data);
            // Padded data.
            peer.ping(b"12345", true).await;
            assert_eq!(next!(peer, NopIn).1, b"12345");
        });
    }
}

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    play(|bed| async move {
        for is_read in [false, true] {
            let peer = bed.log_in("HeaderDigest=CRC32C").await;
            let mut bytes = if is_read {
                peer.encode_command(&Scsi::read(0, 8)).1
            } else {
                peer.encode(InitiatorPdu::NopOut(NopOut::default()), &[])
            };
            bytes[50] ^= 1;
            peer.send_bytes(&bytes).await;
            assert_eq!(peer.ends().await, [], "nothing of such a PDU can be trusted, so nothing is answered");
            assert!(bed.logs.has("the header digest of a PDU is wrong"), "{}", bed.logs.all());
        }
    });
}

#[test]
fn additional_header_segments_are_passed_over_and_their_digest_is_checked() {
    for (keys, words, is_wrong) in [
        ("", 255, false),
        ("HeaderDigest=CRC32C", 3, false),
        ("HeaderDigest=CRC32C", 255, false),
        ("HeaderDigest=CRC32C", 3, true),
    ] {
        play(move |bed| async move {
            let peer = bed.log_in(keys).await;
            peer.is_ready().await;
            let (tag, command) = peer.encode_command(&Scsi::test_unit_ready());
            let mut bytes = command[..BHS_LENGTH].to_vec();
            bytes[4] = words;
            bytes.extend((0..4 * u32::from(words)).map(|at| (at * 7) as u8));
            if !keys.is_empty() {
                let mut crc = Crc32c::new();
                crc.update(&bytes);
                bytes.extend(crc.wire());
            }
            bytes[BHS_LENGTH + 11] ^= u8::from(is_wrong);
            peer.send_bytes(&bytes).await;
            if is_wrong {
                peer.ends().await;
                assert!(bed.logs.has("the header digest of a PDU is wrong"), "{}", bed.logs.all());
            } else {
                peer.good(tag).await;
                peer.is_well().await;
            }
        });
    }
}

#[test]
fn a_wrong_data_digest_is_rejected_and_ends_the_connection() {
    play(|bed| async move {
        let peer = bed.log_in("DataDigest=CRC32C").await;
        let mut bytes = peer.encode(InitiatorPdu::NopOut(NopOut::default()), b"four");
        *bytes.last_mut().unwrap() ^= 1;
        peer.send_bytes(&bytes).await;
        let last = peer.ends().await;
        let expected = RejectReason::DATA_DIGEST_ERROR;
        assert!(matches!(last[..], [TargetPdu::Reject(reject)] if reject.reason == expected), "{last:?}");
        assert!(bed.logs.has("the data digest of a PDU is wrong"), "{}", bed.logs.all());
    });
}

/// A write whose data has come already is done where it was received, any other one is received first.
#[test]
fn a_write_with_a_wrong_data_digest_changes_nothing_however_it_comes() {
    for whole in [true, false] {
        play(move |bed| async move {
            let peer = bed.log_in("DataDigest=CRC32C").await;
            let (old, new) = (pattern(1, 4 * KIB), pattern(2, 4 * KIB));
            peer.command(&Scsi::write(3, 8).with(&old)).await;
            assert_eq!(next!(peer, ScsiResponse).0.status, 0);
            let (_, mut bytes) = peer.encode_command(&Scsi::write(3, 8).with(&new));
            *bytes.last_mut().unwrap() ^= 1;
            let (first, rest) = bytes.split_at(if whole { bytes.len() } else { 100 });
            peer.send_bytes(first).await;
            if !whole {
                bed.pass(std::time::Duration::from_millis(100)).await;
                peer.send_bytes(rest).await;
            }
            let last = peer.ends().await;
            let expected = RejectReason::DATA_DIGEST_ERROR;
            assert!(matches!(last[..], [TargetPdu::Reject(reject)] if reject.reason == expected), "{last:?}");
            assert_eq!(bed.log_in("").await.read(3, 8).await, old, "{whole}");
        });
    }
}

#[test]
fn a_pdu_with_more_data_than_was_agreed_is_rejected_and_ends_the_connection() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let mut bytes = peer.encode(InitiatorPdu::NopOut(NopOut::default()), &[]);
        Peer::with_length(&mut bytes, crate::limits::RECEIVE_DATA_SEGMENT_BYTES + 1);
        peer.send_bytes(&bytes).await;
        let last = peer.ends().await;
        let expected = RejectReason::INVALID_PDU_FIELD;
        assert!(matches!(last[..], [TargetPdu::Reject(reject)] if reject.reason == expected), "{last:?}");
    });
}
