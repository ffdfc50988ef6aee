//! What feeds the board: figures whenever the node has looked at itself, and once a day a summary.

use std::sync::Arc;

use monitor::event::Severity;

use super::{Alerts, deliver};
use crate::administration::Administration;
use crate::config::Config;
use crate::moment::Moment;
use crate::observe::Observer;

/// Events of a summary at most.
const MAX_EVENTS: usize = 1000;
const DAY_S: u64 = 24 * 60 * 60;

/// Watches limits and tells people, for as long as it is polled.
pub(crate) async fn run(alerts: Alerts, administration: Arc<Administration>, observer: Observer) {
    let collector = observer.collector();
    tokio::join!(
        look(&alerts, &administration, &observer),
        deliver::run(alerts.clone(), administration.clone()),
        collector.disks().watch(collector),
    );
}

async fn look(alerts: &Alerts, administration: &Administration, observer: &Observer) {
    let mut snapshots = observer.subscribe();
    while snapshots.changed().await.is_ok() {
        let Some(view) = observer.view() else { continue };
        let state = administration.state();
        let config = &state.running;
        let (at, now) = (view.snapshot.at, Moment::from_unix(view.snapshot.unix_s));
        // What is not kept is kept with the next look.
        alerts.change(|board| ((), board.look(&view, config, at, now, &alerts.0.node))).await.ok();
        digest(alerts, config, now).await;
    }
}

async fn digest(alerts: &Alerts, config: &Config, now: Moment) {
    if !alerts.board().is_digest_due(config, now) {
        return;
    }
    let events = alerts.0.events.clone();
    let read = move || {
        events.read(MAX_EVENTS, None, |record| {
            record.severity() >= Severity::Warning && now.since(record.at) < DAY_S
        })
    };
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.ok().and_then(Result::ok).unwrap_or_default();
    alerts.change(|board| (board.digest(config, &read, now, &alerts.0.node), Vec::new())).await.ok();
}
