//! Copy, Write Zeroes, Abort, halves of fused operations, and the durability of writes.

use std::time::Duration;

use wire::nvme::admin::features::{Feature, SetFeatures};
use wire::nvme::admin::identify::{Cns, Identify, IdentifyController, VolatileWriteCacheAttributes};
use wire::nvme::admin::{Abort, asynchronous_event_request, keep_alive};
use wire::nvme::fabrics::ControllerConfiguration;
use wire::nvme::io::{BlockRange, Copy, CopyRange, Opcode, RangeFlags, command};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{Command, Fuse, SglDescriptor, SglKind, Status};

use super::bed::{BLOCK, BLOCKS, Bed, play, play_with_file};
use super::host::{Host, encoded};

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

fn pattern(salt: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|at| (at / BLOCK) as u8 ^ (at % 251) as u8 ^ salt).collect()
}

async fn queue(bed: &Bed) -> (Host, Host) {
    let (admin, cntlid) = Host::admin(bed, 0).await;
    let host = Host::io(bed, cntlid, DigestFlags::empty()).await;
    (admin, host)
}

async fn copy(host: &Host, command: Copy, ranges: &[CopyRange]) -> Status {
    let data: Vec<u8> = ranges.iter().flat_map(|range| encoded(|bytes| range.encode(bytes))).collect();
    let sgl = SglDescriptor::in_capsule(0, data.len() as u32);
    host.capsule(command.command(host.next_cid(), 1, sgl), &data).await;
    host.completed().await.status
}

fn range(slba: u64, nlb: u16) -> CopyRange {
    CopyRange { slba, nlb, ..CopyRange::default() }
}

