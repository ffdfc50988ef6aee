//! PDU by PDU: alignment of data, what an H2CData may be, and what ends a connection with which words.

use wire::nvme::fabrics::Connect;
use wire::nvme::io::{BlockRange, Opcode};
use wire::nvme::tcp::{
    C2HData, CapsuleCmd, DigestFlags, FatalError, FatalStatus, Framing, H2CData, ICReq, PduFlags, PduType,
    R2T, TermReq,
};
use wire::nvme::{Command, CommandFlags, Fuse, SglDescriptor, Status};

use super::bed::{BLOCK, Bed, SUBSYSTEM, play_layered_and_bare};
use super::host::{Host, Received, encoded};
use crate::limits::{NVME_IN_CAPSULE, NVME_MAXH2CDATA};

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

fn pattern(blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|at| (at / BLOCK) as u8 ^ (at % 251) as u8).collect()
}

/// An I/O queue that has been asked for the data of a write of `blocks`.
async fn asked(bed: &Bed, digests: DigestFlags, blocks: usize) -> (Host, Host, R2T) {
    let (admin, cntlid) = Host::admin(bed, 0).await;
    let host = Host::io(bed, cntlid, digests).await;
    host.blocks(Opcode::WRITE, 0, &pattern(blocks), false, Fuse::Normal).await;
    let r2t = host.ready().await;
    (admin, host, r2t)
}

#[test]
fn data_is_aligned_as_each_side_wants_it_with_and_without_digests() {
    for digests in [0, 3].map(DigestFlags::from_bits_retain) {
        for alignment in [0, 1, 7, 31] {
            play_layered_and_bare(move |bed| async move {
                let (_admin, cntlid) = Host::admin(&bed, 0).await;
                let host = Host::open(&bed).await;
                host.initialize(digests, alignment).await;
                host.join(SUBSYSTEM, cntlid, 1).await;
                // The controller asks for no alignment: a host may take more.
                host.align(if alignment == 31 { 17 } else { alignment });
                let data = pattern(16);
                host.blocks(Opcode::WRITE, 0, &data, true, Fuse::Normal).await;
                assert_eq!(host.completed().await.status, DONE);
                host.blocks(Opcode::WRITE, 100, &data, false, Fuse::Normal).await;
                let r2t = host.ready().await;
                host.data(&r2t, 0, &data, true, false).await;
                assert_eq!(host.completed().await.status, DONE);
                // `Host` refuses C2HData that is not aligned; that it is not aligned by chance is looked at here.
                host.blocks(Opcode::READ, 0, &data, false, Fuse::Normal).await;
                let Received::Data(header, got) = host.next().await else { panic!("data was expected") };
                let start = C2HData::LENGTH + if digests.is_empty() { 0 } else { 4 };
                assert_eq!(
                    usize::from(header.header.pdo),
                    start.next_multiple_of((usize::from(alignment) + 1) * 4)
                );
                assert_eq!(got, data);
                assert_eq!(host.completed().await.status, DONE);
                assert_eq!(host.read(100, 16).await, data);
            });
        }
    }
}

#[test]
fn an_h2c_data_of_exactly_the_limit_is_taken_and_one_beyond_it_ends_the_connection() {
    play_layered_and_bare(|bed| async move {
        let blocks = NVME_MAXH2CDATA as usize / BLOCK + 8;
        let (_admin, host, r2t) = asked(&bed, DigestFlags::empty(), blocks).await;
        let data = pattern(blocks);
        let (first, rest) = data.split_at(NVME_MAXH2CDATA as usize);
        host.data(&r2t, 0, first, false, false).await;
        host.data(&r2t, first.len(), rest, true, false).await;
        assert_eq!(host.completed().await.status, DONE);
        assert_eq!(host.read(0, blocks).await, data);
        host.blocks(Opcode::WRITE, 0, &data, false, Fuse::Normal).await;
        let r2t = host.ready().await;
        let framing = Framing::default();
        let beyond = H2CData::new(framing, r2t.cccid, r2t.ttag, 0, NVME_MAXH2CDATA + 4, false);
        host.send(&encoded(|bytes| beyond.encode(bytes))).await;
        assert_eq!(host.next().await, Received::Terminated(FatalError::LIMIT));
        assert_eq!(host.next().await, Received::Closed);
    });
}

