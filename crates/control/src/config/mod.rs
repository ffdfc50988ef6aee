//! The configuration file: read, checked as a whole, and turned into plain types.
//!
//! One file is one section: `node` has the keys at the top, `iscsi` the section `[iscsi]`, `nbd` the section `[nbd]`, `nvme` the
//! section `[nvme]`, `http` the section `[http]`, `munin` the section `[munin]`,
//! `mail` the section `[mail]`, `alert` each `[[alert]]`, `pool` each `[[pool]]`, `spinning` the disks
//! that their members behave like, `volume` each `[[volume]]`, `chap` the users in them. Every section declares its keys once, as a list of [`Key`]; the
//! reader refuses what is not in that list, and `docs/reference/configuration.md` is held equal to it by a
//! test. What concerns several sections stands in `check`.
//!
//! The walk over the parsed document is done here and not by a derived deserializer, because a derived one
//! ends at the first problem and loses where a value stood: this one reports all problems at once, each with
//! its line.

mod alert;
mod chap;
mod check;
mod error;
mod http;
mod iscsi;
mod key;
mod mail;
mod munin;
mod nbd;
mod node;
mod nvme;
mod pool;
mod portal;
mod secret;
mod source;
mod spinning;
mod table;
#[cfg(test)]
mod tests;
mod volume;

pub use alert::{Alert, DEFAULT, Remind};
pub use chap::ChapUser;
pub(crate) use chap::{HIDDEN, read_secret_file};
pub use error::{ConfigError, ConfigErrors, Location};
pub use http::Http;
pub use iscsi::Iscsi;
pub use key::{Key, reference_table, sections};
pub use mail::{Mail, MailTls};
pub use munin::Munin;
pub use nbd::Nbd;
pub use nvme::{MAX_NAMESPACES, NQN_PREFIX, Namespace, Nvme};
pub use pool::{Member, Pool};
pub use secret::Secret;
pub(crate) use source::hidden_comment;
pub use source::{field_at, without_secrets};
pub use volume::{Backing, IQN_PREFIX, Volume};
pub(crate) use volume::{is_device, lexical};

use ring::BusyPoll;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// A configuration file larger than this is refused unread: ten thousand volumes take about 2 MiB.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// What a node is wished to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Directory of the volumes and of the node's state.
    pub data: PathBuf,
    /// Shards, one thread and one ring each, 1 to 64.
    pub shards: usize,
    /// How long a shard without work looks for some at most before it sleeps, 0 to 10 ms.
    pub busy_poll: BusyPoll,
    /// Whether it measures itself, which history, graphs and limits live on.
    pub monitoring: bool,
    /// The iSCSI target.
    pub iscsi: Iscsi,
    /// The NBD server, if there is to be one.
    pub nbd: Option<Nbd>,
    /// The NVMe/TCP target, if there is to be one.
    pub nvme: Option<Nvme>,
    /// Where it is administered over TCP, if anywhere.
    pub http: Option<Http>,
    /// Where masters of Munin poll it, if anywhere.
    pub munin: Option<Munin>,
    /// How messages are sent, if they are.
    pub mail: Option<Mail>,
    /// Limits, and who is told, in the order of the file.
    pub alerts: Vec<Alert>,
    /// The pools, in the order of the file.
    pub pools: Vec<Pool>,
    /// The volumes, in the order of the file.
    pub volumes: Vec<Volume>,
}

/// What of the machine bears on a configuration.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// Main memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// The machine that this process runs on. Memory that cannot be found out bounds nothing.
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let memory_bytes = std::fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| memory_of(&text))
            .unwrap_or(u64::MAX);
        Self { cores, memory_bytes }
    }
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn memory_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

impl Config {
    /// Reads and checks the file at `path`.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        let text = read_bounded(path).map_err(|error| ConfigErrors::unreadable(&name, &error))?;
        Self::parse(&text, &name)
    }

    /// Reads and checks `text`; `name` is what errors call the file. Files of secrets that it names are
    /// read too.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        Self::parse_for(text, name, Machine::here())
    }

    /// As [`Config::parse`], of a node whose data directory is `data` whatever its configuration says.
    pub fn parse_in(text: &str, name: &str, data: &Path) -> Result<Self, ConfigErrors> {
        Self::read(text, name, Machine::here(), Some(data))
    }

    /// As [`Config::parse`], for the given machine.
    pub fn parse_for(text: &str, name: &str, machine: Machine) -> Result<Self, ConfigErrors> {
        Self::read(text, name, machine, None)
    }

    fn read(text: &str, name: &str, machine: Machine, data: Option<&Path>) -> Result<Self, ConfigErrors> {
        let (document, syntax) = DeTable::parse_recoverable(text);
        if !syntax.is_empty() {
            return Err(ConfigErrors::syntax(text, name, &syntax));
        }
        let mut problems = error::Problems::new(text, name, source::secrets_of(document.get_ref()));
        let root = node::Root::read(&mut problems, document.get_ref(), machine, data);
        check::whole(&mut problems, &root, machine);
        problems.into_result(root.into_config())
    }
}

/// What a file holds, if it is a text that is not larger than a configuration may be.
pub(crate) fn read_bounded(path: &Path) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge));
    }
    Ok(text)
}

/// The keys of a volume, in the order of the reference.
pub(crate) fn volume_keys() -> impl Iterator<Item = &'static str> {
    volume::KEYS.iter().map(|key| key.name)
}
