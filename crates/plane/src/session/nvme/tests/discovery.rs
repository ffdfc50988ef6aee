//! The discovery service: what its log page says, how long its controllers live, and what they are told.

use std::time::Duration;

use wire::nvme::admin::event::Event;
use wire::nvme::admin::features::{EventConfiguration, Feature, SetFeatures};
use wire::nvme::admin::identify::{Cns, ControllerType, Identify, IdentifyController};
use wire::nvme::admin::log::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, DiscoveryType, EntryFlags, LogPage, SecureChannel,
    TransportRequirements, TransportType,
};
use wire::nvme::admin::{asynchronous_event_request, keep_alive};
use wire::nvme::fabrics::Connect;
use wire::nvme::{CNTLID_DYNAMIC, DISCOVERY_NQN, SglDescriptor, Status};

use super::bed::{Bed, PRIVATE, SHARED, SUBSYSTEM, play};
use super::host::{Host, Received, identity};
use crate::session::nvme::logs::discovery as discovery_page;
use crate::session::nvme::{Node, Places, Subsystem};

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

/// The discovery log page as hosts read it: the header first, then all of it.
pub async fn page(host: &Host) -> (DiscoveryHeader, Vec<DiscoveryEntry>) {
    let header =
        DiscoveryHeader::decode(host.log(LogPage::DISCOVERY, 1024, true).await.first_chunk().unwrap());
    let bytes = host.log(LogPage::DISCOVERY, 1024 * (1 + header.numrec as u32), false).await;
    let again = DiscoveryHeader::decode(bytes.first_chunk().unwrap());
    assert_eq!((header.genctr, header.numrec), (again.genctr, again.numrec));
    let (entries, _) = bytes[1024..].as_chunks();
    (again, entries.iter().map(DiscoveryEntry::decode).collect())
}

/// Switches notices on.
pub async fn listen(host: &Host, events: EventConfiguration) {
    let feature = Feature::ASYNCHRONOUS_EVENT_CONFIGURATION;
    let set = SetFeatures { feature, value: events.bits(), ..SetFeatures::default() };
    assert_eq!(host.ask(set.command(0, SglDescriptor::NOTHING)).await.status, DONE);
}

async fn discovery(bed: &Bed, kato: u32) -> Host {
    Host::admin_of(bed, DISCOVERY_NQN, kato).await.0
}

#[test]
fn the_page_has_the_service_itself_referrals_and_what_the_host_may_use_at_every_portal() {
    play(|bed| async move {
        let host = Host::open_at(&bed, bed.discovery).await;
        host.initialize(wire::nvme::tcp::DigestFlags::empty(), 0).await;
        let completion =
            host.connect_as(Connect { sqsize: 31, ..Connect::default() }, &identity(DISCOVERY_NQN)).await;
        assert_eq!(completion.status, DONE);
        host.set_configuration(wire::nvme::fabrics::ControllerConfiguration::ENABLED).await;
        let (header, entries) = page(&host).await;
        assert_eq!((header.genctr, header.recfmt), (1, 0));
        let seen: Vec<_> = entries
            .iter()
            .map(|entry| {
                (entry.subtype, entry.subnqn.text().unwrap(), entry.trsvcid.as_str().unwrap().to_owned())
            })
            .collect();
        let (current, referral) = (DiscoveryType::CURRENT_DISCOVERY, DiscoveryType::REFERRAL);
        let expected = [
            (current, DISCOVERY_NQN, "8009"),
            (current, DISCOVERY_NQN, "4420"),
            (referral, DISCOVERY_NQN, "8009"),
            (DiscoveryType::NVM, SUBSYSTEM, "4420"),
            (DiscoveryType::NVM, SHARED, "4420"),
        ];
        assert_eq!(seen.len(), expected.len(), "{PRIVATE} is for another host");
        for (seen, expected) in seen.iter().zip(expected) {
            assert_eq!((seen.0, seen.1, seen.2.as_str()), expected);
        }
        let ports: std::collections::HashSet<u16> = entries.iter().map(|entry| entry.portid).collect();
        assert_eq!(ports.len(), 3, "a portal has one identifier whatever is behind it");
        for entry in &entries {
            let six = entry.subtype == referral;
            assert_eq!(entry.adrfam, if six { AddressFamily::IPV6 } else { AddressFamily::IPV4 });
            let address = if six { "2001:db8::7".to_owned() } else { bed.portal.ip().to_string() };
            assert_eq!(entry.traddr.as_str(), Some(address.as_str()));
            assert_eq!((entry.trtype, entry.cntlid), (TransportType::TCP, CNTLID_DYNAMIC));
            assert_eq!(entry.sectype, SecureChannel::NONE);
            assert_eq!(entry.treq, TransportRequirements::DISABLE_SQ_FLOW_CONTROL, "no secure channel");
            let persistent = entry.eflags.contains(EntryFlags::PERSISTENT_CONNECTIONS);
            assert_eq!(persistent, entry.subtype == current);
        }
    });
}

