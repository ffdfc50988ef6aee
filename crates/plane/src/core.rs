//! A node's data plane put together: volumes prepared once, then a shard with its session rooms on every core.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ring::{CongestionControl, Listener, PooledFuture, Ring};
use wire::iscsi::IscsiName;

use crate::live::Live;
use crate::pool::{Assembled, MemberLocks, PoolCore, PoolCores, PoolPlan, assemble};
use crate::request::Request;
use crate::session::iscsi::login::Authentication;
use crate::session::iscsi::{IscsiOptions, Node, Service};
use crate::session::nbd;
use crate::session::nvme;
use crate::shard::{Mail, Peers, Shard};
use crate::spread::accept;
use crate::volume::{Channel, OpenError, Volume, VolumeOptions};

/// A volume and how it is offered.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The volume.
    pub volume: VolumeOptions,
    /// The target of which it is LUN 0.
    pub target_name: IscsiName,
    /// Told to initiators beside the name.
    pub alias: Option<String>,
    /// What initiators have to prove.
    pub authentication: Authentication,
    /// The initiators that may use it; empty means all.
    pub initiators: Vec<IscsiName>,
    /// Whether NBD, which asks nobody who he is, offers it too.
    pub nbd: bool,
    /// The NVMe subsystem of which it is a namespace; none keeps it off NVMe.
    pub subsystem: Option<String>,
    /// The NVMe hosts that may use it; empty means all.
    pub hosts: Vec<String>,
}

/// What a node is to serve.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many shards there are.
    pub shards: usize,
    /// The pools that volumes live on.
    pub pools: Vec<PoolPlan>,
    /// The volumes.
    pub offers: Vec<Offer>,
    /// What discovery sessions have to prove.
    pub discovery: Authentication,
    /// Timers of iSCSI.
    pub iscsi: IscsiOptions,
}

/// What all cores share.
#[derive(Clone)]
pub struct Prepared {
    /// The pools, in the order of the plan.
    pub pools: Arc<[Assembled]>,
    /// The volumes, in the order of the plan.
    pub volumes: Vec<Arc<Volume>>,
    /// iSCSI.
    pub iscsi: Arc<Node>,
    /// NBD.
    pub nbd: Arc<nbd::Node>,
    /// NVMe/TCP.
    pub nvme: Arc<nvme::Node>,
}

/// Checks, makes and locks what the volumes live in: pools first, then the volumes in their order. What has to live as long
/// as the node is in [`Live`], for the first core to install.
pub async fn prepare(ring: &Ring, plan: Plan) -> Result<(Prepared, Rc<Live>), OpenError> {
    let member_locks = MemberLocks::default();
    let mut pools = Vec::with_capacity(plan.pools.len());
    for pool in &plan.pools {
        let (pool, members) = assemble(ring, pool, plan.shards).await?;
        pools.push(pool);
        member_locks.append(members);
    }
    let cores = pool_cores(0, ring, &pools)?;
    let pools: Arc<[Assembled]> = pools.into();
    let live = Live::new(pools.clone(), member_locks, plan.discovery);
    let mut volumes = Vec::with_capacity(plan.offers.len());
    for offer in plan.offers {
        let (volume, lock) = Volume::prepare(ring, offer.volume.clone(), &pools).await?;
        let write_cache = volume.stack(ring, &cores)?.geometry().write_cache;
        let volume = Arc::new(volume);
        volumes.push(volume.clone());
        live.enter(offer, volume, lock, write_cache);
    }
    let lists = live.lists();
    let iscsi = Node::new(lists.targets, plan.iscsi);
    let nbd = nbd::Node::new(lists.exports);
    let nvme = nvme::Node::new(lists.subsystems.into_iter().map(Arc::new).collect());
    Ok((Prepared { pools, volumes, iscsi, nbd, nvme }, Rc::new(live)))
}

fn pool_cores(index: usize, ring: &Ring, pools: &[Assembled]) -> Result<Vec<Rc<PoolCore>>, OpenError> {
    pools.iter().map(|pool| Ok(pool.pool().core(index, ring)?)).collect()
}

/// One core of the node.
pub struct Core {
    /// Its shard.
    pub shard: Rc<Shard>,
    /// Its iSCSI.
    pub iscsi: Rc<Service>,
    /// Its NBD.
    pub nbd: Rc<nbd::Service>,
    /// Its NVMe/TCP.
    pub nvme: Rc<nvme::Service>,
}

impl Core {
    /// Builds the stacks and the session rooms of core `index`.
    pub fn new(
        index: usize,
        ring: &Ring,
        peers: Peers,
        mail: Mail,
        prepared: &Prepared,
    ) -> Result<Core, OpenError> {
        let pools = pool_cores(index, ring, &prepared.pools)?;
        if index == 0 {
            for (pool, core) in prepared.pools.iter().zip(&pools) {
                pool.pool().keep(core);
            }
        }
        let mut channels = Vec::with_capacity(prepared.volumes.len());
        for (place, volume) in prepared.volumes.iter().enumerate() {
            channels.push(Rc::new(Channel::new(place, volume.clone(), volume.stack(ring, &pools)?)));
        }
        let shard = Shard::new(index, ring.clone(), peers, mail, channels);
        shard.install(Rc::new(PoolCores(pools)));
        let iscsi = Service::install(&shard, &prepared.iscsi);
        let nbd = nbd::Service::install(&shard, &prepared.nbd);
        let nvme = nvme::Service::install(&shard, &prepared.nvme);
        Ok(Core { shard, iscsi, nbd, nvme })
    }