#[test]
fn ranges_are_copied_in_their_order_and_other_formats_are_refused() {
    play(|bed| async move {
        let (_admin, host) = queue(&bed).await;
        let data = pattern(1, 16);
        host.blocks(Opcode::WRITE, 0, &data, true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
        let to = |sdlba, nr| Copy { sdlba, nr, ..Copy::default() };
        assert_eq!(copy(&host, to(1000, 2), &[range(8, 7), range(0, 3), range(4, 3)]).await, DONE);
        let found = host.read(1000, 16).await;
        assert_eq!((&found[..8 * BLOCK], &found[8 * BLOCK..]), (&data[8 * BLOCK..], &data[..8 * BLOCK]));
        for desfmt in 1..16 {
            let status = copy(&host, Copy { desfmt, ..to(1000, 0) }, &[range(0, 0)]).await;
            assert_eq!(status, Status::INVALID_FIELD_IN_COMMAND.do_not_retry(), "format {desfmt}");
        }
        for (command, ranges, status) in [
            (to(1000, 1), vec![range(0, 0)], Status::DATA_SGL_LENGTH_INVALID),
            (to(1000, 0), vec![range(BLOCKS, 0)], Status::LBA_OUT_OF_RANGE),
            (to(BLOCKS, 0), vec![range(0, 0)], Status::LBA_OUT_OF_RANGE),
            (to(4, 0), vec![range(0, 7)], Status::OVERLAPPING_I_O_RANGE),
        ] {
            assert_eq!(copy(&host, command, &ranges).await, status.do_not_retry());
        }
        assert_eq!(host.read(0, 16).await, data, "what was refused has changed nothing");
    });
}

#[test]
fn zeroes_are_written_with_and_without_deallocation() {
    play(|bed| async move {
        let (_admin, host) = queue(&bed).await;
        for flags in [RangeFlags::empty(), RangeFlags::DEALLOCATE, RangeFlags::FORCE_UNIT_ACCESS] {
            host.blocks(Opcode::WRITE, 0, &pattern(3, 16), true, Fuse::Normal).await;
            assert_eq!(host.completed().await.status, DONE);
            let zeroes = BlockRange { slba: 4, nlb: 7, flags, ..BlockRange::default() };
            let command = zeroes.command(Opcode::WRITE_ZEROES, 0, 1, SglDescriptor::NOTHING);
            assert_eq!(host.ask(command).await.status, DONE);
            let mut expected = pattern(3, 16);
            expected[4 * BLOCK..12 * BLOCK].fill(0);
            assert_eq!(host.read(0, 16).await, expected);
        }
    });
}

#[test]
fn what_was_acknowledged_with_fua_or_a_flush_or_without_the_cache_survives_a_power_cut() {
    play_with_file(|bed| async move {
        let (admin, host) = queue(&bed).await;
        let controller = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
        let page = admin.fetch(controller.command(0)).await.unwrap();
        let vwc = IdentifyController::decode(page.first_chunk().unwrap()).vwc;
        assert!(vwc.contains(VolatileWriteCacheAttributes::PRESENT), "a file has a cache, and it is said");
        // Blocks of pages of their own.
        let write = async |slba: u64, flags| {
            let sgl = SglDescriptor::in_capsule(0, BLOCK as u32);
            let range = BlockRange { slba, flags, ..BlockRange::default() };
            host.capsule(range.command(Opcode::WRITE, host.next_cid(), 1, sgl), &[slba as u8; BLOCK]).await;
            assert_eq!(host.completed().await.status, DONE);
        };
        let zeroes = async |slba, flags| {
            let range = BlockRange { slba, nlb: 7, flags, ..BlockRange::default() };
            let command = range.command(Opcode::WRITE_ZEROES, 0, 1, SglDescriptor::NOTHING);
            assert_eq!(host.ask(command).await.status, DONE);
        };
        write(16, RangeFlags::empty()).await;
        write(40, RangeFlags::empty()).await;
        assert_eq!(host.ask(command(Opcode::FLUSH, 0, 1)).await.status, DONE);
        write(8, RangeFlags::FORCE_UNIT_ACCESS).await;
        zeroes(40, RangeFlags::FORCE_UNIT_ACCESS).await;
        let feature = Feature::VOLATILE_WRITE_CACHE;
        let off = SetFeatures { feature, value: 0, ..SetFeatures::default() };
        assert_eq!(admin.ask(off.command(0, SglDescriptor::NOTHING)).await.status, DONE);
        write(24, RangeFlags::empty()).await;
        let lost = (0..64).map(|block| 1024 + block * 8).collect::<Vec<u64>>();
        let on = SetFeatures { value: 1, ..off };
        assert_eq!(admin.ask(on.command(0, SglDescriptor::NOTHING)).await.status, DONE);
        for lba in &lost {
            write(*lba, RangeFlags::empty()).await;
        }
        bed.power_cut();
        for lba in [8, 16, 24] {
            assert_eq!(bed.block(lba), [lba as u8; BLOCK], "block {lba}");
        }
        assert_eq!(bed.block(40), [0; BLOCK]);
        let kept = lost.iter().filter(|lba| bed.block(**lba) == [**lba as u8; BLOCK]).count();
        assert!(kept < lost.len(), "the power cut loses what was not flushed");
    });
}

#[test]
fn an_abort_of_what_is_with_the_disk_waits_for_it_and_says_so_when_that_takes_too_long() {
    play_with_file(|bed| async move {
        let (admin, host) = queue(&bed).await;
        bed.stall();
        let cid = host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
        bed.pass(Duration::from_millis(100)).await;
        let before = bed.ring.now();
        admin.capsule(Abort { sqid: 1, cid }.command(admin.next_cid()), &[]).await;
        let completion = match admin.next_within(Duration::from_secs(15)).await {
            super::host::Received::Completed(completion) => completion,
            other => panic!("{other:?}"),
        };
        assert_eq!(completion.result, Abort::result(false), "it is not aborted");
        assert!(bed.ring.now().since(before) >= Duration::from_secs(10));
        admin.capsule(Abort { sqid: 1, cid }.command(admin.next_cid()), &[]).await;
        admin.is_silent(Duration::from_secs(1)).await;
        bed.release();
        // First the command, then the word that it is aborted: nothing of it comes later.
        let ended = host.completed().await;
        assert_eq!((ended.cid, ended.status), (cid, Status::COMMAND_ABORT_REQUESTED));
        assert_eq!(admin.completed().await.result, Abort::result(true));
    });
}

#[test]
fn a_command_that_was_said_not_to_be_aborted_ends_as_it_would_have() {
    play_with_file(|bed| async move {
        let (admin, host) = queue(&bed).await;
        bed.stall();
        let cid = host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
        bed.pass(Duration::from_millis(100)).await;
        admin.capsule(Abort { sqid: 1, cid }.command(admin.next_cid()), &[]).await;
        let completion = match admin.next_within(Duration::from_secs(15)).await {
            super::host::Received::Completed(completion) => completion,
            other => panic!("{other:?}"),
        };
        assert_eq!(completion.result, Abort::result(false), "it is not aborted");
        bed.release();
        let ended = host.completed().await;
        assert_eq!((ended.cid, ended.status), (cid, DONE));
    });
}

#[test]
fn an_aborted_half_takes_the_other_half_with_it() {
    play(|bed| async move {
        let failed = Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND;
        let requested = Status::COMMAND_ABORT_REQUESTED;
        for first in [true, false] {
            let (admin, host) = queue(&bed).await;
            let data = vec![0; 64 * BLOCK];
            let one = host.blocks(Opcode::COMPARE, 0, &data, false, Fuse::First).await;
            let two = host.blocks(Opcode::WRITE, 0, &data, false, Fuse::Second).await;
            host.ready().await;
            host.ready().await;
            let (aborted, other) = if first { (one, two) } else { (two, one) };
            admin.capsule(Abort { sqid: 1, cid: aborted }.command(admin.next_cid()), &[]).await;
            assert_eq!(admin.completed().await.result, Abort::result(true));
            let mut ends = [host.completed().await, host.completed().await].map(|end| (end.cid, end.status));
            ends.sort_unstable_by_key(|(cid, _)| *cid != aborted);
            assert_eq!(ends, [(aborted, requested), (other, failed)]);
            assert_eq!(host.read(0, 1).await, [0; BLOCK], "the queue goes on");
        }
    });
}

#[test]
fn a_first_half_alone_waits_and_can_be_aborted_and_a_second_alone_fails() {
    play(|bed| async move {
        let (admin, host) = queue(&bed).await;
        let missing = Status::COMMAND_ABORTED_DUE_TO_MISSING_FUSED_COMMAND;
        let cid = host.blocks(Opcode::COMPARE, 0, &[0; BLOCK], true, Fuse::First).await;
        host.is_silent(Duration::from_secs(2)).await;
        admin.capsule(Abort { sqid: 1, cid }.command(admin.next_cid()), &[]).await;
        assert_eq!(admin.completed().await.result, Abort::result(true));
        assert_eq!(host.completed().await.status, Status::COMMAND_ABORT_REQUESTED);
        host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::Second).await;
        assert_eq!(host.completed().await.status, missing);
        // Two firsts: the one before fails, the second pair is carried out.
        let lost = host.blocks(Opcode::COMPARE, 0, &[0; BLOCK], true, Fuse::First).await;
        host.blocks(Opcode::COMPARE, 0, &[0; BLOCK], true, Fuse::First).await;
        let end = host.completed().await;
        assert_eq!((end.cid, end.status), (lost, missing));
        host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::Second).await;
        assert_eq!((host.completed().await.status, host.completed().await.status), (DONE, DONE));
        // Other commands cannot be fused, and other blocks are no pair.
        host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::First).await;
        assert_eq!(host.completed().await.status, Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
        host.blocks(Opcode::COMPARE, 0, &[1; BLOCK], true, Fuse::First).await;
        host.blocks(Opcode::WRITE, 1, &[2; BLOCK], true, Fuse::Second).await;
        assert_eq!(host.completed().await.status, Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
        assert_eq!(host.completed().await.status, Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND);
        assert_eq!(host.read(1, 1).await, [0; BLOCK]);
    });
}

