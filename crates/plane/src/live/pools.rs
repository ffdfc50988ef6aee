//! Pools come and go while a node serves, and so do the places where it listens.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::{Bytes, LOOK, Live, LiveError, everywhere, on_every};
use crate::pool::{Assembled, Handle, Place, PoolCores, PoolPlan, Pools, assemble, wipe};
use crate::portals::{Listening, Portals};
use crate::shard::Shard;

/// How long what a closed pool was doing may take to notice that.
const LEAVE_TIME: Duration = Duration::from_secs(10);

impl Live {
    /// The pools that are open.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Opens a pool, or makes it when all of its members are blank, on all cores. If that fails it is on none.
    pub async fn open_pool(&self, shard: &Rc<Shard>, plan: &PoolPlan) -> Result<(), LiveError> {
        let _turn = self.turn(shard.ring()).await?;
        if self.pools.find(&plan.name).is_some() {
            return Err(LiveError::PoolExists { pool: plan.name.clone() });
        }
        let (pool, locks) = assemble(shard.ring(), plan, shard.count()).await?;
        let pool = Arc::new(pool);
        let opened = on_every(shard, {
            let pool = pool.clone();
            move |shard| {
                let core = pool.pool().core(shard.index(), shard.ring())?;
                if let Some(cores) = shard.service::<PoolCores>() {
                    cores.enter(core);
                }
                Ok(())
            }
        })
        .await;
        if let Err(error) = opened.into_iter().collect::<Result<Vec<()>, crate::pool::PoolError>>() {
            forget(shard, &pool).await;
            return Err(error.into());
        }
        let cores = shard.service::<PoolCores>();
        if let Some(core) = cores.and_then(|cores| cores.find(pool.pool().shared())) {
            pool.pool().keep(&core);
        }
        self.members().append(locks);
        self.pools.enter(pool);
        Ok(())
    }

    /// Closes a pool on which no volume is served: everything is in its place, and others may have its members, which are blank if
    /// its bytes are destroyed. One that could not be closed in time can be closed once more.
    pub async fn close_pool(&self, shard: &Rc<Shard>, name: &str, bytes: Bytes) -> Result<(), LiveError> {
        let _turn = self.turn(shard.ring()).await?;
        let missing = || LiveError::NoPool { pool: name.to_owned() };
        let pool = self.pools.find(name).ok_or_else(missing)?;
        if let Some(volume) = self.volume_on(&pool) {
            return Err(LiveError::PoolInUse { pool: name.to_owned(), volume });
        }
        if let Some(erasure) = Handle::new(pool.pool().shared().clone()).status().erasing.pop() {
            return Err(LiveError::PoolDestroys { pool: name.to_owned(), volume: erasure.volume });
        }
        let cores = shard.service::<PoolCores>().ok_or_else(missing)?;
        let core = cores.find(pool.pool().shared()).ok_or_else(missing)?;
        core.close().await.map_err(|why| LiveError::PoolBusy { pool: name.to_owned(), why })?;
        drop((core, cores));
        let left = everywhere(shard, {
            let pool = pool.clone();
            move |shard| leave(shard, pool)
        })
        .await;
        if left.contains(&false) {
            let why = "what it was doing in the background has not ended".to_owned();
            return Err(LiveError::PoolBusy { pool: name.to_owned(), why });
        }
        forget(shard, &pool).await;
        self.pools.forget(name);
        let places = places(&Handle::new(pool.pool().shared().clone()));
        for place in &places {
            self.members().release(place);
        }
        if bytes == Bytes::Destroy {
            for place in &places {
                wipe(shard.ring(), place, &pool.pool().shared().id).await?;
            }
        }
        Ok(())
    }

    /// Waits until the change that is being made, if one is, has come to its end.
    pub async fn settle(&self, shard: &Rc<Shard>) -> Result<(), LiveError> {
        self.turn(shard.ring()).await.map(drop)
    }

    /// A volume that is served and lives on a pool.
    fn volume_on(&self, pool: &Arc<Assembled>) -> Option<String> {
        let volumes = self.volumes.borrow();
        let on_it = volumes
            .iter()
            .flatten()
            .find(|held| held.volume.on_pool().is_some_and(|(other, _)| Arc::ptr_eq(other, pool)));
        on_it.map(|held| held.volume.name().to_owned())
    }

    /// Listens where `wanted` says from now on, and nowhere else; who came in by a portal that is closed stays. Gives where it
    /// really listens. If it fails nothing has changed.
    pub async fn listen(&self, shard: &Rc<Shard>, wanted: &Portals) -> Result<Portals, LiveError> {
        let _turn = self.turn(shard.ring()).await?;
        let listening = shard.service::<Listening>();
        let listening = listening.ok_or(LiveError::Protocol { protocol: "portals" })?;
        Ok(listening.change(wanted).await?)
    }
}

/// Where the members of a pool are, and its spares.
fn places(pool: &Handle) -> Vec<Place> {
    let status = pool.status();
    let members = (0..status.members.len()).filter_map(|slot| pool.place(slot));
    members.chain(status.spares.iter().filter_map(|spare| pool.spare_place(&spare.id))).collect()
}

/// No core knows the pool any more.
async fn forget(shard: &Rc<Shard>, pool: &Arc<Assembled>) {
    let shared = pool.pool().shared().clone();
    on_every(shard, move |shard| {
        if let Some(cores) = shard.service::<PoolCores>() {
            cores.forget(&shared);
        }
    })
    .await;
}

/// Waits until nobody on this core uses a pool that is closed. False: somebody still does.
async fn leave(shard: Rc<Shard>, pool: Arc<Assembled>) -> bool {
    let Some(core) = shard.service::<PoolCores>().and_then(|cores| cores.find(pool.pool().shared())) else {
        return true;
    };
    let deadline = shard.ring().now() + LEAVE_TIME;
    // One is that of the list, one is ours.
    while Rc::strong_count(&core) > 2 {
        if shard.ring().now() >= deadline {
            return false;
        }
        shard.ring().sleep(LOOK).await;
    }
    true
}
