//! The pools of a node, which come and go while it serves.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::assemble::Assembled;
use super::core::{PoolCore, Shared};
use super::join::join;
use super::open::Pool;
use crate::limits::POOL_CLOSE_TIME;
use crate::meter::GaugeFigures;

/// The pools of a node that are open, in the order in which they came. All copies are of the same ones.
#[derive(Clone, Default)]
pub struct Pools(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    open: Vec<Arc<Assembled>>,
    /// Those who wait until one is open.
    waiting: Vec<Waker>,
}

impl Pools {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are open now.
    pub fn list(&self) -> Vec<Arc<Assembled>> {
        self.state().open.clone()
    }

    /// Waits until one is open. Who looks at pools from time to time does not wake a core for nothing meanwhile.
    pub async fn any(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            if !state.open.is_empty() {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// The one of that name.
    pub fn find(&self, name: &str) -> Option<Arc<Assembled>> {
        self.state().open.iter().find(|assembled| assembled.pool().shared().name == name).cloned()
    }

    pub(crate) fn enter(&self, pool: Arc<Assembled>) {
        let mut state = self.state();
        state.open.push(pool);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn forget(&self, name: &str) {
        self.state().open.retain(|assembled| assembled.pool().shared().name != name);
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
        let cores = self.list();
        // Together: one that does not come to its end does not keep the others from theirs.
        let ended = join(cores.iter().map(|core| Box::pin(core.close()))).await;
        let failed: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
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
