//! `fels pool scrub`.

use super::node::{self, NodeFlags, path_of};
use super::wait::{Waiting, wait};
use super::{print_json, status};
use crate::message::{Failure, print};
use clap::Args;
use control::api::model::{Change, Pool, Wish};

/// Read everything of a pool, verify it, and repair what is wrong
///
/// It goes on in the background, slower while the pool is busy. With --wait the command ends when the scrub does, with 1 if
/// blocks are lost; Ctrl-C ends only the waiting.
#[derive(Debug, Args)]
pub struct Scrub {
    /// The pool
    name: String,

    /// Wait until it is done, and tell what was found
    #[arg(long, conflicts_with = "stop")]
    wait: bool,

    /// End the scrub that runs
    #[arg(long)]
    stop: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Scrub) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let path = path_of(&arguments.name, "/scrub");
    let wish = Wish { dry_run: arguments.dry_run };
    let answer: Result<Change, _> =
        if arguments.stop { client.delete(&path, &wish) } else { client.post(&path, &wish) };
    let change = answer.map_err(|error| node::failure(&error))?;
    if !arguments.wait || arguments.dry_run {
        return super::members::tell(&change, arguments.json);
    }
    let goes_on = format!(
        "the scrub of pool {0} goes on; `fels pool status {0}` shows how far it is",
        change.pool.name
    );
    let pool = wait(&client, change.pool, "scrub", &goes_on, |pool| {
        Ok(if pool.scrub.runs { Waiting::At(pool.scrub.progress) } else { Waiting::Done })
    })?;
    if arguments.json {
        print_json(&pool)?;
    } else {
        print(&format!("scrub of pool {}: {}\n", pool.name, status::scrub(&pool)))?;
    }
    verdict(&pool)
}

/// Lost blocks are a failure, whoever looks at the exit code.
fn verdict(pool: &Pool) -> Result<(), Failure> {
    match pool.scrub.lost {
        0 => Ok(()),
        lost => Err(Failure::new(
            format!("{lost} blocks of pool {} cannot be rebuilt", pool.name),
            Some(
                "the log of the node names them; restore what lies there from a backup: what is written anew is good again",
            ),
        )),
    }
}
