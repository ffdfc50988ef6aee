//! What is played: workloads, and what befalls them.

mod accidents;
mod disks;
mod mixed;
mod pooled;

pub use accidents::{network, power};
pub use disks::{full_disk, lost_flush, resets_on_stalled_disks, stalled_disk, unreadable_blocks};
pub use mixed::{calm, few_receive_buffers, rough};

use crate::node::{PoolShape, VolumePlan};

/// Three volumes, one of them with blocks of 4 KiB; two on a pool if there is one.
fn volumes_on(pool: Option<PoolShape>) -> Vec<VolumePlan> {
    vec![
        VolumePlan::new("alpha", 512 << 10, 512),
        VolumePlan::new("beta", 192 << 10, 512).on_pool(pool),
        VolumePlan::new("gamma", 384 << 10, 4096).on_pool(pool),
    ]
}

/// The same, each on a file of its own.
fn volumes() -> Vec<VolumePlan> {
    volumes_on(None)
}
