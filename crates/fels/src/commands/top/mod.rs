//! `fels top`: what the node does now, on a terminal or for programs.

mod frame;
mod screen;
pub mod text;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use super::node::{NodeFlags, failure};
use super::print_json;
use crate::message::{Failure, print};
use clap::Args;
use control::api::client::Client;
use frame::{Frame, Order, Taken};

/// Show what volumes, sessions and members do now, and in which layers the time goes
///
/// Keys: up and down choose a volume, left and right turn to sessions and members, s sorts by another column, q ends it.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// What stands first
    #[arg(long, value_enum, default_value_t)]
    sort: Order,

    /// Look once, for the time of one interval, and print it as a table
    #[arg(long)]
    once: bool,

    /// Look once, and write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

/// Reads seconds between two looks.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "a number from 0.1 to 3600".to_owned())
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    if arguments.json || arguments.once {
        let frame = look(&client, arguments.interval, arguments.sort)?;
        return if arguments.json { print_json(&frame) } else { print(&text::of(&frame)) };
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "this is not a terminal",
            "`fels top --once` prints a table, `fels top --json` is for programs",
        ));
    }
    screen::run(&client, arguments.interval, arguments.sort)
}

/// What happens in one interval.
fn look(client: &Client, interval: Duration, order: Order) -> Result<Frame, Failure> {
    let begun = Instant::now();
    let before = Taken::from(client).map_err(|error| failure(&error))?;
    std::thread::sleep(interval.saturating_sub(begun.elapsed()));
    let after = Taken::from(client).map_err(|error| failure(&error))?;
    Ok(Frame::between(&before, &after, order))
}

#[cfg(test)]
mod tests;
