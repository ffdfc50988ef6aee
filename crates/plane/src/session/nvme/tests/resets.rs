//! Resets, shutdowns and ends while the disk stands still, and queues of an earlier life of a controller.

use std::time::Duration;

use wire::nvme::admin::Abort;
use wire::nvme::fabrics::{
    Connect, ConnectData, ControllerConfiguration, Property, PropertySet, PropertySize, Shutdown,
};
use wire::nvme::io::{Copy, CopyRange, Opcode, command};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{Fuse, SglDescriptor, Status};

use super::bed::{BLOCK, SUBSYSTEM, play, play_with_file, play_within};
use super::host::{Host, Received, encoded, identity};
use crate::volume::Limits;

const ENABLED: ControllerConfiguration = ControllerConfiguration::ENABLED;
const DONE: Status = Status::SUCCESSFUL_COMPLETION;

#[test]
fn a_reset_that_waits_for_a_stalled_disk_says_so_and_never_that_it_is_done() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        bed.stall();
        host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
        bed.pass(Duration::from_millis(100)).await;
        admin.set_configuration(ENABLED.with_en(0)).await;
        assert_eq!(host.next().await, Received::Closed);
        let before = bed.ring.now();
        while bed.ring.now().since(before) < Duration::from_secs(19) {
            assert_eq!(admin.property(Property::CSTS).await, 1, "neither ready for more nor failed");
            bed.pass(Duration::from_millis(500)).await;
        }
        admin.until_status(0b11, Duration::from_secs(3)).await;
        assert!(bed.logs.has("cannot be reset"), "{}", bed.logs.all());
        // It cannot be enabled meanwhile.
        let set = PropertySet { size: PropertySize::FOUR, offset: Property::CC, value: ENABLED.0.into() };
        assert_eq!(admin.ask(set.command(0)).await.status, Status::COMMAND_SEQUENCE_ERROR);
        assert_eq!(admin.property(Property::CC).await, u64::from(ENABLED.with_en(0).0));
        bed.pass(Duration::from_secs(60)).await;
        assert_eq!(admin.property(Property::CSTS).await, 0b11, "it is never said to be disabled");
        bed.release();
        admin.until_status(0, Duration::from_secs(1)).await;
        admin.set_configuration(ENABLED).await;
        admin.until_status(1, Duration::from_secs(1)).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let found = host.read(0, 1).await;
        assert!(found == [0xa5; BLOCK] || found == [0; BLOCK]);
    });
}

#[test]
fn a_reset_does_not_wait_for_what_waits_within_a_limit() {
    let limits = Limits { iops: Some(1), bytes_per_second: None };
    play_within(limits, |bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        for lba in 0..60 {
            host.blocks(Opcode::WRITE, lba, &[0xa5; BLOCK], true, Fuse::Normal).await;
        }
        bed.pass(Duration::from_millis(100)).await;
        admin.set_configuration(ENABLED.with_en(0)).await;
        admin.until_status(0, Duration::from_secs(2)).await;
        admin.set_configuration(ENABLED).await;
        admin.until_status(1, Duration::from_secs(1)).await;
        // What was not carried out does not count, and never comes.
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let before = bed.ring.now();
        assert_eq!(host.read(50, 1).await, [0; BLOCK]);
        bed.pass(Duration::from_secs(60)).await;
        assert_eq!(host.read(50, 1).await, [0; BLOCK]);
        assert!(bed.ring.now().since(before) < Duration::from_secs(70));
        assert!(!bed.logs.has("failed"), "{}", bed.logs.all());
    });
}

#[test]
fn what_waits_within_a_limit_is_aborted_at_once() {
    let limits = Limits { iops: Some(1), bytes_per_second: None };
    play_within(limits, |bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let mut cids = Vec::new();
        for lba in 0..30 {
            cids.push(host.blocks(Opcode::WRITE, lba, &[0xa5; BLOCK], true, Fuse::Normal).await);
        }
        bed.pass(Duration::from_millis(100)).await;
        admin.capsule(Abort { sqid: 1, cid: cids[29] }.command(admin.next_cid()), &[]).await;
        assert_eq!(admin.completed().await.result, Abort::result(true));
        loop {
            let ended = host.completed().await;
            if ended.cid == cids[29] {
                assert_eq!(ended.status, Status::COMMAND_ABORT_REQUESTED);
                break;
            }
            assert_eq!(ended.status, DONE);
        }
    });
}

