//! The rows of the comparison: the same load for every server that speaks one of the row's protocols.

use serde::Serialize;

use crate::client::Request;
use crate::error::Error;
use crate::server::{Program, Protocol};

/// What the requests of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Requests of 100 that read; the others write.
    pub read_percent: u8,
    /// At random places, or one after the other.
    pub random: bool,
    /// Bytes of each request.
    pub request_bytes: u32,
    /// Requests in flight of each session.
    pub depth: u32,
    /// Sessions.
    pub sessions: u32,
}

impl Load {
    /// Requests in flight of all sessions.
    pub fn in_flight(&self) -> u32 {
        self.depth * self.sessions
    }
}

/// The program that makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// `fels lab run`, which has an initiator for each protocol. For the bare program, its own other side.
    Lab,
    /// fio with its engine for NBD: a client that is not ours.
    Fio,
    /// `iscsi-perf` of libiscsi: a client that is not ours; it only reads, and is its own limit against a fast target.
    IscsiPerf,
}

/// How a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// As fast as it goes with a fixed number in flight.
    Closed,
    /// At 70 % of what the same server reached just before.
    Tail,
    /// Sessions that ask nothing.
    Idle,
    /// The same sessions on one shard and on two.
    Shards,
    /// Volumes that are configured, and the time until they are served.
    Start,
    /// A server that is watched, beside one that does not even watch itself.
    Monitoring,
    /// A file on a disk, beside fio on the same file.
    File,
    /// The lab on nothing.
    Lab,
}

/// One row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// The name under which the row is asked for and reported.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// How it is measured.
    pub kind: Kind,
    /// What makes the load.
    pub client: Client,
    /// What the requests are.
    pub load: Load,
}

impl Row {
    /// Whether this row is measured on servers of such a protocol.
    pub fn has(&self, protocol: Protocol) -> bool {
        match (self.client, self.kind) {
            (Client::Fio, _) => protocol == Protocol::Nbd,
            (Client::IscsiPerf, _) => protocol == Protocol::Iscsi,
            (Client::Lab, Kind::Closed | Kind::Tail) => true,
            (Client::Lab, _) => protocol != Protocol::Bare,
        }
    }

    /// What is asked of a server.
    pub fn request<'a>(&'a self, program: &'a Program, url: &'a str) -> Request<'a> {
        Request { client: self.client, program, url, load: &self.load, rate: None, busy_poll: None }
    }

    /// Whether its figure is a latency.
    pub fn is_latency(&self) -> bool {
        self.load.in_flight() == 1
    }

    /// Whether its figure is a throughput.
    pub fn is_throughput(&self) -> bool {
        self.load.request_bytes >= 65_536
    }

    /// Whether it is one of large requests in memory.
    pub fn is_large(&self) -> bool {
        self.kind == Kind::Closed && self.is_throughput()
    }
}

/// How many rounds were measured, and how many in rows of large requests.
pub fn rounds_text(rounds: u32, large: u32) -> String {
    let large = if large == rounds { String::new() } else { format!(" ({large} of 128 KiB)") };
    format!("{rounds} rounds{large}")
}

const fn load(read_percent: u8, random: bool, request_bytes: u32, depth: u32, sessions: u32) -> Load {
    Load { read_percent, random, request_bytes, depth, sessions }
}

const fn row(name: &'static str, title: &'static str, load: Load) -> Row {
    Row { name, title, kind: Kind::Closed, client: Client::Lab, load }
}

const READ_4K: Load = load(100, true, 4096, 32, 1);
const WRITE_4K: Load = load(0, true, 4096, 32, 1);
const READ_4K_ALONE: Load = load(100, true, 4096, 1, 1);
const READ_128K: Load = load(100, false, 131_072, 32, 1);

/// Sessions of the row `idle`.
pub const IDLE_SESSIONS: u32 = 1000;
/// Volumes of the row `start`.
pub const START_VOLUMES: u32 = 10_000;

