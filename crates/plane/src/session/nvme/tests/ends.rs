//! Aborts, resets, silence, and connections that end at any moment.

use std::time::Duration;

use wire::nvme::admin::features::{Feature, SetFeatures};
use wire::nvme::admin::{Abort, keep_alive};
use wire::nvme::fabrics::{ControllerConfiguration, Property};
use wire::nvme::io::Opcode;
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{Fuse, SglDescriptor, Status};

use super::bed::{BLOCK, SUBSYSTEM, play, play_with_file};
use super::host::{Host, Received};
use crate::limits::RECEIVE_STALL;

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

#[test]
fn an_aborted_write_that_waits_for_data_ends_and_its_data_is_dropped() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let data = vec![0xa5; 64 * BLOCK];
        let cid = host.blocks(Opcode::WRITE, 0, &data, false, Fuse::Normal).await;
        let r2t = host.ready().await;
        admin.capsule(Abort { sqid: 1, cid }.command(admin.next_cid()), &[]).await;
        assert_eq!(admin.completed().await.result, Abort::result(true));
        // The host has sent its data before it learns of the abort.
        host.data(&r2t, 0, &data, true, false).await;
        let completion = host.completed().await;
        assert_eq!((completion.cid, completion.status), (cid, Status::COMMAND_ABORT_REQUESTED));
        assert!(host.read(0, 64).await.iter().all(|byte| *byte == 0));
        admin.capsule(Abort { sqid: 1, cid }.command(admin.next_cid()), &[]).await;
        assert_eq!(admin.completed().await.result, Abort::result(false), "it is gone");
    });
}

#[test]
fn a_reset_ends_the_queues_and_waits_for_writes_in_flight() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        bed.stall();
        host.blocks(Opcode::WRITE, 0, &[0xa5; BLOCK], true, Fuse::Normal).await;
        host.blocks(Opcode::WRITE, 64, &vec![0xa5; 64 * BLOCK], false, Fuse::Normal).await;
        host.ready().await;
        let waiter = bed.clone();
        bed.ring.spawn(async move {
            waiter.pass(Duration::from_secs(3)).await;
            waiter.release();
        });
        let before = bed.ring.now();
        admin.set_configuration(ControllerConfiguration::ENABLED.with_en(0)).await;
        assert_eq!(admin.property(Property::CSTS).await, 1, "it is ready while a write is under way");
        admin.until_status(0, Duration::from_secs(5)).await;
        assert!(bed.ring.now().since(before) >= Duration::from_secs(2), "it did not wait for the write");
        while host.next().await != Received::Closed {}
        admin.set_configuration(ControllerConfiguration::ENABLED).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let found = host.read(0, 1).await;
        assert!(found == [0xa5; BLOCK] || found == [0; BLOCK]);
    });
}

#[test]
fn a_silent_host_loses_its_controller_after_its_keep_alive_time() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 2000).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        for _ in 0..6 {
            bed.pass(Duration::from_secs(1)).await;
            host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::Normal).await;
            assert_eq!(host.completed().await.status, DONE, "traffic of an I/O queue keeps it alive");
        }
        assert_eq!(admin.next_within(Duration::from_secs(6)).await, Received::Closed);
        assert_eq!(host.next().await, Received::Closed);
    });
}

#[test]
fn a_host_that_begins_and_does_not_go_on_loses_its_connection_and_an_idle_one_does_not() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let queue = async |qid| {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            host.join(SUBSYSTEM, cntlid, qid).await;
            host
        };
        let (half, owes, slow, idle) = (queue(1).await, queue(2).await, queue(3).await, queue(4).await);
        let busy = queue(5).await;
        let data = vec![0xa5; 64 * BLOCK];
        for host in [&owes, &busy] {
            host.blocks(Opcode::WRITE, 0, &data, false, Fuse::Normal).await;
            host.ready().await;
        }
        slow.blocks(Opcode::WRITE, 0, &data, false, Fuse::Normal).await;
        let r2t = slow.ready().await;
        half.send(&[4, 0, 72]).await;
        for step in 0..2 {
            bed.pass(RECEIVE_STALL * 2 / 3).await;
            // Something of it is enough, something else is not.
            slow.data(&r2t, step * 8 * BLOCK, &data[..8 * BLOCK], false, false).await;
            if step == 0 {
                busy.blocks(Opcode::WRITE, 0, &data[..BLOCK], true, Fuse::Normal).await;
                assert_eq!(busy.completed().await.status, DONE);
            }
        }
        for (host, count, reason) in [
            (half, 1, "it has sent half a request and nothing more for 30 seconds"),
            (owes, 2, "it has not sent the data it was asked for for 30 seconds"),
            (busy, 2, "it has not sent the data it was asked for for 30 seconds"),
        ] {
            assert_eq!(host.next_within(RECEIVE_STALL).await, Received::Closed);
            bed.pass(Duration::from_secs(1)).await;
            assert_eq!(bed.logs.all().matches(reason).count(), count, "{}", bed.logs.all());
        }
        slow.data(&r2t, 16 * BLOCK, &data[16 * BLOCK..], true, false).await;
        assert_eq!(slow.completed().await.status, DONE);
        bed.pass(RECEIVE_STALL * 10).await;
        idle.blocks(Opcode::WRITE, 0, &data[..BLOCK], true, Fuse::Normal).await;
        assert_eq!(idle.completed().await.status, DONE);
    });
}

