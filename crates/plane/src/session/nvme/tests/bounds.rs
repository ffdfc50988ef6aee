//! Sizes and numbers up to their bounds and beyond, and what happens when memory is used up.

use std::time::Duration;

use ring::{Buffer, in_use};
use wire::nvme::admin::features::{Feature, NumberOfQueues, SetFeatures};
use wire::nvme::admin::{Abort, asynchronous_event_request};
use wire::nvme::fabrics::{Capabilities, Connect, InvalidParameter, Property, PropertyGet, PropertySize};
use wire::nvme::io::{Opcode, command};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{CNTLID_DYNAMIC, Fuse, SglDescriptor, Status};

use super::bed::{BLOCK, SUBSYSTEM, play, play_with_file, play_with_receive_buffers};
use super::host::{Host, Received};
use crate::limits::{
    ANSWER_QUEUE_BYTES, BUFFER_BYTES_PER_SHARD, CONTROLLERS_PER_HOST, NVME_EVENT_REQUESTS, NVME_MEMORY_TIME,
    NVME_QUEUE_ENTRIES, NVME_QUEUES, SEND_QUEUE_BYTES, SEND_STALL,
};
use crate::request::Verb;

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

#[test]
fn a_queue_of_the_largest_size_takes_as_many_commands_and_no_more() {
    play_with_file(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let get = PropertyGet { size: PropertySize::EIGHT, offset: Property::CAP };
        let capabilities = Capabilities(admin.ask(get.command(0)).await.result);
        assert_eq!(capabilities.mqes(), u64::from(NVME_QUEUE_ENTRIES) - 1);
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        let connect = Connect { qid: 1, sqsize: NVME_QUEUE_ENTRIES - 1, ..Connect::default() };
        assert_eq!(host.connect(connect, cntlid).await.status, DONE);
        bed.stall();
        for lba in 0..u64::from(NVME_QUEUE_ENTRIES) {
            host.blocks(Opcode::WRITE, lba, &[1; BLOCK], true, Fuse::Normal).await;
        }
        bed.pass(Duration::from_millis(100)).await;
        bed.release();
        for _ in 0..NVME_QUEUE_ENTRIES {
            assert_eq!(host.completed().await.status, DONE);
        }
        bed.stall();
        for lba in 0..=u64::from(NVME_QUEUE_ENTRIES) {
            host.blocks(Opcode::WRITE, lba, &[1; BLOCK], true, Fuse::Normal).await;
        }
        assert_eq!(host.next().await, Received::Terminated(wire::nvme::tcp::FatalError::SEQUENCE));
        bed.release();
    });
}

#[test]
fn a_controller_has_as_many_queues_as_it_grants() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let set = SetFeatures {
            feature: Feature::NUMBER_OF_QUEUES,
            value: NumberOfQueues::default().with_submission(999).with_completion(999).0,
            ..SetFeatures::default()
        };
        let granted = NumberOfQueues(admin.ask(set.command(0, SglDescriptor::NOTHING)).await.result as u32);
        assert_eq!((granted.submission(), granted.completion()), (127, 127));
        let mut queues = Vec::new();
        for qid in 1..=NVME_QUEUES {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            host.join(SUBSYSTEM, cntlid, qid).await;
            queues.push(host);
        }
        for qid in [NVME_QUEUES + 1, u16::MAX, 1] {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            let completion = host.connect(Connect { qid, sqsize: 31, ..Connect::default() }, cntlid).await;
            assert_eq!(completion.status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
            assert_eq!(InvalidParameter::from_result(completion.result), InvalidParameter::QID);
        }
        for host in &queues {
            assert_eq!(host.ask(command(Opcode::FLUSH, 0, 1)).await.status, DONE);
        }
        // The number of a queue that has ended is free again.
        drop(queues.remove(3));
        bed.pass(Duration::from_secs(1)).await;
        Host::initialized(&bed, DigestFlags::empty()).await.join(SUBSYSTEM, cntlid, 4).await;
    });
}

