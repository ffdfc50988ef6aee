//! `fels volume delete`.

use super::super::node::{ChangeFlags, failure, tell};
use super::{one, path_of};
use crate::message::Failure;
use clap::Args;
use control::api::model::{Changed, VolumeEnd};
use std::io::BufRead as _;

/// Take a volume out of service and destroy its bytes, or keep them
///
/// Initiators are asked to go, and closed after a while. What is on a device always stays.
#[derive(Debug, Args)]
pub struct Delete {
    /// The volume
    name: String,

    /// Its bytes stay where they are
    #[arg(long)]
    keep_data: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    how: ChangeFlags,
}

pub fn run(arguments: &Delete) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let name = &arguments.name;
    let lasts = matches!(one(&client, name)?.backing.as_str(), "file" | "pool");
    if lasts && !arguments.keep_data && !arguments.yes && !arguments.how.dry_run {
        confirm(name)?;
    }
    let wish = VolumeEnd { keep_data: arguments.keep_data, version: None, dry_run: arguments.how.dry_run };
    let changed: Changed = client.delete(&path_of(name), &wish).map_err(|error| failure(&error))?;
    tell(&changed, arguments.how.json)
}

fn confirm(name: &str) -> Result<(), Failure> {
    eprint!("what is on it will be lost; type the name of the volume to go on: ");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    if read.is_ok() && line.trim_end_matches(['\r', '\n']) == name {
        return Ok(());
    }
    Err(Failure::new(
        "that is not the name of the volume: nothing was done",
        Some("--yes goes on without asking, --keep-data leaves its bytes where they are"),
    ))
}
