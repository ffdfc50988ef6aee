//! `fels pool open` and `fels pool close`.

use super::super::node::{ChangeFlags, failure, tell};
use super::node::path_of;
use super::{all_absolute, size};
use crate::message::Failure;
use clap::Args;
use control::api::model::{Changed, PoolEnd, PoolSettings, PoolWish, Quantity};
use std::path::PathBuf;

/// Let the node that runs make a pool, or open one, while it serves
///
/// The pool is written into the configuration of the node. Its members have to be blank, or files that are made with --member-size;
/// with --existing they have the pool already, and what was not said is as they say it.
#[derive(Debug, Args)]
pub struct Open {
    /// Its name: lower-case letters, digits, - . and :
    name: String,

    /// How the members are arranged: single, raid0, raid1, raid10, raid5 or raid6
    #[arg(long, value_name = "LEVEL", required_unless_present = "existing")]
    raid: Option<String>,

    /// Files and devices, in the order of their slots
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    members: Vec<PathBuf>,

    /// Files and devices that take the place of members that fail, by themselves
    #[arg(long = "spare", value_name = "PATH", num_args = 1..)]
    spares: Vec<PathBuf>,

    /// Size of files that are made, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    member_size: Option<u64>,

    /// Bytes that lie together on one member: a power of two from 4KiB to 1MiB [default: 64KiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    unit: Option<u64>,

    /// Keep no checksums
    #[arg(long)]
    no_integrity: bool,

    /// The members have it already: open it with what is on it
    #[arg(long)]
    existing: bool,

    #[command(flatten)]
    how: ChangeFlags,
}

/// Close a pool of the node that runs, and take it out of its configuration
///
/// Only one without volumes. What is on its members stays, and `fels pool open --existing` opens it again, on this machine or another.
#[derive(Debug, Args)]
pub struct Close {
    /// The pool
    name: String,

    #[command(flatten)]
    how: ChangeFlags,
}

pub fn open(arguments: &Open) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let all: Vec<_> = arguments.members.iter().chain(&arguments.spares).cloned().collect();
    let mut members: Vec<_> = all_absolute(&all)?.iter().map(|path| path.display().to_string()).collect();
    let spares = members.split_off(arguments.members.len());
    let pool = PoolSettings {
        name: Some(arguments.name.clone()),
        raid: arguments.raid.clone(),
        members,
        member_size: arguments.member_size.map(Quantity::Number),
        spares,
        unit: arguments.unit.map(Quantity::Number),
        integrity: arguments.no_integrity.then_some(false),
    };
    let wish = PoolWish { pool, existing: arguments.existing, version: None, dry_run: arguments.how.dry_run };
    let changed: Changed = client.post("/v1/pools", &wish).map_err(|error| failure(&error))?;
    tell(&changed, arguments.how.json)
}

pub fn close(arguments: &Close) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let wish = PoolEnd { version: None, dry_run: arguments.how.dry_run };
    let changed: Changed =
        client.delete(&path_of(&arguments.name, ""), &wish).map_err(|error| failure(&error))?;
    tell(&changed, arguments.how.json)
}
