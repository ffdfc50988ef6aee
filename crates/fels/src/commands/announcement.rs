//! What a node says when it is up: where it listens, and how each initiator connects to each volume.

use control::Portals;
use control::config::{Backing, Config, Volume};
use control::size::display_bytes;
use plane::pool::Assembled;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Volumes that are described in full; a node may have ten thousand.
const MAX_DESCRIBED: usize = 16;
/// What stands in a line to paste where the user writes the secret.
const PLACEHOLDER: &str = "SECRET";

/// The whole text. `portals` are those that are really listened on, `pools` say how they were found.
pub fn announcement(config: &Config, portals: &Portals, pools: &[Pool]) -> String {
    let mut text = String::new();
    for portal in &portals.iscsi {
        line(&mut text, &format!("listening on {portal}"));
    }
    for portal in &portals.nbd {
        line(&mut text, &format!("listening on {portal} for NBD"));
    }
    if let Some(path) = &portals.nbd_socket {
        line(&mut text, &format!("listening on {} for NBD", path.display()));
    }
    for portal in &portals.nvme {
        line(&mut text, &format!("listening on {portal} for NVMe/TCP"));
    }
    for portal in &portals.nvme_discovery {
        line(&mut text, &format!("listening on {portal} for NVMe/TCP discovery"));
    }
    for (index, pool) in pools.iter().enumerate() {
        if index == 0 {
            text.push('\n');
        }
        describe_pool(&mut text, pool);
    }
    let Some(portal) = portals.iscsi.first().copied().map(reachable) else { return text };
    let served: Vec<_> = config.volumes.iter().filter(|volume| volume.enabled).collect();
    for volume in served.iter().take(MAX_DESCRIBED) {
        text.push('\n');
        describe(&mut text, volume, portal, !config.iscsi.discovery_chap.is_empty());
        nbd(&mut text, volume, portals);
        nvme(&mut text, volume, portals);
    }
    match served.len().saturating_sub(MAX_DESCRIBED) {
        0 => {}
        more => line(&mut text, &format!("\nand {more} volumes more, connected to in the same way")),
    }
    if config.volumes.is_empty() {
        line(
            &mut text,
            "\nno volume is configured: `fels volume create demo --size 1GiB` makes one while the node runs",
        );
    }
    match config.volumes.len() - served.len() {
        0 => {}
        1 => line(&mut text, "\n1 volume is switched off, and not served"),
        off => line(&mut text, &format!("\n{off} volumes are switched off, and not served")),
    }
    text
}

/// A pool as it was found at the start.
pub struct Pool {
    pub name: String,
    pub level: String,
    pub members: usize,
    pub bytes: u64,
    pub free_bytes: u64,
    pub is_new: bool,
    /// Members that are not in use.
    pub out: usize,
    /// Which of those that were named, and why.
    pub absent: Vec<(String, String)>,
}

impl Pool {
    pub fn of(assembled: &Assembled) -> Self {
        let shared = assembled.pool().shared();
        let absent = assembled.absent.iter().map(|absent| (absent.place.to_string(), absent.why.clone()));
        Self {
            name: shared.name.clone(),
            level: shared.geometry.level.to_string(),
            members: usize::from(shared.geometry.slots),
            bytes: shared.geometry.pool_bytes(),
            free_bytes: assembled.free_bytes(),
            is_new: assembled.is_new,
            out: shared.out().count_ones() as usize,
            absent: absent.collect(),
        }
    }
}

fn describe_pool(text: &mut String, pool: &Pool) {
    let Pool { name, level, members, bytes, free_bytes, is_new, out, absent } = pool;
    let state = match (out, is_new) {
        (0, true) => "made now".to_owned(),
        (0, false) => "all members in sync".to_owned(),
        (out, _) => format!("degraded: {out} of {members} members out"),
    };
    let (bytes, free) = (rounded(*bytes), rounded(*free_bytes));
    let plural = if *members == 1 { "" } else { "s" };
    line(text, &format!("pool {name}: {level} of {members} member{plural}, {bytes}, {free} free; {state}"));
    for (place, why) in absent {
        line(text, &format!("  {place} {why}"));
    }
}

/// A size as people say it: in the largest unit of which there are ten at least, rounded down.
fn rounded(bytes: u64) -> String {
    let unit = [40, 30, 20, 10].into_iter().find(|unit| bytes >> unit >= 10).unwrap_or(0);
    display_bytes(bytes >> unit << unit)
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The address to connect to: a portal that listens on all addresses is reached through loopback here.
fn reachable(portal: SocketAddr) -> SocketAddr {
    let ip = match portal.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, portal.port())
}

