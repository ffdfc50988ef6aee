//! The way to the volumes of a node that runs: the only place that asks the data plane to change them.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plane::live::{Bytes, Live as PlaneLive, LiveError as PlaneError};
use plane::pool::Assembled;
use plane::shard::{Peers, Shard};
use tokio::sync::oneshot;

use crate::config::{Backing, Config, Namespace, Volume};
use crate::plan::offer;
use crate::state::NodeId;
use crate::store::pending;

/// How long initiators get to go by themselves when a volume is taken from them.
const GRACE: Duration = Duration::from_secs(5);

/// What is answered once it is done.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), LiveError>> + Send + 'a>>;

/// What can be done to the volumes of a node that runs. `running` is what it runs as.
pub trait Live: Send + Sync {
    /// Serves a volume: makes or opens its bytes.
    fn add<'a>(&'a self, running: &'a Config, volume: &'a Volume) -> Answer<'a>;

    /// Makes of the volume of that name what is said here.
    fn alter<'a>(&'a self, running: &'a Config, volume: &'a Volume) -> Answer<'a>;

    /// Serves a volume no more, if it is served. Its bytes are destroyed if that is said: its file, or its part of a pool.
    fn remove<'a>(&'a self, running: &'a Config, volume: &'a Volume, destroy: bool) -> Answer<'a>;

    /// Destroys what a volume that is not served has on a pool, if it has something there.
    fn destroy<'a>(&'a self, running: &'a Config, pool: &'a str, volume: &'a str) -> Answer<'a>;

    /// Bytes of the volume of that name that a pool has, served or not.
    fn bytes_on_pool(&self, pool: &str, volume: &str) -> Option<u64>;
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
    pools: Arc<[Assembled]>,
    node: NodeId,
}

impl Plane {
    /// Of a node with these shards and pools.
    pub fn new(peers: Peers, pools: Arc<[Assembled]>, node: NodeId) -> Plane {
        Plane { peers, pools, node }
    }

    /// Lets the first shard do something. `None`: there is no such volume.
    async fn ask<F: Future<Output = Result<(), PlaneError>> + 'static>(
        &self,
        work: impl FnOnce(Rc<PlaneLive>, Rc<Shard>) -> F + Send + 'static,
    ) -> Result<Option<()>, LiveError> {
        let (tell, told) = oneshot::channel();
        self.peers.tell(0, move |shard| {
            let Some(live) = shard.service::<PlaneLive>() else { return };
            let ring = shard.ring().clone();
            ring.spawn(async move {
                let done = match work(live, shard).await {
                    Ok(()) => Ok(Some(())),
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

    /// False: it was not served.
    async fn take_out(&self, name: String, destroy: bool) -> Result<bool, LiveError> {
        let bytes = if destroy { Bytes::Destroy } else { Bytes::Keep };
        let done = self.ask(async move |live, shard| live.remove(&shard, &name, GRACE, bytes).await).await?;
        Ok(done.is_some())
    }

    /// A volume as a pool has it.
    fn on_pool(&self, pool: &str, name: &str) -> Option<Volume> {
        let assembled = self.pools.iter().find(|assembled| assembled.pool().shared().name == pool)?;
        let volumes = assembled.pool().volumes();
        let entry = volumes.iter().find(|entry| entry.name == name)?;
        Some(Volume {
            name: name.to_owned(),
            size_bytes: entry.bytes,
            backing: Backing::Pool(pool.to_owned()),
            block_size: entry.block_size,
            limits: plane::volume::Limits::default(),
            chap: Vec::new(),
            chap_mutual: None,
            allow: vec![NOBODY.to_owned()],
            alias: None,
            nbd: false,
            nvme: Namespace { subsystem: name.to_owned(), hosts: Vec::new(), is_offered: false },
            enabled: true,
        })
    }
}

/// Who may use a volume that is served only to be destroyed.
const NOBODY: &str = "iqn.2026-11.internal.fels:nobody";

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

    fn remove<'a>(&'a self, running: &'a Config, volume: &'a Volume, destroy: bool) -> Answer<'a> {
        Box::pin(async move {
            let was_served = self.take_out(volume.name.clone(), destroy).await?;
            if was_served || !destroy {
                return Ok(());
            }
            match &volume.backing {
                Backing::File(path) => remove_file(path.clone()).await,
                Backing::Pool(pool) => self.destroy(running, pool, &volume.name).await,
                Backing::Device(_) | Backing::Memory | Backing::Null => Ok(()),
            }
        })
    }

    fn destroy<'a>(&'a self, running: &'a Config, pool: &'a str, volume: &'a str) -> Answer<'a> {
        Box::pin(async move {
            let Some(volume) = self.on_pool(pool, volume) else { return Ok(()) };
            // What is in a pool is erased by the stack of its volume, which takes a volume that is served.
            if !self.take_out(volume.name.clone(), true).await? {
                self.add(running, &volume).await?;
                self.take_out(volume.name, true).await?;
            }
            Ok(())
        })
    }

    fn bytes_on_pool(&self, pool: &str, volume: &str) -> Option<u64> {
        self.on_pool(pool, volume).map(|volume| volume.size_bytes)
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
