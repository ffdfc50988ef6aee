//! Get Log Page: Base 2.1 section 5.1.12.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ring::Buffer;
use wire::nvme::admin::Opcode as Admin;
use wire::nvme::admin::log::{
    AddressFamily, AnaGroup, AnaHeader, AnaState, CommandEffects, DiscoveryEntry, DiscoveryHeader,
    DiscoveryType, EFFECTS_LENGTH, EntryFlags, ErrorEntry, FirmwareSlots, GetLogPage, LogPage, SmartLog,
    TransportRequirements, TransportType, admin_effects, io_effects, put_changed_namespaces, put_effects,
    put_group,
};
use wire::nvme::io::Opcode as Io;
use wire::nvme::{CNTLID_DYNAMIC, Command, DISCOVERY_NQN, NSID_ALL, NqnField, Status, Text};

use super::connection::Outcome;
use super::controller::Controller;
use super::counters::{Totals, data_units};
use super::identify::ANA_GROUP;
use super::link::Kind;
use super::node::Node;
use super::service::Service;
use super::subsystem::Subsystem;
use crate::limits::{NVME_ERROR_ENTRIES, TRANSFER_BYTES};
use crate::portals::reached;
use crate::shard::Shard;

/// Room temperature, in kelvin: what a node without a sensor reports.
const TEMPERATURE: u16 = 298;
/// Admin queue entries that a host may ask for, told by discovery.
const ADMIN_QUEUE: u16 = 32;

/// Get Log Page.
pub async fn get(controller: &Controller, command: &Command) -> Result<Outcome, Status> {
    let get = GetLogPage::of(command);
    let length = usize::try_from(get.length()).unwrap_or(usize::MAX);
    if length > TRANSFER_BYTES || !get.offset.is_multiple_of(4) || get.offset_is_index {
        return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
    }
    // Section 5.1.12: only a command that succeeds clears the event.
    if length > command.sgl.length as usize {
        return Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry());
    }
    let page = match (&controller.link.kind(), get.page) {
        (Kind::Discovery, LogPage::DISCOVERY) => {
            let local = controller.admin().and_then(|admin| admin.connection.local());
            discovery(&controller.node, &controller.link.host, local)
        }
        (_, LogPage::SUPPORTED_LOG_PAGES) => supported(controller),
        (Kind::Io(_), LogPage::ERROR) => errors(controller),
        // There is none for a namespace of its own (LPA).
        (Kind::Io(_), LogPage::SMART) if get.nsid != 0 && get.nsid != NSID_ALL => {
            return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
        }
        (Kind::Io(subsystem), LogPage::SMART) => smart(controller, &subsystem.nqn).await,
        (Kind::Io(_), LogPage::FIRMWARE_SLOT) => firmware(),
        (Kind::Io(_), LogPage::CHANGED_NAMESPACES) => changed(controller),
        (Kind::Io(_), LogPage::COMMAND_EFFECTS) => effects(),
        (Kind::Io(subsystem), LogPage::ASYMMETRIC_NAMESPACE_ACCESS) => ana(subsystem, get.specific & 1 != 0),
        _ => return Err(Status::INVALID_LOG_PAGE.do_not_retry()),
    };
    let offset = usize::try_from(get.offset).unwrap_or(usize::MAX);
    if offset > page.len() {
        return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
    }
    if !get.retain_event {
        controller.note_read(get.page);
    }
    // What lies behind the end of the page reads as zeroes.
    let mut data = Buffer::zeroed(length);
    let count = length.min(page.len() - offset);
    data[..count].copy_from_slice(&page[offset..offset + count]);
    Ok(Outcome::with_data(data.share()))
}

/// Section 5.1.12.1.1: one dword a page, bit 0 says that it is there.
fn supported(controller: &Controller) -> Vec<u8> {
    let mut page = vec![0; 1024];
    let pages: &[LogPage] = if controller.link.is_discovery() {
        &[LogPage::SUPPORTED_LOG_PAGES, LogPage::DISCOVERY]
    } else {
        &[
            LogPage::SUPPORTED_LOG_PAGES,
            LogPage::ERROR,
            LogPage::SMART,
            LogPage::FIRMWARE_SLOT,
            LogPage::CHANGED_NAMESPACES,
            LogPage::COMMAND_EFFECTS,
            LogPage::ASYMMETRIC_NAMESPACE_ACCESS,
        ]
    };
    for id in pages {
        page[usize::from(id.0) * 4] = 1;
    }
    page
}

fn errors(controller: &Controller) -> Vec<u8> {
    let mut page = Vec::with_capacity(NVME_ERROR_ENTRIES * ErrorEntry::LENGTH);
    for entry in controller.link.errors().1 {
        let mut bytes = [0; ErrorEntry::LENGTH];
        entry.encode(&mut bytes);
        page.extend_from_slice(&bytes);
    }
    page.resize(NVME_ERROR_ENTRIES * ErrorEntry::LENGTH, 0);
    page
}

/// What hosts have done with the subsystem over NVMe since the node was started, summed up over all cores. There is no
/// memory of it beyond that, and a program knows of no power cycles.
async fn smart(controller: &Controller, nqn: &str) -> Vec<u8> {
    let mut total = Totals::default();
    for index in 0..controller.shard.count() {
        let nqn = nqn.to_owned();
        let count = move |shard: Rc<Shard>| async move {
            shard.service::<Service>().map_or_else(Totals::default, |service| service.totals(&nqn))
        };
        total += controller.shard.call(index, count).await;
    }
    let up = controller.shard.service::<Service>().map_or(Duration::ZERO, |service| service.uptime());
    let mut page = [0; SmartLog::LENGTH];
    let log = SmartLog {
        temperature: TEMPERATURE,
        available_spare: 100,
        available_spare_threshold: 10,
        data_units_read: data_units(total.read_bytes),
        data_units_written: data_units(total.written_bytes),
        host_read_commands: total.read_commands.into(),
        host_write_commands: total.write_commands.into(),
        power_on_hours: u128::from(up.as_secs() / 3600),
        media_errors: total.media_errors.into(),
        error_log_entries: controller.link.errors().0.into(),
        ..SmartLog::default()
    };
    log.encode(&mut page);
    page.to_vec()
}