    /// Opens the portals on this core; what comes in is spread over all of them. Gives where it really listens.
    pub fn listen(&self, portals: &Portals) -> Result<Portals, ListenError> {
        let ring = self.shard.ring();
        let congestion = &portals.congestion;
        let iscsi = bind(ring, &portals.iscsi, &congestion.iscsi)?;
        let nvme = bind(ring, &portals.nvme, &congestion.nvme)?;
        let discovery = bind(ring, &portals.nvme_discovery, &congestion.nvme)?;
        let nbd = bind(ring, &portals.nbd, &congestion.nbd)?;
        let nbd_socket = portals.nbd_socket.as_deref().map(|path| bind_unix(ring, path)).transpose()?;
        let open = Portals {
            iscsi: iscsi.addresses,
            nbd: nbd.addresses,
            nbd_socket: portals.nbd_socket.clone(),
            nvme: nvme.addresses,
            nvme_discovery: discovery.addresses,
            nvme_referrals: portals.nvme_referrals.clone(),
            congestion: congestion.clone(),
        };
        // Only when all are open: a node listens everywhere or nowhere.
        self.iscsi.node().set_portals(open.iscsi.clone());
        let nvme_node = self.nvme.node();
        nvme_node.set_portals(open.nvme.clone(), open.nvme_discovery.clone(), open.nvme_referrals.clone());
        for listener in iscsi.listeners {
            ring.spawn_later(accept(self.iscsi.clone(), listener));
        }
        for listener in nbd.listeners.into_iter().chain(nbd_socket) {
            ring.spawn_later(accept(self.nbd.clone(), listener));
        }
        for listener in nvme.listeners.into_iter().chain(discovery.listeners) {
            ring.spawn_later(accept(self.nvme.clone(), listener));
        }
        Ok(open)
    }

    /// Makes every acknowledged write of every volume durable.
    pub async fn flush(&self) -> Result<(), crate::Error> {
        for channel in self.shard.volumes() {
            channel.submit(Request::flush()).await.result?;
        }
        Ok(())
    }
}

/// Takes no more connections on this core, lets every room end what is under way for about `grace`, and closes what is
/// left.
pub async fn drain(shard: &Shard, grace: Duration) {
    let rooms = [
        shard.service::<Service>().map(|room| PooledFuture::future(room.drain(grace))),
        shard.service::<nbd::Service>().map(|room| PooledFuture::future(room.drain(grace))),
        shard.service::<nvme::Service>().map(|room| PooledFuture::future(room.drain())),
    ];
    let mut left: Vec<_> = rooms.into_iter().flatten().collect();
    poll_fn(|context| {
        left.retain_mut(|room| Pin::new(room).poll(context).is_pending());
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Closes the pools in good order, from the first shard, once every shard is drained; see [`PoolCores::close`].
pub async fn close_pools(shard: &Shard) -> Result<(), String> {
    match shard.service::<PoolCores>() {
        Some(pools) => pools.close().await,
        None => Ok(()),
    }
}

/// Where a node listens, a list for each protocol. Port 0 takes a free one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Portals {
    /// iSCSI.
    pub iscsi: Vec<SocketAddr>,
    /// NBD over TCP.
    pub nbd: Vec<SocketAddr>,
    /// NBD over a unix socket.
    pub nbd_socket: Option<PathBuf>,
    /// NVMe/TCP: I/O and discovery controllers.
    pub nvme: Vec<SocketAddr>,
    /// NVMe/TCP: where hosts look for discovery controllers.
    pub nvme_discovery: Vec<SocketAddr>,
    /// NVMe/TCP: discovery services elsewhere that ours names to hosts.
    pub nvme_referrals: Vec<SocketAddr>,
    /// How fast connections send.
    pub congestion: Congestion,
}

/// The congestion control of each protocol's portals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// iSCSI.
    pub iscsi: CongestionControl,
    /// NBD over TCP.
    pub nbd: CongestionControl,
    /// NVMe/TCP.
    pub nvme: CongestionControl,
}

/// Portals of one protocol that are open.
#[derive(Default)]
struct Open {
    listeners: Vec<Rc<Listener>>,
    addresses: Vec<SocketAddr>,
}

fn bind(ring: &Ring, portals: &[SocketAddr], congestion: &CongestionControl) -> Result<Open, ListenError> {
    let mut open = Open::default();
    for portal in portals {
        let failed = |source| ListenError::Bind { portal: portal.to_string(), source };
        let listener = Listener::bind(ring, *portal).map_err(failed)?;
        if let Err(source) = listener.set_congestion_control(congestion) {
            return Err(ListenError::Congestion { portal: *portal, wanted: congestion.to_string(), source });
        }
        open.addresses.push(listener.address().map_err(failed)?);
        open.listeners.push(Rc::new(listener));
    }
    Ok(open)
}

fn bind_unix(ring: &Ring, path: &Path) -> Result<Rc<Listener>, ListenError> {
    let failed = |source| ListenError::Bind { portal: path.display().to_string(), source };
    Listener::bind_unix(ring, path).map(Rc::new).map_err(failed)
}

/// A portal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Its address is not to be had.
    #[error(
        "cannot listen on {portal}: {source}; hint: another program may use it (`ss -lntxp`), or the address is not this machine's"
    )]
    Bind {
        /// Which: an address, or the path of a unix socket.
        portal: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its congestion control is not to be had.
    #[error(
        "the congestion control {wanted} cannot be set on {portal}: {source}; hint: \
         `sysctl net.ipv4.tcp_available_congestion_control` lists what this host has, and \
         `net.ipv4.tcp_allowed_congestion_control` what others than root may use"
    )]
    Congestion {
        /// Which.
        portal: SocketAddr,
        /// What was asked for.
        wanted: String,
        /// Why.
        source: std::io::Error,
    },
}

impl ListenError {
    /// Whether somebody else has the address, who may go yet.
    pub fn is_in_use(&self) -> bool {
        matches!(self, ListenError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse)
    }
}
