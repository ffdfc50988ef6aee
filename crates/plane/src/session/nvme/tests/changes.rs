//! What is offered becomes another while hosts are connected.

use std::time::Duration;

use wire::nvme::admin::asynchronous_event_request;
use wire::nvme::admin::event::Event;
use wire::nvme::admin::features::EventConfiguration;
use wire::nvme::admin::identify::{
    Cns, Descriptor, Descriptors, Identify, IdentifyNamespace, read_namespace_list,
};
use wire::nvme::admin::log::{GetLogPage, LogPage};
use wire::nvme::io::{BlockRange, Opcode, command};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{Command, Fuse, NSID_ALL, SglDescriptor, Status};

use super::bed::{BLOCK, BLOCKS, SHARED, SUBSYSTEM, play, play_with_file};
use super::discovery::listen;
use super::host::{Host, Received};
use crate::session::nvme::Namespace;

const DONE: Status = Status::SUCCESSFUL_COMPLETION;
const ABSENT: Status = Status::INVALID_NAMESPACE_OR_FORMAT.do_not_retry();

fn read(nsid: u32) -> Command {
    BlockRange::default().command(Opcode::READ, 0, nsid, SglDescriptor::transport(BLOCK as u32))
}

async fn active(admin: &Host) -> Vec<u32> {
    let list = Identify { cns: Cns::ACTIVE_NAMESPACES, ..Identify::default() };
    let page = admin.fetch(list.command(0)).await.unwrap();
    read_namespace_list(page.first_chunk().unwrap()).collect()
}

async fn changed(admin: &Host, retain: bool) -> Vec<u32> {
    let page = admin.log(LogPage::CHANGED_NAMESPACES, 4096, retain).await;
    let (words, _) = page.as_chunks();
    words.iter().map(|word| u32::from_le_bytes(*word)).take_while(|nsid| *nsid != 0).collect()
}

#[test]
fn the_namespaces_of_a_subsystem_are_volumes_of_their_own() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin_of(&bed, SHARED, 0).await;
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        host.join(SHARED, cntlid, 1).await;
        assert_eq!(active(&admin).await, [1, 2]);
        for (nsid, volume) in [(1, 2), (2, 3)] {
            let namespace = Identify { cns: Cns::NAMESPACE, nsid, ..Identify::default() };
            let page = admin.fetch(namespace.command(0)).await.unwrap();
            let found = IdentifyNamespace::decode(page.first_chunk().unwrap());
            assert_eq!((found.nsze, found.nguid), (BLOCKS, [volume; 16]));
            let descriptors = Identify { cns: Cns::NAMESPACE_DESCRIPTORS, nsid, ..Identify::default() };
            let page = admin.fetch(descriptors.command(0)).await.unwrap();
            let found: Vec<_> = Descriptors::new(page.first_chunk().unwrap()).collect();
            let (nguid, uuid) = (Descriptor::Nguid([volume; 16]), Descriptor::Uuid([volume; 16]));
            assert!(found.contains(&nguid) && found.contains(&uuid), "{found:?}");
            let data = vec![nsid as u8; BLOCK];
            let sgl = SglDescriptor::in_capsule(0, BLOCK as u32);
            host.capsule(BlockRange::default().command(Opcode::WRITE, 7, nsid, sgl), &data).await;
            assert_eq!(host.completed().await.status, DONE);
        }
        for nsid in [1, 2] {
            assert_eq!(host.fetch(read(nsid)).await.unwrap(), vec![nsid as u8; BLOCK]);
        }
        for nsid in [0, 3, 1025, NSID_ALL] {
            assert_eq!(host.fetch(read(nsid)).await, Err(ABSENT));
        }
        assert_eq!(host.ask(command(Opcode::FLUSH, 0, NSID_ALL)).await.status, DONE);
        assert_eq!(host.ask(command(Opcode::FLUSH, 0, 3)).await.status, ABSENT);
    });
}

