//! Desired state: the configuration, checked as a whole, and the node made from it.

pub mod administration;
pub mod alerts;
pub mod api;
pub mod audit;
pub mod collect;
pub mod config;
pub mod diff;
pub mod events;
mod lines;
pub mod live;
pub mod moment;
pub mod node;
mod numbers;
pub mod observe;
pub mod offline;
mod pages;
pub mod people;
mod plan;
pub mod pulse;
pub mod reports;
pub mod size;
pub mod state;
pub mod store;
pub mod tls;
pub mod watch;
mod whole;

pub use config::{Config, ConfigErrors};
pub use node::{Node, start};
pub use plane::core::Portals;
pub use state::{DataDirectory, StateError, VolumeId};
pub use store::Store;

/// Gives every volume of a configuration that nothing runs of yet its number in its NVMe subsystem.
pub fn number_namespaces(config: &mut Config) {
    numbers::number(None, config);
}
