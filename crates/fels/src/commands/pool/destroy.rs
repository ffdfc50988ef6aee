//! `fels pool destroy`.

use super::import::Where;
use super::print_json;
use super::status::found_text;
use crate::message::{Failure, print};
use clap::Args;
use control::offline;
use serde::Serialize;
use std::io::BufRead as _;
use std::path::PathBuf;

/// Give a pool up: its members become blank, and what its volumes hold is lost
///
/// Not while a node uses it. Asks for the name of the pool, and refuses a pool that has volumes unless told so with --force.
#[derive(Debug, Args)]
pub struct Destroy {
    /// The pool
    name: String,

    #[command(flatten)]
    members: Where,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Also if it has volumes
    #[arg(long)]
    force: bool,

    /// Show what would be lost, and do nothing
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
    members: Vec<PathBuf>,
}

pub fn run(arguments: &Destroy) -> Result<(), Failure> {
    let name = &arguments.name;
    let pool = arguments.members.pool(name)?;
    // A copy that lies beside them may be somebody's backup: only one that is named goes too.
    let unfit =
        pool.unfit.iter().map(|(place, _)| place.clone()).filter(|place| arguments.members.names(place));
    let members: Vec<_> = pool.found().into_iter().chain(pool.spares.clone()).chain(unfit).collect();
    let volumes = pool.volume_count();
    if !arguments.json {
        print(&format!("{}\n", found_text(&pool)))?;
    }
    if volumes > 0 && !arguments.force && !arguments.dry_run {
        let plural = if volumes == 1 { "" } else { "s" };
        return Err(Failure::new(
            format!("pool {name} has {volumes} volume{plural}"),
            Some("save what they hold; with --force they are lost"),
        ));
    }
    if !arguments.dry_run {
        if !arguments.yes {
            confirm(name)?;
        }
        wipe(name, &members, pool.label.pool)?;
    }
    if arguments.json {
        return print_json(&Report { done: !arguments.dry_run, name: name.clone(), volumes, members });
    }
    let missing = pool.slots.iter().filter(|slot| slot.place.is_none()).count();
    let left = match missing {
        0 => String::new(),
        1 => "; 1 member was not there, and still says that it belongs to it".to_owned(),
        count => format!("; {count} members were not there, and still say that they belong to it"),
    };
    let count = members.len();
    if arguments.dry_run {
        return print(&format!("nothing was done: {count} members would be made blank, without --dry-run\n"));
    }
    print(&format!("pool {name} is no more: {count} members are blank again{left}\n"))
}

fn confirm(name: &str) -> Result<(), Failure> {
    eprint!("what is on it will be lost; type the name of the pool to go on: ");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    if read.is_ok() && line.trim_end_matches(['\r', '\n']) == name {
        return Ok(());
    }
    Err(Failure::new(
        "that is not the name of the pool: nothing was done",
        Some("--yes goes on without asking"),
    ))
}

fn wipe(name: &str, members: &[PathBuf], id: [u8; 16]) -> Result<(), Failure> {
    offline::destroy(members, id).map(drop).map_err(|(done, error)| {
        let (sentence, _) = error.parts();
        let done = done.len();
        Failure::new(
            format!(
                "pool {name} is gone in part only: {done} members are blank, then this failed: {sentence}"
            ),
            Some("once that is mended, the same command goes on with those that are left"),
        )
    })
}
