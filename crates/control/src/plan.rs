//! From the configuration to what the data plane is to serve.

use std::sync::Arc;
use std::time::Duration;

use plane::core::{Congestion, Offer, Plan, Portals};
use plane::layers::SpinningDisk;
use plane::pool::{MemberPlan, Place, PoolPlan};
use plane::session::iscsi::IscsiOptions;
use plane::session::iscsi::login::{Authentication, ChapAccess, ChapCredential, Secret};
use plane::volume::{Backing as PlaneBacking, VolumeOptions};
use wire::iscsi::IscsiName;

use crate::config::{Backing, ChapUser, Config, Member, Pool, Volume};
use crate::numbers::number;
use crate::state::NodeId;

/// "Never" for a timer that is switched off.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// What the configuration wishes for.
///
/// `may_grow` says of which volumes the bytes may be fewer than it says, and are made as many.
pub fn plan(config: &Config, node: NodeId, may_grow: impl Fn(&str) -> bool) -> Plan {
    let mut numbered = config.clone();
    number(None, &mut numbered);
    let config = &numbered;
    let offer = |volume: &Volume| {
        let mut offer = offer(config, volume, node);
        offer.volume.may_grow = may_grow(&volume.name);
        offer
    };
    Plan {
        shards: config.shards,
        pools: config.pools.iter().map(pool).collect(),
        offers: served(config).map(offer).collect(),
        discovery: authentication(&config.iscsi.discovery_chap, None),
        iscsi: IscsiOptions {
            nop_interval: config.iscsi.nop_interval.unwrap_or(NEVER),
            nop_timeout: config.iscsi.nop_timeout,
        },
    }
}

/// The volumes that are not switched off.
pub fn served(config: &Config) -> impl Iterator<Item = &Volume> {
    config.volumes.iter().filter(|volume| volume.enabled)
}

/// The seed of the first spare that behaves like a disk that turns: behind those of all members.
const FIRST_SPARE: u64 = 1000;

/// What opens or makes a pool.
pub fn pool(pool: &Pool) -> PoolPlan {
    let member = |(member, seed): (&Member, u64)| {
        let (place, create_bytes) = match member {
            Member::File(path) => (Place::Path(path.clone()), pool.member_bytes),
            // What is made where a device is missing would be a file in memory.
            Member::Device(path) => (Place::Path(path.clone()), None),
            Member::Memory(bytes) => (Place::Memory(*bytes), None),
        };
        // No two platters stand alike.
        let spinning = pool.spinning.clone().map(|disk| SpinningDisk { seed, ..disk });
        MemberPlan { place, create_bytes, spinning }
    };
    PoolPlan {
        name: pool.name.clone(),
        level: pool.level,
        unit: pool.unit_bytes,
        integrity: pool.integrity,
        members: pool.members.iter().zip(1..).map(member).collect(),
        spares: pool.spares.iter().zip(FIRST_SPARE..).map(member).collect(),
    }
}

/// How a volume of a node that is as `config` says is offered.
pub fn offer(config: &Config, volume: &Volume, node: NodeId) -> Offer {
    let backing = match &volume.backing {
        Backing::File(path) => PlaneBacking::File(path.clone()),
        Backing::Device(path) => PlaneBacking::Device(path.clone()),
        Backing::Pool(name) => PlaneBacking::Pool(name.clone()),
        Backing::Memory => PlaneBacking::Memory,
        Backing::Null => PlaneBacking::Null,
    };
    Offer {
        volume: VolumeOptions {
            name: volume.name.clone(),
            id: *node.volume_id(&volume.name).as_bytes(),
            bytes: volume.size_bytes,
            block_size: volume.block_size,
            backing,
            limits: volume.limits,
            may_grow: false,
            faults: None,
        },
        target_name: name(&volume.target_name()),
        alias: volume.alias.clone(),
        authentication: authentication(&volume.chap, volume.chap_mutual.as_ref()),
        nbd: volume.nbd,
        initiators: volume.allow.iter().map(|initiator| name(initiator)).collect(),
        subsystem: (config.nvme.is_some() && volume.nvme.is_offered).then(|| volume.nvme.subsystem_nqn()),
        nsid: volume.nvme.nsid,
        hosts: volume.nvme.hosts.clone(),
    }
}

fn name(text: &str) -> IscsiName {
    IscsiName::accept(text).expect("the configuration was checked for names that iSCSI allows")
}

fn authentication(users: &[ChapUser], mutual: Option<&ChapUser>) -> Authentication {
    if users.is_empty() {
        return Authentication::None;
    }
    let credential = |user: &ChapUser| ChapCredential {
        name: user.user.clone(),
        secret: Secret::new(user.secret.expose()),
    };
    let users = users.iter().map(credential).collect();
    Authentication::Chap(Arc::new(ChapAccess { users, mutual: mutual.map(credential) }))
}

/// Where is to be listened.
pub fn portals(config: &Config) -> Portals {
    let (nbd, nvme) = (config.nbd.as_ref(), config.nvme.as_ref());
    Portals {
        iscsi: config.iscsi.listen.clone(),
        nbd: nbd.map_or_else(Vec::new, |nbd| nbd.listen.clone()),
        nbd_socket: nbd.and_then(|nbd| nbd.socket.clone()),
        nvme: nvme.map_or_else(Vec::new, |nvme| nvme.listen.clone()),
        nvme_discovery: nvme.map_or_else(Vec::new, |nvme| nvme.discovery.clone()),
        nvme_referrals: nvme.map_or_else(Vec::new, |nvme| nvme.referrals.clone()),
        congestion: Congestion {
            iscsi: config.iscsi.congestion_control.clone(),
            nbd: nbd.map_or_else(Default::default, |nbd| nbd.congestion_control.clone()),
            nvme: nvme.map_or_else(Default::default, |nvme| nvme.congestion_control.clone()),
        },
    }
}