#[test]
fn a_damaged_second_half_fails_the_first_at_once() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::DATA).await;
        host.blocks(Opcode::COMPARE, 0, &[0; BLOCK], true, Fuse::First).await;
        host.spoil_next();
        host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::Second).await;
        assert_eq!(host.completed().await.status, Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND);
        assert_eq!(host.completed().await.status, Status::TRANSIENT_TRANSPORT_ERROR);
        assert_eq!(host.read(0, 1).await, [0; BLOCK]);
    });
}

#[test]
fn an_identifier_that_is_in_use_is_refused() {
    play_with_file(|bed| async move {
        let (admin, host) = queue(&bed).await;
        admin.capsule(asynchronous_event_request(77), &[]).await;
        bed.stall();
        let cid = host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::Normal).await;
        let again = Command { cid, ..command(Opcode::FLUSH, cid, 1) };
        host.capsule(again, &[]).await;
        assert_eq!(host.completed().await.status, Status::COMMAND_ID_CONFLICT);
        let in_flight = async || {
            let portals = bed.visitors().await.crowd.ledger.portals;
            portals.iter().map(|portal| portal.in_flight).sum::<u64>()
        };
        assert_eq!(in_flight().await, 1, "neither the one that was refused nor what waits for events");
        bed.release();
        assert_eq!(host.completed().await.status, DONE);
        assert_eq!(in_flight().await, 0);
    });
}

#[test]
fn keep_alive_is_done_at_once_where_it_would_be_done_at_all() {
    play(|bed| async move {
        let (admin, _) = Host::admin(&bed, 0).await;
        assert_eq!(admin.ask(keep_alive(0)).await.status, DONE);
        admin.capsule(asynchronous_event_request(77), &[]).await;
        admin.capsule(keep_alive(77), &[]).await;
        assert_eq!(admin.completed().await.status, Status::COMMAND_ID_CONFLICT);
        let sgl = SglDescriptor { kind: SglKind(0x40), ..keep_alive(0).sgl };
        let strange = admin.ask(Command { sgl, ..keep_alive(0) }).await.status;
        assert_eq!(strange, Status::SGL_DESCRIPTOR_TYPE_INVALID.do_not_retry());
        assert_eq!(admin.ask(keep_alive(0)).await.status, DONE);
        let (admin, _) = Host::admin(&bed, 0).await;
        admin.set_configuration(ControllerConfiguration::ENABLED.with_en(0)).await;
        admin.until_status(0, Duration::from_secs(1)).await;
        assert_eq!(admin.ask(keep_alive(0)).await.status, Status::COMMAND_SEQUENCE_ERROR);
    });
}
