//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::monitoring::Doors;
use crate::rows::Row;

/// Measures Fels beside other servers: same clients, same volume in memory, alternating rounds.
#[derive(Debug, Parser)]
#[command(name = "bench", version, args_conflicts_with_subcommands = true)]
pub struct Options {
    /// Something else to measure, or what this program starts of itself.
    #[command(subcommand)]
    pub side: Option<Side>,

    /// Servers in the order in which they alternate, by name or by group: fels, tgt, peers, limits, vs
    /// [default: all of --list]
    #[arg(long, value_delimiter = ',')]
    pub servers: Vec<String>,

    /// Rows to measure, by name or by a part of the name [default: all of --list]
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<String>,

    /// Measured rounds of each row
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Seconds of each measurement, after a moment of warm-up
    ///
    /// Many short rounds are better than few long ones on a machine whose speed changes: what is compared was measured within
    /// a few seconds then.
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    pub seconds: f64,

    /// A first look: one round of one second
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    pub quick: bool,

    /// The Fels binary; its lab is the client of every server
    #[arg(long, default_value = "target/release/fels")]
    pub fels: PathBuf,

    /// Another Fels binary to compare with; adds the servers vs-iscsi, vs-nvme and vs-nbd
    #[arg(long, value_name = "BINARY")]
    pub vs: Option<PathBuf>,

    /// Another Fels binary whose lab is the client [default: that of --fels]
    #[arg(long, value_name = "BINARY")]
    pub client: Option<PathBuf>,

    /// A server that runs already, on the core of the servers: its process, and the address of a volume that may be
    /// written over (repeatable)
    ///
    /// It is measured in the same rows and rounds as the servers of its protocol, and is neither started nor ended: SIGSTOP
    /// keeps it off the core outside of its turns, and it goes on at the end.
    #[arg(long, value_name = "NAME=PID,URL")]
    pub beside: Vec<String>,

    /// Size of each volume in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    pub size: u64,

    /// Core of the servers
    #[arg(long, default_value_t = 0)]
    pub server_core: u32,

    /// Core of the clients
    #[arg(long, default_value_t = 1)]
    pub client_core: u32,

    /// TCP congestion control for this run: sets it for the whole machine (as root), and sets it back at the end
    ///
    /// What `sysctl -w net.ipv4.tcp_congestion_control=NAME` does. When the run is killed by SIGKILL it stays as it was set.
    #[arg(long, value_name = "NAME")]
    pub set_congestion_control: Option<String>,

    /// How short a core's own lists of free pages are for this run: sets it for the whole machine (as root), and sets it back
    /// at the end
    ///
    /// What `sysctl -w vm.percpu_pagelist_high_fraction=FRACTION` does: the lists have at most one in so many pages of a zone,
    /// shared by the cores. With few cores and much memory lists are long by default, so that what goes from one core to the
    /// other, as between a server and a client of one machine, is in no cache. When the run is killed by SIGKILL it stays as
    /// it was set.
    #[arg(long, value_name = "FRACTION", value_parser = clap::value_parser!(u32).range(8..))]
    pub set_page_lists: Option<u32>,

    /// First port to try for the servers, on 127.0.0.1
    #[arg(long, default_value_t = 14100, value_parser = clap::value_parser!(u16).range(1024..=60000))]
    pub port_base: u16,

    /// Directory on a disk for the rows that measure a file
    #[arg(long, default_value = "target")]
    pub disk: PathBuf,

    /// How long Fels and the lab look for something to do before they sleep in the rows of 4 KiB on a file; 0 is not at all
    /// [default: as long as they do by themselves]
    ///
    /// A disk ends requests in bursts, between which a longer look avoids a sleep. On a virtual machine whose disk shares a
    /// quota of CPU time with its cores, looking takes from the disk.
    #[arg(long, value_name = "SPAN")]
    pub disk_busy_poll: Option<String>,

    /// Name of this machine in the report [default: the host name]
    #[arg(long)]
    pub label: Option<String>,

    /// Directory below which the run is kept
    #[arg(long, default_value = "bench/runs")]
    pub out: PathBuf,

    /// Print only, keep nothing
    #[arg(long)]
    pub no_keep: bool,

