//! `fels lab run`: one target.

use super::flags::{LoadFlags, TargetFlags};
use super::progress::ProgressLine;
use super::{failure, keep, show, stop_flag};
use crate::message::Failure;
use clap::Args;
use lab::RunOptions;
use lab::report::{Report, picture};
use std::path::{Path, PathBuf};

/// Run a profile, or one load of your own, and print its table
///
/// What it writes goes over whatever the target holds, which cannot be had back. Every profile writes; without one, and without
/// --rw, it reads alone.
///
/// Ctrl-C ends the run and still prints what was measured; a second one ends at once.
#[derive(Debug, Args)]
pub struct Run {
    /// A profile of `fels lab profiles`; without one, the flags below are the load
    profile: Option<String>,
    #[command(flatten)]
    target: TargetFlags,
    #[command(flatten)]
    load: LoadFlags,
    /// Note in FILE what the target acknowledged as durable, for `fels lab verify`
    #[arg(long, value_name = "FILE", requires = "verify")]
    journal: Option<PathBuf>,
    /// Write everything measured to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep everything measured beside the node that works in DATA_DIR: its dashboard shows it
    #[arg(long, value_name = "DATA_DIR")]
    keep: Option<PathBuf>,
    /// Draw the operations of each test, second by second, into FILE as SVG
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Do not measure the lab itself beside each test
    #[arg(long)]
    no_ceiling: bool,
}

pub fn run(arguments: &Run) -> Result<(), Failure> {
    let options = RunOptions {
        target: arguments.target.target()?,
        profile: arguments.profile.clone(),
        tests: arguments.load.tests(arguments.profile.as_deref())?,
        open: arguments.target.open.options(),
        threads: arguments.load.threads,
        journal: arguments.journal.clone(),
        ceiling: !arguments.no_ceiling,
    };
    let stop = stop_flag()?;
    let mut line = ProgressLine::new();
    let result = lab::run(&options, |progress| line.show(progress), &stop);
    line.clear();
    let report = result.map_err(|error| failure(&error))?;
    let drawn = arguments.chart.as_deref().map_or(Ok(()), |path| draw(path, &report));
    let what = report.profile.as_deref().unwrap_or("run");
    let kept = keep(arguments.keep.as_deref(), what, report.ended_unix_s, || report.to_json());
    Failure::together([show(&report, arguments.json.as_deref()), drawn, kept])
}

fn draw(path: &Path, report: &Report) -> Result<(), Failure> {
    std::fs::write(path, picture(report)).map_err(|error| {
        Failure::new(
            format!("{} cannot be written: {error}", path.display()),
            Some("check the path and the space on its disk"),
        )
    })
}
