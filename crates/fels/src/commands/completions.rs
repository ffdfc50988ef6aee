//! `fels completions`: what a shell needs to complete command lines.

use crate::cli::Cli;
use crate::message::{Failure, print};
use clap::CommandFactory;
use clap_complete::{Shell, generate};

/// Print the completions of a shell
///
/// For bash: fels completions bash > ~/.local/share/bash-completion/completions/fels
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut Cli::command(), "fels", &mut script);
    print(&String::from_utf8_lossy(&script))
}
