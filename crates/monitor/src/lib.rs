//! What the node shows of itself: metrics, events and limits, defined once and rendered everywhere.
//!
//! Pure control plane. This crate knows nothing of volumes and pools but their names: whoever has figures fills a
//! [`metric::Snapshot`] every [`metric::INTERVAL`], and [`metric::Recent`] makes of it what everything else reads.

pub mod event;
pub mod graph;
pub mod history;
pub mod limit;
pub mod metric;
pub mod munin;
pub mod prometheus;
