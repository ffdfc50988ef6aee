//! `fels pool`: pools of a node that runs, by its control socket; and pools that no node uses, on their members themselves.

mod add;
mod create;
mod destroy;
mod export;
mod grow;
mod import;
mod members;
pub mod node;
mod open;
mod picture;
mod scrub;
mod spare;
pub mod status;
pub mod wait;

use super::{print_json, rounded, table};
use crate::message::Failure;
use clap::{Args, Subcommand};
use control::offline::OfflineError;
use control::size::parse_bytes;
use std::path::{Path, PathBuf};

/// Make, look after and move pools
///
/// open, close, status, scrub, offline, online, replace, add, spare and grow ask the node that runs; create, import, export and destroy work on the members
/// themselves, and only while no node uses them.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Create),
    Open(open::Open),
    Close(open::Close),
    Status(status::Status),
    Scrub(scrub::Scrub),
    Offline(members::Offline),
    Online(members::Online),
    Replace(members::Replace),
    Add(add::Add),
    Spare(spare::Spare),
    Grow(grow::Grow),
    Import(import::Import),
    Export(export::Export),
    Destroy(destroy::Destroy),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Create(arguments) => create::run(arguments),
        Command::Open(arguments) => open::open(arguments),
        Command::Close(arguments) => open::close(arguments),
        Command::Status(arguments) => status::run(arguments),
        Command::Scrub(arguments) => scrub::run(arguments),
        Command::Offline(arguments) => members::offline(arguments),
        Command::Online(arguments) => members::online(arguments),
        Command::Replace(arguments) => members::replace(arguments),
        Command::Add(arguments) => add::run(arguments),
        Command::Spare(arguments) => spare::run(arguments),
        Command::Grow(arguments) => grow::run(arguments),
        Command::Import(arguments) => import::run(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::Destroy(arguments) => destroy::run(arguments),
    }
}

/// A failure without a node.
fn offline_failure(error: &OfflineError) -> Failure {
    let (sentence, hint) = error.parts();
    Failure::new(sentence, hint.as_deref())
}

/// A time as people say it.
fn spoken(seconds: u64) -> String {
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A size on the command line.
fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| format!("{error}: write a whole number and KiB, MiB, GiB or TiB"))
}

/// Paths from the root on: others are to find them too.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::new(format!("{} cannot be made absolute: {error}", path.display()), None))
}

fn all_absolute(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let paths: Vec<_> = paths.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
    for (index, path) in paths.iter().enumerate() {
        if paths[..index].contains(path) {
            let sentence = format!("{} is named twice", path.display());
            return Err(Failure::usage(sentence, "name each member once"));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_told_as_people_say_them() {
        assert_eq!(rounded(4_115_660_800), "3925MiB");
        assert_eq!(rounded(10 << 30), "10GiB");
        assert_eq!(rounded(9), "9B");
        assert_eq!(
            (spoken(9).as_str(), spoken(100).as_str(), spoken(7200).as_str()),
            ("9 s", "2 min", "2 h 0 min")
        );
    }
}
