//! Fels: one binary that serves volumes, checks configurations and measures.

mod cli;
mod commands;
mod message;
mod notify;
mod wrong;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| wrong::without_secrets(error).exit());
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.show();
            ExitCode::from(failure.code())
        }
    }
}