#[test]
fn a_namespace_that_comes_or_goes_is_told_and_the_queues_on_every_core_know_it() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin_of(&bed, SHARED, 0).await;
        let mut queues = Vec::new();
        // Two connections one after the other are on two cores.
        for qid in 1..=2 {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            host.join(SHARED, cntlid, qid).await;
            queues.push(host);
        }
        listen(&admin, EventConfiguration::NAMESPACE_ATTRIBUTE).await;
        assert!(changed(&admin, false).await.is_empty());
        let wait = async || admin.capsule(asynchronous_event_request(admin.next_cid()), &[]).await;
        let told = async || Event::from_result(admin.completed().await.result);
        let mut offered = bed.offered();
        let place = offered.iter().position(|subsystem| subsystem.nqn == SHARED).unwrap();

        wait().await;
        let namespaces = &mut offered[place].namespaces;
        namespaces.remove(0);
        namespaces.push(Namespace { nsid: 7, volume: 0, id: [9; 16] });
        bed.offer(offered.clone());
        assert_eq!(told().await, Event::NAMESPACE_ATTRIBUTE_CHANGED);
        assert_eq!(changed(&admin, true).await, [1, 7]);
        assert_eq!(changed(&admin, false).await, [1, 7], "it stays as long as the event is retained");
        assert!(changed(&admin, false).await.is_empty());
        assert_eq!(active(&admin).await, [2, 7]);
        for host in &queues {
            assert_eq!(host.fetch(read(1)).await, Err(ABSENT));
            assert!(host.fetch(read(2)).await.is_ok() && host.fetch(read(7)).await.is_ok());
        }

        wait().await;
        offered[place].namespaces.insert(0, Namespace { nsid: 1, volume: 1, id: [2; 16] });
        bed.offer(offered);
        assert_eq!(told().await, Event::NAMESPACE_ATTRIBUTE_CHANGED, "it was armed by reading");
        assert_eq!(changed(&admin, false).await, [1]);
        assert_eq!(active(&admin).await, [1, 2, 7]);
        for host in &queues {
            assert!(host.fetch(read(1)).await.is_ok());
        }
    });
}

#[test]
fn what_changed_is_not_forgotten_by_a_log_page_that_could_not_be_given() {
    play(|bed| async move {
        let (admin, _) = Host::admin_of(&bed, SHARED, 0).await;
        listen(&admin, EventConfiguration::NAMESPACE_ATTRIBUTE).await;
        let mut offered = bed.offered();
        let place = offered.iter().position(|subsystem| subsystem.nqn == SHARED).unwrap();
        offered[place].namespaces.remove(0);
        bed.offer(offered);
        bed.pass(Duration::from_millis(100)).await;
        let get = GetLogPage::new(LogPage::CHANGED_NAMESPACES, 0, 4096).command(0);
        let short = Command { sgl: SglDescriptor::transport(512), ..get };
        assert_eq!(admin.fetch(short).await, Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry()));
        admin.capsule(asynchronous_event_request(admin.next_cid()), &[]).await;
        let told = Event::from_result(admin.completed().await.result);
        assert_eq!(told, Event::NAMESPACE_ATTRIBUTE_CHANGED);
        assert_eq!(changed(&admin, false).await, [1]);
    });
}

#[test]
fn a_command_under_way_when_its_namespace_goes_is_carried_out() {
    play_with_file(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        bed.stall();
        host.blocks(Opcode::WRITE, 3, &[0xa5; BLOCK], true, Fuse::Normal).await;
        bed.pass(Duration::from_millis(100)).await;
        let offered = bed.offered();
        let mut fewer = offered.clone();
        fewer[0].namespaces.clear();
        bed.offer(fewer);
        bed.pass(Duration::from_millis(100)).await;
        bed.release();
        assert_eq!(host.completed().await.status, DONE);
        assert_eq!(host.fetch(read(1)).await, Err(ABSENT));
        bed.offer(offered);
        bed.pass(Duration::from_millis(100)).await;
        assert_eq!(host.read(3, 1).await, [0xa5; BLOCK]);
    });
}

#[test]
fn a_subsystem_that_goes_takes_its_controllers_with_it_and_no_others() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let (other, _) = Host::admin_of(&bed, SHARED, 0).await;
        let offered = bed.offered();
        bed.offer(offered.iter().filter(|subsystem| subsystem.nqn != SUBSYSTEM).cloned().collect());
        assert_eq!(admin.next().await, Received::Closed);
        assert_eq!(host.next().await, Received::Closed);
        assert_eq!(active(&other).await, [1, 2]);
        bed.pass(Duration::from_secs(1)).await;
        assert_eq!(bed.controllers(), 1);
        // So does a host that is not let in any more.
        let mut guarded = offered;
        for subsystem in &mut guarded {
            subsystem.hosts = Some(vec!["nqn.2014-08.com.example:other".to_owned()]);
        }
        bed.offer(guarded);
        assert_eq!(other.next().await, Received::Closed);
    });
}
