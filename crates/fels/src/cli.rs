//! The commands and where each one goes. Flags stand beside the command that they belong to.

use crate::commands::{
    alert, apply, audit, cert, check, completions, dump, events, graph, initiator, job, lab, man, pool,
    portal, serve, status, token, top, user, volume,
};
use crate::message::Failure;
use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Parser, Subcommand};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Begin with:
  fels check --config fels.toml    says what is wrong with a configuration
  fels serve --config fels.toml    serves its volumes, and prints how to connect to each
  fels volume create demo --size 1GiB   makes one more while it runs
  fels status                      says how it is, and what to do next
  fels top                         shows what it does now, and where the time goes

Exit codes: 0 all is well, 1 something failed, 2 the command line is wrong, 130 stopped without draining.";

/// A storage target in userspace: serves volumes, keeps them on pools, and measures them.
#[derive(Debug, Parser)]
#[command(name = "fels", version, styles = STYLES, after_help = AFTER_HELP, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(serve::Arguments),
    Check(check::Arguments),
    Status(status::Arguments),
    Top(top::Arguments),
    Graph(graph::Arguments),
    Volume(Box<volume::Arguments>),
    Pool(Box<pool::Arguments>),
    Initiator(initiator::Arguments),
    Job(job::Arguments),
    Portal(portal::Arguments),
    Alert(alert::Arguments),
    Apply(apply::Arguments),
    Dump(dump::Arguments),
    Events(events::Arguments),
    User(user::Arguments),
    Token(token::Arguments),
    Audit(audit::Arguments),
    Cert(cert::Arguments),
    Lab(lab::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

impl Command {
    pub fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(arguments) => serve::run(&arguments),
            Self::Check(arguments) => check::run(&arguments),
            Self::Status(arguments) => status::run(&arguments),
            Self::Top(arguments) => top::run(&arguments),
            Self::Graph(arguments) => graph::run(&arguments),
            Self::Volume(arguments) => volume::run(&arguments),
            Self::Pool(arguments) => pool::run(&arguments),
            Self::Initiator(arguments) => initiator::run(&arguments),
            Self::Job(arguments) => job::run(&arguments),
            Self::Portal(arguments) => portal::run(&arguments),
            Self::Alert(arguments) => alert::run(&arguments),
            Self::Apply(arguments) => apply::run(&arguments),
            Self::Dump(arguments) => dump::run(&arguments),
            Self::Events(arguments) => events::run(&arguments),
            Self::User(arguments) => user::run(&arguments),
            Self::Token(arguments) => token::run(&arguments),
            Self::Audit(arguments) => audit::run(&arguments),
            Self::Cert(arguments) => cert::run(&arguments),
            Self::Lab(arguments) => lab::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Man(arguments) => man::run(&arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_flag_says_what_it_does() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let name = format!("{} {}", command.get_name(), argument.get_id());
                assert!(argument.get_help().is_some(), "{name}");
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn the_reference_has_every_command() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
        let reference = std::fs::read_to_string(path).unwrap();
        let command = Cli::command();
        for subcommand in command.get_subcommands() {
            let inner: Vec<_> = subcommand.get_subcommands().collect();
            let name = subcommand.get_name();
            let rows = match &inner[..] {
                [] => vec![(name.to_owned(), subcommand)],
                inner => inner.iter().map(|one| (format!("{name} {}", one.get_name()), *one)).collect(),
            };
            for (name, one) in rows {
                let row = format!("| `fels {name}` | {} |\n", one.get_about().unwrap());
                assert!(reference.contains(&row), "it lacks {row}");
            }
        }
    }
}
