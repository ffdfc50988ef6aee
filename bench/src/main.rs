//! Side by side: Fels and other servers, with the same clients, on the same machine, in turn.
//!
//! The server is pinned to one core and the client to another, the volume lies in memory, and the
//! servers alternate within every round so that a machine that changes its mind hits all of them.
//! What was measured is kept: every sample, the summary, and the machine.

mod arithmetic;
mod bars;
mod cli;
mod client;
mod cpu;
mod distance;
mod error;
mod gaps;
mod idle;
mod limit;
mod machine;
mod monitoring;
mod output;
mod pools;
mod process;
mod readme;
mod report;
mod rows;
mod run;
mod server;
mod setting;
mod special;
mod stats;
mod table;
mod volume;
mod work;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use cli::{Options, Side};
use error::Error;

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.side {
        Some(side) => run_side(side).map(|()| ExitCode::SUCCESS),
        None if options.readme => rewrite_readme(&options),
        None => run::run(&options),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn rewrite_readme(options: &Options) -> Result<ExitCode, Error> {
    let run = readme::rewrite(Path::new("README.md"), options.run.as_deref(), &options.out)?;
    println!("README.md shows {}", run.display());
    Ok(ExitCode::SUCCESS)
}

fn run_side(side: &Side) -> Result<(), Error> {
    let span = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let reached = match side {
        Side::Parity(options) => return arithmetic::run(options),
        Side::Pools(options) => return pools::run(options),
        Side::Ask(doors) => return monitoring::ask_forever(*doors),
        Side::LimitServe { port, file: Some(file), .. } => return limit::serve_file(*port, file),
        Side::LimitServe { port, spin, memory, file: None } => return limit::serve(*port, *spin, *memory),
        Side::VolumeDrive { file, random, read_percent, request_bytes, depth, seconds, warm_up } => {
            let shape = limit::Shape {
                read_percent: *read_percent,
                random: *random,
                request_bytes: *request_bytes,
                depth: *depth,
                sessions: 1,
            };
            volume::drive(file, shape, span(*warm_up), span(*seconds))?
        }
        Side::LimitDrive {
            address,
            spin,
            random,
            read_percent,
            request_bytes,
            depth,
            sessions,
            seconds,
            warm_up,
            rate,
        } => {
            let shape = limit::Shape {
                read_percent: *read_percent,
                random: *random,
                request_bytes: *request_bytes,
                depth: *depth,
                sessions: *sessions,
            };
            let pace = rate.map_or(limit::Pace::Closed { spin: *spin }, |rate| limit::Pace::Open { rate });
            limit::drive(address, shape, pace, span(*warm_up), span(*seconds))?
        }
    };
    let limit::Reached { operations, seconds, latency } = reached;
    let output = output::BareOutput { operations, seconds, latency };
    println!("{}", serde_json::json!(output));
    Ok(())
}
