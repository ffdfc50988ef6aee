//! Fels: one process with one volume, over iSCSI, NVMe/TCP and NBD.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use lab::pool::PoolSpec;

use super::{Place, Protocol, Running, START_DEADLINE, Serving, VOLUME};
use crate::error::Error;
use crate::monitoring::Doors;
use crate::process::{CommandLine, Process};

/// Name of the pool.
const POOL: &str = "tank";

/// Where the bytes of the volumes live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// In its memory.
    Memory,
    /// In a file.
    File(PathBuf),
    /// On a pool whose members are in its memory.
    Pool(PoolSpec),
}

impl Backing {
    /// The key of a volume that says so.
    fn key(&self) -> String {
        match self {
            Self::Memory => "backing = { memory = true }".to_owned(),
            Self::File(path) => format!("backing = {{ file = \"{}\" }}", path.display()),
            Self::Pool(_) => format!("pool = \"{POOL}\""),
        }
    }

    /// The pool, if there is one.
    fn table(&self) -> String {
        let Self::Pool(spec) = self else { return String::new() };
        let member = format!("{{ memory = {} }}", spec.member_bytes());
        let members = vec![member; usize::from(spec.members)].join(", ");
        format!(
            "\n[[pool]]\nname = \"{POOL}\"\nraid = \"{}\"\nunit = {}\nintegrity = {}\nmembers = [{members}]\n",
            spec.level, spec.unit_bytes, spec.integrity
        )
    }
}

/// What differs between the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FelsOptions {
    /// Shards.
    pub shards: u32,
    /// Volumes; the first is the one that is measured.
    pub volumes: u32,
    /// Of all volumes; a file, or a pool, is only good for one.
    pub backing: Backing,
    /// How it is watched.
    pub monitoring: Monitoring,
    /// How long a shard looks for something to do before it sleeps, where that is not its own choice.
    pub busy_poll: Option<String>,
}

impl Default for FelsOptions {
    /// One shard and one volume in memory, and nothing said of anything else.
    fn default() -> Self {
        Self { shards: 1, volumes: 1, backing: Backing::Memory, monitoring: Monitoring::Own, busy_poll: None }
    }
}

/// How a node is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitoring {
    /// It does not even measure itself.
    Off,
    /// It measures itself, and nobody asks: as it is when nothing is said.
    Own,
    /// It measures itself, and can be asked.
    Asked(Doors),
}

impl Monitoring {
    /// The key at the top that says so.
    fn key(self) -> &'static str {
        if self == Self::Off { "monitoring = false\n" } else { "" }
    }

    /// The sections that say so.
    fn sections(self) -> String {
        let Self::Asked(doors) = self else { return String::new() };
        let listen = |section: &str, port: u16| format!("\n[{section}]\nlisten = \"127.0.0.1:{port}\"\n");
        listen("http", doors.http) + &listen("munin", doors.munin)
    }
}

/// The configuration file.
fn configuration(options: &FelsOptions, data: &Path, volume_bytes: u64, port: u16) -> String {
    let key = options.backing.key();
    let mut text = format!(
        "data = \"{}\"\nshards = {}\n{}{}\n[iscsi]\nlisten = [\"127.0.0.1:{port}\"]\n\n[nvme]\nlisten = [\"127.0.0.1:{}\"]\n\
         discovery = []\n\n[nbd]\nlisten = [\"127.0.0.1:{}\"]\n",
        data.display(),
        options.shards,
        options.monitoring.key(),
        options.busy_poll.as_ref().map_or_else(String::new, |span| format!("busy_poll = \"{span}\"\n")),
        port + 1,
        port + 2,
    );
    text += &options.monitoring.sections();
    text += &options.backing.table();
    for number in 0..options.volumes {
        let name = if number == 0 { VOLUME.to_owned() } else { format!("{VOLUME}-{number}") };
        let _infallible = write!(text, "\n[[volume]]\nname = \"{name}\"\nsize = {volume_bytes}\n{key}\n");
    }
    text
}

/// Whether a Fels says that it serves.
fn ready(output: &str, port: u16) -> bool {
    (port..port + 3).all(|port| output.contains(&format!("listening on 127.0.0.1:{port}")))
}

