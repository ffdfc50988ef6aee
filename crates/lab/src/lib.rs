//! The lab: loads, initiators, profiles and reports that tell the truth.
//!
//! [`run()`] measures, [`verify_journal()`] checks what a crash left. Loads run on [`ring`] alone, so that they run in the
//! simulated world too: see [`load::drive`].

#![allow(clippy::cast_precision_loss, reason = "figures for people need a few digits, not all 64 bits")]

pub mod compare;
mod cpu;
mod error;
pub mod fio;
pub mod initiator;
pub mod journal;
pub mod ledger;
pub mod load;
mod page_lists;
pub mod pool;
pub mod profile;
pub mod report;
mod run;
pub mod stamp;
pub mod target;

pub use error::LabError;
pub use run::{Phase, Progress, RunOptions, Test, VerifyOptions, VerifyReport, run, verify_journal};
pub use target::Target;
