//! The section `[nvme]`, and what a volume says about NVMe.

use super::error::Problems;
use super::key::Key;
use super::portal::{self, ReadPortals};
use super::table::{Table, Value};
use ring::CongestionControl;
use std::net::SocketAddr;
use std::ops::Range;
use wire::nvme::nqn;

/// What the names of all subsystems begin with (NVM Express Base 2.1 section 4.7).
pub const NQN_PREFIX: &str = "nqn.2026-11.internal.fels:";
/// The port that IANA has given to NVMe over TCP.
const PORT: u16 = 4420;
/// Referrals of one node: every host reads all of them.
const MOST_REFERRALS: usize = 64;
/// The port that IANA has given to NVMe discovery over TCP.
const DISCOVERY_PORT: u16 = 8009;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "listen",
        takes: "list of `\"address:port\"` on loopback",
        default: "`[\"127.0.0.1:4420\"]`",
        says: "Portals of the subsystems; discovery is served there too.",
    },
    Key {
        name: "discovery",
        takes: "list of `\"address:port\"` on loopback",
        default: "`[\"127.0.0.1:8009\"]`",
        says: "Portals where hosts look for the discovery service; `[]` is none beside `listen`.",
    },
    Key {
        name: "referrals",
        takes: "list of `\"address:port\"`",
        default: "`[]`",
        says: "Discovery services of other nodes, which hosts that ask this one are told of.",
    },
    portal::CONGESTION_CONTROL,
];

/// The NVMe/TCP target.
#[derive(Debug, Clone, PartialEq)]
pub struct Nvme {
    /// Portals, at least one; port 0 where the kernel is to choose.
    pub listen: Vec<SocketAddr>,
    /// Portals of the discovery service.
    pub discovery: Vec<SocketAddr>,
    /// Discovery services of other nodes.
    pub referrals: Vec<SocketAddr>,
    /// What decides how fast its connections send.
    pub congestion_control: CongestionControl,
}

/// The section with the places that later checks point to.
#[derive(Debug)]
pub(super) struct ReadNvme {
    pub nvme: Nvme,
    /// One for each portal of `listen`; empty when the default holds.
    pub listen_spans: Vec<Range<usize>>,
    /// One for each portal of `discovery`; empty when the default holds.
    pub discovery_spans: Vec<Range<usize>>,
}

impl ReadNvme {
    /// The portals that the file names, each with its place.
    pub fn portals(&self) -> impl Iterator<Item = (&SocketAddr, &Range<usize>)> {
        let listen = self.nvme.listen.iter().zip(&self.listen_spans);
        listen.chain(self.nvme.discovery.iter().zip(&self.discovery_spans))
    }
}

/// `None` without the section: there is no authentication yet, so nobody gets NVMe who does not ask for it.
pub(super) fn read(problems: &mut Problems<'_>, value: Option<Value<'_>>) -> Option<ReadNvme> {
    let table = value?.table(problems, "a section", "in [nvme]", KEYS)?;
    let (listen, listen_spans) = portals(problems, table.value("listen"), PORT, false);
    let (discovery, discovery_spans) = portals(problems, table.value("discovery"), DISCOVERY_PORT, true);
    let referrals = referrals(problems, table.value("referrals"));
    let congestion_control = portal::congestion_control(problems, &table);
    let nvme = Nvme { listen, discovery, referrals, congestion_control };
    Some(ReadNvme { nvme, listen_spans, discovery_spans })
}

/// Where others listen: anywhere, but somewhere that a host can go to.
fn referrals(problems: &mut Problems<'_>, value: Option<Value<'_>>) -> Vec<SocketAddr> {
    let Some(value) = value else { return Vec::new() };
    let ReadPortals { listen, spans } = portal::read(problems, value, DISCOVERY_PORT, true);
    for (address, span) in listen.iter().zip(spans) {
        if address.ip().is_unspecified() || address.port() == 0 {
            problems.add_hint(
                span,
                format!("`{address}` is nowhere that a host could go to"),
                format!("name the other node's address and port: \"192.0.2.7:{DISCOVERY_PORT}\""),
            );
        }
    }
    if listen.len() > MOST_REFERRALS {
        problems.add_hint(
            value.span(),
            format!("{} referrals are too many", listen.len()),
            format!("name up to {MOST_REFERRALS}"),
        );
    }
    listen
}

