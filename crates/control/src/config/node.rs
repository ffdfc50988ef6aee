//! The keys at the top of the file.

use super::alert::{self, Alert};
use super::error::Problems;
use super::http::{self, ReadHttp};
use super::iscsi::{self, ReadIscsi};
use super::key::Key;
use super::mail::{self, Mail};
use super::munin::{self, ReadMunin};
use super::nbd::{self, ReadNbd};
use super::nvme::{self, ReadNvme};
use super::pool::{self, ReadPool};
use super::table::Table;
use super::volume::{self, ReadVolume};
use super::{Config, Machine};
use ring::BusyPoll;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;

/// More shards than this bring nothing: the machine would need as many cores.
const MAX_SHARDS: u64 = 64;
/// A core that looks for longer than this between two requests serves nobody.
const MAX_BUSY_POLL: Duration = Duration::from_millis(10);

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "data",
        takes: "a directory, relative to the current one",
        default: "`\"fels-data\"`",
        says: "Where volumes and the node's state are kept; made if missing, with mode 0700.",
    },
    Key {
        name: "shards",
        takes: "1 to 64",
        default: "one per core",
        says: "Threads that serve, each with a ring of its own. Each has the kernel hold up to 16 MiB of its memory for transfers of files, as far as the limit of locked memory (`LimitMEMLOCK=`, `ulimit -l`) lets it; beyond that each transfer takes a little longer.",
    },
    Key {
        name: "busy_poll",
        takes: "`\"auto\"`, or seconds or `\"60us\"`, 0 to 10ms",
        default: "`\"auto\"`",
        says: "How long a shard without work looks for some at most before it sleeps, while what came last says that this is likely to pay; 0 always sleeps at once. A core that looks is busy; one that sleeps answers later, on a virtual machine by about 50 us. With `\"auto\"` it is 60 us, and 500 us while the shard finds that this lets at least a twentieth more through, which it tries now and then: a disk ends requests in bursts. What it has come to is `fels_shard_busy_poll_most_seconds`.",
    },
    Key {
        name: "monitoring",
        takes: "true or false",
        default: "`true`",
        says: "Whether the node measures itself every ten seconds. Without it there is no history, no graph, and no limit that anybody is told of; `/metrics` is still answered.",
    },
    Key { name: "iscsi", takes: "the section `[iscsi]`", default: "its defaults", says: "The iSCSI target." },
    Key {
        name: "nbd",
        takes: "the section `[nbd]`",
        default: "none: NBD is not served",
        says: "The NBD server; each volume is an export of its name.",
    },
    Key {
        name: "nvme",
        takes: "the section `[nvme]`",
        default: "none: NVMe is not served",
        says: "The NVMe/TCP target; each volume is a namespace of a subsystem.",
    },
    Key {
        name: "http",
        takes: "the section `[http]`",
        default: "none: the unix socket alone",
        says: "The control API over HTTP, for other machines and browsers.",
    },
    Key {
        name: "munin",
        takes: "the section `[munin]`",
        default: "none: no master is answered",
        says: "The node of Munin, for masters that draw its graphs.",
    },
    Key {
        name: "mail",
        takes: "the section `[mail]`",
        default: "none: nobody is told by mail",
        says: "How messages are sent.",
    },
    Key {
        name: "alert",
        takes: "sections `[[alert]]`",
        default: "none: the limits that every node has, and nobody is told",
        says: "Limits, and who is told when they are crossed.",
    },
    Key {
        name: "pool",
        takes: "sections `[[pool]]`",
        default: "none",
        says: "Pools of files and devices under RAID, which volumes live on.",
    },
    Key {
        name: "volume",
        takes: "sections `[[volume]]`",
        default: "none",
        says: "The volumes, each one a target with LUN 0.",
    },
];

