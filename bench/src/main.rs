//! Side by side: Fels and other iSCSI targets, with the same clients, on the same machine, in turn.
//!
//! The server is pinned to one core and the client to another, the volume lies in memory, and the
//! targets alternate within every round so that a machine that changes its mind hits all of them.
//! What was measured is kept: every sample, the summary, and the machine.

mod cli;
mod client;
mod error;
mod machine;
mod output;
mod process;
mod report;
mod rows;
mod run;
mod stats;
mod target;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let options = cli::Options::parse();
    match run::run(&options) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}
