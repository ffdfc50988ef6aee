//! `fels pool add`.

use super::members::tell;
use super::node::{self, NodeFlags, path_of};
use super::wait::{Waiting, wait};
use super::{all_absolute, size};
use crate::message::Failure;
use clap::Args;
use control::api::model::{Change, FurtherWish, MemberState, Pool, Progress};
use std::path::PathBuf;

/// Give a pool further members
///
/// Of raid1 each is a further copy, up to four; of raid0 and raid10 they are new room, of raid10 in pairs. They have to be blank, or files that are not there yet, and as large as the others. Prints the
/// [[pool]] table that the configuration needs from then on.
#[derive(Debug, Args)]
pub struct Add {
    /// The pool
    name: String,

    /// The files and devices
    #[arg(value_name = "MEMBER", num_args = 1.., required = true)]
    members: Vec<PathBuf>,

    /// Size of files that are made, such as 1GiB [default: as large as the others]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    member_size: Option<u64>,

    /// Wait until they have everything; Ctrl-C ends only the waiting
    #[arg(long)]
    wait: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Add) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let places = all_absolute(&arguments.members)?;
    let wish = FurtherWish {
        places: places.iter().map(|place| place.display().to_string()).collect(),
        member_bytes: arguments.member_size,
        dry_run: arguments.dry_run,
    };
    let (name, count) = (&arguments.name, places.len());
    let answer: Result<Change, _> = client.post(&path_of(name, "/members"), &wish);
    let mut change = answer.map_err(|error| node::failure(&error))?;
    if arguments.wait && change.done {
        let first = change.pool.members.len() - count;
        let goes_on =
            format!("they are filled all the same; `fels pool status {name}` shows how far that is");
        change.pool = wait(&client, change.pool, "rebuild", &goes_on, |pool| at(pool, first))?;
    }
    tell(&change, arguments.json)
}

/// How far the members from a slot on are, taken together.
fn at(pool: &Pool, first: usize) -> Result<Waiting, Failure> {
    let mut all = Progress::default();
    let mut is_done = true;
    for member in pool.members.iter().skip(first) {
        let cause = member.cause.as_deref().unwrap_or("no cause noted yet");
        match member.state {
            MemberState::InSync => {}
            MemberState::Rebuilding => {
                let one = member.progress.unwrap_or_default();
                is_done = false;
                all.done_bytes += one.done_bytes;
                all.total_bytes += one.total_bytes;
                all.bytes_per_s = all.bytes_per_s.max(one.bytes_per_s);
                all.left_s = all.left_s.max(one.left_s);
            }
            MemberState::Out => {
                let (slot, pool) = (member.slot, &pool.name);
                let sentence =
                    format!("member {slot} of pool {pool} went out before it had everything: {cause}");
                let hint =
                    "see the log of the node; bring it back with `fels pool online`, or give another one";
                return Err(Failure::new(sentence, Some(hint)));
            }
        }
    }
    Ok(if is_done { Waiting::Done } else { Waiting::At(all) })
}
