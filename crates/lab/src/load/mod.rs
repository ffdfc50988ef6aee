//! Loads: what is asked of a target, when, and what came of it.

mod choose;
mod drive;
mod job;
mod schedule;
mod tally;
mod worker;

pub use choose::{Choice, Chooser, Kind};
pub use drive::{Ended, Plan, Sample, drive};
pub use job::{Arrivals, Extent, Load, MAX_DEPTH, MAX_JOBS, MAX_VERIFIED_SLOTS, Misfit, Rate};
pub use schedule::{MAX_BACKLOG, Schedule};
pub use tally::{Tallies, Tally, latencies};

#[cfg(test)]
mod tests;
