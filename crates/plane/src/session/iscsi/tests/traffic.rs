//! What sessions do is counted once, where it came in; who comes and goes is told.

use std::time::Duration;

use wire::iscsi::{Immediate, InitiatorPdu, LoginStatus, LogoutReason, LogoutRequest, LogoutResponseCode};

use super::bed::{BLOCK, BLOCKS, Stage, TARGET, Visitors, play};
use super::peer::{Joining, Peer, Scsi, next, pattern};
use crate::live::Party;
use crate::meter::Counts;
use crate::request::Verb;
use crate::session::notice::{Leaving, What};

const INITIATOR: &str = "iqn.2026-11.internal.test:host";

/// Requests and bytes of reads and writes, flushes, and errors of all.
type Told = ((u64, u64), (u64, u64), u64, u64);

fn told(verbs: &[Counts]) -> Told {
    let of = |verb: Verb| (verbs[verb as usize].requests, verbs[verb as usize].bytes);
    let errors = verbs.iter().map(|counts| counts.errors).sum();
    (of(Verb::Read), of(Verb::Write), of(Verb::Flush).0, errors)
}

fn of_portal(visitors: &Visitors) -> Told {
    let [portal] = &visitors.crowd.ledger.portals[..] else { panic!("one portal") };
    let count = |figures: &crate::meter::VerbFigures| Counts {
        requests: figures.requests,
        bytes: figures.bytes,
        errors: figures.errors,
        nanoseconds: 0,
    };
    told(&portal.verbs.each_ref().map(count))
}

fn of_initiator(visitors: &Visitors) -> Told {
    let who = ("iscsi", INITIATOR.to_owned());
    told(&visitors.crowd.ledger.initiators.get(&who).copied().unwrap_or_default())
}

async fn flush(peer: &Peer) {
    let tag = peer.command(&Scsi::plain(&[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0])).await;
    peer.good(tag).await;
}

/// Three writes of 4 blocks, 5 reads of 2, a flush, and what is refused: it is no operation.
async fn work(peer: &Peer) {
    for number in 0..3 {
        peer.write(number * 8, &pattern(1, 4 * BLOCK)).await;
    }
    for number in 0..5 {
        peer.read(number, 2).await;
    }
    flush(peer).await;
    let _beyond = peer.command(&Scsi::read(BLOCKS, 1)).await;
    assert_eq!(peer.sense().await, (0x05, 0x21));
    peer.is_ready().await;
}

const WORKED: Told = ((5, 5 * 2 * BLOCK as u64), (3, 3 * 4 * BLOCK as u64), 1, 0);

fn twice(told: Told) -> Told {
    let (reads, writes, flushes, errors) = told;
    ((2 * reads.0, 2 * reads.1), (2 * writes.0, 2 * writes.1), 2 * flushes, 2 * errors)
}

#[test]
fn an_operation_is_counted_once_and_stays_counted() {
    for stage in [Stage::new, Stage::with_file] {
        stage().play(|bed| async move {
            let peer = bed.log_in("ImmediateData=Yes").await;
            work(&peer).await;
            let visitors = bed.visitors().await;
            let [user] = &visitors.users[..] else { panic!("one session") };
            assert_eq!((told(&user.counts), user.in_flight), (WORKED, 0));
            assert_eq!((of_portal(&visitors), of_initiator(&visitors)), (WORKED, WORKED));
            assert_eq!(visitors.crowd.ledger.portals[0].connections, 1);
            let party =
                Party { protocol: "iscsi", initiator: INITIATOR.into(), volumes: vec![0], sessions: 1 };
            assert_eq!(visitors.crowd.parties, [party]);
            drop(peer);
            bed.settle().await;
            let gone = bed.visitors().await;
            assert!(gone.users.is_empty() && gone.crowd.ledger.portals[0].connections == 0);
            assert!(gone.crowd.parties.is_empty());
            assert_eq!((of_portal(&gone), of_initiator(&gone)), (WORKED, WORKED));
            // On the other core.
            let again = bed.log_in("ImmediateData=No InitialR2T=Yes").await;
            work(&again).await;
            let both = bed.visitors().await;
            assert_eq!(told(&both.users[0].counts), WORKED);
            assert_eq!((of_portal(&both), of_initiator(&both)), (twice(WORKED), twice(WORKED)));
        });
    }
}

