//! Identify: Base 2.1 section 5.1.13, NVM Command Set 1.1 section 4.1.5.

use ring::Buffer;
use wire::nvme::admin::features::EventConfiguration;
use wire::nvme::admin::identify::{
    AnaCapabilities, Cns, ControllerAttributes, ControllerType, Csi, DeallocateFeatures, Descriptor,
    FusedOperations, IDENTIFY_LENGTH, Identify, IdentifyController, IdentifyNamespace, IndependentNamespace,
    LbaFormat, LbaFormats, LogPageAttributes, MultiPath, NamespaceFeatures, NamespaceStatus, NvmController,
    NvmNamespace, OptionalCommands, PowerState, SglSupport, VolatileWriteCacheAttributes,
    put_controller_list, put_descriptors, put_io_command_sets, put_namespace_list,
};
use wire::nvme::tcp::ADMIN_IN_CAPSULE;
use wire::nvme::{Command, DISCOVERY_NQN, NSID_ALL, NqnField, Status, Text, VERSION_2_1};

use super::connection::Outcome;
use super::controller::Controller;
use super::features::has_cache;
use super::link::Kind;
use super::subsystem::{Namespace, Subsystem};
use crate::limits::{
    COMPARE_BYTES, COPY_BYTES, NVME_ERROR_ENTRIES, NVME_EVENT_REQUESTS, NVME_IN_CAPSULE, NVME_NAMESPACES,
    NVME_QUEUE_ENTRIES, NVME_RESET_TIME, TRANSFER_BYTES,
};
use crate::request::Geometry;

const INVALID_FIELD: Status = Status::INVALID_FIELD_IN_COMMAND.do_not_retry();
const NO_NAMESPACE: Status = Status::INVALID_NAMESPACE_OR_FORMAT.do_not_retry();
/// The one ANA group, optimised on every path.
pub const ANA_GROUP: u32 = 1;

type Page = Box<[u8; IDENTIFY_LENGTH]>;

/// Identify.
pub fn identify(controller: &Controller, command: &Command) -> Result<Outcome, Status> {
    let identify = Identify::of(command);
    let mut page: Page = Box::new([0; IDENTIFY_LENGTH]);
    match (&controller.link.kind(), identify.cns) {
        (Kind::Discovery, Cns::CONTROLLER) => discovery_controller(controller).encode(&mut page),
        (Kind::Io(subsystem), Cns::CONTROLLER) => io_controller(controller, subsystem).encode(&mut page),
        (Kind::Io(subsystem), cns) => of_subsystem(controller, subsystem, identify, cns, &mut page)?,
        _ => return Err(INVALID_FIELD),
    }
    Ok(Outcome::with_data(Buffer::copy_of(&page[..]).share()))
}

