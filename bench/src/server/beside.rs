//! A server that runs already: measured in its turns, and standing still outside of them.
//!
//! Some servers look for work all the time. On the core that all servers share, such a one would take half of it from
//! whoever is measured, so SIGSTOP keeps it off the core until its turn comes.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Target;
use lab::target::NbdAddress;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Place, Protocol, Running, SERVERS, Serving};
use crate::cpu::{Reading, ticks_per_second};
use crate::error::Error;

/// For how long it is watched while nobody asks anything of it.
const WATCHED: Duration = Duration::from_millis(300);
/// From this share of a core on, a server that is asked nothing spins. Several of them may share the core while one is watched.
const SPINS_PERCENT: f64 = 20.0;
/// How long it may take until it stands still.
const STAND_DEADLINE: Duration = Duration::from_secs(2);
/// Between two looks at whether it does.
const POLL: Duration = Duration::from_millis(1);
/// What names of others begin with.
const TAKEN: [&str; 3] = ["fels", "vs", "limit"];

const FORM_HINT: &str =
    "write it as NAME=PID,URL, for example other=1234,nvme://127.0.0.1:4420/nqn.2026-11.internal:x/1";
const NAME_HINT: &str = "take another name, of small letters, digits and -";
const PROCESS_HINT: &str = "PID is the process that serves, not a shell or a taskset that started it";
const RIGHTS_HINT: &str = "run bench as the user of the server, or as root";

/// A server that was given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The name in the report.
    pub name: String,
    /// Where its volume is, as the lab takes it.
    pub url: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    process: u32,
    port: u16,
}

impl Beside {
    /// Reads `NAME=PID,URL`.
    pub fn parse(given: &str) -> Result<Self, Error> {
        // An address may hold a secret.
        let given_name = given.split(',').next().unwrap_or_default();
        let wrong = |reason: String| refused(given_name, reason, FORM_HINT);
        let Some((name, (process, url))) =
            given.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(',')?)))
        else {
            return Err(wrong("it takes a name, a process and an address".to_owned()));
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(refused(given_name, format!("'{name}' is no name for a server"), NAME_HINT));
        }
        if SERVERS.contains(&name) || TAKEN.iter().any(|taken| name.starts_with(taken)) {
            return Err(refused(given_name, format!("'{name}' is the name of another server"), NAME_HINT));
        }
        let process = process.parse().ok().filter(|&id: &u32| i32::try_from(id).is_ok_and(|id| id > 0));
        let process = process.ok_or_else(|| wrong("the process is no process id".to_owned()))?;
        let (protocol, port) = address(url).map_err(|reason| refused(name, reason, FORM_HINT))?;
        Ok(Self { name: name.to_owned(), url: url.to_owned(), protocol, process, port })
    }

    /// What it is, for the report.
    pub fn description(&self) -> String {
        let path = fs::read_link(format!("/proc/{}/exe", self.process)).unwrap_or_default();
        let program = path.file_name().map_or_else(|| "a program".into(), |name| name.to_string_lossy());
        format!("{program}, which ran already (`--beside`), stopped outside of its turns")
    }

    /// Takes hold of it: it stands still from now on.
    pub fn take(&self, place: &Place<'_>) -> Result<Running, Error> {
        let wrong = |reason: String, hint| refused(&self.name, reason, hint);
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        let handle = process.map(|id| pidfd_open(id, PidfdFlags::empty()));
        let Some(Ok(handle)) = handle else {
            return Err(wrong(format!("there is no process {}", self.process), PROCESS_HINT));
        };
        let listens = listens(self.process, self.port).map_err(|error| {
            wrong(format!("cannot see the connections of process {}: {error}", self.process), RIGHTS_HINT)
        })?;
        if !listens {
            let reason = format!("process {} does not listen on port {}", self.process, self.port);
            return Err(wrong(reason, PROCESS_HINT));
        }
        if let Some(cores) = other_cores(self.process, place.cores) {
            let reason = format!(
                "process {} runs on {cores}, the servers on core {}: `taskset -a -p -c {} {}`",
                self.process, place.cores, place.cores, self.process
            );
            return Err(wrong(reason, "the client has the other core for itself"));
        }
        let stood = state(self.process) == Some('T');
        let taken = Taken { name: self.name.clone(), process: self.process, handle, stood };
        let spins = {
            let _turn = taken.turn()?;
            busy_percent(self.process)? >= SPINS_PERCENT
        };
        Ok(Running {
            serving: Serving::Beside { taken, spins },
            urls: vec![(self.protocol, self.url.clone())],
            commands: Vec::new(),
            drains: false,
        })
    }
}

