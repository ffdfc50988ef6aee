//! What the node does, and where the time of that goes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the node has done since it was started. Who asks twice knows what it did in between.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Activity {
    /// Seconds since the node was started.
    pub uptime_s: f64,
    /// The volumes that are served.
    pub volumes: Vec<VolumeActivity>,
}

/// What was done with a volume since it is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeActivity {
    /// The volume.
    pub name: String,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes, and what gives space back or zeroes it.
    pub others: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Seconds that reads and writes took, all of them together.
    pub taken_s: f64,
    /// Requests that have not ended yet.
    pub in_flight: u64,
    /// Sessions, controllers and connections that use it.
    pub sessions: u64,
    /// Where the time of its requests goes.
    pub time: Times,
}

/// Where the time of a volume goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeTime {
    /// The volume.
    pub volume: String,
    /// Where the time of its requests goes.
    pub time: Times,
}

/// Where the time of requests went in the last five to ten minutes. One of 64 is followed through the layers; what is
/// answered in the turn in which it came passes none that takes time, and is not among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Times {
    /// Requests that were followed.
    pub followed: u64,
    /// Microseconds that they took in the mean.
    pub mean_us: f64,
    /// Microseconds that the slowest hundredth of them took in the mean.
    pub slowest_us: f64,
    /// The layers, top first, the disk last.
    pub layers: Vec<LayerTime>,
}

/// What a layer takes for itself, without those below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LayerTime {
    /// The layer.
    pub layer: String,
    /// Microseconds in the mean.
    pub mean_us: f64,
    /// Its part of the whole, 0 to 1.
    pub mean_share: f64,
    /// Microseconds in the mean of the slowest hundredth.
    pub slowest_us: f64,
    /// Its part of their whole, 0 to 1.
    pub slowest_share: f64,
}