#[test]
fn a_wrong_h2c_data_ends_the_connection_and_says_which_field_is_wrong() {
    type Change = fn(&mut H2CData);
    let cases: [(Change, FatalError); 8] = [
        (|pdu| pdu.cccid ^= 1, FatalError::field(8)),
        (|pdu| pdu.ttag ^= 0x55, FatalError::field(10)),
        (|pdu| pdu.datao = 4, FatalError::out_of_range(12)),
        (|pdu| pdu.datal -= 4, FatalError::field(16)),
        (|pdu| pdu.header.flags.remove(PduFlags::LAST_PDU), FatalError::field(1)),
        (|pdu| pdu.header.flags.insert(PduFlags::HEADER_DIGEST), FatalError::field(1)),
        (|pdu| pdu.header.flags.insert(PduFlags::DATA_DIGEST), FatalError::field(1)),
        (|pdu| pdu.header.pdo += 1, FatalError::field(3)),
    ];
    for (change, error) in cases {
        play_layered_and_bare(move |bed| async move {
            let (_admin, host, r2t) = asked(&bed, DigestFlags::empty(), 16).await;
            let mut pdu = H2CData::new(Framing::default(), r2t.cccid, r2t.ttag, 0, 16 * BLOCK as u32, true);
            change(&mut pdu);
            host.send(&encoded(|bytes| pdu.encode(bytes))).await;
            host.send(&pattern(16)).await;
            assert_eq!(host.next().await, Received::Terminated(error));
            assert_eq!(host.next().await, Received::Closed);
        });
    }
}

#[test]
fn more_data_than_was_asked_for_ends_the_connection() {
    play_layered_and_bare(|bed| async move {
        let (_admin, host, r2t) = asked(&bed, DigestFlags::empty(), 16).await;
        host.data(&r2t, 0, &pattern(17), true, false).await;
        assert_eq!(host.next().await, Received::Terminated(FatalError::out_of_range(16)));
    });
}

#[test]
fn a_wrong_header_digest_ends_the_connection_and_is_sent_back() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let read = BlockRange::default().command(Opcode::READ, 9, 1, SglDescriptor::transport(BLOCK as u32));
        let read = Command { flags: CommandFlags::SGL, ..read };
        for command in [wire::nvme::io::command(Opcode::FLUSH, 9, 1), read] {
            let host = Host::io(&bed, cntlid, DigestFlags::HEADER).await;
            let framing = Framing { header_digest: true, ..Framing::default() };
            let pdu = CapsuleCmd::new(framing, command, 0);
            host.send(&[encoded(|bytes| pdu.encode(bytes)), vec![1, 2, 3, 4]].concat()).await;
            let error = FatalError { fes: FatalStatus::HEADER_DIGEST_ERROR, fei: 0x0403_0201 };
            assert_eq!(host.next().await, Received::Terminated(error));
            assert_eq!(host.next().await, Received::Closed);
            bed.pass(std::time::Duration::from_millis(300)).await;
        }
    });
}

#[test]
fn a_capsule_of_exactly_the_limit_is_taken_and_one_beyond_it_changes_nothing() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let blocks = NVME_IN_CAPSULE as usize / BLOCK;
        let data = pattern(blocks);
        host.blocks(Opcode::WRITE, 0, &data, true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
        host.blocks(Opcode::WRITE, 0, &vec![0; (blocks + 1) * BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.next().await, Received::Terminated(FatalError::field(4)));
        assert_eq!(host.next().await, Received::Closed);
        bed.pass(std::time::Duration::from_millis(300)).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        assert_eq!(host.read(0, blocks).await, data);
    });
}

