//! What a peer can make grow ends somewhere.

use std::time::Duration;

use ring::{Buffer, in_use};
use wire::iscsi::RejectReason;

use super::bed::{BLOCK, play, play_with_file};
use super::peer::{Joining, Scsi, next, pattern};
use crate::limits::{BUFFER_BYTES_PER_SHARD, IMMEDIATE_COMMANDS, ISCSI_MEMORY_TIME, LOGINS_PER_SHARD};

/// The status of a command that is to be sent again.
const BUSY: u8 = 0x08;

/// Takes all the memory for requests but `room` bytes.
fn take_memory(room: usize) -> Vec<Buffer> {
    let mut taken = Vec::new();
    for bytes in [ring::LARGEST, 4096] {
        while in_use() + bytes + room <= BUFFER_BYTES_PER_SHARD {
            taken.push(Buffer::new(bytes));
        }
    }
    taken
}

#[test]
fn the_login_that_takes_longest_makes_room_for_a_newcomer() {
    play(|bed| async move {
        let oldest = bed.connect_to(0).await;
        let mut idle = Vec::new();
        for _ in 0..2 * LOGINS_PER_SHARD - 1 {
            idle.push(bed.connect().await);
        }
        bed.settle().await;
        let newcomer = bed.log_in("").await;
        newcomer.is_ready().await;
        let another = bed.log_in_as(2, "").await;
        another.is_ready().await;
        oldest.ends().await;
        assert!(bed.logs.has("too many connections are logging in"), "{}", bed.logs.all());
    });
}

#[test]
fn so_many_immediate_commands_are_taken_and_no_more() {
    play_with_file(|bed| async move {
        let peer = bed.log_in("").await;
        bed.stall();
        for lba in 0..IMMEDIATE_COMMANDS as u64 {
            peer.command(&Scsi::read(lba, 1).immediate()).await;
        }
        peer.command(&Scsi::read(0, 1).immediate()).await;
        assert_eq!(next!(peer, Reject).0.reason, RejectReason::IMMEDIATE_COMMAND_REJECT);
        bed.release();
        for _ in 0..IMMEDIATE_COMMANDS {
            next!(peer, DataIn);
        }
        let tag = peer.command(&Scsi::test_unit_ready().immediate()).await;
        peer.good(tag).await;
    });
}

#[test]
fn a_write_waits_for_memory_before_it_asks_for_data() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes ImmediateData=Yes").await;
        let data = pattern(11, 64 << 10);
        let taken = take_memory(0);
        let tag = peer.command(&Scsi::write(0, 128)).await;
        peer.hears_nothing().await;
        drop(taken);
        let (request, _) = next!(peer, R2t);
        peer.answer(&request, &data).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 128).await, data);
    });
}

#[test]
fn unsolicited_data_that_came_before_there_was_memory_is_kept() {
    play(|bed| async move {
        let peer = bed.log_in("FirstBurstLength=8192").await;
        let data = pattern(12, 64 << 10);
        // Room for what comes unasked, and for what is in the network, but not for all.
        let taken = take_memory(32 << 10);
        let tag = peer.command(&Scsi::write(0, 128).with(&data[..1024]).unsolicited()).await;
        for (data_sn, at) in [1024, 4096, 6144].into_iter().enumerate() {
            let end = [4096, 6144, 8192][data_sn];
            bed.settle().await;
            peer.data_out(tag, None, data_sn as u32, at, &data[at..end], end == 8192).await;
        }
        peer.hears_nothing().await;
        drop(taken);
        let (request, _) = next!(peer, R2t);
        assert_eq!(request.buffer_offset, 8192);
        peer.answer(&request, &data).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 128).await, data);
    });
}

#[test]
fn a_read_waits_for_memory() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let taken = take_memory(0);
        peer.command(&Scsi::read(0, 128)).await;
        peer.hears_nothing().await;
        drop(taken);
        assert_eq!(next!(peer, DataIn).1.len(), 128 * BLOCK);
    });
}

#[test]
fn what_waits_for_memory_can_be_aborted() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let taken = take_memory(0);
        peer.command(&Scsi::write(0, 128)).await;
        peer.command(&Scsi::read(0, 128)).await;
        peer.hears_nothing().await;
        let function = wire::iscsi::TaskManagementFunction::ABORT_TASK_SET;
        let code = peer.managed(function, 0, 0.into()).await;
        assert_eq!(code, wire::iscsi::TaskManagementResponseCode::FUNCTION_COMPLETE);
        drop(taken);
        peer.hears_nothing().await;
        peer.is_ready().await;
    });
}

#[test]
fn a_write_with_data_for_which_there_is_no_memory_is_answered_busy_and_its_session_goes_on() {
    play(|bed| async move {
        let peer = bed.log_in("FirstBurstLength=65536").await;
        let data = pattern(13, 64 << 10);
        let taken = take_memory(0);
        // Its number is used up, and what follows waits for its turn.
        let late = peer.skip_cmd_sn();
        let behind = peer.command(&Scsi::test_unit_ready()).await;
        let write = Scsi::write(0, 128).with(&data[..32 << 10]).unsolicited().numbered(late).tagged(77);
        peer.command(&write).await;
        let (response, _) = peer.response().await;
        assert_eq!((response.initiator_task_tag, response.status), (77, BUSY));
        assert_eq!(response.residual_count, 64 << 10);
        peer.good(behind).await;
        // The rest comes all the same, and is forgotten.
        peer.data_out(77, None, 0, 32 << 10, &data[32 << 10..], true).await;
        let again = peer.command(&Scsi::write(0, 64).with(&data[..32 << 10])).await;
        let (response, _) = peer.response().await;
        assert_eq!((response.initiator_task_tag, response.status), (again, BUSY));
        peer.is_well().await;
        drop(taken);
        let tag = peer.command(&Scsi::write(0, 64).with(&data[..32 << 10])).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 64).await, data[..32 << 10]);
    });
}

#[test]
fn data_that_comes_unasked_waits_a_moment_for_memory() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let data = pattern(14, 32 << 10);
        let taken = take_memory(0);
        let tag = peer.command(&Scsi::write(0, 64).with(&data)).await;
        bed.pass(ISCSI_MEMORY_TIME / 2).await;
        drop(taken);
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 64).await, data);
    });
}

#[test]
fn garbage_instead_of_a_login_ends_its_connection() {
    play(|bed| async move {
        let other = bed.log_in("").await;
        for bytes in [
            &[0u8; 48][..],
            &[0xff; 48],
            b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept: everything\r\n\r\n",
        ] {
            let peer = bed.connect().await;
            peer.send_bytes(bytes).await;
            peer.ends_within(Duration::from_secs(16)).await;
        }
        other.is_ready().await;
    });
}

#[test]
fn a_session_that_was_begun_and_not_answered_leaves_the_registry() {
    play(|bed| async move {
        for round in 0..30 {
            let peer = bed.connect().await;
            peer.ask_to_log_in(Joining { isid: round, ..Joining::default() }).await;
            bed.pass(Duration::from_micros(u64::from(round) * 40)).await;
        }
    });
}
