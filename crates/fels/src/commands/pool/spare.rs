//! `fels pool spare`.

use super::absolute;
use super::members::tell;
use super::node::{self, NodeFlags, path_of};
use crate::message::Failure;
use clap::Args;
use control::api::model::{Change, MemberWish, Wish};
use std::path::PathBuf;

/// Give a pool a spare, which takes the place of a member that fails, by itself
///
/// It has to be blank, or a file that is not there yet. The node writes it into its configuration.
#[derive(Debug, Args)]
pub struct Spare {
    /// The pool
    name: String,

    /// The file or device
    #[arg(value_name = "PATH")]
    place: PathBuf,

    /// Take it away; it is blank again
    #[arg(long)]
    remove: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Spare) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let (name, dry_run) = (&arguments.name, arguments.dry_run);
    let place = absolute(&arguments.place)?.display().to_string();
    let answer: Result<Change, _> = if arguments.remove {
        let pool = node::one(&client, name)?;
        let spare =
            pool.spares.iter().find(|spare| spare.place.as_ref() == Some(&place)).ok_or_else(|| {
                let hint = format!("`fels pool status {name}` shows those that it has");
                Failure::new(format!("{place} is no spare of pool {name}"), Some(&hint))
            })?;
        client.delete(&path_of(name, &format!("/spares/{}", spare.id)), &Wish { dry_run })
    } else {
        client.post(&path_of(name, "/spares"), &MemberWish { place: Some(place), dry_run })
    };
    tell(&answer.map_err(|error| node::failure(&error))?, arguments.json)
}
