//! Pings both ways, and peers that are there no more, or do not read, or never come to the point.

use std::time::Duration;

use ring::sim::Settings;
use ring::{Buffer, in_use};
use wire::iscsi::{InitiatorPdu, NopOut, RESERVED_TAG, TargetPdu};

use super::bed::{BLOCK, Bed, Stage, play, play_with_file};
use super::peer::{Joining, Scsi, next, pattern};
use crate::limits::{
    ANSWER_QUEUE_BYTES, BUFFER_BYTES_PER_SHARD, LOGIN_TIME, RECEIVE_STALL, SEND_QUEUE_BYTES, SEND_STALL,
    TRANSFER_BYTES,
};
use crate::request::Verb;
use crate::session::iscsi::IscsiOptions;

const SECOND: Duration = Duration::from_secs(1);

/// A node that asks after ten seconds and waits for five.
fn play_with_pings<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    let options = IscsiOptions { nop_interval: 10 * SECOND, nop_timeout: 5 * SECOND };
    Stage { options, ..Stage::new() }.play(test);
}

#[test]
fn a_ping_is_answered_with_its_data() {
    play(|bed| async move {
        let peer = bed.log_in("MaxRecvDataSegmentLength=1024").await;
        let data = pattern(9, 1500);
        for immediate in [true, false] {
            let tag = peer.ping(&data, immediate).await;
            let (nop, answer) = next!(peer, NopIn);
            assert_eq!((nop.initiator_task_tag, nop.target_transfer_tag), (tag, RESERVED_TAG));
            assert_eq!(answer, data[..1024], "as much as the initiator takes");
        }
    });
}

#[test]
fn a_silent_initiator_is_asked_and_stays_if_it_answers() {
    play_with_pings(|bed| async move {
        let peer = bed.log_in("").await;
        for _ in 0..5 {
            bed.pass(14 * SECOND).await;
            let (asked, _) = next!(peer, NopIn);
            assert_eq!(asked.initiator_task_tag, RESERVED_TAG);
            assert_ne!(asked.target_transfer_tag, RESERVED_TAG);
            let answer = NopOut {
                immediate: wire::iscsi::Immediate(true),
                initiator_task_tag: RESERVED_TAG,
                target_transfer_tag: asked.target_transfer_tag,
                cmd_sn: peer.cmd_sn(),
                ..NopOut::default()
            };
            peer.send(InitiatorPdu::NopOut(answer), &[]).await;
        }
        peer.is_well().await;
    });
}

#[test]
fn a_dead_initiator_is_let_go() {
    play_with_pings(|bed| async move {
        let peer = bed.log_in("").await;
        let last = peer.ends_within(20 * SECOND).await;
        assert!(matches!(last[..], [TargetPdu::NopIn(_)]), "{last:?}");
        assert!(bed.logs.has("it has said nothing for"), "{}", bed.logs.all());
        assert_eq!(bed.session_count(), 0);
    });
}

#[test]
fn who_owes_the_data_of_writes_is_let_go_though_he_pings() {
    // As many as have all memory of a core.
    const WRITES: usize = BUFFER_BYTES_PER_SHARD / TRANSFER_BYTES;
    const BLOCKS: u32 = (TRANSFER_BYTES / BLOCK) as u32;
    play(|bed| async move {
        let (owing, other) = (bed.connect_to(0).await, bed.connect_to(0).await);
        owing.log_in(Joining::default()).await.unwrap();
        other.log_in(Joining { isid: 2, ..Joining::default() }).await.unwrap();
        owing.take_attention(0x29).await;
        other.take_attention(0x29).await;
        for _ in 0..WRITES {
            owing.command(&Scsi::write(0, BLOCKS)).await;
        }
        for _ in 0..WRITES {
            next!(owing, R2t);
        }
        let begun = bed.ring.now();
        let data = pattern(5, 16 * BLOCK);
        other.command(&Scsi::write(0, 16)).await;
        while bed.ring.now().since(begun) < RECEIVE_STALL * 2 / 3 {
            owing.is_well().await;
            bed.pass(5 * SECOND).await;
        }
        other.hears_nothing().await;
        owing.ping(b"still here", true).await;
        bed.pass(RECEIVE_STALL).await;
        owing.ends().await;
        assert!(
            bed.logs.has("it has not sent the data it was asked for for 30 seconds"),
            "{}",
            bed.logs.all()
        );
        let (r2t, _) = next!(other, R2t);
        other.answer(&r2t, &data).await;
        other.good(r2t.initiator_task_tag).await;
    });
}

