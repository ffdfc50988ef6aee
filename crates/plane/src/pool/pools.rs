//! The pools of a node, which come and go while it serves.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::assemble::Assembled;
use super::core::{PoolCore, Shared};
use super::open::Pool;
use crate::limits::POOL_CLOSE_TIME;
use crate::meter::GaugeFigures;

/// The pools of a node that are open, in the order in which they came. All copies are of the same ones.
#[derive(Clone, Default)]
pub struct Pools(Arc<Mutex<Vec<Arc<Assembled>>>>);

impl Pools {
    fn pools(&self) -> MutexGuard<'_, Vec<Arc<Assembled>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are open now.
    pub fn list(&self) -> Vec<Arc<Assembled>> {
        self.pools().clone()
    }

    /// The one of that name.
    pub fn find(&self, name: &str) -> Option<Arc<Assembled>> {
        self.pools().iter().find(|assembled| assembled.pool().shared().name == name).cloned()
    }

    pub(crate) fn enter(&self, pool: Arc<Assembled>) {
        self.pools().push(pool);
    }

    pub(crate) fn forget(&self, name: &str) {
        self.pools().retain(|assembled| assembled.pool().shared().name != name);
    }
}

/// What was asked of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// Its name.
    pub name: String,
    /// By volumes.
    pub pool: GaugeFigures,
    /// By the pool of the member of each slot.
    pub slots: Vec<GaugeFigures>,
}

impl PoolFigures {
    /// Adds what was asked on another core.
    pub fn add(&mut self, other: PoolFigures) {
        self.pool.add(other.pool);
        // A core that has not asked for anything since a set was added does not know its slots yet.
        if self.slots.len() < other.slots.len() {
            self.slots.resize_with(other.slots.len(), GaugeFigures::default);
        }
        for (mine, theirs) in self.slots.iter_mut().zip(other.slots) {
            mine.add(theirs);
        }
    }
}

/// The pools of a node on one core, where those find them who open volumes, and the end of the node.
#[derive(Default)]
pub struct PoolCores(RefCell<Vec<Rc<PoolCore>>>);

impl PoolCores {
    /// Those that are open on this core.
    pub fn list(&self) -> Vec<Rc<PoolCore>> {
        self.0.borrow().clone()
    }

    /// This core's way to a pool.
    pub(crate) fn find(&self, pool: &Arc<Shared>) -> Option<Rc<PoolCore>> {
        self.0.borrow().iter().find(|core| Arc::ptr_eq(core.shared(), pool)).cloned()
    }

    /// What was asked of each pool and of its slots on this core.
    pub fn figures(&self) -> Vec<PoolFigures> {
        let of = |core: &Rc<PoolCore>| PoolFigures {
            name: core.shared().name.clone(),
            pool: core.figures(),
            slots: core.asked(),
        };
        self.0.borrow().iter().map(of).collect()
    }

    /// One more is open on this core.
    pub fn enter(&self, core: Rc<PoolCore>) {
        self.0.borrow_mut().push(core);
    }

    pub(crate) fn forget(&self, pool: &Arc<Shared>) {
        self.0.borrow_mut().retain(|core| !Arc::ptr_eq(core.shared(), pool));
    }

    /// Brings everything to its place, so that the next start has nothing to recover. Only when no request is under way any
    /// more, and only where the pools are kept: on the first core. The error names pools that did not end in time; nothing of
    /// them is lost.
    pub async fn close(&self) -> Result<(), String> {
        for core in self.list() {
            core.close().await?;
        }
        Ok(())
    }
}

impl PoolCore {
    /// As [`PoolCores::close`], for this pool.
    pub async fn close(&self) -> Result<(), String> {
        if self.ring.timeout(POOL_CLOSE_TIME, Pool::close(&self.shared, &self.ring)).await.is_some() {
            return Ok(());
        }
        let seconds = POOL_CLOSE_TIME.as_secs();
        Err(format!("pool {} was not closed within {seconds} seconds", self.shared.name))
    }
}