#[test]
fn what_stands_right_behind_a_large_write_is_taken_from_where_that_ends() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let (lengths, data) = ([384, 1, 500, 7, 300, 512], pattern(1704));
        let (mut stream, mut lba) = (Vec::new(), 0);
        for blocks in lengths {
            let data = &data[lba * BLOCK..][..blocks * BLOCK];
            let command = host.command(Opcode::WRITE, lba as u64, data.len(), true, Fuse::Normal);
            stream.extend(host.encode_capsule(command, data));
            lba += blocks;
        }
        host.send(&stream).await;
        for blocks in lengths {
            assert_eq!(host.completed().await.status, DONE, "a write of {blocks}");
        }
        assert!(host.read(0, lba).await == data);
    });
}

#[test]
fn a_pdu_that_is_not_for_this_moment_or_this_side_ends_the_connection() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let again = encoded(|bytes| ICReq::new(0, DigestFlags::empty(), 0).encode(bytes));
        let mut answer = vec![5, 0, 24, 0, 24, 0, 0, 0];
        answer.resize(24, 0);
        let large = {
            let mut bytes = vec![4, 0, 72, 72];
            bytes.extend_from_slice(&(72 + NVME_IN_CAPSULE + 4).to_le_bytes());
            bytes
        };
        // A TLS handshake record: type 16h.
        let tls = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        for (bytes, error) in [
            (again, FatalError::SEQUENCE),
            (answer, FatalError::field(0)),
            (large, FatalError::field(4)),
            (tls, FatalError::field(0)),
            (vec![4, 0, 71, 0, 72, 0, 0, 0], FatalError::field(2)),
            (vec![4, 0, 72, 0, 71, 0, 0, 0], FatalError::field(4)),
        ] {
            let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
            host.send(&bytes).await;
            assert_eq!(host.next().await, Received::Terminated(error), "{bytes:x?}");
            assert_eq!(host.next().await, Received::Closed);
            bed.pass(std::time::Duration::from_millis(300)).await;
        }
    });
}

#[test]
fn a_host_that_terminates_is_not_answered() {
    play_layered_and_bare(|bed| async move {
        let (_admin, host, _) = asked(&bed, DigestFlags::empty(), 16).await;
        let error = FatalError::out_of_range(12);
        host.send(&encoded(|bytes| TermReq::new(PduType::H2C_TERM_REQ, error, 0).encode(bytes))).await;
        assert_eq!(host.next().await, Received::Closed);
        bed.pass(std::time::Duration::from_secs(1)).await;
        assert!(bed.logs.has("the host ended the connection"), "{}", bed.logs.all());
    });
}

#[test]
fn without_flow_control_a_read_ends_with_its_last_data() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        let cattr = wire::nvme::fabrics::ConnectAttributes::DISABLE_SQ_FLOW_CONTROL;
        let completion =
            host.connect(Connect { qid: 1, sqsize: 127, cattr, ..Connect::default() }, cntlid).await;
        assert_eq!((completion.status, completion.sqhd), (DONE, u16::MAX));
        let data = pattern(3 << 11);
        for (at, part) in data.chunks(8 << 20).enumerate() {
            host.blocks(Opcode::WRITE, (at << 14) as u64, part, false, Fuse::Normal).await;
            let r2t = host.ready().await;
            let last = part.len() / (1 << 20) - 1;
            for (index, piece) in part.chunks(1 << 20).enumerate() {
                host.data(&r2t, index << 20, piece, index == last, false).await;
            }
            assert_eq!(host.completed().await.status, DONE, "what has no data has a completion");
        }
        host.blocks(Opcode::READ, 0, &data, false, Fuse::Normal).await;
        let mut got = Vec::new();
        while got.len() < data.len() {
            let Received::Data(header, part) = host.next().await else { panic!("data was expected") };
            got.extend_from_slice(&part);
            let last = got.len() == data.len();
            assert_eq!(header.header.flags.contains(PduFlags::SUCCESS | PduFlags::LAST_PDU), last);
            assert_eq!(header.header.flags.intersects(PduFlags::SUCCESS | PduFlags::LAST_PDU), last);
        }
        assert_eq!(got, data);
        host.is_silent(std::time::Duration::from_secs(1)).await;
        // One that fails has one.
        host.blocks(Opcode::READ, u64::from(u32::MAX), &data[..BLOCK], false, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, Status::LBA_OUT_OF_RANGE.do_not_retry());
    });
}