/// Every row, in the order of the report.
pub const ROWS: &[Row] = &[
    row("4k-read", "4 KiB random read, depth 32", READ_4K),
    row("4k-write", "4 KiB random write, depth 32", WRITE_4K),
    row("4k-read-4x32", "4 KiB random read, 4 sessions x 32", load(100, true, 4096, 32, 4)),
    row("database", "database: 8 KiB random, 70 % read, 4 x 16", load(70, true, 8192, 16, 4)),
    row("128k-read", "128 KiB sequential read, depth 32", READ_128K),
    row("128k-write", "128 KiB sequential write, depth 32", load(0, false, 131_072, 32, 1)),
    row("4k-read-d16", "4 KiB random read, depth 16", load(100, true, 4096, 16, 1)),
    row("4k-read-d4", "4 KiB random read, depth 4", load(100, true, 4096, 4, 1)),
    row("4k-read-d1", "4 KiB random read, one at a time", READ_4K_ALONE),
    Row { client: Client::Fio, ..row("fio-4k-read", "4 KiB random read, depth 32, by fio", READ_4K) },
    Row { client: Client::Fio, ..row("fio-4k-write", "4 KiB random write, depth 32, by fio", WRITE_4K) },
    Row {
        client: Client::Fio,
        ..row("fio-4k-read-d1", "4 KiB random read, one at a time, by fio", READ_4K_ALONE)
    },
    Row {
        client: Client::IscsiPerf,
        ..row("iscsi-perf-4k-read", "4 KiB random read, depth 32, by iscsi-perf", READ_4K)
    },
    Row { kind: Kind::Tail, ..row("tail", "4 KiB random read at 70 % of the peak, 99.9 % / mean", READ_4K) },
    Row {
        kind: Kind::Shards,
        ..row(
            "shards",
            "4 KiB random read, 8 sessions x 8, two servers of one shard and one of two",
            load(100, true, 4096, 8, 8),
        )
    },
    Row { kind: Kind::Idle, ..row("idle", "1000 idle sessions", load(100, true, 4096, 1, IDLE_SESSIONS)) },
    Row {
        kind: Kind::Monitoring,
        ..row("monitoring", "4 KiB random read, depth 32, watched and not", READ_4K)
    },
    Row { kind: Kind::Start, ..row("start", "start with 10,000 volumes", READ_4K_ALONE) },
    Row {
        kind: Kind::Lab,
        ..row("lab", "the lab on nothing, 4 KiB random read, depth 32, one thread", READ_4K)
    },
    Row { kind: Kind::File, ..row("file-4k-read", "file on the disk, 4 KiB random read, depth 32", READ_4K) },
    Row {
        kind: Kind::File,
        ..row("file-4k-write", "file on the disk, 4 KiB random write, depth 32", WRITE_4K)
    },
    Row {
        kind: Kind::File,
        ..row(
            "file-4k-read-d128",
            "file on the disk, 4 KiB random read, depth 128",
            load(100, true, 4096, 128, 1),
        )
    },
    Row {
        kind: Kind::File,
        ..row(
            "file-4k-write-d128",
            "file on the disk, 4 KiB random write, depth 128",
            load(0, true, 4096, 128, 1),
        )
    },
    Row { kind: Kind::File, ..row("file-128k-read", "file on the disk, 128 KiB sequential read", READ_128K) },
];

/// The rows that are called one of `wanted`, or else contain it in their names; all when nothing is wanted.
pub fn select(wanted: &[String]) -> Result<Vec<Row>, Error> {
    let mut chosen = vec![wanted.is_empty(); ROWS.len()];
    for want in wanted {
        let exact = ROWS.iter().any(|row| row.name == want);
        let mut found = false;
        for (row, chosen) in ROWS.iter().zip(&mut chosen) {
            if row.name == want || (!exact && row.name.contains(want.as_str())) {
                (*chosen, found) = (true, true);
            }
        }
        if !found {
            return Err(Error::Options(format!("no row is called '{want}'")));
        }
    }
    Ok(ROWS.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(row, _)| *row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Vec<&'static str> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        select(&wanted).unwrap().iter().map(|row| row.name).collect()
    }

    #[test]
    fn a_full_name_is_that_row_alone_and_a_part_is_all_that_have_it() {
        assert_eq!(names(&["4k-read"]), ["4k-read"]);
        assert_eq!(names(&["128k"]), ["128k-read", "128k-write", "file-128k-read"]);
        assert_eq!(names(&["tail", "4k-read"]), ["4k-read", "tail"]);
        assert_eq!(names(&[]).len(), ROWS.len());
        assert!(select(&["no-such-row".to_owned()]).is_err());
    }

    #[test]
    fn names_are_unique() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.name != row.name));
        }
    }

    #[test]
    fn clients_of_others_speak_one_protocol() {
        for row in ROWS {
            let spoken = [Protocol::Iscsi, Protocol::Nvme, Protocol::Nbd].map(|protocol| row.has(protocol));
            let expected = match row.client {
                Client::Lab => [true, true, true],
                Client::Fio => [false, false, true],
                Client::IscsiPerf => [true, false, false],
            };
            assert_eq!(spoken, expected, "{}", row.name);
        }
    }
}
