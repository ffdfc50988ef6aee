//! What the node sees of itself, taken once every few seconds for all who show it, judge it or keep it.
//!
//! A thread of its own takes a snapshot, makes rates of it, adds it to the history in the data directory and gives it to
//! whoever waits. Nothing of it is on the way of a request, and where the history cannot be written the node goes on.

mod kept;
mod munin;
#[cfg(test)]
mod tests;
mod thread;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use monitor::metric::{Recent, Snapshot, View, table};
use tokio::sync::{Mutex, watch};

use crate::collect::Collector;

pub use kept::Kept;
pub use munin::{MuninError, serve as serve_munin};
pub use thread::Observing;

/// The name of the history in the data directory.
pub const HISTORY_DIRECTORY: &str = "history";

/// How long a snapshot is one of now.
const MOMENT: Duration = Duration::from_millis(500);

/// What the node sees of itself. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Observer(Arc<Inner>);

struct Inner {
    collector: Collector,
    latest: watch::Sender<Option<Arc<Snapshot>>>,
    view: RwLock<Option<Arc<View>>>,
    history: Kept,
    /// What was measured between two snapshots of the interval, and when.
    between: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

impl Observer {
    /// Of a node with this data directory. It sees nothing until it is [started](Observing::start).
    pub fn new(collector: Collector, data: &Path) -> Observer {
        Observer(Arc::new(Inner {
            collector,
            latest: watch::Sender::new(None),
            view: RwLock::default(),
            history: Kept::new(data.join(HISTORY_DIRECTORY)),
            between: Mutex::default(),
        }))
    }

    /// The last snapshot; `None` only in the first moment of a node.
    pub fn latest(&self) -> Option<Arc<Snapshot>> {
        self.0.latest.borrow().clone()
    }

    /// The last snapshot with what follows from those before it: rates, and what histograms have seen lately. It is there before
    /// those who [wait](Observer::subscribe) for its snapshot are told.
    pub fn view(&self) -> Option<Arc<View>> {
        self.0.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every snapshot from now on, for those who want to act on it. Who is late gets the last one alone.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Snapshot>>> {
        self.0.latest.subscribe()
    }

    /// What was measured since the history was begun. Its methods read files: where a runtime must not wait for a disk, use
    /// [`Observer::look_back`].
    pub fn history(&self) -> &Kept {
        &self.0.history
    }

    /// Reads in the history where nobody has to wait for it. `None` if it did not come to its end.
    pub async fn look_back<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Kept) -> T + Send + 'static,
    ) -> Option<T> {
        let observer = self.clone();
        tokio::task::spawn_blocking(move || work(&observer.0.history)).await.ok()
    }

    /// A snapshot of now, for those who make rates of their own over the times at which they ask. Many who ask at once, or again within
    /// a moment, get the same one: the cores are not asked more often than that. `None` when the node is stopping.
    pub async fn now(&self) -> Option<Arc<Snapshot>> {
        let mut between = self.0.between.lock().await;
        if let Some((taken, snapshot)) = &*between
            && taken.elapsed() < MOMENT
        {
            return Some(snapshot.clone());
        }
        let mut snapshot = self.0.collector.snapshot().await?;
        // What only follows from several snapshots.
        for sample in self.view().iter().flat_map(|view| view.snapshot.of(&table::PORTAL_EVENNESS)) {
            let labels: Vec<&str> = sample.labels.iter().map(AsRef::as_ref).collect();
            snapshot.push(sample.family, &labels, sample.value.clone());
        }
        let snapshot = Arc::new(snapshot);
        *between = Some((Instant::now(), snapshot.clone()));
        Some(snapshot)
    }

    /// Who takes snapshots, for what has to be of this very moment.
    pub fn collector(&self) -> &Collector {
        &self.0.collector
    }

    /// Takes in a snapshot, in the order in which they are taken.
    pub(crate) fn publish(&self, recent: &mut Recent, snapshot: Snapshot) {
        let view = Arc::new(recent.push(snapshot));
        self.0.history.record(view.snapshot.unix_s, &view.readings);
        *self.0.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view.clone());
        self.0.latest.send_replace(Some(view.snapshot.clone()));
    }
}
