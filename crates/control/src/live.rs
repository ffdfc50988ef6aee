//! The way to the volumes of a node that runs: the only place that asks the data plane to change them.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plane::live::{Bytes, Live as PlaneLive, LiveError as PlaneError};
use plane::pool::{Assembled, Handle, Pools};
use plane::portals::Portals;
use plane::shard::{Peers, Shard};
use ring::BusyPoll;
use tokio::sync::oneshot;

use crate::config::{Backing, Config, Pool, Volume};
use crate::plan::{self, offer};
use crate::state::NodeId;
use crate::store::pending;

/// How long initiators get to go by themselves when a volume is taken from them.
const GRACE: Duration = Duration::from_secs(5);

/// What is answered once it is done.
pub type Answer<'a, T = ()> = Pin<Box<dyn Future<Output = Result<T, LiveError>> + Send + 'a>>;

/// What can be done to the volumes of a node that runs. `running` is what it runs as.
pub trait Live: Send + Sync {
    /// Serves a volume: makes or opens its bytes.
    fn add<'a>(&'a self, running: &'a Config, volume: &'a Volume) -> Answer<'a>;

    /// Makes of the volume of that name what is said here.
    fn alter<'a>(&'a self, running: &'a Config, volume: &'a Volume) -> Answer<'a>;

    /// Serves a volume no more, if it is served. Its bytes are destroyed if that is said: its file, or its part of a pool. False:
    /// that goes on in the background.
    fn remove<'a>(&'a self, volume: &'a Volume, destroy: bool) -> Answer<'a, bool>;

    /// Destroys what a volume that is not served has on a pool, if it has something there. False: that goes on in the background.
    fn destroy<'a>(&'a self, pool: &'a str, volume: &'a str) -> Answer<'a, bool>;

    /// Bytes of the volume of that name that a pool has, served or not.
    fn bytes_on_pool(&self, pool: &str, volume: &str) -> Option<u64>;

    /// The volumes whose bytes on a pool are being destroyed in the background.
    fn destroyed_on(&self, pool: &str) -> Vec<String>;

    /// Opens a pool, or makes it of members that are blank.
    fn open_pool<'a>(&'a self, pool: &'a Pool) -> Answer<'a>;

    /// Closes a pool on which no volume is served. `in_vain`: if it was made when it was opened, its members are blank again.
    fn close_pool<'a>(&'a self, pool: &'a str, in_vain: bool) -> Answer<'a>;

    /// Listens where a configuration says from now on, and nowhere else. Gives where it really listens.
    fn listen<'a>(&'a self, wished: &'a Config) -> Answer<'a, Portals>;

    /// Lets shards without work look for some for so long at most from now on.
    fn busy_poll(&self, busy_poll: BusyPoll);
}

/// Why the data plane did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LiveError {
    /// What happened: a sentence.
    pub message: String,
    /// What can be done about it.
    pub hint: Option<String>,
    /// Nobody knows whether it is done yet.
    pub is_late: bool,
}

impl LiveError {
    /// It was not done.
    pub fn new(message: impl Into<String>, hint: &str) -> LiveError {
        LiveError { message: message.into(), hint: Some(hint.to_owned()), is_late: false }
    }

    /// From an error of the layers below, whose text ends with its hint.
    pub fn from_text(error: &dyn std::error::Error) -> LiveError {
        let text = error.to_string();
        match text.split_once("; hint: ") {
            Some((message, hint)) => LiveError::new(message, hint),
            None => LiveError { message: text, hint: None, is_late: false },
        }
    }
}

/// The volumes of the data plane, which the first shard changes.
pub struct Plane {
    peers: Peers,
    pools: Pools,
    node: NodeId,
}

impl Plane {
    /// Of a node with these shards and pools.
    pub fn new(peers: Peers, pools: Pools, node: NodeId) -> Plane {
        Plane { peers, pools, node }
    }

    /// Lets the first shard do something. `None`: there is no such volume.
    async fn ask<T: Send + 'static, F: Future<Output = Result<T, PlaneError>> + 'static>(
        &self,
        work: impl FnOnce(Rc<PlaneLive>, Rc<Shard>) -> F + Send + 'static,
    ) -> Result<Option<T>, LiveError> {
        let (tell, told) = oneshot::channel();
        self.peers.tell(0, move |shard| {
            let Some(live) = shard.service::<PlaneLive>() else { return };
            let ring = shard.ring().clone();
            ring.spawn(async move {
                let done = match work(live, shard).await {
                    Ok(value) => Ok(Some(value)),
                    Err(PlaneError::Missing { .. }) => Ok(None),
                    Err(error) => Err(LiveError::from_text(&error)),
                };
                tell.send(done).ok();
            });
        });
        told.await.map_err(|_| LiveError {
            is_late: true,
            ..LiveError::new("the node is stopping", "start it again")
        })?
    }
}