#[test]
fn who_is_slow_to_send_the_data_of_a_write_stays() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let data = pattern(3, 8 * BLOCK);
        let tag = peer.command(&Scsi::write(0, 8)).await;
        let (r2t, _) = next!(peer, R2t);
        for (number, piece) in data.chunks(BLOCK).enumerate() {
            bed.pass(RECEIVE_STALL * 2 / 3).await;
            peer.data_out(tag, Some(&r2t), number as u32, number * BLOCK, piece, number == 7).await;
        }
        peer.good(tag).await;
        // And who owes nothing may be silent for as long as it likes.
        bed.pass(RECEIVE_STALL * 3).await;
        peer.is_well().await;
        assert_eq!(bed.on_volume(0, 8).await, data);
    });
}

#[test]
fn a_partition_does_not_keep_a_session_for_ever() {
    play_with_pings(|bed| async move {
        let peer = bed.log_in("").await;
        bed.world.partition(&bed.node, &bed.clients);
        bed.pass(20 * SECOND).await;
        assert_eq!(bed.session_count(), 0);
        bed.world.heal(&bed.node, &bed.clients);
        peer.ends().await;
    });
}

#[test]
fn who_takes_nothing_of_what_is_sent_is_let_go() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        for _ in 0..4 {
            peer.command(&Scsi::read(0, 2048)).await;
        }
        bed.pass(SEND_STALL / 2).await;
        assert_eq!(bed.session_count(), 1);
        bed.pass(SEND_STALL).await;
        assert!(bed.logs.has("it has not taken what is sent for 30 seconds"), "{}", bed.logs.all());
        assert_eq!(bed.session_count(), 0);
        peer.ends().await;
    });
}

#[test]
fn reads_of_one_who_does_not_read_take_little_memory() {
    // A disk that takes its time: all could be begun before the first one has an answer.
    play_with_file(|bed| async move {
        let (peer, other) = (bed.log_in("").await, bed.log_in_as(2, "").await);
        let before = in_use();
        for _ in 0..100 {
            peer.command(&Scsi::read(0, 4096)).await;
        }
        bed.pass(SECOND).await;
        let used = in_use() - before;
        assert!(
            used <= SEND_QUEUE_BYTES + TRANSFER_BYTES,
            "{used} bytes for reads that wait for their reader"
        );
        assert_eq!(other.read(0, 16).await.len(), 8192, "others do not notice");
    });
}

#[test]
fn reads_that_wait_for_their_reader_are_not_begun_when_he_is_let_go() {
    const READS: u64 = 100;
    play(|bed| async move {
        let peer = bed.log_in("").await;
        for _ in 0..READS {
            peer.command(&Scsi::read(0, 2048)).await;
        }
        bed.settle().await;
        let sessions = || bed.cores.iter().flat_map(|core| core.iscsi.sessions());
        let traffic = sessions().next().unwrap().connections()[0].traffic.clone();
        let begun = || traffic.counts()[Verb::Read as usize].requests;
        let before = begun();
        assert!(before > 0 && before < READS, "{before} are begun while it does not read");
        bed.pass(SEND_STALL * 2).await;
        assert_eq!(bed.session_count(), 0);
        assert_eq!(begun(), before);
    });
}

#[test]
fn pings_of_one_who_does_not_read_take_little_memory() {
    // Whole pieces, as there are many.
    let settings = Settings { cut: 0.0, ..Settings::default() };
    Stage { settings, ..Stage::new() }.play(|bed| async move {
        let peer = bed.log_in("").await;
        let ping = NopOut {
            immediate: wire::iscsi::Immediate(true),
            initiator_task_tag: 1,
            target_transfer_tag: RESERVED_TAG,
            ..NopOut::default()
        };
        let bytes = peer.encode(InitiatorPdu::NopOut(ping), &vec![7; 64 << 10]);
        let flood = async {
            for _ in 0..2000 {
                peer.send_bytes(&bytes).await;
            }
        };
        let sent = bed.ring.timeout(10 * SECOND, flood).await;
        assert!(sent.is_none(), "nothing more is received from it");
        assert!(in_use() <= ANSWER_QUEUE_BYTES + (1 << 20), "{} bytes", in_use());
    });
}

