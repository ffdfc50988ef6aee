//! Several sessions, several connections, and how they take each other's place.

use std::time::Duration;

use ring::sim::Settings;
use wire::iscsi::LoginStatus;

use super::bed::{BLOCK, Stage, TARGET, play, play_with_file};
use super::peer::{Joining, Scsi, next, pattern};
use crate::limits::LOGIN_TIME;

#[test]
fn one_initiator_may_have_several_sessions() {
    play(|bed| async move {
        let (one, two) = (bed.log_in_as(1, "").await, bed.log_in_as(2, "").await);
        assert_ne!(one.tsih(), two.tsih());
        assert_eq!(bed.session_count(), 2);
        one.write(5, &[0x15; BLOCK]).await;
        assert_eq!(two.read(5, 1).await, [0x15; BLOCK]);
    });
}

#[test]
fn what_stands_right_behind_a_large_write_is_taken_from_where_that_ends() {
    play(|bed| async move {
        let peer = bed.log_in("ImmediateData=Yes FirstBurstLength=262144").await;
        let (lengths, data) = ([384, 1, 500, 7, 300, 512], pattern(3, 1704 * BLOCK));
        let (mut stream, mut tags, mut lba) = (Vec::new(), Vec::new(), 0);
        for blocks in lengths {
            let write = Scsi::write(lba as u64, blocks as u32).with(&data[lba * BLOCK..][..blocks * BLOCK]);
            let (tag, bytes) = peer.encode_command(&write);
            stream.extend(bytes);
            tags.push(tag);
            lba += blocks;
        }
        peer.send_bytes(&stream).await;
        for tag in tags {
            peer.good(tag).await;
        }
        assert!(peer.read(0, lba as u32).await == data);
    });
}

#[test]
fn connections_are_moved_to_the_core_of_their_session() {
    play(|bed| async move {
        let one = bed.log_in("").await;
        let (core, session) = bed.session(one.tsih()).unwrap();
        let mut all = Vec::new();
        for cid in 1..=3 {
            let more = bed.connect_to((core + usize::from(cid)) % 2).await;
            more.be_of(&one);
            more.log_in(Joining { tsih: one.tsih(), cid, ..Joining::default() }).await.unwrap();
            more.write(cid.into(), &[cid as u8; BLOCK]).await;
            assert_eq!(one.read(cid.into(), 1).await, [cid as u8; BLOCK]);
            assert_eq!(session.connection_count(), usize::from(cid) + 1);
            all.push(more);
        }
    });
}

#[test]
fn responses_and_r2ts_come_on_the_connection_of_the_command() {
    play(|bed| async move {
        let one = bed.log_in("InitialR2T=Yes").await;
        let two = one.join(1).await.unwrap();
        let on_one = one.command(&Scsi::write(0, 1)).await;
        let on_two = two.command(&Scsi::write(1, 1)).await;
        let (of_one, of_two) = (next!(one, R2t).0, next!(two, R2t).0);
        assert_eq!((of_one.initiator_task_tag, of_two.initiator_task_tag), (on_one, on_two));
        two.answer(&of_two, &[2; BLOCK]).await;
        one.answer(&of_one, &[1; BLOCK]).await;
        one.good(on_one).await;
        two.good(on_two).await;
    });
}

#[test]
fn data_is_only_taken_on_the_connection_of_its_command() {
    play(|bed| async move {
        let one = bed.log_in("InitialR2T=Yes").await;
        let two = one.join(1).await.unwrap();
        let tag = one.command(&Scsi::write(0, 1)).await;
        let (request, _) = next!(one, R2t);
        two.answer(&request, &[2; BLOCK]).await;
        two.is_well().await;
        one.hears_nothing().await;
        one.answer(&request, &[1; BLOCK]).await;
        one.good(tag).await;
        assert_eq!(bed.on_volume(0, 1).await, [1; BLOCK]);
    });
}

#[test]
fn a_session_has_as_many_connections_as_agreed() {
    play(|bed| async move {
        let one = bed.log_in("MaxConnections=2").await;
        let two = one.join(1).await.unwrap();
        assert_eq!(one.join(2).await.err(), Some(LoginStatus::TOO_MANY_CONNECTIONS));
        one.is_well().await;
        two.is_well().await;
    });
}

#[test]
fn logins_at_the_same_time_do_not_exceed_what_was_agreed() {
    play(|bed| async move {
        let one = bed.log_in("MaxConnections=3").await;
        let mut more = Vec::new();
        for cid in 1..=5 {
            let peer = bed.connect().await;
            peer.be_of(&one);
            peer.ask_to_log_in(Joining { tsih: one.tsih(), cid, ..Joining::default() }).await;
            more.push(peer);
        }
        let mut joined = Vec::new();
        for peer in more {
            if peer.logged_in().await.is_ok() {
                peer.is_well().await;
                joined.push(peer);
            }
        }
        assert_eq!(joined.len(), 2);
    });
}

#[test]
fn a_login_that_joined_and_went_away_leaves_its_place_to_others() {
    play(|bed| async move {
        let one = bed.log_in("MaxConnections=2").await;
        for cid in 1..5 {
            let peer = bed.connect().await;
            peer.be_of(&one);
            peer.ask_to_log_in(Joining { tsih: one.tsih(), cid, ..Joining::default() }).await;
            // Gone in the middle of its login, perhaps.
            bed.pass(Duration::from_micros(u64::from(cid) * 150)).await;
        }
        bed.settle().await;
        if bed.session(one.tsih()).is_some() {
            one.join(9).await.unwrap();
        }
    });
}