fn refused(given: &str, reason: String, hint: &'static str) -> Error {
    Error::Beside { given: given.to_owned(), reason, hint }
}

/// Protocol and TCP port of an address; why not, if it is none that can stand beside the others.
fn address(url: &str) -> Result<(Protocol, u16), String> {
    match url.parse::<Target>().map_err(|error| error.to_string())? {
        Target::Iscsi(target) if target.chap.is_some() => {
            Err("commands are part of the report, and so would be the secret of its address".to_owned())
        }
        Target::Iscsi(target) => Ok((Protocol::Iscsi, target.port)),
        Target::Nvme(target) => Ok((Protocol::Nvme, target.port)),
        Target::Nbd(target) => match target.address {
            NbdAddress::Inet { port, .. } => Ok((Protocol::Nbd, port)),
            NbdAddress::Unix(_) => {
                Err("the others are measured over TCP, and this is a unix socket".to_owned())
            }
        },
        Target::File(_) | Target::Pool(_) | Target::Null => Err("this is no server's address".to_owned()),
    }
}

/// A process that stands still but in its turns. It goes on when this value goes away, unless it stood before.
#[derive(Debug)]
pub struct Taken {
    name: String,
    process: u32,
    /// Of this very process, even when its id is used again.
    handle: OwnedFd,
    stood: bool,
}

/// The time in which a server that was taken works.
#[derive(Debug)]
pub struct Turn<'a>(&'a Taken);

impl Taken {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.process
    }

    /// Lets it work until the value that is returned goes away.
    pub fn turn(&self) -> Result<Turn<'_>, Error> {
        self.signal(Signal::CONT)?;
        Ok(Turn(self))
    }

    /// An error if it has ended.
    pub fn expect_running(&self) -> Result<(), Error> {
        match state(self.process) {
            Some(state) if !"ZX".contains(state) => Ok(()),
            _ => Err(self.ended()),
        }
    }

    fn ended(&self) -> Error {
        refused(&self.name, format!("process {} has ended", self.process), PROCESS_HINT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        pidfd_send_signal(&self.handle, signal).map_err(|error| match error {
            rustix::io::Errno::SRCH => self.ended(),
            error => {
                refused(&self.name, format!("cannot signal process {}: {error}", self.process), RIGHTS_HINT)
            }
        })
    }

    fn stand(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let until = Instant::now() + STAND_DEADLINE;
        while state(self.process).is_some_and(|state| !"TZX".contains(state)) {
            if Instant::now() > until {
                let reason = format!("process {} does not stop", self.process);
                return Err(refused(&self.name, reason, "see what it waits for in /proc/PID/stack"));
            }
            sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.stand() {
            eprintln!("warning: {}", error.line());
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // One that has ended meanwhile was told of at its turn.
        if !self.stood {
            let _ended = self.signal(Signal::CONT);
        }
    }
}

/// The share of a core that a process uses now, in percent.
fn busy_percent(process: u32) -> Result<f64, Error> {
    let before = Reading::now(&[process], &[])?;
    sleep(WATCHED);
    let spent = Reading::now(&[process], &[])?.since(&before, ticks_per_second());
    Ok(spent.server_s / spent.wall_s * 100.0)
}

/// The state of a process in `/proc/PID/stat`: R, S, T and others; none of a process that is gone.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether one of the process's sockets listens on this port.
fn listens(process: u32, port: u16) -> std::io::Result<bool> {
    let mut inodes = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        inodes.extend(listening(&text, port));
    }
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        // A descriptor may be closed between the list and the look.
        let Ok(link) = fs::read_link(entry?.path()) else { continue };
        if inodes.iter().any(|inode| link == Path::new(&format!("socket:[{inode}]"))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The inodes of the sockets in a `/proc/PID/net/tcp` that listen on this port.
fn listening(tcp: &str, port: u16) -> Vec<u64> {
    let local = format!(":{port:04X}");
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().take(10).collect();
        match fields[..] {
            [_, address, _, "0A", .., inode] if address.ends_with(&local) => inode.parse().ok(),
            _ => None,
        }
    };
    tcp.lines().filter_map(inode).collect()
}

/// Where a thread of the process may run that is not `cores`.
fn other_cores(process: u32, cores: &str) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        allowed(&status).filter(|allowed| *allowed != cores).map(|allowed| format!("cores {allowed}"))
    })
}

fn allowed(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim)
}

#[cfg(test)]
#[path = "beside_tests.rs"]
mod tests;
