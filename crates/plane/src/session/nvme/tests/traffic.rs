//! What hosts do is counted once, on whichever core; who comes and goes is told.

use std::time::Duration;

use wire::nvme::fabrics::{Connect, ConnectData, ControllerConfiguration, Property, Shutdown};
use wire::nvme::io::{Opcode, command};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{Fuse, NqnField, Status};

use super::bed::{BLOCK, BLOCKS, PRIVATE, SUBSYSTEM, Visitors, play, play_layered_and_bare, play_with_file};
use super::host::{Host, identity};
use crate::error::ErrorKind;
use crate::layers::Fault;
use crate::request::{Extent, Verb};
use crate::session::notice::{Leaving, What};

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

/// Three writes of 8 blocks, in the capsule or not, and two reads of 4; what is refused is no operation.
async fn work(host: &Host) {
    for (lba, in_capsule) in [(0, true), (8, false), (16, true)] {
        let data = vec![7; 8 * BLOCK];
        host.blocks(Opcode::WRITE, lba, &data, in_capsule, Fuse::Normal).await;
        if !in_capsule {
            let r2t = host.ready().await;
            host.data(&r2t, 0, &data, true, false).await;
        }
        assert_eq!(host.completed().await.status, DONE);
    }
    for lba in [0, 8] {
        host.read(lba, 4).await;
    }
    assert_eq!(host.ask(command(Opcode::FLUSH, 0, 1)).await.status, DONE);
    host.blocks(Opcode::READ, BLOCKS, &[0; BLOCK], false, Fuse::Normal).await;
    assert_eq!(host.completed().await.status, Status::LBA_OUT_OF_RANGE.do_not_retry());
}

#[test]
fn operations_of_all_queues_are_those_of_their_controller() {
    for play in [play_layered_and_bare, play_with_file] {
        play(|bed| async move {
            let (admin, cntlid) = Host::admin(&bed, 0).await;
            let queues = [Host::io(&bed, cntlid, DigestFlags::empty()).await, {
                let host = Host::initialized(&bed, DigestFlags::empty()).await;
                host.join(SUBSYSTEM, cntlid, 2).await;
                host
            }];
            for queue in &queues {
                work(queue).await;
            }
            let of = |visitors: &Visitors, verb: Verb| {
                let portal =
                    &visitors.crowd.ledger.portals.iter().find(|one| one.portal.protocol == "nvme").unwrap();
                let figures = &portal.verbs[verb as usize];
                (figures.requests, figures.bytes, figures.errors)
            };
            let visitors = bed.visitors().await;
            let [user] = &visitors.users[..] else { panic!("one controller") };
            let [party] = &visitors.crowd.parties[..] else { panic!("one host") };
            assert_eq!((party.protocol, &party.initiator, party.sessions), ("nvme", &user.initiator, 1));
            assert!(!party.volumes.is_empty() && party.volumes == user.volumes);
            let counts = |verb: Verb| {
                let counts = user.counts[verb as usize];
                (counts.requests, counts.bytes, counts.errors)
            };
            let expected = [
                (Verb::Read, (4, 16 * BLOCK as u64, 0)),
                (Verb::Write, (6, 48 * BLOCK as u64, 0)),
                (Verb::Flush, (2, 0, 0)),
            ];
            for (verb, expected) in expected {
                assert_eq!((counts(verb), of(&visitors, verb)), (expected, expected), "{verb:?}");
            }
            drop((admin, queues));
            bed.pass(Duration::from_secs(1)).await;
            let gone = bed.visitors().await;
            assert!(gone.users.is_empty() && gone.crowd.parties.is_empty());
            for (verb, expected) in expected {
                assert_eq!(of(&gone, verb), expected, "{verb:?}");
            }
            let host = gone.crowd.ledger.initiators.values().next().unwrap();
            assert_eq!(host[Verb::Write as usize].requests, 6);
        });
    }
}

#[test]
fn what_the_volume_fails_is_an_error() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let extent = Extent::new(0, BLOCK as u64);
        bed.faults.plant(Fault { verb: Verb::Write, extent, kind: ErrorKind::Write });
        host.blocks(Opcode::WRITE, 0, &[1; BLOCK], true, Fuse::Normal).await;
        assert_ne!(host.completed().await.status, DONE);
        let visitors = bed.visitors().await;
        let write = visitors.users[0].counts[Verb::Write as usize];
        assert_eq!((write.requests, write.errors, write.bytes), (1, 1, 0));
    });
}

#[test]
fn hosts_that_come_go_and_are_refused_are_told() {
    play(|bed| async move {
        let notices = bed.notices();
        let take = || std::mem::take(&mut *notices.lock().unwrap());
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let io = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let came = take();
        assert!(
            matches!(&came[..], [one] if one.what == What::CameIn && one.target == SUBSYSTEM),
            "{came:?}"
        );
        admin.set_configuration(ControllerConfiguration::ENABLED.with_shn(Shutdown::Normal as u32)).await;
        while admin.property(Property::CSTS).await & 0xc != 8 {
            bed.pass(Duration::from_millis(10)).await;
        }
        drop((admin, io));
        bed.pass(Duration::from_secs(1)).await;
        let left = take();
        assert!(
            matches!(&left[..], [one] if matches!(one.what, What::Left(Leaving::Orderly, _))),
            "{left:?}"
        );
        drop(Host::admin(&bed, 0).await);
        bed.pass(Duration::from_secs(1)).await;
        let lost = take();
        assert!(
            matches!(&lost[..], [_, one] if matches!(one.what, What::Left(Leaving::Lost, _))),
            "{lost:?}"
        );
        // A subsystem that is not offered any more.
        let (admin, _) = Host::admin(&bed, 0).await;
        let offered = bed.offered();
        bed.offer(offered.into_iter().filter(|subsystem| subsystem.nqn != SUBSYSTEM).collect());
        bed.pass(Duration::from_secs(1)).await;
        drop(admin);
        let sent_away = take();
        assert!(
            matches!(&sent_away[..], [_, one] if matches!(one.what, What::Left(Leaving::KeptOut, _))),
            "{sent_away:?}"
        );
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        let stranger =
            ConnectData { hostnqn: NqnField::new("nqn.2014-08.com.example:x"), ..identity(PRIVATE) };
        host.connect_as(Connect { sqsize: 31, ..Connect::default() }, &stranger).await;
        let refused = take();
        let [one] = &refused[..] else { panic!("one notice and not {refused:?}") };
        assert_eq!((one.initiator.as_str(), one.target.as_str()), ("nqn.2014-08.com.example:x", PRIVATE));
        assert_eq!(one.what, What::Refused("it may not use this subsystem".to_owned()));
    });
}
