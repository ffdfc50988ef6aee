//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Measures Fels beside other iSCSI targets: same clients, same volume in memory, alternating rounds.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub struct Options {
    /// Targets in the order in which they alternate: fels, fels-file, tgt-rdwr, tgt-aio, vs
    #[arg(long, value_delimiter = ',', default_value = "fels,tgt-rdwr,tgt-aio")]
    pub targets: Vec<String>,

    /// Rows to measure, by name or by a part of the name [default: all]
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<String>,

    /// Measured rounds of each row, after one warm-up round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Seconds of each round
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,

    /// A first look: two rounds of one second
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    pub quick: bool,

    /// The Fels binary
    #[arg(long, default_value = "target/release/fels")]
    pub fels: PathBuf,

    /// Another Fels binary to compare with; adds the target "vs"
    #[arg(long, value_name = "BINARY")]
    pub vs: Option<PathBuf>,

    /// Size of each volume in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    pub size: u64,

    /// Core of the servers
    #[arg(long, default_value_t = 0)]
    pub server_core: u32,

    /// Core of the clients
    #[arg(long, default_value_t = 1)]
    pub client_core: u32,

    /// First port to try for the servers, on 127.0.0.1
    #[arg(long, default_value_t = 14100, value_parser = clap::value_parser!(u16).range(1024..=60000))]
    pub port_base: u16,

    /// Name of this machine in the report [default: the host name]
    #[arg(long)]
    pub label: Option<String>,

    /// Directory below which the run is kept
    #[arg(long, default_value = "bench/runs")]
    pub out: PathBuf,

    /// Print only, keep nothing
    #[arg(long)]
    pub no_keep: bool,

    /// List the rows and end
    #[arg(long)]
    pub list_rows: bool,
}

impl Options {
    /// Measured rounds, with `--quick` considered.
    pub fn rounds(&self) -> u32 {
        if self.quick { 2 } else { self.rounds }
    }

    /// Seconds of a round, with `--quick` considered.
    pub fn seconds(&self) -> u32 {
        if self.quick { 1 } else { self.seconds }
    }

    /// Target names, with `--vs` considered; each once.
    pub fn target_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let extra = self.vs.as_ref().map(|_| "vs".to_owned());
        for name in self.targets.iter().cloned().chain(extra) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
