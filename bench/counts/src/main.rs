//! The instructions of the hot paths, counted by Callgrind and held to figures that are in the repository.
//!
//! Times differ from run to run and from machine to machine; instructions hardly do. What waits for nothing but the
//! processor can so be watched by a test: `make test` fails when a path needs more than it did, `make counts` takes a
//! wanted change in.

mod callgrind;
mod committed;
mod error;
mod meter;
mod paths;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use committed::{Figures, Verdict};
use error::Error;

/// Where the figures are, seen from the root of the repository.
const FIGURES: &str = "bench/counts/figures.txt";

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let result = match argument.as_deref() {
        Some(callgrind::INSIDE) => {
            paths::measure();
            Ok(ExitCode::SUCCESS)
        }
        Some("check") => check(),
        Some("write") => write(),
        _ => Err(Error::Usage),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn write() -> Result<ExitCode, Error> {
    let figures = Figures { tools: tools::versions()?, counts: callgrind::count()? };
    figures.save(Path::new(FIGURES))?;
    println!("{FIGURES}: {} paths", figures.counts.len());
    Ok(ExitCode::SUCCESS)
}

fn check() -> Result<ExitCode, Error> {
    let committed = Figures::load(Path::new(FIGURES))?;
    let found = Figures { tools: tools::versions()?, counts: callgrind::count()? };
    let same_tools = committed.tools == found.tools;
    if !same_tools {
        println!("note: the figures were made with {}", committed.tools);
        println!("note: this is                    {}", found.tools);
    }
    println!("{}", committed::rule(same_tools));
    let mut failed = 0;
    for comparison in committed.compare(&found, same_tools) {
        println!("{comparison}");
        failed += u32::from(comparison.verdict != Verdict::Holds);
    }
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("hint: if the change is wanted, `make counts` takes it in: commit {FIGURES} with it");
    Ok(ExitCode::FAILURE)
}