#[test]
fn a_controller_is_not_enabled_in_the_moment_of_its_reset() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        for _ in 0..5 {
            let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
            bed.stall();
            host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
            bed.pass(Duration::from_millis(100)).await;
            // Both come together, so that the second one is looked at before the reset has done anything.
            let both = [ENABLED.with_en(0), ENABLED].map(|value| {
                let value = value.0.into();
                let set = PropertySet { size: PropertySize::FOUR, offset: Property::CC, value };
                admin.encode_capsule(set.command(admin.next_cid()), &[])
            });
            admin.send(&both.concat()).await;
            assert_eq!(admin.completed().await.status, DONE);
            assert_eq!(admin.completed().await.status, Status::COMMAND_SEQUENCE_ERROR);
            bed.release();
            admin.until_status(0, Duration::from_secs(1)).await;
            admin.set_configuration(ENABLED).await;
            admin.until_status(1, Duration::from_secs(1)).await;
        }
    });
}

#[test]
fn a_shutdown_is_complete_only_when_everything_is_durable() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
        bed.stall();
        admin.set_configuration(ENABLED.with_shn(Shutdown::Normal as u32)).await;
        assert_eq!(host.next().await, Received::Closed);
        assert_eq!(admin.property(Property::CSTS).await, 0b0101, "the shutdown is under way");
        admin.until_status(0b0111, Duration::from_secs(25)).await;
        bed.release();
        admin.until_status(0b1011, Duration::from_secs(1)).await;
        // A reset makes it usable again.
        admin.set_configuration(ENABLED.with_en(0)).await;
        admin.until_status(0, Duration::from_secs(1)).await;
        admin.set_configuration(ENABLED).await;
        assert_eq!(Host::io(&bed, cntlid, DigestFlags::empty()).await.read(0, 1).await, [0xa5; BLOCK]);
    });
}

#[test]
fn a_shutdown_whose_flush_fails_is_never_complete() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
        bed.fail_flushes();
        admin.set_configuration(ENABLED.with_shn(Shutdown::Normal as u32)).await;
        admin.until_status(0b0111, Duration::from_secs(1)).await;
        bed.pass(Duration::from_secs(60)).await;
        assert_eq!(admin.property(Property::CSTS).await, 0b0111, "a fatal status, and still under way");
        assert!(bed.logs.has("the flush of a shutdown failed"), "{}", bed.logs.all());
    });
}

#[test]
fn an_orderly_shutdown_and_disconnect_is_nothing_to_warn_of() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 5000).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
        admin.set_configuration(ENABLED.with_shn(Shutdown::Normal as u32)).await;
        admin.until_status(0b1001, Duration::from_secs(1)).await;
        assert_eq!(host.next().await, Received::Closed);
        drop((admin, host));
        bed.pass(Duration::from_secs(1)).await;
        assert!(!bed.logs.warned(), "{}", bed.logs.all());
        // What is not orderly is said.
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        host.send(&[4, 0, 72]).await;
        drop(host);
        bed.pass(Duration::from_secs(1)).await;
        assert!(bed.logs.warned(), "{}", bed.logs.all());
    });
}

#[test]
fn a_lost_controller_whose_write_is_stuck_keeps_its_place_until_it_ends() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        bed.stall();
        host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
        bed.pass(Duration::from_millis(100)).await;
        drop((admin, host));
        bed.pass(Duration::from_secs(100)).await;
        assert_eq!(bed.controllers(), 1);
        assert!(bed.logs.has("cannot be ended"), "{}", bed.logs.all());
        let (again, other) = Host::admin(&bed, 0).await;
        assert_ne!(cntlid, other);
        drop(again);
        bed.release();
        bed.pass(Duration::from_secs(2)).await;
        assert_eq!(bed.controllers(), 0);
    });
}

#[test]
fn a_long_command_ends_soon_after_its_queue() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        // The last block of what is copied in many steps.
        host.blocks(Opcode::WRITE, 0x3fff, &[0xa5; BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
        let range = CopyRange { slba: 0, nlb: 0x3fff, ..CopyRange::default() };
        let copy = Copy { sdlba: 0x8000, ..Copy::default() };
        let sgl = SglDescriptor::in_capsule(0, 32);
        bed.stall();
        host.capsule(copy.command(9, 1, sgl), &encoded(|bytes| range.encode(bytes))).await;
        bed.pass(Duration::from_millis(100)).await;
        admin.set_configuration(ENABLED.with_en(0)).await;
        bed.pass(Duration::from_millis(100)).await;
        bed.release();
        admin.until_status(0, Duration::from_secs(2)).await;
        admin.set_configuration(ENABLED).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        assert_eq!(host.read(0x8000 + 0x3fff, 1).await, [0; BLOCK], "it went on to its end");
    });
}

