//! `fels apply`: makes a node what a configuration says.

use super::node::{NodeFlags, failure, tell};
use crate::message::Failure;
use clap::Args;
use control::api::model::{Changed, ConfigurationWish};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Make the node what a configuration says, while it runs
///
/// Volumes that are new in it are served, others are altered in use, and those that it does not have any more are taken out of service: their bytes
/// stay. What needs a start of the node is said. Done twice it does nothing the second time. The node keeps the text as its configuration.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The configuration (TOML); - is the standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,

    /// Refuse it if the configuration of the node is another one than this: the version that `fels dump --json` tells
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let text = read(&arguments.file)?;
    // The file knows its node, unless somebody says which one.
    let file = (arguments.file.as_os_str() != "-").then_some(arguments.file.as_path());
    let client = arguments.node.or_of(file)?;
    let wish = ConfigurationWish {
        text: Some(text),
        version: arguments.version.clone(),
        dry_run: arguments.dry_run,
    };
    let changed: Changed = client.put("/v1/configuration", &wish).map_err(|error| failure(&error))?;
    tell(&changed, arguments.json)
}

fn read(path: &Path) -> Result<String, Failure> {
    let read = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| {
        Failure::new(
            format!("{} cannot be read: {error}", path.display()),
            Some("name a file in TOML with -f FILE"),
        )
    })
}