impl Live for Plane {
    fn add<'a>(&'a self, running: &'a Config, volume: &'a Volume) -> Answer<'a> {
        let offer = offer(running, volume, self.node);
        Box::pin(async move {
            self.ask(async move |live, shard| live.add(&shard, offer).await).await?;
            Ok(())
        })
    }

    fn alter<'a>(&'a self, running: &'a Config, volume: &'a Volume) -> Answer<'a> {
        let offer = offer(running, volume, self.node);
        Box::pin(async move {
            let done = self.ask(async move |live, shard| live.alter(&shard, offer, GRACE).await).await?;
            let missing =
                || LiveError::new(format!("volume {} is not served", volume.name), "see the log of the node");
            done.ok_or_else(missing)
        })
    }

    fn remove<'a>(&'a self, volume: &'a Volume, destroy: bool) -> Answer<'a, bool> {
        let (name, bytes) = (volume.name.clone(), if destroy { Bytes::Destroy } else { Bytes::Keep });
        Box::pin(async move {
            let remove = async move |live: Rc<PlaneLive>, shard: Rc<Shard>| {
                live.remove(&shard, &name, GRACE, bytes).await
            };
            if let Some(is_gone) = self.ask(remove).await? {
                return Ok(is_gone);
            }
            match &volume.backing {
                Backing::File(path) if destroy => remove_file(path.clone()).await.map(|()| true),
                Backing::Pool(pool) if destroy => self.destroy(pool, &volume.name).await,
                _ => Ok(true),
            }
        })
    }

    fn destroy<'a>(&'a self, pool: &'a str, volume: &'a str) -> Answer<'a, bool> {
        let (pool, name) = (pool.to_owned(), volume.to_owned());
        Box::pin(async move {
            let destroy = async move |live: Rc<PlaneLive>, shard: Rc<Shard>| {
                // It may be served yet, if it could not be closed before. Another one of that name is nobody's business here.
                if live.lives_on(&name, &pool) {
                    return live.remove(&shard, &name, GRACE, Bytes::Destroy).await;
                }
                match live.destroy(&shard, &pool, &name).await {
                    // Nobody knows what a pool has that is not open.
                    Err(PlaneError::NoPool { .. }) => Ok(true),
                    destroyed => destroyed,
                }
            };
            Ok(self.ask(destroy).await?.unwrap_or(true))
        })
    }

    fn bytes_on_pool(&self, pool: &str, volume: &str) -> Option<u64> {
        let pool = self.pools.find(pool)?;
        let volumes = pool.pool().volumes();
        volumes.iter().find(|entry| entry.name == volume).map(|entry| entry.bytes)
    }

    fn destroyed_on(&self, pool: &str) -> Vec<String> {
        let pool = self.pools.find(pool);
        let status = pool.map(|pool| Handle::new(pool.pool().shared().clone()).status());
        status.into_iter().flat_map(|status| status.erasing).map(|erasure| erasure.volume).collect()
    }

    fn open_pool<'a>(&'a self, pool: &'a Pool) -> Answer<'a> {
        let plan = plan::pool(pool);
        Box::pin(async move {
            self.ask(async move |live, shard| live.open_pool(&shard, &plan).await).await?;
            Ok(())
        })
    }

    fn close_pool<'a>(&'a self, pool: &'a str, in_vain: bool) -> Answer<'a> {
        let name = pool.to_owned();
        Box::pin(async move {
            let close = async move |live: Rc<PlaneLive>, shard: Rc<Shard>| {
                // It may be being opened yet.
                live.settle(&shard).await?;
                let is_empty_new = |pool: Arc<Assembled>| pool.is_new && pool.pool().volumes().is_empty();
                let destroys = in_vain && live.pools().find(&name).is_some_and(is_empty_new);
                let bytes = if destroys { Bytes::Destroy } else { Bytes::Keep };
                match live.close_pool(&shard, &name, bytes).await {
                    Err(PlaneError::NoPool { .. }) => Ok(()),
                    closed => closed,
                }
            };
            self.ask(close).await?;
            Ok(())
        })
    }

    fn listen<'a>(&'a self, wished: &'a Config) -> Answer<'a, Portals> {
        let wanted = plan::portals(wished);
        Box::pin(async move {
            let open = self.ask(async move |live, shard| live.listen(&shard, &wanted).await).await?;
            open.ok_or_else(|| LiveError::new("the portals were not changed", "see the log of the node"))
        })
    }

    fn busy_poll(&self, busy_poll: BusyPoll) {
        for index in 0..self.peers.count() {
            self.peers.tell(index, move |shard| shard.ring().set_busy_poll(busy_poll));
        }
    }
}

/// Removes the file of a volume that is not served, if it is there.
pub async fn remove_file(path: PathBuf) -> Result<(), LiveError> {
    let shown = path.display().to_string();
    let removed = tokio::task::spawn_blocking(move || pending::remove_file(&path)).await;
    match removed {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => {
            Err(LiveError::new(format!("{shown} cannot be removed: {source}"), "remove it by hand"))
        }
        Err(_) => Err(LiveError::new(format!("{shown} was not removed"), "remove it by hand")),
    }
}
