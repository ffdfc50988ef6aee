//! `fels man`: the manual, a page for each command.

use crate::cli::Cli;
use crate::message::{Failure, print};
use clap::CommandFactory;
use std::path::{Path, PathBuf};

/// Write the manual: a page for each command
///
/// For all users: fels man --dir /usr/local/share/man/man1
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Write fels.1, fels-volume.1 and all others into this directory, instead of fels.1 to the standard output
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(directory) = &arguments.dir {
        return clap_mangen::generate_to(Cli::command(), directory)
            .map_err(|error| failed(directory, &error));
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| failed(Path::new("the standard output"), &error))?;
    print(&String::from_utf8_lossy(&page))
}

fn failed(place: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("the manual cannot be written to {}: {error}", place.display()),
        Some("make the directory first"),
    )
}