#[test]
fn what_waits_for_a_disk_is_in_flight_and_what_the_disk_took_is_told() {
    Stage::with_file().play(|bed| async move {
        let peer = bed.log_in("").await;
        bed.stall();
        let tag = peer.command(&Scsi::write(0, 1).with(&[7; BLOCK])).await;
        bed.pass(Duration::from_secs(1)).await;
        let visitors = bed.visitors().await;
        assert_eq!((visitors.users[0].in_flight, visitors.crowd.ledger.portals[0].in_flight), (1, 1));
        assert_eq!(visitors.users[0].counts[Verb::Write as usize].requests, 0, "it has not ended");
        bed.release();
        peer.good(tag).await;
        let visitors = bed.visitors().await;
        let write = visitors.users[0].counts[Verb::Write as usize];
        assert_eq!((write.requests, visitors.crowd.ledger.portals[0].in_flight), (1, 0));
        assert!(write.nanoseconds >= 1_000_000_000, "{write:?}");
        let figures = &visitors.crowd.ledger.portals[0].verbs[Verb::Write as usize];
        assert_eq!(figures.times.as_ref().unwrap().sum, write.nanoseconds);
    });
}

async fn log_out(peer: &Peer) {
    let request = LogoutRequest {
        immediate: Immediate(true),
        reason: LogoutReason::CLOSE_SESSION,
        initiator_task_tag: peer.next_tag(),
        cmd_sn: peer.cmd_sn(),
        ..LogoutRequest::default()
    };
    peer.send(InitiatorPdu::LogoutRequest(request), &[]).await;
    assert_eq!(next!(peer, LogoutResponse).0.response, LogoutResponseCode::CLOSED_SUCCESSFULLY);
}

#[test]
fn who_comes_goes_and_is_refused_is_told() {
    play(|bed| async move {
        let notices = bed.notices();
        let take = || std::mem::take(&mut *notices.lock().unwrap());
        let peer = bed.log_in("").await;
        let came = take();
        let [came] = &came[..] else { panic!("one notice and not {came:?}") };
        assert_eq!(
            (came.protocol, came.initiator.as_str(), came.target.as_str()),
            ("iscsi", INITIATOR, TARGET)
        );
        assert_eq!(came.what, What::CameIn);
        log_out(&peer).await;
        bed.settle().await;
        let left = take();
        assert!(
            matches!(&left[..], [one] if matches!(one.what, What::Left(Leaving::Orderly, _))),
            "{left:?}"
        );
        assert_eq!(left[0].from, came.from);
        // Its machine is gone.
        drop(bed.log_in("").await);
        bed.settle().await;
        let lost = take();
        assert!(
            matches!(&lost[..], [_, one] if matches!(one.what, What::Left(Leaving::Lost, _))),
            "{lost:?}"
        );
        // Discovery is nothing that people are to know.
        let joining = Joining { target: None, ..Joining::default() };
        bed.connect().await.log_in(joining).await.unwrap();
        bed.settle().await;
        let nowhere = "iqn.2026-11.internal.fels:nowhere";
        let joining = Joining { target: Some(nowhere), ..Joining::default() };
        assert_eq!(bed.connect().await.log_in(joining).await, Err(LoginStatus::NOT_FOUND));
        let refused = take();
        let [one] = &refused[..] else { panic!("one notice and not {refused:?}") };
        assert_eq!((one.initiator.as_str(), one.target.as_str()), (INITIATOR, nowhere));
        assert_eq!(one.what, What::Refused("there is no such target".to_owned()));
        let peer = bed.log_in("").await;
        for core in bed.cores.iter() {
            core.shard.ring().spawn_later(core.iscsi.clone().drain(Duration::from_millis(50)));
        }
        bed.pass(Duration::from_secs(1)).await;
        drop(peer);
        let sent_away = take();
        let last = sent_away.last().map(|notice| notice.what.clone());
        let why = "the node is stopping".to_owned();
        assert_eq!(last, Some(What::Left(Leaving::KeptOut, why)), "{sent_away:?}");
    });
}