#[test]
fn a_queue_of_an_earlier_life_never_comes_back() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        for _ in 0..20 {
            let old = Host::io(&bed, cntlid, DigestFlags::empty()).await;
            // A Connect, a write and a reset cross each other.
            let late = Host::initialized(&bed, DigestFlags::empty()).await;
            let connect = Connect { qid: 2, sqsize: 31, ..Connect::default() };
            let data = ConnectData { cntlid, ..identity(SUBSYSTEM) };
            late.capsule(connect.command(1), &encoded(|bytes| data.encode(bytes))).await;
            old.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
            admin.set_configuration(ENABLED.with_en(0)).await;
            admin.until_status(0, Duration::from_secs(5)).await;
            admin.set_configuration(ENABLED).await;
            while !matches!(old.next().await, Received::Closed) {}
            while !matches!(late.next().await, Received::Closed) {
                // It was let in and then ended, or refused.
            }
            // Both numbers are free, and what is written now stays.
            let new = Host::io(&bed, cntlid, DigestFlags::empty()).await;
            new.blocks(Opcode::WRITE, 0, &[0x5a; BLOCK], true, Fuse::Normal).await;
            assert_eq!(new.completed().await.status, DONE);
            let second = Host::initialized(&bed, DigestFlags::empty()).await;
            second.join(SUBSYSTEM, cntlid, 2).await;
            assert_eq!(second.read(0, 1).await, [0x5a; BLOCK]);
            admin.set_configuration(ENABLED.with_en(0)).await;
            admin.until_status(0, Duration::from_secs(5)).await;
            admin.set_configuration(ENABLED).await;
        }
    });
}

#[test]
fn a_queue_of_an_earlier_life_is_refused_whatever_it_sends() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        assert_eq!(host.ask(command(Opcode::FLUSH, 0, 1)).await.status, DONE);
        // As if its end were late.
        let link = bed.cores[0].nvme.node().find(cntlid).unwrap();
        link.end_life();
        link.begin_life();
        assert_eq!(host.ask(command(Opcode::FLUSH, 0, 1)).await.status, Status::COMMAND_SEQUENCE_ERROR);
    });
}

#[test]
fn a_queue_that_ends_late_leaves_the_next_one_of_its_number_alone() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let queue = || {
            let at = |core: &crate::core::Core| core.nvme.queues().into_iter().next();
            let found = bed.cores.iter().enumerate().find_map(|(index, core)| Some((index, at(core)?)));
            found.expect("a queue")
        };
        let _first = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let (place, old) = queue();
        admin.set_configuration(ENABLED.with_en(0)).await;
        admin.until_status(0, Duration::from_secs(1)).await;
        admin.set_configuration(ENABLED).await;
        // Connections go to the two cores in turn.
        let turn = Host::open(&bed).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let new = queue().1;
        assert!(queue().0 == place && !std::rc::Rc::ptr_eq(&old, &new));
        bed.cores[place].nvme.remove(&old).await;
        bed.pass(Duration::from_millis(100)).await;
        assert_eq!(bed.cores[place].nvme.queues().len(), 1, "it took the other one with it");
        let again = Host::initialized(&bed, DigestFlags::empty()).await;
        let completion = again.connect(Connect { qid: 1, sqsize: 31, ..Connect::default() }, cntlid).await;
        assert_eq!(
            completion.status,
            Status::CONNECT_INVALID_PARAMETERS.do_not_retry(),
            "its number is taken"
        );
        drop((turn, host));
    });
}

#[test]
fn the_number_of_a_queue_whose_connect_is_given_up_is_free_again() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        for core in bed.cores.iter() {
            let data = ConnectData { cntlid, ..identity(SUBSYSTEM) };
            let connect = Connect { qid: 1, sqsize: 31, ..Connect::default() };
            let claim = core.nvme.find_controller(&connect, &data).await;
            assert!(claim.is_ok(), "it is let in");
            let refused = core.nvme.find_controller(&connect, &data).await;
            assert!(refused.is_err(), "one number is for one queue");
            drop(claim);
            bed.pass(Duration::from_millis(100)).await;
            let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
            assert_eq!(host.ask(command(Opcode::FLUSH, 0, 1)).await.status, DONE);
            drop(host);
            bed.pass(Duration::from_millis(500)).await;
        }
    });
}
