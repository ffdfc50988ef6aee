//! `fels pool offline`, `online` and `replace`.

use super::super::node::ChangeFlags;
use super::node::{self, path_of};
use super::wait::{Waiting, wait};
use super::{absolute, print_json};
use crate::message::{Failure, print};
use clap::Args;
use control::api::client::Client;
use control::api::model::{Change, MemberState, MemberWish, Pool, Wish};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Take a member out of its pool, which goes on without it
///
/// What is written meanwhile is noted. The member stays out, also over restarts, until `fels pool online` brings it back.
#[derive(Debug, Args)]
pub struct Offline {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    how: ChangeFlags,
}

/// Bring a member back into its pool; it gets what it missed
#[derive(Debug, Args)]
pub struct Online {
    #[command(flatten)]
    which: Which,

    /// Where it is now, if it has moved
    #[arg(value_name = "PATH")]
    place: Option<PathBuf>,

    /// Wait until it has everything
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    how: ChangeFlags,
}

/// Put another file or disk in the place of a member; it gets everything from the others
///
/// It has to be blank, or a file that is not there yet. The node writes it into its configuration.
#[derive(Debug, Args)]
pub struct Replace {
    #[command(flatten)]
    which: Which,

    /// The file or device that takes its place
    #[arg(value_name = "PATH")]
    place: PathBuf,

    /// Wait until it has everything; Ctrl-C ends only the waiting
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    how: ChangeFlags,
}

#[derive(Debug, Args)]
struct Which {
    /// The pool
    name: String,

    /// The member: the number of its slot, its path, or the name of its file
    member: String,
}

/// Says what was done, or would be.
pub fn tell(change: &Change, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(change);
    }
    let mut text = String::new();
    if !change.done {
        text.push_str("this would be done, and was not:\n");
    }
    for step in &change.steps {
        text.push_str("  ");
        text.push_str(step);
        text.push('\n');
    }
    if change.done {
        // Writing to a String does not fail.
        let _ = writeln!(text, "pool {}: {}", change.pool.name, change.pool.sentence);
    }
    if change.written {
        text.push_str("the configuration says so from now on\n");
    } else if let Some(table) = &change.configuration {
        let from = if change.done {
            "the configuration needs this from now on"
        } else {
            "the configuration would need this"
        };
        let _ = write!(text, "\n{from}; the next start of the node reads it:\n\n{table}");
    }
    print(&text)
}

pub fn offline(arguments: &Offline) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let (_, path) = find(&client, &arguments.which, "offline")?;
    let wish = Wish { dry_run: arguments.how.dry_run };
    let change = client.post(&path, &wish).map_err(|error| node::failure(&error))?;
    tell(&change, arguments.how.json)
}

pub fn online(arguments: &Online) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let (slot, path) = find(&client, &arguments.which, "online")?;
    let place = arguments.place.as_deref().map(absolute).transpose()?;
    bring(&client, slot, &path, place, &arguments.how, arguments.wait)
}

pub fn replace(arguments: &Replace) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let (slot, path) = find(&client, &arguments.which, "replace")?;
    bring(&client, slot, &path, Some(absolute(&arguments.place)?), &arguments.how, arguments.wait)
}

fn find(client: &Client, which: &Which, verb: &str) -> Result<(usize, String), Failure> {
    let pool = node::one(client, &which.name)?;
    let slot = node::member(&pool, &which.member)?.slot;
    Ok((slot, path_of(&which.name, &format!("/members/{slot}/{verb}"))))
}

fn bring(
    client: &Client,
    slot: usize,
    path: &str,
    place: Option<PathBuf>,
    how: &ChangeFlags,
    waits: bool,
) -> Result<(), Failure> {
    let place = place.map(|place| place.display().to_string());
    let wish = MemberWish { place, dry_run: how.dry_run };
    let mut change: Change = client.post(path, &wish).map_err(|error| node::failure(&error))?;
    if !waits || !change.done {
        return tell(&change, how.json);
    }
    let name = change.pool.name.clone();
    let goes_on =
        format!("member {slot} is being rebuilt all the same; `fels pool status {name}` shows how far it is");
    change.pool = wait(client, change.pool, "rebuild", &goes_on, |pool| at(pool, slot))?;
    tell(&change, how.json)
}

fn at(pool: &Pool, slot: usize) -> Result<Waiting, Failure> {
    let Some(member) = pool.members.get(slot) else { return Ok(Waiting::Done) };
    match member.state {
        MemberState::InSync => Ok(Waiting::Done),
        MemberState::Rebuilding => Ok(Waiting::At(member.progress.unwrap_or_default())),
        MemberState::Out => {
            let cause = member.cause.as_deref().unwrap_or("no cause noted yet");
            let sentence =
                format!("member {slot} of pool {} went out before it had everything: {cause}", pool.name);
            Err(Failure::new(
                sentence,
                Some("see the log of the node; bring it back with `fels pool online`, or give another one"),
            ))
        }
    }
}
