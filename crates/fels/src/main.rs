//! Fels: one binary that serves volumes, checks configurations and measures.

mod cli;
mod commands;
mod message;
mod notify;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.show();
            ExitCode::from(failure.code())
        }
    }
}
