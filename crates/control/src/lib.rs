//! Desired state: the configuration, checked as a whole, and the node made from it.

pub mod api;
pub mod config;
pub mod node;
pub mod offline;
mod plan;
pub mod size;
pub mod state;

pub use config::{Config, ConfigErrors};
pub use node::{Node, start};
pub use plane::core::Portals;
pub use state::{DataDirectory, StateError, VolumeId};
