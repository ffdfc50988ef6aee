//! The servers: each one a process on its own port with a volume in memory.

mod beside;
mod fels;
mod istgt;
mod nbd;
mod tgt;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::process::{CommandLine, Interrupt, Process};
use beside::{Taken, Turn};

pub use beside::Beside;
pub use fels::{Backing, FelsOptions, Monitoring, start as start_fels};

/// How long a server may take until it answers.
pub const START_DEADLINE: Duration = Duration::from_secs(60);
/// How long a single administrative command may take.
const ADMIN_DEADLINE: Duration = Duration::from_secs(10);
/// How long Fels may take to drain and end.
const STOP_DEADLINE: Duration = Duration::from_secs(20);
/// Name of the volume and of the exports.
pub const VOLUME: &str = "bench";

/// What a server is spoken to with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// iSCSI.
    Iscsi,
    /// NVMe over TCP.
    Nvme,
    /// NBD.
    Nbd,
    /// Requests and answers of the same sizes, and nothing else: what the loopback carries.
    Bare,
}

impl Protocol {
    /// As it is called in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Iscsi => "iSCSI",
            Self::Nvme => "NVMe/TCP",
            Self::Nbd => "NBD",
            Self::Bare => "limit",
        }
    }
}

/// The process that serves. Several servers of the list may be one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Fels with one shard and a volume in its own memory; this binary.
    Fels(PathBuf),
    /// tgt with a file on tmpfs and one of its backing store types.
    Tgt(&'static str),
    /// istgt with a file on tmpfs; commands that it queues, 0 is none.
    Istgt(u32),
    /// nbdkit with its memory plugin.
    Nbdkit,
    /// qemu-nbd with a raw file on tmpfs.
    QemuNbd,
    /// This program's own server of bare answers.
    Bare(Bare),
    /// One that runs already.
    Beside(Beside),
}

/// How the bare program works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// Both sides look all the time.
    Spinning,
    /// Both sides sleep until there is something.
    Sleeping,
    /// Both sides look all the time, and data comes from memory of the size of a volume and goes there.
    Memory,
}

impl Bare {
    /// Whether its sides look all the time.
    pub fn spins(self) -> bool {
        self != Self::Sleeping
    }
}

impl Program {
    /// What the volume is, for the report.
    pub fn description(&self) -> String {
        match self {
            Self::Fels(_) => "Fels, `backing = { memory = true }`, `shards = 1`".to_owned(),
            Self::Tgt(store) => format!("tgtd, `--bstype {store}`, file on tmpfs"),
            Self::Istgt(0) => {
                "istgt, file on tmpfs, no queueing (its default), rows of one session".to_owned()
            }
            Self::Istgt(depth) => {
                format!("istgt, file on tmpfs, `QueueDepth {depth}`, rows of several sessions")
            }
            Self::Nbdkit => "nbdkit, memory plugin".to_owned(),
            Self::QemuNbd => "qemu-nbd, raw file on tmpfs".to_owned(),
            Self::Bare(Bare::Spinning) => {
                "a bare request/response program, both sides spinning: the limit of the loopback".to_owned()
            }
            Self::Bare(Bare::Sleeping) => "the same program, both sides blocking".to_owned(),
            Self::Bare(Bare::Memory) => {
                "the same program, both sides spinning, from and to memory of the size of a volume".to_owned()
            }
            Self::Beside(beside) => beside.description(),
        }
    }

    /// The Debian package, for its version.
    pub fn package(&self) -> Option<&'static str> {
        match self {
            Self::Fels(_) | Self::Bare(_) | Self::Beside(_) => None,
            Self::Tgt(_) => Some("tgt"),
            Self::Istgt(_) => Some("istgt"),
            Self::Nbdkit => Some("nbdkit"),
            Self::QemuNbd => Some("qemu-utils"),
        }
    }

    /// Whether it can serve so many sessions. istgt is fast without queueing, and breaks connections when several sessions write;
    /// with queueing it is half as fast and does not.
    pub fn serves(&self, sessions: u32) -> bool {
        match self {
            Self::Istgt(0) => sessions == 1,
            Self::Istgt(_) => sessions > 1,
            _ => true,
        }
    }

    /// Whether its volume takes memory of its own.
    pub fn has_own_memory(&self) -> bool {
        matches!(self, Self::Fels(_) | Self::Nbdkit | Self::Bare(Bare::Memory))
    }
}

/// A server to measure: a program over one protocol.
#[derive(Clone, Debug)]
pub struct Server {
    /// The name in the report.
    pub name: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// What runs; servers with the same one share its process.
    pub program: Program,
    /// Whether this is the Fels that is measured, and not a peer, a limit or another Fels.
    pub ours: bool,
}

