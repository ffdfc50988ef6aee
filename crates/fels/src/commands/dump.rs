//! `fels dump`: the configuration that recreates what runs.

use super::node::{NodeFlags, encoded, failure};
use super::print_json;
use crate::message::{Failure, print};
use clap::Args;
use control::api::model::ConfigurationText;

/// Print the configuration that recreates what the node is, or one of its volumes
///
/// Secrets are replaced by `***`, which no node takes, unless --secrets asks for them.
#[derive(Debug, Args)]
pub struct Arguments {
    /// One volume alone
    #[arg(value_name = "VOLUME")]
    volume: Option<String>,

    /// With all secrets
    #[arg(long)]
    secrets: bool,

    /// Write JSON, for programs: with the version and the file
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let part =
        arguments.volume.as_ref().map(|name| format!("/volumes/{}", encoded(name))).unwrap_or_default();
    let path = format!("/v1/configuration{part}?secrets={}", arguments.secrets);
    let dumped: ConfigurationText = client.get(&path).map_err(|error| failure(&error))?;
    if arguments.json { print_json(&dumped) } else { print(&dumped.text) }
}