#[test]
fn only_what_is_there_can_be_joined() {
    play(|bed| async move {
        let one = bed.log_in("").await;
        for (isid, tsih, target) in
            [(1, one.tsih() + 1, TARGET), (2, one.tsih(), TARGET), (1, one.tsih(), super::bed::OTHER_TARGET)]
        {
            let peer = bed.connect().await;
            let joining = Joining { isid, tsih, cid: 1, target: Some(target), ..Joining::default() };
            assert_eq!(peer.log_in(joining).await.err(), Some(LoginStatus::SESSION_DOES_NOT_EXIST));
        }
        one.is_well().await;
    });
}

#[test]
fn a_lost_connection_ends_its_session() {
    play(|bed| async move {
        let one = bed.log_in("").await;
        let two = one.join(1).await.unwrap();
        drop(one);
        two.ends().await;
        bed.settle().await;
        assert_eq!(bed.session_count(), 0, "error recovery level 0");
    });
}

#[test]
fn a_connection_is_reinstated() {
    play(|bed| async move {
        let one = bed.log_in("InitialR2T=Yes").await;
        let old = one.join(1).await.unwrap();
        let tag = old.command(&Scsi::write(0, 1)).await;
        next!(old, R2t);
        let new = one.join(1).await.unwrap();
        old.ends().await;
        one.is_well().await;
        // The old one's task is gone: its tag is free.
        new.command(&Scsi::test_unit_ready().tagged(tag)).await;
        new.good(tag).await;
        assert_eq!(bed.session(one.tsih()).unwrap().1.connection_count(), 2);
    });
}

#[test]
fn the_only_connection_is_reinstated_and_its_session_goes_on() {
    play(|bed| async move {
        let old = bed.log_in("").await;
        let new = old.join(0).await.unwrap();
        old.ends().await;
        new.is_well().await;
        new.is_ready().await;
        assert_eq!(new.tsih(), old.tsih());
    });
}

#[test]
fn a_reinstated_session_begins_when_the_writes_of_the_old_one_have_ended() {
    play_with_file(|bed| async move {
        let old = bed.log_in("").await;
        bed.stall();
        old.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
        old.is_well().await;
        let new = bed.connect().await;
        new.ask_to_log_in(Joining::default()).await;
        old.ends().await;
        bed.pass(Duration::from_secs(2)).await;
        new.hears_nothing().await;
        bed.release();
        new.logged_in().await.unwrap();
        assert_ne!(new.tsih(), old.tsih());
        new.command(&Scsi::test_unit_ready()).await;
        let (response, data) = new.response().await;
        assert_eq!((response.status, data[14], data[15]), (2, 0x29, 0x07), "I_T NEXUS LOSS OCCURRED");
        assert_eq!(new.read(0, 1).await, [1; BLOCK], "the old write had ended");
        assert_eq!(bed.session_count(), 1);
    });
}

#[test]
fn a_login_that_gave_up_waiting_does_not_stop_the_end_of_the_old_session() {
    for core in 0..2 {
        play_with_file(move |bed| async move {
            let old = bed.log_in("").await;
            bed.stall();
            old.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
            old.is_well().await;
            let new = bed.connect_to(core).await;
            new.ask_to_log_in(Joining::default()).await;
            new.ends_within(LOGIN_TIME + Duration::from_secs(1)).await;
            bed.release();
            bed.settle().await;
            bed.log_in("").await.is_ready().await;
        });
    }
}

#[test]
fn of_logins_of_the_same_name_at_the_same_time_one_session_is_left() {
    Stage { seeds: 0..40, ..Stage::new() }.play(|bed| async move {
        let mut peers = Vec::new();
        for _ in 0..4 {
            peers.push(bed.connect().await);
        }
        for peer in &peers {
            peer.ask_to_log_in(Joining::default()).await;
        }
        bed.pass(Duration::from_secs(1)).await;
        assert_eq!(bed.session_count(), 1);
        let mut alive = 0;
        for peer in &peers {
            if peer.logged_in().await.is_ok() && bed.session(peer.tsih()).is_some() {
                peer.is_well().await;
                alive += 1;
            }
        }
        assert_eq!(alive, 1);
    });
}

/// A network that takes a few bytes at a time: the answer to a login is under way until it is read.
fn narrow() -> Stage {
    Stage { settings: Settings { window: 64, ..Settings::default() }, ..Stage::new() }
}

#[test]
fn a_login_overtaken_by_another_of_its_name_does_not_come_back() {
    narrow().play(|bed| async move {
        let slow = bed.connect().await;
        slow.ask_to_log_in(Joining::default()).await;
        bed.settle().await;
        let quick = bed.connect().await;
        quick.log_in(Joining::default()).await.unwrap();
        quick.is_well().await;
        slow.logged_in().await.unwrap();
        slow.ends().await;
        quick.is_well().await;
        assert_eq!(bed.session_count(), 1);
    });
}

#[test]
fn a_login_whose_answer_is_not_read_leaves_the_registry() {
    narrow().play(|bed| async move {
        let one = bed.log_in_as(2, "MaxConnections=2").await;
        let (leading, joining) = (bed.connect().await, bed.connect().await);
        leading.ask_to_log_in(Joining::default()).await;
        joining.be_of(&one);
        joining.ask_to_log_in(Joining { isid: 2, tsih: one.tsih(), cid: 1, ..Joining::default() }).await;
        bed.settle().await;
        let registry = &bed.cores[0].iscsi.node().registry;
        assert_eq!(registry.len(), 2);
        assert_eq!(one.join(2).await.err(), Some(LoginStatus::TOO_MANY_CONNECTIONS));
        bed.pass(LOGIN_TIME).await;
        assert_eq!(registry.len(), 1);
        one.join(2).await.unwrap().is_well().await;
    });
}
