//! The thread that takes snapshots.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use monitor::metric::Recent;
use tokio::sync::watch;

use super::Observer;

/// Snapshots are taken so much after the clock has shown a round time: timers go by another clock than the one on the wall, and
/// one that comes a little early would be of the interval before.
const MARGIN: Duration = Duration::from_millis(20);

/// Snapshots are taken as long as this is there.
pub struct Observing {
    /// Until it is stopped.
    running: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

impl Observing {
    /// Takes a snapshot at once, and then whenever the clock shows a multiple of `interval`: [`monitor::metric::INTERVAL`] is
    /// what the history is made for.
    pub fn start(observer: Observer, interval: Duration) -> io::Result<Observing> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, mut stopped) = watch::channel(false);
        let work = async move {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => {}
                () = observe(&observer, interval) => {}
            }
        };
        let thread =
            std::thread::Builder::new().name("observer".to_owned()).spawn(move || runtime.block_on(work))?;
        Ok(Observing { running: Some((stop, thread)) })
    }

    /// Takes no more snapshots, and lets the history be.
    pub fn stop(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        stop.send(true).ok();
        if thread.join().is_err() {
            tracing::error!("the thread that observes the node panicked");
        }
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Until the node stops.
async fn observe(observer: &Observer, interval: Duration) {
    let mut recent = Recent::new();
    while let Some(snapshot) = observer.collector().snapshot().await {
        observer.publish(&mut recent, snapshot);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        tokio::time::sleep(until_next(now, interval)).await;
    }
}

/// How long it is until the clock has shown the next multiple of `interval`.
pub(super) fn until_next(now: Duration, interval: Duration) -> Duration {
    let interval_ns = interval.as_nanos().max(1);
    let left_ns = interval_ns - now.as_nanos() % interval_ns;
    Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX)) + MARGIN
}
