//! What shards ask of the kernel, and how they wait.

use monitor::metric::{Snapshot, table};
use plane::live::CoreFigures;

pub(super) fn add(snapshot: &mut Snapshot, shards: &[CoreFigures]) {
    for CoreFigures { index, activity, buffer_bytes, busy_poll } in shards {
        let shard = index.to_string();
        snapshot.push(&table::SHARD_BUFFERS, &[&shard], *buffer_bytes as u64);
        for (family, count) in [
            (&table::RING_SUBMISSIONS, activity.submissions),
            (&table::RING_COMPLETIONS, activity.completions),
            (&table::RING_ENTERS, activity.enters),
            (&table::RING_SLEEPS, activity.sleeps),
            (&table::RING_DIRECT, activity.direct),
            (&table::RING_STEPS_BROKEN, activity.steps_broken),
        ] {
            snapshot.push(family, &[&shard], count);
        }
        snapshot.push(&table::BUSY_POLL_MOST, &[&shard], busy_poll.as_secs_f64());
        for (outcome, time) in [("found", activity.looked), ("vain", activity.looked_in_vain)] {
            snapshot.push(&table::BUSY_POLL, &[&shard, outcome], time.as_secs_f64());
        }
    }
}
