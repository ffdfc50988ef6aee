//! What looks at the node while it runs: on a thread of its own with its own runtime, away from the shards and from who asks the API.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use plane::pool::Assembled;
use tokio::sync::oneshot;

use crate::events::{Events, watch_pools};

/// The thread, for as long as it runs.
pub struct Watch {
    /// Until it is stopped.
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Watch {
    /// Watches a node that serves.
    pub fn start(pools: Arc<[Assembled]>, events: Events) -> io::Result<Watch> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = watch_pools(pools, events) => {}
                    _ = stopped => {}
                }
            });
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
