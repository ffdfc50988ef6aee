//! One file a command: its flags and what it does.

pub mod alert;
mod announcement;
pub mod apply;
pub mod audit;
pub mod cert;
pub mod check;
pub mod completions;
pub mod dump;
pub mod events;
pub mod graph;
pub mod initiator;
pub mod job;
pub mod lab;
mod limits;
pub mod man;
mod node;
mod password;
pub mod pool;
pub mod portal;
pub mod serve;
pub mod status;
mod table;
pub mod token;
pub mod top;
pub mod user;
pub mod volume;

use crate::message::{Failure, print};
use control::size::display_bytes;
use serde::Serialize;

/// A size as people say it: in the largest unit of which there are ten at least, rounded down.
fn rounded(bytes: u64) -> String {
    let unit = [40, 30, 20, 10].into_iter().find(|unit| bytes >> unit >= 10).unwrap_or(0);
    display_bytes(bytes >> unit << unit)
}

/// An answer for programs.
fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("the answer cannot be written as JSON: {error}"), None))?;
    print(&format!("{text}\n"))
}