fn of_subsystem(
    controller: &Controller,
    subsystem: &Subsystem,
    identify: Identify,
    cns: Cns,
    page: &mut Page,
) -> Result<(), Status> {
    let nvm = |identify: Identify| if identify.csi == Csi::NVM { Ok(()) } else { Err(INVALID_FIELD) };
    let after =
        |nsid: u32| subsystem.namespaces.iter().map(|namespace| namespace.nsid).filter(move |id| *id > nsid);
    match cns {
        Cns::NAMESPACE if identify.nsid == NSID_ALL => common_namespace().encode(page),
        Cns::NAMESPACE => {
            // An inactive namespace gives zeroes, one that cannot be an error.
            if let Some((_, geometry)) = find(controller, subsystem, identify.nsid)? {
                namespace(identify.nsid, subsystem, &geometry).encode(page);
            }
        }
        Cns::ACTIVE_NAMESPACES | Cns::COMMAND_SET_ACTIVE_NAMESPACES => {
            if cns == Cns::COMMAND_SET_ACTIVE_NAMESPACES {
                nvm(identify)?;
            }
            if identify.nsid >= NSID_ALL - 1 {
                return Err(NO_NAMESPACE);
            }
            put_namespace_list(page, after(identify.nsid));
        }
        Cns::NAMESPACE_DESCRIPTORS => {
            let (namespace, _) = find(controller, subsystem, identify.nsid)?.ok_or(NO_NAMESPACE)?;
            let (nguid, uuid) = (Descriptor::Nguid(namespace.id), Descriptor::Uuid(namespace.id));
            put_descriptors(page, &[nguid, uuid, Descriptor::Csi(Csi::NVM)]);
        }
        Cns::COMMAND_SET_NAMESPACE => {
            nvm(identify)?;
            if find(controller, subsystem, identify.nsid)?.is_some() {
                NvmNamespace::default().encode(page);
            }
        }
        Cns::COMMAND_SET_CONTROLLER => {
            nvm(identify)?;
            let limits = NvmController {
                // 256 ranges of any size; Write Zeroes and Verify are not bound by MDTS.
                dmrl: 255,
                ver: 0x0001_0100,
                ..NvmController::default()
            };
            limits.encode(page);
        }
        Cns::INDEPENDENT_NAMESPACE => {
            find(controller, subsystem, identify.nsid)?.ok_or(NO_NAMESPACE)?;
            let independent = IndependentNamespace {
                nmic: 1,
                anagrpid: ANA_GROUP,
                nstat: NamespaceStatus::default().with_ready(1),
                ..IndependentNamespace::default()
            };
            independent.encode(page);
        }
        Cns::NAMESPACE_CONTROLLERS | Cns::CONTROLLERS => {
            // The controllers of other hosts are none of this one's business.
            let own = Some(controller.link.cntlid).filter(|cntlid| *cntlid >= identify.cntid);
            put_controller_list(page, own);
        }
        Cns::IO_COMMAND_SETS => put_io_command_sets(page, &[Csi::NVM]),
        _ => return Err(INVALID_FIELD),
    }
    Ok(())
}

/// The namespace; `None` when it could be but is not.
fn find<'a>(
    controller: &Controller,
    subsystem: &'a Subsystem,
    nsid: u32,
) -> Result<Option<(&'a Namespace, Geometry)>, Status> {
    if nsid == 0 || nsid > NVME_NAMESPACES {
        return Err(NO_NAMESPACE);
    }
    Ok(subsystem.namespace(nsid).and_then(|namespace| {
        let channel = controller.shard.find_volume(namespace.volume)?;
        Some((namespace, channel.geometry()))
    }))
}

fn any_controller(controller: &Controller) -> IdentifyController {
    IdentifyController {
        mn: Text::new("Fels"),
        fr: Text::new(env!("CARGO_PKG_VERSION")),
        // Locally administered: there is no OUI. The first octet stands last.
        ieee: [0, 0, 0x02],
        mdts: (TRANSFER_BYTES / 4096).ilog2() as u8,
        cntlid: controller.link.cntlid,
        ver: VERSION_2_1,
        ctratt: ControllerAttributes::EXTENDED_HOST_IDENTIFIER
            | ControllerAttributes::TRAFFIC_BASED_KEEP_ALIVE,
        aerl: (NVME_EVENT_REQUESTS - 1) as u8,
        acl: 3,
        lpa: LogPageAttributes::EXTENDED_DATA | LogPageAttributes::COMMAND_EFFECTS,
        // How long hosts wait for a shutdown, in microseconds: it flushes.
        rtd3e: NVME_RESET_TIME.as_micros() as u32,
        elpe: (NVME_ERROR_ENTRIES - 1) as u8,
        kas: 1,
        sqes: 0x66,
        cqes: 0x44,
        maxcmd: NVME_QUEUE_ENTRIES,
        sgls: SglSupport::SUPPORTED | SglSupport::OFFSET | SglSupport::TRANSPORT,
        iorcsz: 1,
        msdbd: 1,
        ..IdentifyController::default()
    }
}