#[test]
fn a_discovery_controller_says_what_it_is_and_takes_no_io_queue() {
    play(|bed| async move {
        let (host, cntlid) = Host::admin_of(&bed, DISCOVERY_NQN, 0).await;
        let page =
            host.fetch(Identify { cns: Cns::CONTROLLER, ..Identify::default() }.command(0)).await.unwrap();
        let identify = IdentifyController::decode(page.first_chunk().unwrap());
        assert_eq!((identify.cntrltype, identify.dctype), (ControllerType::DISCOVERY, 1));
        assert_eq!(identify.oaes, EventConfiguration::DISCOVERY_LOG_PAGE);
        assert_eq!(identify.subnqn.text(), Ok(DISCOVERY_NQN));
        let namespace = Identify { cns: Cns::NAMESPACE, nsid: 1, ..Identify::default() };
        let refused = Status::INVALID_FIELD_IN_COMMAND.do_not_retry();
        assert_eq!(host.fetch(namespace.command(0)).await, Err(refused));
        let queue = Host::initialized(&bed, wire::nvme::tcp::DigestFlags::empty()).await;
        let data = wire::nvme::fabrics::ConnectData { cntlid, ..identity(DISCOVERY_NQN) };
        let completion = queue.connect_as(Connect { qid: 1, sqsize: 31, ..Connect::default() }, &data).await;
        assert_eq!(completion.status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
        assert_eq!(queue.next().await, Received::Closed);
    });
}

#[test]
fn a_persistent_controller_lives_by_its_keep_alive_time_and_another_for_two_idle_minutes() {
    play(|bed| async move {
        let (persistent, idle) = (discovery(&bed, 5000).await, discovery(&bed, 0).await);
        for _ in 0..35 {
            bed.pass(Duration::from_secs(4)).await;
            assert_eq!(persistent.ask(keep_alive(0)).await.status, DONE);
        }
        // 140 s: the idle one has been looked at after 120 s, with traffic in the first interval.
        assert_eq!(idle.next_within(Duration::from_secs(120)).await, Received::Closed);
        let before = bed.ring.now();
        assert_eq!(persistent.next_within(Duration::from_secs(12)).await, Received::Closed);
        assert!(bed.ring.now().since(before) < Duration::from_secs(12));
    });
}

#[test]
fn a_change_is_told_once_until_the_page_is_read_without_retaining_the_event() {
    play(|bed| async move {
        let host = discovery(&bed, 10_000).await;
        listen(&host, EventConfiguration::DISCOVERY_LOG_PAGE).await;
        let (before, entries) = page(&host).await;
        let request = host.next_cid();
        host.capsule(asynchronous_event_request(request), &[]).await;
        let everything = bed.offered();
        let without = || everything.iter().filter(|subsystem| subsystem.nqn != SHARED).cloned().collect();
        bed.offer(without());
        let told = host.completed().await;
        assert_eq!((told.cid, told.status), (request, DONE));
        assert_eq!(Event::from_result(told.result), Event::DISCOVERY_LOG_PAGE_CHANGE);
        // The next change is not told before the page has been read.
        let request = host.next_cid();
        host.capsule(asynchronous_event_request(request), &[]).await;
        bed.offer(everything.clone());
        host.is_silent(Duration::from_secs(1)).await;
        host.log(LogPage::DISCOVERY, 1024, true).await;
        bed.offer(without());
        host.is_silent(Duration::from_secs(1)).await;
        let (after, fewer) = page(&host).await;
        assert_eq!((after.genctr, fewer.len()), (before.genctr + 3, entries.len() - 1));
        bed.offer(everything.clone());
        assert_eq!(host.completed().await.cid, request, "reading the page has armed it again");
        assert_eq!(page(&host).await.0.genctr, before.genctr + 4);
        // What is the same is no change.
        let request = host.next_cid();
        host.capsule(asynchronous_event_request(request), &[]).await;
        bed.offer(everything);
        host.is_silent(Duration::from_secs(1)).await;
        assert_eq!(page(&host).await.0.genctr, before.genctr + 4);
    });
}

#[test]
fn who_has_not_asked_is_not_told() {
    play(|bed| async move {
        let host = discovery(&bed, 0).await;
        host.capsule(asynchronous_event_request(host.next_cid()), &[]).await;
        bed.offer(Vec::new());
        host.is_silent(Duration::from_secs(1)).await;
        assert_eq!(page(&host).await.1.len(), 3, "the service itself and a referral");
    });
}

#[test]
fn a_host_is_told_of_portals_on_all_addresses_as_it_can_reach_them() {
    let subsystem = std::sync::Arc::new(Subsystem::new(SUBSYSTEM, [1; 16]));
    let node = Node::new(vec![subsystem]);
    let places = |list: &[&str]| list.iter().map(|portal| portal.parse().unwrap()).collect();
    node.set_places(Places { io: places(&["[::]:4420", "0.0.0.0:4421"]), ..Places::default() });
    let told = |local: &str| {
        let page = discovery_page(&node, "host", Some(local.parse().unwrap()));
        let (entries, _) = page[1024..].as_chunks();
        let entries = entries.iter().map(DiscoveryEntry::decode);
        let text = |entry: DiscoveryEntry| {
            let at = format!("{} {}", entry.traddr.as_str().unwrap(), entry.trsvcid.as_str().unwrap());
            (entry.adrfam, at)
        };
        entries.filter(|entry| entry.subtype == DiscoveryType::NVM).map(text).collect::<Vec<_>>()
    };
    let (four, six) = (AddressFamily::IPV4, AddressFamily::IPV6);
    let both = [(four, "192.0.2.1 4420".to_owned()), (four, "192.0.2.1 4421".to_owned())];
    assert_eq!(told("[::ffff:192.0.2.1]:4420"), both);
    assert_eq!(told("192.0.2.1:4421"), both);
    assert_eq!(told("[2001:db8::1]:4420"), [(six, "2001:db8::1 4420".to_owned())], "IPv4 is not heard there");
}
