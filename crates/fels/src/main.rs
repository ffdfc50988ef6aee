//! Fels: one binary that serves volumes, checks configurations and measures.

mod cli;
mod commands;
mod message;
mod notify;
mod wrong;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let cli = cli::Cli::try_parse_from(&words).unwrap_or_else(|error| wrong::explained(error, &words).exit());
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.show();
            ExitCode::from(failure.code())
        }
    }
}
