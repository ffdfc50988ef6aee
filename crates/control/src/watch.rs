//! What looks at the node while it runs: on a thread of its own with its own runtime, away from the shards and from who asks the API.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use plane::pool::Pools;
use tokio::sync::oneshot;

use crate::administration::Administration;
use crate::alerts::{self, Alerts};
use crate::events::{Events, watch_pools};
use crate::observe::Observer;

/// How long what blocks may go on when the node stops.
const GRACE: Duration = Duration::from_secs(2);

/// What is watched, and what is told.
pub struct Watched {
    /// The pools.
    pub pools: Pools,
    /// Where is told what happens to them.
    pub events: Events,
    /// What becomes of limits.
    pub alerts: Alerts,
    /// Which limits there are, and who is told.
    pub administration: Arc<Administration>,
    /// Where figures come from.
    pub observer: Observer,
}

/// The thread, for as long as it runs.
pub struct Watch {
    /// Until it is stopped.
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Watch {
    /// Watches a node that serves.
    pub fn start(watched: Watched) -> io::Result<Watch> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            runtime.block_on(async {
                let Watched { pools, events, alerts, administration, observer } = watched;
                let watching = async {
                    tokio::join!(watch_pools(pools, events), alerts::run(alerts, administration, observer))
                };
                tokio::select! {
                    _ = watching => {}
                    _ = stopped => {}
                }
            });
            // A disk that is asked how it is holds nothing up.
            runtime.shutdown_timeout(GRACE);
        })?;
        Ok(Watch { running: Some((stop, thread)) })
    }

    /// Looks no more.
    pub fn stop(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        stop.send(()).ok();
        if thread.join().is_err() {
            tracing::error!("the thread that watches the node panicked");
        }
    }
}
