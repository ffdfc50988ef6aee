//! What is played: workloads, and what befalls them.

mod accidents;
mod disks;
mod mixed;

pub use accidents::{network, power};
pub use disks::{full_disk, lost_flush, resets_on_stalled_disks, stalled_disk, unreadable_blocks};
pub use mixed::{calm, rough};

use crate::node::VolumePlan;

/// Three volumes, one of them with blocks of 4 KiB.
fn volumes() -> Vec<VolumePlan> {
    vec![
        VolumePlan::new("alpha", 512 << 10, 512),
        VolumePlan::new("beta", 192 << 10, 512),
        VolumePlan::new("gamma", 384 << 10, 4096),
    ]
}