#[test]
fn a_host_gets_a_bounded_number_of_controllers_and_is_told_that_it_may_come_again() {
    play(|bed| async move {
        let mut hosts = Vec::new();
        for _ in 0..CONTROLLERS_PER_HOST {
            hosts.push(Host::admin(&bed, 0).await.0);
        }
        let connect = Connect { sqsize: 31, ..Connect::default() };
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        assert_eq!(host.connect(connect, CNTLID_DYNAMIC).await.status, Status::CONNECT_CONTROLLER_BUSY);
        assert_eq!(host.next().await, Received::Closed);
        hosts.pop();
        bed.pass(Duration::from_secs(1)).await;
        Host::admin(&bed, 0).await;
    });
}

#[test]
fn event_requests_are_bounded_and_can_be_aborted() {
    play(|bed| async move {
        let (admin, _) = Host::admin(&bed, 0).await;
        let mut waiting = Vec::new();
        for _ in 0..NVME_EVENT_REQUESTS {
            let cid = admin.next_cid();
            admin.capsule(asynchronous_event_request(cid), &[]).await;
            waiting.push(cid);
        }
        let refused = admin.ask(asynchronous_event_request(0)).await.status;
        assert_eq!(refused, Status::ASYNCHRONOUS_EVENT_REQUEST_LIMIT_EXCEEDED.do_not_retry());
        let abort = Abort { sqid: 0, cid: waiting[1] };
        admin.capsule(abort.command(admin.next_cid()), &[]).await;
        let (one, two) = (admin.completed().await, admin.completed().await);
        assert_eq!((one.cid, one.status), (waiting[1], Status::COMMAND_ABORT_REQUESTED));
        assert_eq!((two.status, two.result), (DONE, Abort::result(true)));
    });
}

#[test]
fn reads_that_come_together_do_not_all_begin_before_one_is_taken() {
    const READS: u64 = 24;
    play_with_file(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        bed.stall();
        let data = vec![0; 1 << 20];
        for at in 0..READS {
            host.blocks(Opcode::READ, at << 11, &data, false, Fuse::Normal).await;
        }
        bed.pass(Duration::from_secs(1)).await;
        assert!(in_use() <= SEND_QUEUE_BYTES + data.len(), "{} bytes of buffers", in_use());
        bed.release();
        assert!(matches!(host.next().await, Received::Data(_, first) if first == data));
    });
}

#[test]
fn reads_that_wait_for_their_reader_are_not_begun_when_he_is_let_go() {
    const READS: u64 = 100;
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let data = vec![0; 1 << 20];
        for _ in 0..READS {
            host.blocks(Opcode::READ, 0, &data, false, Fuse::Normal).await;
        }
        let queues = || bed.cores.iter().flat_map(|core| core.nvme.queues());
        let traffic = queues().find(|queue| queue.qid == 1).unwrap().connection.traffic.clone();
        let begun = || traffic.counts()[Verb::Read as usize].requests;
        bed.pass(SEND_STALL / 2).await;
        let before = begun();
        assert!(before > 0 && before < READS, "{before} are begun while it does not read");
        bed.pass(SEND_STALL * 2).await;
        assert!(queues().all(|queue| queue.qid != 1), "it is let go");
        assert_eq!(begun(), before);
    });
}

#[test]
fn refusals_of_one_who_does_not_read_take_little_memory() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let queue = bed.cores.iter().find_map(|core| core.nvme.queues().pop()).unwrap();
        let outgoing = &queue.connection.outgoing;
        // As if they were answers.
        while outgoing.bytes() < ANSWER_QUEUE_BYTES + (4 << 20) {
            outgoing.push(1, |list| list.push(Buffer::zeroed(1 << 20).share()));
        }
        bed.pass(Duration::from_secs(1)).await;
        let waiting = outgoing.bytes();
        let unknown = host.encode_capsule(command(Opcode::RESERVATION_REPORT, host.next_cid(), 1), &[]);
        host.send(&unknown.repeat(1000)).await;
        bed.pass(Duration::from_secs(1)).await;
        // What was waited for when the answers became so many is taken.
        let more = outgoing.bytes() - waiting;
        assert!(more < 100, "{more} bytes more");
    });
}