/// Every server that is measured when nothing is asked for.
pub const SERVERS: &[&str] = &[
    "fels-iscsi",
    "fels-nvme",
    "fels-nbd",
    "tgt-rdwr",
    "tgt-aio",
    "istgt",
    "istgt-queue",
    "nbdkit",
    "qemu-nbd",
    "limit",
    "limit-block",
    LIMIT_MEMORY,
];

/// The bare program that answers from a file: what a network leaves of a disk.
pub const LIMIT_FILE: &str = "limit-file";
/// The bare program that answers from memory, which is no limit: what is left of it when bytes come from somewhere.
pub const LIMIT_MEMORY: &str = "limit-memory";

impl Server {
    /// The servers of a name on the command line: one, or a group (`fels`, `vs`, `tgt`, `peers`, `limits`).
    pub fn parse(name: &str, fels: &Path, other: Option<&Path>) -> Result<Vec<Self>, Error> {
        let one = |protocol, program, ours| Ok(vec![Self { name: name.to_owned(), protocol, program, ours }]);
        let all = |names: &[&str]| -> Result<Vec<Self>, Error> {
            let servers: Result<Vec<Vec<Self>>, Error> =
                names.iter().map(|name| Self::parse(name, fels, other)).collect();
            Ok(servers?.into_iter().flatten().collect())
        };
        let vs = || {
            other
                .map(Path::to_owned)
                .ok_or_else(|| Error::Options(format!("the server '{name}' needs --vs BINARY")))
        };
        match name {
            "fels" => all(&["fels-iscsi", "fels-nvme", "fels-nbd"]),
            "vs" => all(&["vs-iscsi", "vs-nvme", "vs-nbd"]),
            "tgt" => all(&["tgt-rdwr", "tgt-aio"]),
            "peers" => all(&["tgt-rdwr", "tgt-aio", "istgt", "istgt-queue", "nbdkit", "qemu-nbd"]),
            "limits" => all(&["limit", "limit-block", LIMIT_MEMORY]),
            "fels-iscsi" => one(Protocol::Iscsi, Program::Fels(fels.to_owned()), true),
            "fels-nvme" => one(Protocol::Nvme, Program::Fels(fels.to_owned()), true),
            "fels-nbd" => one(Protocol::Nbd, Program::Fels(fels.to_owned()), true),
            "vs-iscsi" => one(Protocol::Iscsi, Program::Fels(vs()?), false),
            "vs-nvme" => one(Protocol::Nvme, Program::Fels(vs()?), false),
            "vs-nbd" => one(Protocol::Nbd, Program::Fels(vs()?), false),
            "tgt-rdwr" => one(Protocol::Iscsi, Program::Tgt("rdwr"), false),
            "tgt-aio" => one(Protocol::Iscsi, Program::Tgt("aio"), false),
            "istgt" => one(Protocol::Iscsi, Program::Istgt(0), false),
            "istgt-queue" => one(Protocol::Iscsi, Program::Istgt(32), false),
            "nbdkit" => one(Protocol::Nbd, Program::Nbdkit, false),
            "qemu-nbd" => one(Protocol::Nbd, Program::QemuNbd, false),
            "limit" => one(Protocol::Bare, Program::Bare(Bare::Spinning), false),
            "limit-block" => one(Protocol::Bare, Program::Bare(Bare::Sleeping), false),
            LIMIT_MEMORY => one(Protocol::Bare, Program::Bare(Bare::Memory), false),
            _ => {
                Err(Error::Options(format!("no server is called '{name}'; there are {}", SERVERS.join(", "))))
            }
        }
    }

    /// The servers of all names, each once, in the order of the names.
    pub fn parse_all(names: &[String], fels: &Path, other: Option<&Path>) -> Result<Vec<Self>, Error> {
        let mut servers: Vec<Self> = Vec::new();
        for name in names {
            for server in Self::parse(name, fels, other)? {
                if servers.iter().all(|known| known.name != server.name) {
                    servers.push(server);
                }
            }
        }
        Ok(servers)
    }

    /// The servers of `--beside`, which run already.
    pub fn beside(given: &[String]) -> Result<Vec<Self>, Error> {
        let mut servers: Vec<Self> = Vec::new();
        for given in given {
            let beside = Beside::parse(given)?;
            if servers.iter().any(|known| known.name == beside.name) {
                return Err(Error::Options(format!("--beside names two servers '{}'", beside.name)));
            }
            let (name, protocol) = (beside.name.clone(), beside.protocol);
            servers.push(Self { name, protocol, program: Program::Beside(beside), ours: false });
        }
        Ok(servers)
    }

    /// Whether this is another Fels, to compare binaries.
    pub fn is_vs(&self) -> bool {
        self.name.starts_with("vs-")
    }

