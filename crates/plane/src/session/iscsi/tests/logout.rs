//! How initiators go, and how the node asks them to.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use wire::iscsi::{
    AsyncEvent, Immediate, InitiatorPdu, LoginStatus, LogoutReason as Reason, LogoutRequest,
    LogoutResponseCode as Code, TargetPdu,
};

use super::bed::{BLOCK, Bed, Stage, play, play_with_file};
use super::peer::{Joining, Peer, Scsi, next};
use crate::limits::DRAIN_TIME;
use crate::volume::Limits;

fn asked(peer: &Peer, reason: Reason, cid: u16, immediate: bool) -> InitiatorPdu {
    InitiatorPdu::LogoutRequest(LogoutRequest {
        immediate: Immediate(immediate),
        reason,
        initiator_task_tag: peer.next_tag(),
        cid,
        cmd_sn: if immediate { peer.cmd_sn() } else { peer.skip_cmd_sn() },
        ..LogoutRequest::default()
    })
}

async fn ask(peer: &Peer, reason: Reason, cid: u16, immediate: bool) {
    peer.send(asked(peer, reason, cid, immediate), &[]).await;
}

async fn log_out(peer: &Peer, reason: Reason, cid: u16) -> Code {
    ask(peer, reason, cid, true).await;
    next!(peer, LogoutResponse).0.response
}

/// Drains all cores of the node; tells how many are done.
fn drain(bed: &Bed, grace: Duration) -> Rc<Cell<usize>> {
    let done = Rc::new(Cell::new(0));
    for core in bed.cores.iter() {
        let (service, done) = (core.iscsi.clone(), done.clone());
        core.shard.ring().spawn_later(async move {
            service.drain(grace).await;
            done.set(done.get() + 1);
        });
    }
    done
}

#[test]
fn a_session_is_logged_out() {
    for immediate in [true, false] {
        play(move |bed| async move {
            let peer = bed.log_in("").await;
            ask(&peer, Reason::CLOSE_SESSION, 0, immediate).await;
            assert_eq!(next!(peer, LogoutResponse).0.response, Code::CLOSED_SUCCESSFULLY);
            assert_eq!(peer.ends().await, []);
            bed.settle().await;
            assert_eq!(bed.session_count(), 0);
            assert!(bed.logs.has("logged out") && !bed.logs.has("connection closed"), "{}", bed.logs.all());
        });
    }
}

#[test]
fn the_logout_of_a_session_with_several_connections_is_answered() {
    play_with_file(|bed| async move {
        let one = bed.log_in("").await;
        let two = one.join(1).await.unwrap();
        let three = one.join(2).await.unwrap();
        bed.stall();
        one.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
        one.is_well().await;
        ask(&two, Reason::CLOSE_SESSION, 0, true).await;
        // The others are gone while the answer still waits for the write.
        assert_eq!(one.ends().await, []);
        assert_eq!(three.ends().await, []);
        bed.settle().await;
        bed.release();
        assert_eq!(next!(two, LogoutResponse).0.response, Code::CLOSED_SUCCESSFULLY);
        assert_eq!(two.ends().await, []);
        bed.settle().await;
        assert_eq!(bed.session_count(), 0);
    });
}

#[test]
fn a_connection_that_is_logging_in_does_not_keep_a_session_that_is_logged_out() {
    play_with_file(|bed| async move {
        let one = bed.log_in("").await;
        let two = one.join(1).await.unwrap();
        bed.stall();
        two.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
        two.is_well().await;
        // It takes the place of the second connection, and waits for the write of that.
        let three = bed.connect().await;
        three.be_of(&one);
        three.ask_to_log_in(Joining { tsih: one.tsih(), cid: 1, ..Joining::default() }).await;
        assert_eq!(two.ends().await, []);
        ask(&one, Reason::CLOSE_SESSION, 0, true).await;
        bed.settle().await;
        bed.release();
        assert_eq!(next!(one, LogoutResponse).0.response, Code::CLOSED_SUCCESSFULLY);
        assert_eq!(one.ends().await, []);
        assert_eq!(three.logged_in().await, Err(LoginStatus::SESSION_DOES_NOT_EXIST));
        bed.settle().await;
        assert_eq!(bed.session_count(), 0);
    });
}

#[test]
fn a_session_is_logged_out_when_its_writes_have_ended() {
    play_with_file(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        bed.stall();
        peer.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
        peer.command(&Scsi::write(1, 1)).await;
        next!(peer, R2t);
        ask(&peer, Reason::CLOSE_SESSION, 0, true).await;
        peer.hears_nothing().await;
        bed.release();
        assert_eq!(next!(peer, LogoutResponse).0.response, Code::CLOSED_SUCCESSFULLY);
        assert_eq!(peer.ends().await, [], "and no response to the commands");
        assert_eq!(bed.on_volume(0, 1).await, [1; BLOCK]);
    });
}