#[test]
fn who_does_not_read_holds_no_receive_buffer_that_others_need() {
    const BUFFERS: u16 = 4;
    play_with_receive_buffers(BUFFERS, |bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let mut deaf = Vec::new();
        // As many on each core as it has buffers.
        for qid in 1..=2 * BUFFERS {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            host.join(SUBSYSTEM, cntlid, qid).await;
            deaf.push(host);
        }
        let answer = Buffer::zeroed(1 << 20).share();
        for core in bed.cores.iter() {
            let queues: Vec<_> = core.nvme.queues().into_iter().filter(|queue| queue.qid > 0).collect();
            assert_eq!(queues.len(), BUFFERS.into());
            for queue in queues {
                let outgoing = &queue.connection.outgoing;
                while outgoing.bytes() < ANSWER_QUEUE_BYTES + (4 << 20) {
                    outgoing.push(1, |list| list.push(answer.clone()));
                }
            }
        }
        drop(answer);
        for host in &deaf {
            let unknown = host.encode_capsule(command(Opcode::RESERVATION_REPORT, host.next_cid(), 1), &[]);
            host.send(&unknown.repeat(10)).await;
        }
        bed.pass(Duration::from_millis(20)).await;
        Host::initialized(&bed, DigestFlags::empty()).await;
        Host::initialized(&bed, DigestFlags::empty()).await;
    });
}

/// Takes all memory that requests of this core may have.
fn take_all() -> Vec<Buffer> {
    let mut taken = Vec::new();
    while in_use() + (1 << 20) <= BUFFER_BYTES_PER_SHARD {
        taken.push(Buffer::new(1 << 20));
    }
    taken.push(Buffer::new(BUFFER_BYTES_PER_SHARD - in_use()));
    taken
}

#[test]
fn data_is_asked_for_when_there_is_memory_for_it_and_none_is_taken_by_others_meanwhile() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let mut taken = take_all();
        taken.truncate(taken.len() - 3);
        let room = BUFFER_BYTES_PER_SHARD - in_use();
        assert!((2 << 20..3 << 20).contains(&room), "{room} bytes are left");
        let data = vec![0x5a; 1 << 20];
        for at in 0..3 {
            host.blocks(Opcode::WRITE, at << 11, &data, false, Fuse::Normal).await;
        }
        let [first, second] = [host.ready().await, host.ready().await];
        assert!(in_use() + data.len() > BUFFER_BYTES_PER_SHARD, "what was asked for has its place");
        host.is_silent(Duration::from_secs(1)).await;
        host.data(&first, 0, &data, true, false).await;
        assert_eq!(host.completed().await.status, DONE);
        let third = host.ready().await;
        for asked in [second, third] {
            host.data(&asked, 0, &data, true, false).await;
            assert_eq!(host.completed().await.status, DONE);
        }
        assert_eq!(BUFFER_BYTES_PER_SHARD - in_use(), room, "nothing is left over");
    });
}

#[test]
fn a_write_in_a_capsule_waits_for_memory_and_is_carried_out_when_there_is_some() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::DATA).await;
        let taken = take_all();
        host.blocks(Opcode::WRITE, 5, &[0xa5; BLOCK * 8], true, Fuse::Normal).await;
        host.is_silent(Duration::from_secs(1)).await;
        drop(taken);
        assert_eq!(host.completed().await.status, DONE);
        assert_eq!(host.read(5, 8).await, [0xa5; BLOCK * 8]);
    });
}

#[test]
fn a_write_in_a_capsule_that_finds_no_memory_is_refused_for_now_and_the_queue_goes_on() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::DATA).await;
        let taken = take_all();
        // Halves of a fused operation are not torn: the one that was there fails with the one that was refused.
        let flush = host.next_cid();
        let cid = host.blocks(Opcode::WRITE, 5, &[0xa5; BLOCK * 8], true, Fuse::Normal).await;
        host.capsule(command(Opcode::FLUSH, flush, 1), &[]).await;
        let Received::Completed(refused) = host.next_within(NVME_MEMORY_TIME * 2).await else {
            panic!("a completion was expected")
        };
        assert_eq!((refused.cid, refused.status), (cid, Status::NAMESPACE_NOT_READY));
        assert!(!refused.status.is_final(), "the host may send it again");
        assert_eq!(host.completed().await.cid, flush);
        drop(taken);
        assert_eq!(host.read(5, 8).await, [0; BLOCK * 8], "nothing of it was written");
        host.blocks(Opcode::WRITE, 5, &[0xa5; BLOCK * 8], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, DONE);
    });
}