/// Starts a Fels and waits until it serves.
pub fn start(binary: &Path, options: &FelsOptions, place: &Place<'_>) -> Result<Running, Error> {
    // Three ports in a row: the first two of a free one are likely free as well, and Fels says so if not.
    let port = place.free_port()?;
    let data = place.work.join(format!("fels-{port}"));
    let path = place.work.join(format!("fels-{port}.toml"));
    let text = configuration(options, &data, place.volume_bytes, port);
    fs::write(&path, &text).map_err(Error::io(format!("cannot write {}", path.display())))?;
    let arguments = ["serve".to_owned(), "--config".to_owned(), path.display().to_string()];
    let line = CommandLine::new(binary.display().to_string(), arguments).on_core(place.cores);
    let mut process: Process = line.spawn(&place.work.join(format!("fels-{port}.log")))?;
    process.wait_until(START_DEADLINE, place.interrupt, |process| ready(&process.output(), port))?;
    let urls = vec![
        (Protocol::Iscsi, format!("iscsi://127.0.0.1:{port}/iqn.2026-11.internal.fels:{VOLUME}/0")),
        (Protocol::Nvme, format!("nvme://127.0.0.1:{}/nqn.2026-11.internal.fels:{VOLUME}/1", port + 1)),
        (Protocol::Nbd, format!("nbd://127.0.0.1:{}/{VOLUME}", port + 2)),
    ];
    let shown = format!("printf '{}' > {}", text.replace('\n', "\\n"), path.display());
    let commands = if options.volumes == 1 { vec![shown, line.text()] } else { vec![line.text()] };
    Ok(Running { serving: Serving::Started(process), urls, commands, drains: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_volume_is_configured_once() {
        let options = FelsOptions { shards: 2, volumes: 3, ..FelsOptions::default() };
        let text = configuration(&options, Path::new("/d"), 1 << 20, 3000);
        assert_eq!(text.matches("[[volume]]").count(), 3);
        for part in ["\"bench\"", "\"bench-1\"", "\"bench-2\"", "shards = 2", ":3000\"", ":3001\"", ":3002\""]
        {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
    }

    #[test]
    fn a_pool_has_members_that_hold_the_volume() {
        let spec =
            PoolSpec { integrity: false, size_bytes: 64 << 20, ..PoolSpec::new(plane::pool::Level::Raid6) };
        let backing = Backing::Pool(spec);
        let options = FelsOptions { backing, ..FelsOptions::default() };
        let text = configuration(&options, Path::new("/d"), 64 << 20, 3000);
        for part in ["raid = \"raid6\"", "integrity = false", "pool = \"tank\"", "unit = 65536"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
        assert_eq!(text.matches("{ memory = 34603008 }").count(), 6, "{text}");
    }

    #[test]
    fn a_shard_looks_for_as_long_as_is_said() {
        let text = |busy_poll: Option<&str>| {
            let options = FelsOptions { busy_poll: busy_poll.map(str::to_owned), ..FelsOptions::default() };
            configuration(&options, Path::new("/d"), 1 << 20, 3000)
        };
        assert!(text(Some("500us")).contains("shards = 1\nbusy_poll = \"500us\"\n"));
        assert!(!text(None).contains("busy_poll"));
    }

    #[test]
    fn how_it_is_watched_is_said_by_a_key_or_by_two_doors() {
        let text = |monitoring| {
            let options = FelsOptions { monitoring, ..FelsOptions::default() };
            configuration(&options, Path::new("/d"), 1 << 20, 3000)
        };
        assert!(text(Monitoring::Off).contains("monitoring = false\n"));
        let own = text(Monitoring::Own);
        assert!(!own.contains("monitoring") && !own.contains("[http]"));
        let asked = text(Monitoring::Asked(Doors { http: 4000, munin: 4001 }));
        let doors = "[http]\nlisten = \"127.0.0.1:4000\"\n\n[munin]\nlisten = \"127.0.0.1:4001\"\n";
        assert!(asked.contains(doors) && !asked.contains("monitoring"), "{asked}");
    }

    #[test]
    fn it_is_ready_when_all_protocols_listen() {
        let line = |port: u16| format!("INFO listening on 127.0.0.1:{port}\n");
        let two = line(3000) + &line(3002);
        assert!(!ready(&two, 3000));
        assert!(ready(&(two + &line(3001)), 3000));
    }
}