fn portals(
    problems: &mut Problems<'_>,
    value: Option<Value<'_>>,
    port: u16,
    may_be_empty: bool,
) -> (Vec<SocketAddr>, Vec<Range<usize>>) {
    let Some(value) = value else { return (vec![portal::loopback(port)], Vec::new()) };
    let ReadPortals { listen, spans } = portal::read(problems, value, port, may_be_empty);
    (listen, spans)
}

/// Namespaces of a subsystem: what one list of Identify shows.
pub const MAX_NAMESPACES: usize = 1024;

/// How a volume is offered over NVMe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The name of its subsystem: [`NQN_PREFIX`] and this is the NQN.
    pub subsystem: String,
    /// The hosts that may use it; empty is all.
    pub hosts: Vec<String>,
    /// Whether it is offered at all, where there is `[nvme]`.
    pub is_offered: bool,
    /// Its number in the subsystem, if it has one already.
    pub nsid: Option<u32>,
}

impl Namespace {
    /// The NQN of its subsystem.
    pub fn subsystem_nqn(&self) -> String {
        format!("{NQN_PREFIX}{}", self.subsystem)
    }
}

/// The keys `subsystem`, `nsid`, `hosts` and `nvme` of a volume. `is_guarded`: it has `chap` or `allow`, which NVMe does not
/// know, so that being reachable over NVMe takes a word of its own and the names of hosts.
pub(super) fn of_volume(
    problems: &mut Problems<'_>,
    table: &Table<'_>,
    volume: &str,
    is_guarded: bool,
    is_name: fn(&str) -> bool,
) -> Namespace {
    let subsystem = table.value("subsystem").and_then(|value| read_subsystem(problems, value, is_name));
    let hosts = table.value("hosts");
    let wanted = table.value("nvme").and_then(|value| value.boolean(problems).map(|wanted| (wanted, value)));
    if let Some((true, value)) = wanted
        && is_guarded
        && !hosts.is_some_and(Value::is_filled_list)
    {
        problems.add_hint(
            value.span(),
            "NVMe has no authentication yet: hosts would get past `chap` and `allow` of this volume",
            "name the hosts that may: hosts = [\"nqn...\"], each as in /etc/nvme/hostnqn",
        );
    }
    let nsid =
        table.value("nsid").and_then(|value| value.integer(problems, "1 to 1024", 1..=MAX_NAMESPACES as u64));
    Namespace {
        nsid: nsid.and_then(|nsid| u32::try_from(nsid).ok()),
        subsystem: subsystem.unwrap_or_else(|| volume.to_owned()),
        hosts: hosts.map_or_else(Vec::new, |value| read_hosts(problems, value)),
        is_offered: wanted.map_or(!is_guarded, |(wanted, _)| wanted),
    }
}

fn read_subsystem(
    problems: &mut Problems<'_>,
    value: Value<'_>,
    is_name: fn(&str) -> bool,
) -> Option<String> {
    let text = value.string(problems, "a name")?;
    if is_name(text) {
        return Some(text.to_owned());
    }
    let hint = "use up to 197 lower-case letters, digits, - . and :, with a letter or digit first and last";
    problems.add_hint(value.span(), format!("`{text}` cannot be part of a subsystem's name"), hint);
    None
}

fn read_hosts(problems: &mut Problems<'_>, value: Value<'_>) -> Vec<String> {
    let mut hosts = Vec::new();
    for entry in value.list(problems, "a list of host NQNs") {
        let Some(name) = entry.string(problems, "names of hosts") else { continue };
        match nqn::check(name) {
            Ok(()) => hosts.push(name.to_owned()),
            Err(why) => problems.add_hint(
                entry.span(),
                format!("`{name}` is not the name of a host: {why}"),
                "write it as in /etc/nvme/hostnqn: nqn.2014-08.org.nvmexpress:uuid:...",
            ),
        }
    }
    hosts
}