#[test]
fn the_own_connection_is_logged_out_and_the_session_goes_on() {
    play(|bed| async move {
        let one = bed.log_in("").await;
        let two = one.join(1).await.unwrap();
        // The leading one.
        assert_eq!(log_out(&one, Reason::CLOSE_CONNECTION, 0).await, Code::CLOSED_SUCCESSFULLY);
        assert_eq!(one.ends().await, []);
        two.is_well().await;
        two.is_ready().await;
        let three = two.join(0).await.unwrap();
        three.is_ready().await;
        assert_eq!(log_out(&two, Reason::CLOSE_CONNECTION, 1).await, Code::CLOSED_SUCCESSFULLY);
        assert_eq!(log_out(&three, Reason::CLOSE_CONNECTION, 0).await, Code::CLOSED_SUCCESSFULLY);
        bed.settle().await;
        assert_eq!(bed.session_count(), 0, "with its last connection");
    });
}

#[test]
fn another_connection_is_logged_out_with_its_commands() {
    play(|bed| async move {
        let one = bed.log_in("InitialR2T=Yes").await;
        let two = one.join(1).await.unwrap();
        let tag = two.command(&Scsi::write(0, 1)).await;
        next!(two, R2t);
        assert_eq!(log_out(&one, Reason::CLOSE_CONNECTION, 1).await, Code::CLOSED_SUCCESSFULLY);
        assert_eq!(two.ends().await, []);
        one.command(&Scsi::test_unit_ready().tagged(tag)).await;
        one.good(tag).await;
    });
}

#[test]
fn logouts_that_cannot_be_are_refused() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        assert_eq!(log_out(&peer, Reason::CLOSE_CONNECTION, 7).await, Code::CID_NOT_FOUND);
        let recovery = log_out(&peer, Reason::REMOVE_CONNECTION_FOR_RECOVERY, 0).await;
        assert_eq!(recovery, Code::CONNECTION_RECOVERY_NOT_SUPPORTED, "error recovery level 0");
        peer.is_ready().await;
    });
}

#[test]
fn nothing_is_taken_behind_a_logout() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let logout = LogoutRequest { immediate: Immediate(true), ..LogoutRequest::default() };
        peer.send_bytes(&peer.encode(InitiatorPdu::LogoutRequest(logout), &[]).repeat(100)).await;
        assert!(matches!(peer.ends().await[..], [TargetPdu::LogoutResponse(_)]));
    });
}

#[test]
fn a_write_that_comes_in_one_piece_with_a_logout_before_it_changes_nothing() {
    for (reason, immediate) in
        [(Reason::CLOSE_SESSION, true), (Reason::CLOSE_SESSION, false), (Reason::CLOSE_CONNECTION, false)]
    {
        play(move |bed| async move {
            let peer = bed.log_in("").await;
            peer.write(0, &[1; BLOCK]).await;
            let mut bytes = peer.encode(asked(&peer, reason, 0, immediate), &[]);
            bytes.extend(peer.encode_command(&Scsi::write(0, 1).with(&[2; BLOCK])).1);
            peer.send_bytes(&bytes).await;
            // What comes after the connection has been closed makes the network forget the answer.
            assert!(matches!(peer.ends().await[..], [] | [TargetPdu::LogoutResponse(_)]));
            assert_eq!(bed.on_volume(0, 1).await, [1; BLOCK]);
        });
    }
}

#[test]
fn a_node_that_drains_asks_for_a_logout_and_takes_nobody_new() {
    play(|bed| async move {
        let (one, two) = (bed.log_in_as(1, "").await, bed.log_in_as(2, "").await);
        let late = bed.connect().await;
        let done = drain(&bed, Duration::from_secs(9));
        for peer in [&one, &two] {
            let (message, _) = next!(peer, AsyncMessage);
            assert_eq!((message.event, message.parameter3), (AsyncEvent::LOGOUT_REQUESTED, 9));
            assert_eq!(log_out(peer, Reason::CLOSE_SESSION, 0).await, Code::CLOSED_SUCCESSFULLY);
        }
        late.ends().await;
        bed.pass(Duration::from_millis(100)).await;
        assert_eq!(done.get(), 2, "long before the time is over");
        bed.connect().await.ends().await;
    });
}

#[test]
fn a_node_drains_in_time_whatever_its_initiators_do() {
    play(|bed| async move {
        let (deaf, busy) = (bed.log_in_as(1, "").await, bed.log_in_as(2, "").await);
        for _ in 0..20 {
            deaf.command(&Scsi::read(0, 4096)).await;
        }
        let done = drain(&bed, Duration::from_secs(2));
        next!(busy, AsyncMessage);
        bed.pass(Duration::from_secs(1)).await;
        busy.is_ready().await;
        bed.pass(Duration::from_millis(1200)).await;
        assert_eq!((done.get(), bed.session_count()), (2, 0));
        busy.ends().await;
        deaf.ends().await;
    });
}

#[test]
fn a_node_drains_in_time_whatever_waits_within_a_limit() {
    // Each request takes more than four minutes.
    let limits = Limits { iops: None, bytes_per_second: Some(2) };
    let stage = Stage { limits, ..Stage::new() };
    stage.play(|bed| async move {
        let peer = bed.log_in("").await;
        peer.write(0, &[1; BLOCK]).await;
        for lba in 1..4 {
            peer.command(&Scsi::write(lba, 1).with(&[1; BLOCK])).await;
        }
        bed.settle().await;
        let done = drain(&bed, Duration::from_secs(1));
        bed.pass(DRAIN_TIME / 2).await;
        assert_eq!((done.get(), bed.session_count()), (2, 0));
    });
}
