//! `fels pool export`.

use super::import::Where;
use super::status::found_text;
use super::{offline_failure, print_json};
use crate::message::{Failure, Message, print};
use clap::Args;
use control::offline;
use serde::Serialize;

/// Close a pool in good order, so that its members can be moved
///
/// Brings what its journal has to its place and says so on the members. Not while a node uses it: a node that is stopped closes
/// its pools by itself, so this is for those that were killed.
#[derive(Debug, Args)]
pub struct Export {
    /// The pool
    name: String,

    #[command(flatten)]
    members: Where,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    done: bool,
    name: String,
    volumes: usize,
    configuration: String,
}

pub fn run(arguments: &Export) -> Result<(), Failure> {
    let pool = arguments.members.pool(&arguments.name)?;
    if let Some(path) = pool.parted.first() {
        return Err(Failure::new(
            format!(
                "{} was used without the other members of pool {}, and they without it: they differ",
                path.display(),
                arguments.name
            ),
            Some("choose one of both, and leave the other out"),
        ));
    }
    let survival = pool.survival();
    if !survival.is_whole {
        return Err(Failure::new(
            format!("pool {} cannot be opened: {}", arguments.name, survival.sentence()),
            Some("name all of its members"),
        ));
    }
    if survival.gone > 0 {
        Message::new(format!("{}; what is away gets what it missed when it comes back", survival.sentence()))
            .warn();
    }
    if !arguments.dry_run {
        offline::settle(offline::plan_of(&pool)).map_err(|error| offline_failure(&error))?;
    }
    if arguments.json {
        return print_json(&Report {
            done: !arguments.dry_run,
            name: arguments.name.clone(),
            volumes: pool.volume_count(),
            configuration: pool.table().to_string(),
        });
    }
    if arguments.dry_run {
        let text = found_text(&pool);
        return print(&format!("{text}\nthis would be opened and closed in good order, and was not\n"));
    }
    print(&format!(
        "pool {} is closed in good order; its members can be moved, and `fels pool import` finds it there\n",
        arguments.name
    ))
}
