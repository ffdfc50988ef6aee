//! The one registry of metrics, and figures that are measured.

mod definition;
mod histogram;
mod recent;
mod snapshot;
pub mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use definition::{Family, Field, Group, Kind, Munin, Unit};
pub use histogram::{BUCKETS, Histogram};
pub use recent::{Reading, Recent, View};
pub use snapshot::{Sample, Snapshot, Value};

/// How often a snapshot is taken.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// The family with this name.
pub fn find(name: &str) -> Option<&'static Family> {
    table::ALL.iter().copied().find(|family| family.name == name)
}
