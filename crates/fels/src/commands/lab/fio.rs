//! `fels lab fio`: the real fio on a target of ours.

use super::progress::ProgressLine;
use super::{failure, keep, show, stop_flag};
use crate::message::Failure;
use clap::Args;
use lab::Target;
use lab::fio::FioOptions;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  fels lab fio database.fio --target nbd://127.0.0.1:10809/demo
  fels lab fio database.fio --target 'nbd+unix:///demo?socket=fels-data/nbd.sock' --json run.json
  fels lab fio database.fio --target null:              what fio itself can do

with a job file such as
  [database]
  rw=randrw
  rwmixread=70
  bs=8k
  iodepth=16
  numjobs=16
  time_based
  runtime=60";

/// Run the real fio on a job file, and print the tables of `fels lab run`
///
/// The job file is as given, but for where it goes: engine and target are put in their place for this run, in a
/// copy. What fio verifies (verify=...) and finds wrong is reported, and ends with 1. Ctrl-C ends fio and still prints
/// what it measured. Writes destroy what is there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Fio {
    /// A job file of fio
    #[arg(value_name = "JOBFILE")]
    job_file: PathBuf,
    /// nbd://host[:port]/export, nbd+unix:///export?socket=PATH, file:PATH (a file or a device) or null:
    #[arg(long, value_name = "URL")]
    target: Target,
    /// The program, if it is not on the path
    #[arg(long = "fio", value_name = "PROGRAM", default_value = "fio")]
    program: PathBuf,
    /// Write everything measured to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep everything measured beside the node that works in DATA_DIR: its dashboard shows it
    #[arg(long, value_name = "DATA_DIR")]
    keep: Option<PathBuf>,
}

pub fn run(arguments: &Fio) -> Result<(), Failure> {
    let options = FioOptions {
        job_file: arguments.job_file.clone(),
        target: arguments.target.clone(),
        program: arguments.program.clone(),
    };
    let stop = stop_flag()?;
    let mut line = ProgressLine::new();
    let result = lab::fio::fio(&options, |progress| line.show(progress), &stop);
    line.clear();
    let report = result.map_err(|error| failure(&error))?;
    let kept = keep(arguments.keep.as_deref(), "fio", report.ended_unix_s, || report.to_json());
    Failure::together([show(&report, arguments.json.as_deref()), kept])
}