    /// Measure nothing: show a run that is kept in the README of the project, between its two markers
    #[arg(long)]
    pub readme: bool,

    /// The run that --readme shows [default: the latest below --out]
    #[arg(long, value_name = "DIRECTORY", requires = "readme")]
    pub run: Option<PathBuf>,

    /// List the rows and servers, and end
    #[arg(long)]
    pub list: bool,
}

/// The arithmetic of parity; and what this program starts of itself: the two sides of the limit, and a volume without a network.
#[derive(Debug, Subcommand)]
pub enum Side {
    /// Measure P and Q of RAID 5 and 6 with every kernel of this processor beside isa-l, if it is installed
    Parity(ParityOptions),
    /// Measure what RAID levels and checksums cost, on pools in memory, without a network and over NBD and NVMe/TCP, and hold that
    /// against the bars
    Pools(PoolsOptions),
    /// Drive the stack of a volume on a file from within its own thread, and print what was reached as JSON
    #[command(hide = true)]
    VolumeDrive {
        /// The file, which is there and filled
        #[arg(long)]
        file: PathBuf,
        /// At random places instead of one after the other
        #[arg(long)]
        random: bool,
        /// Requests of 100 that read; the others write
        #[arg(long)]
        read_percent: u8,
        /// Bytes of each request
        #[arg(long)]
        request_bytes: u32,
        /// Requests in flight
        #[arg(long)]
        depth: u32,
        /// Seconds that are measured
        #[arg(long)]
        seconds: f64,
        /// Seconds before
        #[arg(long)]
        warm_up: f64,
    },
    /// Ask a Fels for its metrics, as Prometheus and Munin do, each second until this program is ended
    #[command(hide = true)]
    Ask(Doors),
    /// Answer bare requests
    #[command(hide = true)]
    LimitServe {
        /// Port on 127.0.0.1
        #[arg(long)]
        port: u16,
        /// Look all the time instead of sleeping
        #[arg(long)]
        spin: bool,
        /// Answer from so many bytes of memory instead of one buffer, and keep there what is written
        #[arg(long, requires = "spin")]
        memory: Option<usize>,
        /// Answer from this file, around the page cache, and keep there what is written
        #[arg(long, conflicts_with_all = ["spin", "memory"])]
        file: Option<PathBuf>,
    },
    /// Ask bare requests and print what was reached as JSON
    #[command(hide = true)]
    LimitDrive {
        /// Address of the server
        #[arg(long)]
        address: String,
        /// Requests a second, as independent users come, instead of one for each answer
        #[arg(long, requires = "spin")]
        rate: Option<f64>,
        /// Look all the time instead of sleeping
        #[arg(long)]
        spin: bool,
        /// At random places, or one after the other
        #[arg(long)]
        random: bool,
        /// Requests of 100 that are answered with data
        #[arg(long)]
        read_percent: u8,
        /// Bytes of data
        #[arg(long)]
        request_bytes: u32,
        /// Requests in flight of each connection
        #[arg(long)]
        depth: u32,
        /// Connections
        #[arg(long)]
        sessions: u32,
        /// Seconds that are measured
        #[arg(long)]
        seconds: f64,
        /// Seconds before
        #[arg(long)]
        warm_up: f64,
    },
}

/// How parity is measured.
#[derive(Debug, Args)]
pub struct ParityOptions {
    /// Rows to measure, by a part of the name, such as `P+Q 8` [default: all]
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<String>,

    /// Measured rounds of each row; in each of them all kernels take their turn
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Milliseconds of each measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub milliseconds: u64,

    /// Write JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// How pools are measured.
#[derive(Debug, Args)]
pub struct PoolsOptions {
    /// Rows to measure, by a part of the name, such as `4k-read raid10 / raid6`, `raid6 plain`, `nvme` or `parity` [default: all]
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<String>,

    /// Measured rounds of each row; in each of them all pools of the row take their turn
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Milliseconds of each turn
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub milliseconds: u64,