#[test]
fn a_controller_ends_with_its_admin_connection_whatever_its_keep_alive_time() {
    play(|bed| async move {
        // The stage looks for what is left long before this time is over.
        let (admin, cntlid) = Host::admin(&bed, u32::MAX).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        assert_eq!(bed.controllers(), 1);
        let core = bed.cores.iter().find(|core| core.nvme.controller(cntlid).is_some()).unwrap();
        let controller = std::rc::Rc::downgrade(&core.nvme.controller(cntlid).unwrap());
        drop(admin);
        assert_eq!(host.next().await, Received::Closed);
        bed.pass(Duration::from_secs(10)).await;
        assert_eq!(bed.controllers(), 0);
        assert!(controller.upgrade().is_none(), "something keeps the controller in memory");
    });
}

#[test]
fn connections_that_end_while_they_begin_leave_nothing() {
    play(|bed| async move {
        drop(Host::open(&bed).await);
        drop(Host::initialized(&bed, DigestFlags::empty()).await);
        let silent = Host::initialized(&bed, DigestFlags::empty()).await;
        let (admin, _) = Host::admin(&bed, 0).await;
        drop(admin);
        assert_eq!(silent.next_within(Duration::from_secs(30)).await, Received::Closed);
        assert_eq!(bed.controllers(), 0);
    });
}

#[test]
fn a_controller_without_a_keep_alive_time_is_left_alone_until_it_has_one() {
    play(|bed| async move {
        let (admin, _) = Host::admin(&bed, 0).await;
        let turns = || bed.cores.iter().map(|core| core.shard.ring().turns()).sum::<u64>();
        bed.pass(Duration::from_secs(60)).await;
        let before = turns();
        bed.pass(Duration::from_secs(3600)).await;
        let turns = turns() - before;
        assert!(turns < 3600 / 4, "{turns} turns in an hour");
        let feature = Feature::KEEP_ALIVE_TIMER;
        for (value, silence) in [(2000, 1), (0, 3600), (2000, 0)] {
            let set = SetFeatures { feature, value, ..SetFeatures::default() };
            assert_eq!(admin.ask(set.command(0, SglDescriptor::NOTHING)).await.status, DONE);
            bed.pass(Duration::from_secs(silence)).await;
        }
        assert_eq!(admin.next_within(Duration::from_secs(6)).await, Received::Closed);
    });
}

#[test]
fn a_shorter_keep_alive_time_does_not_wait_for_the_longer_one_before_it() {
    play(|bed| async move {
        let (admin, _) = Host::admin(&bed, 10 * 3_600_000).await;
        let set = SetFeatures { feature: Feature::KEEP_ALIVE_TIMER, value: 2000, ..SetFeatures::default() };
        bed.pass(Duration::from_secs(60)).await;
        assert_eq!(admin.ask(set.command(0, SglDescriptor::NOTHING)).await.status, DONE);
        assert_eq!(admin.next_within(Duration::from_secs(6)).await, Received::Closed);
        let reason = "the host said nothing for its keep alive time of 2000 ms";
        assert_eq!(bed.logs.all().matches(reason).count(), 1, "{}", bed.logs.all());
        assert_eq!(bed.controllers(), 0);
        // And the longer one counts from when it is set.
        let (admin, _) = Host::admin(&bed, 2000).await;
        let set = SetFeatures { value: 20_000, ..set };
        assert_eq!(admin.ask(set.command(0, SglDescriptor::NOTHING)).await.status, DONE);
        bed.pass(Duration::from_secs(18)).await;
        assert_eq!(admin.ask(keep_alive(0)).await.status, DONE);
    });
}

#[test]
fn idle_controllers_do_not_wake_a_core_each_for_itself() {
    play(|bed| async move {
        let mut hosts = Vec::new();
        for _ in 0..40 {
            let (admin, cntlid) = Host::admin(&bed, 10 * 3_600_000).await;
            hosts.push((admin, Host::io(&bed, cntlid, DigestFlags::empty()).await));
        }
        let turns = || bed.cores.iter().map(|core| core.shard.ring().turns()).sum::<u64>();
        let before = turns();
        bed.pass(Duration::from_secs(2 * 3600)).await;
        // Two cores, a look at a second at most, which is two turns.
        let turns = turns() - before;
        assert!(turns <= 2 * 2 * 2 * 3600, "{turns} turns in two hours");
    });
}