fn describe(text: &mut String, volume: &Volume, portal: SocketAddr, discovery_chap: bool) {
    let target = volume.target_name();
    let user = volume.chap.first().map(|user| user.user.as_str());
    let login = user.filter(|user| fits_url(user)).map(|user| format!("{user}%{PLACEHOLDER}@"));
    let url = format!("iscsi://{}{portal}/{target}/0", login.unwrap_or_default());
    let (size, backing) = (display_bytes(volume.size_bytes), backing(&volume.backing));
    line(text, &format!("{}: {size} in {backing}, blocks of {} bytes", volume.name, volume.block_size));
    let mut row = |label: &str, value: &str| row(text, label, value);
    row("target", &format!("{target}, LUN 0"));
    if let Some(user) = user {
        row("CHAP", &format!("user {user}; write its secret where {PLACEHOLDER} stands"));
    }
    if let [first, more @ ..] = &volume.allow[..] {
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        row("initiator", &format!("{first}{more}, and no other"));
    }
    for (index, command) in open_iscsi(&target, portal, user, discovery_chap).iter().enumerate() {
        row(if index == 0 { "open-iscsi" } else { "" }, command);
    }
    row("libiscsi", &format!("iscsi-inq {url}"));
    row("qemu", &format!("qemu-io -f raw -c 'read 0 64k' {url}"));
    row("", &format!("qemu-system-x86_64 -drive file={url},format=raw,if=virtio"));
    row("measure", &format!("fels lab run vmware --target {url} --time 10"));
}

/// How clients connect to the volume over NBD, if it is an export: by TCP where it is listened on, else by the unix socket.
fn nbd(text: &mut String, volume: &Volume, portals: &Portals) {
    let name = &volume.name;
    let (url, place) = match (portals.nbd.first().copied().map(reachable), &portals.nbd_socket) {
        _ if !volume.nbd => return,
        (Some(portal), _) => (format!("nbd://{portal}/{name}"), format!("{} {}", portal.ip(), portal.port())),
        (None, Some(path)) => {
            let path = path.display();
            (format!("'nbd+unix:///{name}?socket={path}'"), format!("-unix {path}"))
        }
        (None, None) => return,
    };
    row(text, "nbd", &format!("nbdinfo {url}"));
    row(text, "", &format!("qemu-io -f raw -c 'read 0 64k' {url}"));
    row(text, "", &format!("nbd-client -N {name} {place} /dev/nbd0"));
    row(text, "measure", &format!("fels lab run vmware --target {url} --time 10"));
}

fn row(text: &mut String, label: &str, value: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "  {label:<11} {value}");
}

/// How hosts find and connect the volume over NVMe/TCP, if it is offered there.
fn nvme(text: &mut String, volume: &Volume, portals: &Portals) {
    let Some(portal) = portals.nvme.first().copied().filter(|_| volume.nvme.is_offered) else { return };
    let (nqn, nsid) = (volume.nvme.subsystem_nqn(), volume.nvme.nsid.unwrap_or_default());
    row(text, "subsystem", &format!("{nqn}, namespace {nsid}"));
    if let [first, more @ ..] = &volume.nvme.hosts[..] {
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        row(text, "host", &format!("{first}{more}, and no other"));
    }
    let at = |portal: SocketAddr| format!("-t tcp -a {} -s {}", portal.ip(), portal.port());
    let discovery = portals.nvme_discovery.first().copied().unwrap_or(portal);
    row(text, "nvme-cli", &format!("nvme discover {}", at(discovery)));
    row(text, "", &format!("nvme connect {} -n {nqn}", at(portal)));
    row(text, "measure", &format!("fels lab run vmware --target nvme://{portal}/{nqn}/{nsid} --time 10"));
}

fn backing(backing: &Backing) -> String {
    match backing {
        Backing::File(path) | Backing::Device(path) => path.display().to_string(),
        Backing::Pool(name) => format!("the pool {name}"),
        Backing::Memory => "memory".to_owned(),
        Backing::Null => "nothing (writes are dropped)".to_owned(),
    }
}

/// A name that neither a shell nor the reader of a URL takes for something else.
fn fits_url(user: &str) -> bool {
    user.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// The commands of open-iscsi, one a line.
fn open_iscsi(target: &str, portal: SocketAddr, user: Option<&str>, discovery_chap: bool) -> Vec<String> {
    let node = format!("iscsiadm -m node -T {target} -p {portal}");
    // Discovery with CHAP is set up in a file of the initiator's; naming the target needs none of it.
    let mut commands = vec![if discovery_chap {
        format!("{node} -o new")
    } else {
        format!("iscsiadm -m discovery -t sendtargets -p {portal}")
    }];
    if let Some(user) = user {
        let quoted =
            if fits_url(user) { user.to_owned() } else { format!("'{}'", user.replace('\'', r"'\''")) };
        for (key, value) in [("authmethod", "CHAP"), ("username", quoted.as_str()), ("password", PLACEHOLDER)]
        {
            commands.push(format!("{node} -o update -n node.session.auth.{key} -v {value}"));
        }
    }
    commands.push(format!("{node} --login"));
    commands
}

#[cfg(test)]
#[path = "announcement_tests.rs"]
mod tests;
