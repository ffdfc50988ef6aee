//! `fels pool grow`.

use super::members::tell;
use super::node::{self, NodeFlags, path_of};
use crate::message::Failure;
use clap::Args;
use control::api::model::{Change, Wish};

/// Give a pool all that its members have room for, once they were replaced by larger ones
///
/// Volumes can have it at once: `fels volume resize`.
#[derive(Debug, Args)]
pub struct Grow {
    /// The pool
    name: String,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Grow) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let wish = Wish { dry_run: arguments.dry_run };
    let answer: Result<Change, _> = client.post(&path_of(&arguments.name, "/grow"), &wish);
    tell(&answer.map_err(|error| node::failure(&error))?, arguments.json)
}