    /// Whether this is a limit that no other server can pass.
    pub fn is_limit(&self) -> bool {
        matches!(self.program, Program::Bare(Bare::Spinning | Bare::Sleeping))
    }

    /// Whether this is a program of others.
    pub fn is_peer(&self) -> bool {
        !self.ours && !self.is_vs() && self.protocol != Protocol::Bare
    }
}

/// Where and how servers run.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Directory on tmpfs for volumes, sockets, configuration and logs.
    pub work: &'a Path,
    /// Cores of the servers, as taskset takes them.
    pub cores: &'a str,
    /// Cores of the clients, for the one that fills a volume.
    pub client_cores: &'a str,
    /// Size of each volume in bytes.
    pub volume_bytes: u64,
    /// First port to try.
    pub port_base: u16,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

impl Place<'_> {
    /// The first port from `base` on that nobody uses.
    fn free_port(&self) -> Result<u16, Error> {
        free_port(self.port_base)
    }

    /// The file that the peers serve, made and written once.
    fn shared_file(&self) -> Result<PathBuf, Error> {
        let path = self.work.join("volume.img");
        if !path.exists() {
            write_file(&path, self.volume_bytes)?;
        }
        Ok(path)
    }
}

/// Writes a file of bytes that are not zero.
pub fn write_file(path: &Path, bytes: u64) -> Result<(), Error> {
    use std::io::Write as _;
    let chunk = vec![0xa5_u8; 1 << 20];
    let context = || format!("cannot write {}", path.display());
    let mut file = fs::File::create(path).map_err(Error::io(context()))?;
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left.min(1 << 20)).unwrap_or(1 << 20);
        file.write_all(&chunk[..part]).map_err(Error::io(context()))?;
        left -= part as u64;
    }
    file.sync_all().map_err(Error::io(context()))
}

/// Who serves.
#[derive(Debug)]
enum Serving {
    /// A program that was started for the run.
    Started(Process),
    /// One that ran before.
    Beside {
        /// Our hold on it.
        taken: Taken,
        /// Whether it uses its core while nobody asks anything of it.
        spins: bool,
    },
}

/// A program that serves. It is stopped when this value goes away, unless it ran before.
#[derive(Debug)]
pub struct Running {
    serving: Serving,
    urls: Vec<(Protocol, String)>,
    /// Commands that started and configured it, with the working directory as `$WORK`.
    pub commands: Vec<String>,
    drains: bool,
}

impl Running {
    /// Starts a program, waits until it answers, and fills its volume.
    pub fn start(program: &Program, place: &Place<'_>) -> Result<Self, Error> {
        let mut running = match program {
            Program::Fels(binary) => start_fels(binary, &FelsOptions::default(), place),
            Program::Tgt(store) => tgt::start(store, place),
            Program::Istgt(depth) => istgt::start(*depth, place),
            Program::Nbdkit => nbd::start_nbdkit(place),
            Program::QemuNbd => nbd::start_qemu(place),
            Program::Bare(bare) => start_bare(*bare, place),
            Program::Beside(beside) => beside.take(place),
        }?;
        if program.has_own_memory() {
            running.fill(place)?;
        }
        let work = place.work.display().to_string();
        for command in &mut running.commands {
            *command = command.replace(&work, "$WORK");
        }
        Ok(running)
    }

    /// Writes the whole volume once over NBD, so that nothing is answered from holes.
    pub fn fill(&self, place: &Place<'_>) -> Result<(), Error> {
        self.url(Protocol::Nbd).map_or(Ok(()), |url| fill(url, place))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        match &self.serving {
            Serving::Started(process) => process.id(),
            Serving::Beside { taken, .. } => taken.id(),
        }
    }

    /// Whether it uses its core while nobody asks anything of it; of servers that ran before.
    pub fn spins(&self) -> bool {
        matches!(self.serving, Serving::Beside { spins: true, .. })
    }

    /// Lets a server that stands still outside of its turns work until the value that is returned goes away.
    pub fn turn(&self) -> Result<Option<Turn<'_>>, Error> {
        match &self.serving {
            Serving::Started(_) => Ok(None),
            Serving::Beside { taken, .. } => taken.turn().map(Some),
        }
    }

    /// The address of the volume over a protocol.
    pub fn url(&self, protocol: Protocol) -> Option<&str> {
        self.urls.iter().find(|(known, _)| *known == protocol).map(|(_, url)| url.as_str())
    }

    /// An error with its last words if it has ended.
    pub fn expect_running(&mut self) -> Result<(), Error> {
        match &mut self.serving {
            Serving::Started(process) => process.expect_running(),
            Serving::Beside { taken, .. } => taken.expect_running(),
        }
    }

    /// Ends the server. False when it was asked to drain and did not end well in time; it is gone all the same.
    pub fn stop(mut self) -> bool {
        // tgtd ignores SIGTERM while it has targets; its volume is in memory, so nothing is lost by killing it.
        match &mut self.serving {
            Serving::Started(process) if self.drains => process.terminate(STOP_DEADLINE),
            _ => true,
        }
    }
}

