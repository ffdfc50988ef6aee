//! `fels check`: says what is wrong with a configuration, and nothing is touched.

use crate::message::{Failure, print};
use std::path::PathBuf;

/// Check a configuration; all that is wrong with it is said at once
///
/// Nothing is opened but the file itself, the files of secrets that it names, and what the data directory has of users and certificates if
/// other machines are to reach [http]: whether a volume's file or device can be used shows when the node starts.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = super::node::read(&arguments.config)?;
    print(&format!(
        "{} is good: {}, {}, {}\n",
        arguments.config.display(),
        count(config.volumes.len(), "volume"),
        count(config.iscsi.listen.len(), "iSCSI portal"),
        count(config.shards, "shard")
    ))
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
