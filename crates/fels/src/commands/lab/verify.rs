//! `fels lab verify`: what a crash left.

use super::flags::TargetFlags;
use super::{failure, stop_flag, write_json};
use crate::message::{Failure, print};
use clap::Args;
use lab::{VerifyOptions, VerifyReport};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Check that a target still has what a journal says is durable
///
/// Ends with 1 if any block is wrong, and names it.
#[derive(Debug, Args)]
pub struct Verify {
    #[command(flatten)]
    target: TargetFlags,
    /// What `fels lab run --journal` wrote
    #[arg(long, value_name = "FILE")]
    journal: PathBuf,
    /// Write the result to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(arguments: &Verify) -> Result<(), Failure> {
    let options = VerifyOptions {
        target: arguments.target.target()?,
        journal: arguments.journal.clone(),
        open: arguments.target.open.options(),
    };
    let report = lab::verify_journal(&options, &stop_flag()?).map_err(|error| failure(&error))?;
    let written = arguments.json.as_deref().map_or(Ok(()), |path| {
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::new(format!("the result cannot be written as JSON: {error}"), None))?;
        write_json(path, &json)
    });
    Failure::together([shown(&report), written])
}

/// Prints what was found, and fails if something is wrong.
fn shown(report: &VerifyReport) -> Result<(), Failure> {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "{} MiB read, {} blocks had to be durable, {} of them are newer, {} blocks are wrong",
        report.bytes >> 20,
        report.durable_blocks,
        report.newer_blocks,
        report.findings.count
    );
    for finding in &report.findings.first {
        let _ = writeln!(text, "WRONG {finding}");
    }
    let more = report.findings.count - report.findings.first.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "WRONG and {more} blocks more");
    }
    print(&text)?;
    match report.findings.count {
        0 if report.interrupted => Err(Failure::new("interrupted before everything was read", None)),
        0 => Ok(()),
        count => Err(Failure::new(
            format!("{count} blocks are wrong"),
            Some("the target lost or changed data: keep its files and logs"),
        )),
    }
}
