//! What the node measures of itself, brought together for the monitor.
//!
//! Cores count by themselves; they are asked for copies by a message, which each answers between two requests. What is known
//! of pools and of the process is looked up from outside of the cores.

mod busy;
mod lately;
mod pools;
mod portals;
mod process;
mod shards;
#[cfg(test)]
mod tests;
mod volumes;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use monitor::metric::{Snapshot, table};
use plane::layers::Followed;
use plane::live::{CoreFigures, Crowd, Live, User, crowd, users};
use plane::pool::{Handle, Place, PoolFigures, Pools};
use plane::shard::{Peers, Shard};
use plane::volume::Figures;
use tokio::sync::oneshot;

use busy::Busy;
use lately::Lately;
pub(crate) use volumes::shares;

use crate::alerts::Disks;

/// Takes snapshots of a node that runs.
pub struct Collector {
    peers: Peers,
    pools: Pools,
    begun: Instant,
    lately: Mutex<Lately>,
    busy: Mutex<Busy>,
    disks: Disks,
}

/// What the cores say.
#[derive(Debug, Default)]
pub struct Cores {
    /// What happened to each volume.
    pub volumes: Vec<Figures>,
    /// Who uses them, and what came by which portal.
    pub crowd: Crowd,
    /// What was asked of each pool and its members, in the order of the pools.
    pub pools: Vec<PoolFigures>,
    /// What they have done themselves.
    pub shards: Vec<CoreFigures>,
}

impl Collector {
    /// Of a node with these shards and pools, which has just begun to serve.
    pub fn new(peers: Peers, pools: Pools) -> Collector {
        let (begun, lately, busy, disks) =
            (Instant::now(), Mutex::default(), Mutex::default(), Disks::default());
        Collector { peers, pools, begun, lately, busy, disks }
    }

    /// The members of pools that are files or devices: the pool, the slot, and where it is.
    pub fn members(&self) -> Vec<(String, usize, PathBuf)> {
        let mut members = Vec::new();
        for pool in self.pools.list() {
            let handle = Handle::new(pool.pool().shared().clone());
            for slot in 0..handle.status().members.len() {
                if let Some(Place::Path(path)) = handle.place(slot) {
                    members.push((handle.name().to_owned(), slot, path));
                }
            }
        }
        members
    }

    /// What disks say of themselves.
    pub(crate) fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Asks the cores; `None` when the node is stopping.
    pub async fn cores(&self) -> Option<Cores> {
        self.ask(async |shard| Cores {
            volumes: Live::figures(&shard).await,
            crowd: crowd(&shard).await,
            pools: Live::pool_figures(&shard).await,
            shards: Live::core_figures(&shard).await,
        })
        .await
    }

    /// Asks the cores for each session by itself, which is more; `None` when the node is stopping.
    pub async fn users(&self) -> Option<Vec<User>> {
        self.ask(async |shard| users(&shard).await).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl AsyncFnOnce(Rc<Shard>) -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        self.peers.tell(0, move |shard| {
            let (ring, shard) = (shard.ring().clone(), shard.clone());
            ring.spawn(async move { drop(tell.send(question(shard).await)) });
        });
        told.await.ok()
    }

    /// How long the node has served.
    pub fn uptime(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What followed requests of each volume did in the last five to ten minutes.
    pub fn lately(&self, cores: &Cores) -> Vec<Followed> {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        lately.look(&cores.volumes, self.begun.elapsed())
    }

    /// All figures of now; `None` when the node is stopping.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        let cores = self.cores().await?;
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let uptime = self.begun.elapsed();
        let mut snapshot = Snapshot::new(unix_s, uptime);
        volumes::add(&mut snapshot, &cores, &self.lately(&cores));
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).add(&mut snapshot, &cores.volumes);
        for pool in self.pools.list() {
            let figures = cores.pools.iter().find(|figures| figures.name == pool.pool().shared().name);
            pools::add(&mut snapshot, &pool, figures.unwrap_or(&PoolFigures::default()));
        }
        portals::add(&mut snapshot, &cores.crowd);
        self.disks.add(&mut snapshot);
        process::add(&mut snapshot);
        shards::add(&mut snapshot, &cores.shards);
        snapshot.push(&table::UPTIME, &[], uptime.as_secs_f64());
        snapshot.push(&table::BUILD, &[env!("CARGO_PKG_VERSION")], 1);
        Some(snapshot)
    }
}
