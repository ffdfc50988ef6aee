//! `fels lab`: measures, compares, verifies what a crash left, and lists the profiles.

mod compare;
mod fio;
mod flags;
mod profiles;
mod progress;
mod run;
mod verify;

use crate::message::{Failure, print};
use clap::{Args, Subcommand};
use control::moment::Moment;
use control::reports;
use lab::{LabError, report};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a process ends with that a second signal stopped, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Measure a target: profiles and loads of one's own
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    Compare(Box<compare::Compare>),
    Fio(Box<fio::Fio>),
    Verify(Box<verify::Verify>),
    Profiles(profiles::Profiles),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Fio(arguments) => fio::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Profiles(_) => profiles::run(),
    }
}

/// A lab's error has its hint in its sentence.
fn failure(error: &LabError) -> Failure {
    let text = error.to_string();
    match text.split_once("; hint: ") {
        Some((sentence, hint)) => Failure::new(sentence, Some(hint)),
        None => Failure::new(text, None),
    }
}

/// The flag that the first signal sets; the second one ends the process.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |error| Failure::new(format!("the handlers of signals cannot be set: {error}"), None);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds it unarmed and arms it.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}

/// Prints a report, writes it as JSON where that is wanted, and fails if something failed or was wrong. What was measured took its
/// time: it is shown, whatever becomes of the files.
fn show(report: &report::Report, json: Option<&Path>) -> Result<(), Failure> {
    let written = write_and_print(json, || report.to_json(), || report::table(report));
    Failure::together([verdict(report), written])
}

/// Writes what was measured where `--json` says, and prints the table unless that is the standard output.
fn write_and_print(
    json: Option<&Path>,
    data: impl FnOnce() -> String,
    table: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let written = json.map_or(Ok(()), |path| write_json(path, &data()));
    let printed = if json == Some(Path::new("-")) { Ok(()) } else { print(&table()) };
    Failure::together([written, printed])
}

fn verdict(report: &report::Report) -> Result<(), Failure> {
    let wrong: u64 = report.tests.iter().map(|test| test.findings.count).sum();
    let errors: u64 = report.tests.iter().map(|test| test.errors).sum();
    match (wrong, errors) {
        (0, 0) => Ok(()),
        (0, errors) => Err(Failure::new(format!("{errors} operations failed"), None)),
        (wrong, _) => Err(Failure::new(
            format!("{wrong} blocks are wrong"),
            Some("the target lost or changed data: keep its files and logs"),
        )),
    }
}

/// Puts what was measured beside a node, where that is wanted.
fn keep(
    data: Option<&Path>,
    what: &str,
    ended_unix_s: u64,
    json: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let Some(data) = data else { return Ok(()) };
    let kept = reports::keep(data, what, Moment::from_unix(ended_unix_s), &json());
    let path = kept.map_err(|error| {
        Failure::new(
            format!("the report cannot be kept in {}: {error}", data.display()),
            Some("name the data directory of the node, and run it as root or as the user of the node"),
        )
    })?;
    // Not among the figures, which programs may read.
    eprintln!("kept as {}", path.display());
    Ok(())
}

fn write_json(path: &Path, json: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(&format!("{json}\n"));
    }
    std::fs::write(path, json).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()), Some("check the path and the space on its disk"))
    })
}