fn firmware() -> Vec<u8> {
    let mut page = [0; FirmwareSlots::LENGTH];
    FirmwareSlots { afi: 1, frs1: Text::new(env!("CARGO_PKG_VERSION")) }.encode(&mut page);
    page.to_vec()
}

fn changed(controller: &Controller) -> Vec<u8> {
    let mut page = [0; 4096];
    put_changed_namespaces(&mut page, controller.changed.borrow().iter().copied());
    page.to_vec()
}

fn effects() -> Vec<u8> {
    let mut page = [0; EFFECTS_LENGTH];
    let admin = [
        Admin::GET_LOG_PAGE,
        Admin::IDENTIFY,
        Admin::ABORT,
        Admin::SET_FEATURES,
        Admin::GET_FEATURES,
        Admin::ASYNCHRONOUS_EVENT_REQUEST,
        Admin::KEEP_ALIVE,
    ];
    for opcode in admin {
        put_effects(&mut page, admin_effects(opcode.0), CommandEffects::SUPPORTED);
    }
    for opcode in [Io::FLUSH, Io::READ, Io::COMPARE, Io::VERIFY] {
        put_effects(&mut page, io_effects(opcode.0), CommandEffects::SUPPORTED);
    }
    for opcode in [Io::WRITE, Io::WRITE_ZEROES, Io::DATASET_MANAGEMENT, Io::COPY] {
        put_effects(
            &mut page,
            io_effects(opcode.0),
            CommandEffects::SUPPORTED | CommandEffects::BLOCK_CONTENT,
        );
    }
    page.to_vec()
}

fn ana(subsystem: &Subsystem, groups_only: bool) -> Vec<u8> {
    let mut header = [0; AnaHeader::LENGTH];
    AnaHeader { chgcnt: 1, ngrps: 1 }.encode(&mut header);
    let mut page = header.to_vec();
    let group = AnaGroup { grpid: ANA_GROUP, chgcnt: 1, state: AnaState::OPTIMIZED, ..AnaGroup::default() };
    let nsids: Vec<u32> = subsystem.namespaces.iter().map(|namespace| namespace.nsid).collect();
    put_group(&mut page, group, if groups_only { &[] } else { &nsids });
    page
}

/// The discovery log page: this service itself, then every subsystem that the host may use, at every portal by which one that
/// has reached `local` can come.
pub(super) fn discovery(node: &Node, host: &str, local: Option<SocketAddr>) -> Vec<u8> {
    let reach = |portal: &SocketAddr| match local {
        Some(local) => reached(*portal, local),
        None => Some(*portal),
    };
    // Before the entries: what changes while they are gathered gives this page an old number, and is read again.
    let genctr = node.generation();
    let mut entries = Vec::new();
    let places = node.places();
    let (io, discovery) = (&places.io, &places.discovery);
    for (index, portal) in discovery.iter().chain(io).enumerate() {
        let Some(portal) = reach(portal) else { continue };
        let kind = DiscoveryType::CURRENT_DISCOVERY;
        let flags = EntryFlags::DUPLICATE_INFORMATION | EntryFlags::PERSISTENT_CONNECTIONS;
        entries.push(entry(DISCOVERY_NQN, portal, index, kind, flags));
    }
    for (index, portal) in places.referrals.iter().enumerate() {
        let (port, kind) = (discovery.len() + io.len() + index, DiscoveryType::REFERRAL);
        entries.push(entry(DISCOVERY_NQN, *portal, port, kind, EntryFlags::empty()));
    }
    let subsystems = node.subsystems();
    for subsystem in subsystems.iter().filter(|subsystem| subsystem.admits(host)) {
        for (index, portal) in io.iter().enumerate() {
            let (port, kind) = (discovery.len() + index, DiscoveryType::NVM);
            let Some(portal) = reach(portal) else { continue };
            entries.push(entry(&subsystem.nqn, portal, port, kind, EntryFlags::empty()));
        }
    }
    let mut header = [0; DiscoveryHeader::LENGTH];
    DiscoveryHeader { genctr, numrec: entries.len() as u64, recfmt: 0 }.encode(&mut header);
    let mut page = header.to_vec();
    for entry in entries {
        let mut bytes = [0; DiscoveryEntry::LENGTH];
        entry.encode(&mut bytes);
        page.extend_from_slice(&bytes);
    }
    page
}

fn entry(
    nqn: &str,
    portal: SocketAddr,
    port: usize,
    kind: DiscoveryType,
    flags: EntryFlags,
) -> DiscoveryEntry {
    DiscoveryEntry {
        trtype: TransportType::TCP,
        adrfam: if portal.is_ipv4() { AddressFamily::IPV4 } else { AddressFamily::IPV6 },
        subtype: kind,
        // Of a secure channel nothing is said, as long as there is none.
        treq: TransportRequirements::DISABLE_SQ_FLOW_CONTROL,
        portid: port as u16 + 1,
        cntlid: CNTLID_DYNAMIC,
        asqsz: ADMIN_QUEUE,
        eflags: flags,
        trsvcid: Text::new(&portal.port().to_string()),
        subnqn: NqnField::new(nqn),
        traddr: Text::new(&portal.ip().to_string()),
        ..DiscoveryEntry::default()
    }
}