    /// Size of each volume in MiB
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(32..=1_048_576))]
    pub size: u64,

    /// A first look: small volumes, three rounds of 30 ms, one level served for one round
    #[arg(long, conflicts_with_all = ["rounds", "milliseconds", "size", "served_rounds"])]
    pub quick: bool,

    /// The Fels binary that serves pools, and whose lab is the client
    #[arg(long, default_value = "target/release/fels")]
    pub fels: PathBuf,

    /// Measured rounds of each row over a network
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub served_rounds: u32,

    /// Seconds of each turn over a network, after a third of a second of warm-up
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,

    /// Core of the servers
    #[arg(long, default_value_t = 0)]
    pub server_core: u32,

    /// Core of their clients
    #[arg(long, default_value_t = 1)]
    pub client_core: u32,

    /// First port to try for the servers, on 127.0.0.1
    #[arg(long, default_value_t = 14100, value_parser = clap::value_parser!(u16).range(1024..=60000))]
    pub port_base: u16,

    /// Name of this machine in the report [default: the host name]
    #[arg(long)]
    pub label: Option<String>,

    /// Keep the result below this directory, in the latest run of this day and machine unless that has one
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
}

impl PoolsOptions {
    /// Measured rounds, with `--quick` considered.
    pub fn rounds(&self) -> u32 {
        if self.quick { 3 } else { self.rounds }
    }

    /// Milliseconds of a turn, with `--quick` considered.
    pub fn milliseconds(&self) -> u64 {
        if self.quick { 30 } else { self.milliseconds }
    }

    /// Rounds over a network, with `--quick` considered.
    pub fn served_rounds(&self) -> u32 {
        if self.quick { 1 } else { self.served_rounds }
    }

    /// MiB of a volume, with `--quick` considered.
    pub fn size(&self) -> u64 {
        if self.quick { 64 } else { self.size }
    }
}

/// So many times as many rounds have the rows of large requests.
const LARGE_ROUNDS: u32 = 3;

/// Seconds before a measurement.
pub const WARM_UP_S: f64 = 0.3;

/// Seconds of a measurement: not so few that their CPU time could not be read.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number of seconds".to_owned())?;
    if (0.3..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("it has to be within 0.3 and 3600".to_owned())
    }
}

impl Options {
    /// Measured rounds, with `--quick` considered.
    pub fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// Measured rounds of a row. Large requests have more of them: windows of one server lie a fifth apart there, and what is
    /// to be told is a twentieth.
    pub fn rounds_of(&self, row: &Row) -> u32 {
        if row.is_large() && !self.quick { self.rounds.saturating_mul(LARGE_ROUNDS) } else { self.rounds() }
    }

    /// Seconds of a measurement, with `--quick` considered.
    pub fn seconds(&self) -> f64 {
        if self.quick { 1.0 } else { self.seconds }
    }

    /// Names of servers, with `--vs` considered: the other binary stands beside what is asked for.
    pub fn server_names(&self) -> Vec<String> {
        let mut names = self.servers.clone();
        if names.is_empty() {
            names = crate::server::SERVERS.iter().map(|&name| name.to_owned()).collect();
        }
        if self.vs.is_some() && !names.iter().any(|name| name.starts_with("vs")) {
            let ours = names.iter().filter(|name| name.starts_with("fels"));
            let others: Vec<String> = ours.map(|name| name.replacen("fels", "vs", 1)).collect();
            names.extend(others);
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn rows_of_large_requests_in_memory_have_more_rounds() {
        let rounds = |arguments: &[&str]| {
            let options = Options::parse_from(std::iter::once("bench").chain(arguments.iter().copied()));
            ["4k-read", "128k-read", "128k-write", "file-128k-read"].map(|name| {
                let row = ROWS.iter().find(|row| row.name == name).unwrap();
                options.rounds_of(row)
            })
        };
        assert_eq!(rounds(&["--rounds", "7"]), [7, 21, 21, 7]);
        assert_eq!(rounds(&["--quick"]), [1; 4]);
    }

    #[test]
    fn another_binary_stands_beside_what_is_asked_for() {
        let names = |arguments: &[&str]| {
            Options::parse_from(std::iter::once("bench").chain(arguments.iter().copied())).server_names()
        };
        assert_eq!(names(&["--servers", "fels-nbd,tgt", "--vs", "x"]), ["fels-nbd", "tgt", "vs-nbd"]);
        assert_eq!(names(&["--servers", "fels-nbd"]), ["fels-nbd"]);
        assert_eq!(names(&[]), crate::server::SERVERS);
    }
}