/// The whole file as read, each part with the places that later checks point to.
#[derive(Debug)]
pub(super) struct Root {
    pub data: PathBuf,
    pub shards: usize,
    pub busy_poll: BusyPoll,
    pub monitoring: bool,
    pub iscsi: ReadIscsi,
    pub nbd: Option<ReadNbd>,
    pub nvme: Option<ReadNvme>,
    pub http: Option<ReadHttp>,
    pub munin: Option<ReadMunin>,
    pub mail: Option<Mail>,
    pub alerts: Vec<Alert>,
    pub pools: Vec<ReadPool>,
    pub volumes: Vec<ReadVolume>,
}

impl Root {
    /// `given`: the data directory, where the command line says which one it is.
    pub fn read<'t>(
        problems: &mut Problems<'_>,
        document: &'t DeTable<'t>,
        machine: Machine,
        given: Option<&Path>,
    ) -> Self {
        let table = Table::new(problems, "at the top level", KEYS, document, 0..0);
        let data = read_data(problems, &table, given);
        let shards = table
            .value("shards")
            .and_then(|value| value.integer(problems, "a number from 1 to 64", 1..=MAX_SHARDS))
            .unwrap_or_else(|| (machine.cores as u64).clamp(1, MAX_SHARDS));
        let busy_poll = table
            .value("busy_poll")
            .and_then(|value| {
                if value.is("auto") {
                    return Some(BusyPoll::Auto);
                }
                let takes = "`\"auto\"`, or a time from 0 to 10ms";
                value.duration(problems, takes, Duration::ZERO..=MAX_BUSY_POLL).map(BusyPoll::Most)
            })
            .unwrap_or_default();
        let monitoring = table.value("monitoring").and_then(|value| value.boolean(problems)).unwrap_or(true);
        let iscsi = iscsi::read(problems, table.value("iscsi"));
        let nbd = nbd::read(problems, table.value("nbd"), &data);
        let nvme = nvme::read(problems, table.value("nvme"));
        let http = http::read(problems, table.value("http"));
        let munin = munin::read(problems, table.value("munin"));
        let mail = mail::read(problems, table.value("mail"));
        let alerts = alert::read_all(problems, table.value("alert"), table.value("mail").is_some());
        let pools = pool::read_all(problems, table.value("pool"), &data);
        let volumes = volume::read_all(problems, table.value("volume"), &data);
        let shards = usize::try_from(shards).unwrap_or(1);
        Self {
            data,
            shards,
            busy_poll,
            monitoring,
            iscsi,
            nbd,
            nvme,
            http,
            munin,
            mail,
            alerts,
            pools,
            volumes,
        }
    }

    pub fn into_config(self) -> Config {
        Config {
            data: self.data,
            shards: self.shards,
            busy_poll: self.busy_poll,
            monitoring: self.monitoring,
            iscsi: self.iscsi.iscsi,
            nbd: self.nbd.map(|read| read.nbd),
            nvme: self.nvme.map(|read| read.nvme),
            http: self.http.map(|read| read.http),
            munin: self.munin.map(|read| read.munin),
            mail: self.mail,
            alerts: self.alerts,
            pools: self.pools.into_iter().map(|read| read.pool).collect(),
            volumes: self.volumes.into_iter().map(|read| read.volume).collect(),
        }
    }
}

fn read_data(problems: &mut Problems<'_>, table: &Table<'_>, given: Option<&Path>) -> PathBuf {
    let written = table
        .value("data")
        .and_then(|value| Some((PathBuf::from(value.string(problems, "a directory")?), value.span())));
    let Some(given) = given else {
        return written.map_or_else(|| PathBuf::from("fels-data"), |(path, _)| path);
    };
    let same = |path: &Path| std::path::absolute(path).ok() == std::path::absolute(given).ok();
    if let Some((path, span)) = written.filter(|(path, _)| !same(path)) {
        let message = format!("`data` is {}, and the node works in {}", path.display(), given.display());
        problems.add_hint(span, message, "leave `data` out of the configuration that is in a data directory");
    }
    given.to_owned()
}
