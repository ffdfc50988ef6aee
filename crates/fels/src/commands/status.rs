//! `fels status`: one look at a node.

use super::node::{NodeFlags, failure};
use super::print_json;
use crate::message::{Failure, print};
use clap::Args;
use control::api::model::{Health, NodeStatus};
use std::fmt::Write as _;

/// Show at one look how the node is: all is well, or what to do next
///
/// Ends with 0 if all is well, or if somebody should look at something; with 1 if data is lost or cannot be had, or a limit is critical.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let status: NodeStatus = client.get("/v1/status").map_err(|error| failure(&error))?;
    if arguments.json {
        print_json(&status)?;
    } else {
        print(&text(&status))?;
    }
    match status.state {
        Health::Ok | Health::Warning => Ok(()),
        Health::Critical => Err(Failure::new(status.sentence, Some("what to do next stands above"))),
    }
}

fn text(status: &NodeStatus) -> String {
    let count = |number: usize, what: &str| {
        if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
    };
    let mut text = format!(
        "{}: {} served, {}, {}\n",
        status.sentence,
        count(status.volumes, "volume"),
        count(status.pools, "pool"),
        count(status.portals, "portal")
    );
    for finding in &status.findings {
        let word = match finding.state {
            Health::Ok => "note",
            Health::Warning => "warning",
            Health::Critical => "critical",
        };
        // Writing to a String does not fail.
        let _ = write!(text, "\n{word}: {}\nhint: {}\n", finding.sentence, finding.hint);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::api::model::Finding;

    #[test]
    fn what_is_to_be_seen_to_stands_below_with_what_to_do() {
        let (sentence, hint) = ("a".to_owned(), "b".to_owned());
        let finding =
            Finding { state: Health::Warning, sentence, hint, pool: None, volume: None, alert: None };
        let status = NodeStatus {
            state: Health::Warning,
            sentence: "there is something to be seen to".into(),
            findings: vec![finding],
            volumes: 1,
            pools: 0,
            portals: 2,
            version: String::new(),
        };
        let head = "there is something to be seen to: 1 volume served, 0 pools, 2 portals\n";
        assert_eq!(text(&status), format!("{head}\nwarning: a\nhint: b\n"));
    }
}