fn fill(url: &str, place: &Place<'_>) -> Result<(), Error> {
    let requests = (place.volume_bytes / (256 << 10)).to_string();
    let arguments = [
        "bench",
        "-w",
        "-f",
        "raw",
        "-t",
        "none",
        "--pattern=165",
        "-c",
        &requests,
        "-d",
        "8",
        "-s",
        "262144",
        "-S",
        "262144",
        url,
    ];
    let deadline = Duration::from_secs(60 + (place.volume_bytes >> 20) / 20);
    let line = CommandLine::new("qemu-img", arguments).on_core(place.client_cores);
    line.run(&place.work.join("fill.log"), deadline, place.interrupt)?;
    Ok(())
}

fn start_bare(bare: Bare, place: &Place<'_>) -> Result<Running, Error> {
    let port = place.free_port()?;
    let mut arguments = vec!["limit-serve".to_owned(), format!("--port={port}")];
    let log = match bare {
        Bare::Spinning => "limit.log",
        Bare::Sleeping => "limit-block.log",
        Bare::Memory => "limit-memory.log",
    };
    arguments.extend(bare.spins().then(|| "--spin".to_owned()));
    arguments.extend((bare == Bare::Memory).then(|| format!("--memory={}", place.volume_bytes)));
    start_limit(arguments, log, port, place)
}

/// Starts the bare program that answers from a file.
pub fn start_bare_file(file: &Path, place: &Place<'_>) -> Result<Running, Error> {
    let port = place.free_port()?;
    let arguments = ["limit-serve", &format!("--port={port}"), &format!("--file={}", file.display())];
    start_limit(arguments.map(str::to_owned).into(), "limit-file.log", port, place)
}

fn start_limit(arguments: Vec<String>, log: &str, port: u16, place: &Place<'_>) -> Result<Running, Error> {
    let line = CommandLine::own(arguments).on_core(place.cores);
    let mut process = line.spawn(&place.work.join(log))?;
    process.wait_until(START_DEADLINE, place.interrupt, |process| process.output().contains("listening"))?;
    let url = format!("127.0.0.1:{port}");
    let serving = Serving::Started(process);
    Ok(Running { serving, urls: vec![(Protocol::Bare, url)], commands: vec![line.text()], drains: false })
}

/// The first port from `base` on that nobody uses; a hundred are tried.
pub fn free_port(base: u16) -> Result<u16, Error> {
    (base..base.saturating_add(100))
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .ok_or_else(|| Error::Options(format!("no free port from {base} on, see --port-base")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(names: &[&str], other: Option<&Path>) -> Result<Vec<String>, Error> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let servers = Server::parse_all(&names, Path::new("fels"), other)?;
        Ok(servers.into_iter().map(|server| server.name).collect())
    }

    #[test]
    fn groups_and_names_give_each_server_once() {
        assert_eq!(parse(&["fels-nbd", "fels"], None).unwrap(), ["fels-nbd", "fels-iscsi", "fels-nvme"]);
        assert_eq!(parse(&["tgt", "tgt-aio"], None).unwrap(), ["tgt-rdwr", "tgt-aio"]);
        assert_eq!(parse(SERVERS, None).unwrap(), SERVERS);
        assert!(parse(&["lio"], None).is_err());
        assert!(parse(&["vs"], None).is_err());
        assert_eq!(parse(&["vs"], Some(Path::new("old"))).unwrap().len(), 3);
    }

    #[test]
    fn who_is_who() {
        let names: Vec<String> = SERVERS.iter().map(|&name| name.to_owned()).collect();
        let servers = Server::parse_all(&names, Path::new("fels"), None).unwrap();
        assert_eq!(servers.iter().filter(|server| server.ours).count(), 3);
        assert_eq!(servers.iter().filter(|server| server.is_peer()).count(), 6);
        assert!(servers.iter().all(|server| !server.is_vs()));
    }

    #[test]
    fn one_that_runs_already_is_a_peer_with_a_name_of_its_own() {
        let given = |name: &str| format!("{name}=1,nbd://127.0.0.1:10809/x");
        let servers = Server::beside(&[given("one"), given("two")]).unwrap();
        assert!(servers.iter().all(|server| server.is_peer() && server.program.serves(8)));
        assert_ne!(servers[0].program, servers[1].program);
        assert!(Server::beside(&[given("one"), given("one")]).is_err());
    }

    #[test]
    fn a_port_in_use_is_not_taken() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        if let Ok(found) = free_port(port) {
            assert_ne!(found, port);
        }
    }
}
