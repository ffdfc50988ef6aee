//! A node's data plane put together: volumes prepared once, then a shard with its session rooms on every core.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ring::{PooledFuture, Ring};
use wire::iscsi::IscsiName;

use crate::live::Live;
use crate::pool::{MemberLocks, PoolCores, PoolPlan, Pools, assemble};
use crate::portals::Listening;
pub use crate::portals::{Congestion, ListenError, Portals};
use crate::request::Request;
use crate::session::iscsi::login::Authentication;
use crate::session::iscsi::{IscsiOptions, Node, Service};
use crate::session::nbd;
use crate::session::notice::Notices;
use crate::session::nvme;
use crate::shard::{Mail, Peers, Shard};
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
    /// Its number there; without one it gets the next that nobody had.
    pub nsid: Option<u32>,
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
    /// The pools.
    pub pools: Pools,
    /// The volumes, in the order of the plan.
    pub volumes: Vec<Arc<Volume>>,
    /// iSCSI.
    pub iscsi: Arc<Node>,
    /// NBD.
    pub nbd: Arc<nbd::Node>,
    /// NVMe/TCP.
    pub nvme: Arc<nvme::Node>,
    /// Who comes, goes and is refused.
    pub notices: Notices,
}

/// Checks, makes and locks what the volumes live in: pools first, then the volumes in their order. What has to live as long
/// as the node is in [`Live`], for the first core to install.
pub async fn prepare(ring: &Ring, plan: Plan) -> Result<(Prepared, Rc<Live>), OpenError> {
    let (member_locks, pools) = (MemberLocks::default(), Pools::default());
    for plan_of_pool in &plan.pools {
        let (pool, members) = assemble(ring, plan_of_pool, plan.shards).await?;
        pools.enter(Arc::new(pool));
        member_locks.append(members);
    }
    let cores = pool_cores(0, ring, &pools)?;
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
    let notices = Notices::default();
    Ok((Prepared { pools, volumes, iscsi, nbd, nvme, notices }, Rc::new(live)))
}

fn pool_cores(index: usize, ring: &Ring, pools: &Pools) -> Result<PoolCores, OpenError> {
    let cores = PoolCores::default();
    for pool in pools.list() {
        cores.enter(pool.pool().core(index, ring)?);
    }
    Ok(cores)
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
            for (pool, core) in prepared.pools.list().iter().zip(pools.list()) {
                pool.pool().keep(&core);
            }
        }
        let mut channels = Vec::with_capacity(prepared.volumes.len());
        for (place, volume) in prepared.volumes.iter().enumerate() {
            channels.push(Rc::new(Channel::new(place, volume.clone(), volume.stack(ring, &pools)?)));
        }
        let shard = Shard::new(index, ring.clone(), peers, mail, channels);
        shard.install(Rc::new(pools));
        shard.install(Rc::new(prepared.notices.clone()));
        let iscsi = Service::install(&shard, &prepared.iscsi);
        let nbd = nbd::Service::install(&shard, &prepared.nbd);
        let nvme = nvme::Service::install(&shard, &prepared.nvme);
        Ok(Core { shard, iscsi, nbd, nvme })
    }

    /// Opens the portals on this core; what comes in is spread over all of them. Gives where it really listens. A node listens
    /// everywhere or nowhere.
    pub fn listen(&self, portals: &Portals) -> Result<Portals, ListenError> {
        let listening = Listening::open(&self.shard, portals)?;
        let open = listening.addresses(portals)?;
        self.shard.install(listening);
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