fn discovery_controller(controller: &Controller) -> IdentifyController {
    IdentifyController {
        cntrltype: ControllerType::DISCOVERY,
        oaes: EventConfiguration::DISCOVERY_LOG_PAGE,
        subnqn: NqnField::new(DISCOVERY_NQN),
        dctype: 1,
        ..any_controller(controller).with_in_capsule_data(ADMIN_IN_CAPSULE)
    }
}

fn io_controller(controller: &Controller, subsystem: &Subsystem) -> IdentifyController {
    let mut vwc = VolatileWriteCacheAttributes::FLUSH_ALL;
    vwc.set(VolatileWriteCacheAttributes::PRESENT, has_cache(controller));
    IdentifyController {
        sn: Text::new(&subsystem.serial),
        cntrltype: ControllerType::IO,
        cmic: MultiPath::default().with_ports(1).with_controllers(1).with_ana(1),
        oaes: EventConfiguration::NAMESPACE_ATTRIBUTE | EventConfiguration::ANA_CHANGE,
        oncs: OptionalCommands::COMPARE
            | OptionalCommands::DATASET_MANAGEMENT
            | OptionalCommands::WRITE_ZEROES
            | OptionalCommands::VERIFY
            | OptionalCommands::COPY,
        fuses: FusedOperations::COMPARE_AND_WRITE,
        vwc,
        // Compare and Write of up to so many blocks is one operation, 0's based, in the larger blocks.
        acwu: (COMPARE_BYTES / 4096 - 1) as u16,
        ocfs: 1,
        wctemp: 343,
        cctemp: 353,
        nn: NVME_NAMESPACES,
        mnan: NVME_NAMESPACES,
        anacap: AnaCapabilities::OPTIMIZED | AnaCapabilities::STABLE_GROUP,
        anatt: 10,
        anagrpmax: ANA_GROUP,
        nanagrpid: ANA_GROUP,
        subnqn: NqnField::new(&subsystem.nqn),
        psd0: PowerState { mp: 2500, ..PowerState::default() },
        ..any_controller(controller).with_in_capsule_data(NVME_IN_CAPSULE)
    }
}

/// What all namespaces have in common.
fn common_namespace() -> IdentifyNamespace {
    IdentifyNamespace { nmic: 1, anagrpid: ANA_GROUP, ..IdentifyNamespace::default() }
}

fn namespace(nsid: u32, subsystem: &Subsystem, geometry: &Geometry) -> IdentifyNamespace {
    let block = |bytes: u32| (bytes / geometry.block_size).max(1);
    let zero_based = |blocks: u32| (blocks - 1).min(u32::from(u16::MAX)) as u16;
    let preferred = zero_based(block(geometry.physical_block_size));
    let granularity = zero_based(block(geometry.discard_granularity));
    let reads_as = u8::from(geometry.discard_zeroes);
    let id = subsystem.namespace(nsid).map_or([0; 16], |namespace| namespace.id);
    IdentifyNamespace {
        nsze: geometry.blocks,
        ncap: geometry.blocks,
        nuse: geometry.blocks,
        nsfeat: NamespaceFeatures::OPTIMAL_SIZES | NamespaceFeatures::UNIQUE_IDENTIFIERS,
        nmic: 1,
        dlfeat: DeallocateFeatures::default().with_reads_as(reads_as).with_write_zeroes(1),
        npwg: preferred,
        npwa: preferred,
        npdg: granularity,
        npda: granularity,
        nacwu: zero_based(block(COMPARE_BYTES as u32)),
        nvmcap: u128::from(geometry.bytes()),
        mssrl: u16::MAX,
        mcl: COPY_BYTES as u32 / geometry.block_size,
        msrc: 255,
        anagrpid: ANA_GROUP,
        nsattr: u8::from(geometry.read_only),
        nguid: id,
        lbaf: LbaFormats::one(LbaFormat { ms: 0, lbads: geometry.block_size.ilog2() as u8, rp: 0 }),
        ..IdentifyNamespace::default()
    }
}
