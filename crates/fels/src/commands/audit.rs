//! `fels audit`: who changed what.

use super::node::failure;
use super::print_json;
use super::table::{Align, row, table};
use super::user::How;
use crate::message::{Failure, print};
use clap::Args;
use control::api::Entries;
use control::audit::Entry;

/// Show who changed what on a node, from where, and what came of it
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many entries at most, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,

    /// Only those before the one with this number
    #[arg(long, value_name = "ID")]
    before: Option<u64>,

    #[command(flatten)]
    how: How,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let before = arguments.before.map_or_else(String::new, |before| format!("&before={before}"));
    let path = format!("/v1/audit?limit={}{before}", arguments.limit);
    let told: Entries = arguments.how.node.client()?.get(&path).map_err(|error| failure(&error))?;
    if arguments.how.json {
        return print_json(&told);
    }
    if told.entries.is_empty() {
        return print("nothing was changed yet\n");
    }
    let mut rows = vec![row(["id", "at", "who", "from", "status", "what"])];
    // As they happened: the newest is where the eye is.
    rows.extend(told.entries.iter().rev().map(line));
    let columns = [Align::Right, Align::Left, Align::Left, Align::Left, Align::Right, Align::Left];
    print(&table(0, &columns, &rows))
}

fn line(entry: &Entry) -> Vec<String> {
    let who = match &entry.by {
        Some(by) => format!("{} ({by})", entry.who),
        None => entry.who.clone(),
    };
    let what = match &entry.steps[..] {
        [] => format!("{} {}", entry.method, entry.path),
        steps => steps.join("; "),
    };
    // Paths are what somebody sent.
    let what =
        what.chars().map(|one| if one.is_control() { char::REPLACEMENT_CHARACTER } else { one }).collect();
    vec![entry.id.to_string(), entry.at.to_string(), who, entry.from.clone(), entry.status.to_string(), what]
}