#[test]
fn who_does_not_read_holds_no_receive_buffer_that_others_need() {
    const BUFFERS: u16 = 4;
    let settings = Settings { cut: 0.0, ..Settings::default() };
    Stage { settings, receive_buffers: BUFFERS, ..Stage::new() }.play(|bed| async move {
        let mut deaf = Vec::new();
        for isid in 1..=BUFFERS {
            let peer = bed.connect_to(0).await;
            peer.log_in(Joining { isid, ..Joining::default() }).await.unwrap();
            peer.take_attention(0x29).await;
            deaf.push(peer);
        }
        let answer = Buffer::zeroed(1 << 20).share();
        for connection in bed.cores[0].iscsi.sessions().iter().flat_map(|session| session.connections()) {
            while connection.outgoing.bytes() < ANSWER_QUEUE_BYTES + (4 << 20) {
                connection.outgoing.push(1, |list| list.push(answer.clone()));
            }
        }
        drop(answer);
        for peer in &deaf {
            let ping = NopOut {
                immediate: wire::iscsi::Immediate(true),
                initiator_task_tag: 1,
                target_transfer_tag: RESERVED_TAG,
                ..NopOut::default()
            };
            peer.send_bytes(&peer.encode(InitiatorPdu::NopOut(ping), &[]).repeat(3)).await;
        }
        bed.settle().await;
        let other = bed.connect_to(0).await;
        other.log_in(Joining { isid: BUFFERS + 1, ..Joining::default() }).await.unwrap();
    });
}

#[test]
fn a_login_that_never_ends_is_ended() {
    play(|bed| async move {
        let (silent, dripping) = (bed.connect().await, bed.connect().await);
        for _ in 0..LOGIN_TIME.as_secs() - 1 {
            dripping.send_bytes(&[0x43]).await;
            bed.pass(SECOND).await;
        }
        silent.ends_within(2 * SECOND).await;
        dripping.ends_within(2 * SECOND).await;
        assert!(bed.logs.has("closed during login: it took longer than 15 seconds"), "{}", bed.logs.all());
    });
}

/// Turns of the node in `hours` in which nothing comes.
async fn turns_in(bed: &Bed, hours: u64) -> u64 {
    let turns = || bed.cores.iter().map(|core| core.shard.ring().turns()).sum::<u64>();
    let before = turns();
    bed.pass(3600 * hours as u32 * SECOND).await;
    turns() - before
}

#[test]
fn idle_sessions_do_not_wake_a_core_each_for_itself() {
    let options = IscsiOptions { nop_interval: 100_000 * SECOND, nop_timeout: 15 * SECOND };
    Stage { options, seeds: 0..1, ..Stage::new() }.play(|bed| async move {
        assert_eq!(turns_in(&bed, 1).await, 0, "without connections there is nothing to look at");
        let mut peers = Vec::new();
        for isid in 1..=200 {
            peers.push(bed.log_in_as(isid, "").await);
        }
        // Two cores, a look at a second at most, which is two turns.
        let turns = turns_in(&bed, 2).await;
        assert!(turns <= 2 * 2 * 2 * 3600, "{turns} turns in two hours");
        peers[199].is_well().await;
    });
}

#[test]
fn silent_initiators_are_asked_together() {
    let options = IscsiOptions { nop_interval: 15 * SECOND, nop_timeout: 15 * SECOND };
    Stage { options, seeds: 0..1, ..Stage::new() }.play(|bed| async move {
        let mut peers = Vec::new();
        for isid in 1..=50 {
            peers.push(bed.log_in_as(isid, "").await);
        }
        bed.pass(13 * SECOND).await;
        let before = bed.cores[0].shard.ring().turns();
        bed.pass(4 * SECOND).await;
        let turns = bed.cores[0].shard.ring().turns() - before;
        assert!(turns < 2 * 25, "{turns} turns to ask 25 initiators");
        for peer in &peers {
            next!(peer, NopIn);
        }
    });
}
