//! Data in capsules, after R2Ts, with digests, and that of fused operations.

use wire::nvme::io::{DatasetAttributes, DatasetManagement, Opcode};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{Command, Fuse, SglDescriptor, Status};

use super::bed::{BLOCK, play_layered_and_bare};
use super::host::Host;

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

/// Bytes that tell from where they are.
fn pattern(salt: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|at| (at / BLOCK) as u8 ^ (at % 251) as u8 ^ salt).collect()
}

#[test]
fn writes_come_back_whatever_way_they_came_with_every_kind_of_digests() {
    for digests in [0, 1, 2, 3].map(DigestFlags::from_bits_retain) {
        play_layered_and_bare(move |bed| async move {
            let (_admin, cntlid) = Host::admin(&bed, 0).await;
            let host = Host::io(&bed, cntlid, digests).await;
            let (small, large) = (pattern(1, 8), pattern(2, 400));
            host.blocks(Opcode::WRITE, 5, &small, true, Fuse::Normal).await;
            assert_eq!(host.completed().await.status, DONE);
            let cid = host.blocks(Opcode::WRITE, 100, &large, false, Fuse::Normal).await;
            let r2t = host.ready().await;
            assert_eq!((r2t.cccid, r2t.r2to, r2t.r2tl as usize), (cid, 0, large.len()));
            let (first, second) = large.split_at(150 * BLOCK);
            host.data(&r2t, 0, first, false, false).await;
            host.data(&r2t, first.len(), second, true, false).await;
            assert_eq!(host.completed().await.status, DONE);
            assert!(host.read(5, 8).await == small && host.read(100, 400).await == large);
        });
    }
}

#[test]
fn data_that_follows_a_damaged_pdu_is_dropped_and_the_connection_lives_on() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::DATA).await;
        let data = pattern(3, 64);
        let (first, rest) = data.split_at(16 * BLOCK);
        let (second, third) = rest.split_at(16 * BLOCK);
        let cid = host.blocks(Opcode::WRITE, 0, &data, false, Fuse::Normal).await;
        let r2t = host.ready().await;
        host.data(&r2t, 0, first, false, true).await;
        host.data(&r2t, first.len(), second, false, false).await;
        host.data(&r2t, first.len() + second.len(), third, true, false).await;
        let completion = host.completed().await;
        assert_eq!((completion.cid, completion.status), (cid, Status::TRANSIENT_TRANSPORT_ERROR));
        assert!(host.read(0, 64).await.iter().all(|byte| *byte == 0), "nothing of it was written");
    });
}

#[test]
fn a_compare_and_write_writes_if_and_only_if_the_blocks_are_equal() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let (old, new, other) = (vec![0; BLOCK * 2], pattern(4, 2), pattern(5, 2));
        for (expected, in_capsule, one, two) in [
            (
                &other,
                true,
                Status::COMPARE_FAILURE.do_not_retry(),
                Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND,
            ),
            (&old, true, DONE, DONE),
            (&new, false, DONE, DONE),
        ] {
            let compare = host.blocks(Opcode::COMPARE, 7, expected, in_capsule, Fuse::First).await;
            let write = host.blocks(Opcode::WRITE, 7, &new, in_capsule, Fuse::Second).await;
            for data in [expected, &new].into_iter().filter(|_| !in_capsule) {
                let r2t = host.ready().await;
                host.data(&r2t, 0, data, true, false).await;
            }
            let (first, second) = (host.completed().await, host.completed().await);
            assert_eq!((first.cid, first.status), (compare, one));
            assert_eq!((second.cid, second.status), (write, two));
            let written = if one == DONE { &new } else { &old };
            assert_eq!(host.read(7, 2).await, *written);
        }
    });
}

#[test]
fn half_a_fused_operation_fails_when_the_next_command_is_another() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let data = pattern(6, 1);
        let compare = host.blocks(Opcode::COMPARE, 7, &data, true, Fuse::First).await;
        host.blocks(Opcode::WRITE, 9, &data, true, Fuse::Normal).await;
        let failed = host.completed().await;
        let missing = Status::COMMAND_ABORTED_DUE_TO_MISSING_FUSED_COMMAND;
        assert_eq!((failed.cid, failed.status), (compare, missing));
        assert_eq!(host.completed().await.status, DONE);
        host.blocks(Opcode::WRITE, 9, &data, true, Fuse::Second).await;
        assert_eq!(host.completed().await.status, missing);
    });
}

#[test]
fn ranges_in_a_whole_page_are_taken_whatever_their_number() {
    play_layered_and_bare(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let data = pattern(7, 8);
        host.blocks(Opcode::WRITE, 0, &data, true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
        let mut page = vec![0; 4096];
        page[4..8].copy_from_slice(&8_u32.to_le_bytes());
        let one = DatasetManagement { nr: 0, attributes: DatasetAttributes::DEALLOCATE };
        let send = async |length: u32| {
            let sgl = SglDescriptor::in_capsule(0, length);
            let command: Command = one.command(host.next_cid(), 1, sgl);
            host.capsule(command, &page).await;
            host.completed().await.status
        };
        assert_eq!(send(15).await, Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
        assert_eq!(send(4096).await, DONE);
        assert!(host.read(0, 8).await.iter().all(|byte| *byte == 0));
    });
}
