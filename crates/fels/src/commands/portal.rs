//! `fels portal`: where a node listens.

use super::node::{NodeFlags, failure};
use super::print_json;
use super::table::{Align, row, table};
use crate::message::{Failure, print};
use clap::{Args, Subcommand};
use control::api::model::PortalList;

/// Show where the node listens
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
}

/// List where the node listens, by protocol
#[derive(Debug, Args)]
struct List {
    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Command::List(arguments) = &arguments.command;
    let client = arguments.node.client()?;
    let list: PortalList = client.get("/v1/portals").map_err(|error| failure(&error))?;
    if arguments.json {
        return print_json(&list);
    }
    let mut rows = vec![row(["protocol", "address"])];
    rows.extend(list.portals.into_iter().map(|portal| vec![portal.protocol, portal.address]));
    print(&table(0, &[Align::Left, Align::Left], &rows))
}
