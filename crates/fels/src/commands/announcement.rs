//! What a node says when it is up: where it listens, and how each initiator connects to each volume.

use control::Portals;
use control::config::{Backing, Config, Volume};
use control::size::display_bytes;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Volumes that are described in full; a node may have ten thousand.
const MAX_DESCRIBED: usize = 16;
/// What stands in a line to paste where the user writes the secret.
const PLACEHOLDER: &str = "SECRET";

/// The whole text. `portals` are those that are really listened on.
pub fn announcement(config: &Config, portals: &Portals) -> String {
    let mut text = String::new();
    for portal in &portals.iscsi {
        line(&mut text, &format!("listening on {portal}"));
    }
    for portal in &portals.nbd {
        line(&mut text, &format!("listening on {portal} (NBD)"));
    }
    if let Some(path) = &portals.nbd_socket {
        line(&mut text, &format!("listening on {} (NBD)", path.display()));
    }
    let Some(portal) = portals.iscsi.first().copied().map(reachable) else { return text };
    for volume in config.volumes.iter().take(MAX_DESCRIBED) {
        text.push('\n');
        describe(&mut text, volume, portal, !config.iscsi.discovery_chap.is_empty(), portals);
    }
    match config.volumes.len().saturating_sub(MAX_DESCRIBED) {
        0 => {}
        more => line(&mut text, &format!("\nand {more} volumes more, connected to in the same way")),
    }
    if config.volumes.is_empty() {
        line(&mut text, "\nno volume is configured: add a section [[volume]], and start again");
    }
    text
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

fn describe(text: &mut String, volume: &Volume, portal: SocketAddr, discovery_chap: bool, portals: &Portals) {
    let target = volume.target_name();
    let user = volume.chap.first().map(|user| user.user.as_str());
    let login = user.filter(|user| fits_url(user)).map(|user| format!("{user}%{PLACEHOLDER}@"));
    let url = format!("iscsi://{}{portal}/{target}/0", login.unwrap_or_default());
    let (size, backing) = (display_bytes(volume.size_bytes), backing(&volume.backing));
    line(text, &format!("{}: {size} in {backing}, blocks of {} bytes", volume.name, volume.block_size));
    let mut row = |label: &str, value: &str| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {label:<11} {value}");
    };
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
    for (index, command) in nbd(volume, portals).iter().enumerate() {
        row(if index == 0 { "nbd" } else { "" }, command);
    }
    row("measure", &format!("fels lab run vmware --target {url} --time 10"));
}

/// The commands of NBD clients, one a line: by TCP where it is listened on, else by the unix socket.
fn nbd(volume: &Volume, portals: &Portals) -> Vec<String> {
    let name = &volume.name;
    if !volume.nbd {
        return Vec::new();
    }
    if let Some(portal) = portals.nbd.first().copied().map(reachable) {
        let url = format!("nbd://{portal}/{name}");
        return vec![
            format!("nbdinfo {url}"),
            format!("qemu-io -f raw -c 'read 0 64k' {url}"),
            format!("nbd-client -N {name} {} {} /dev/nbd0", portal.ip(), portal.port()),
        ];
    }
    let Some(path) = portals.nbd_socket.as_ref().map(|path| path.display()) else { return Vec::new() };
    let url = format!("'nbd+unix:///{name}?socket={path}'");
    vec![
        format!("nbdinfo {url}"),
        format!("qemu-io -f raw -c 'read 0 64k' {url}"),
        format!("nbd-client -N {name} -unix {path} /dev/nbd0"),
    ]
}

fn backing(backing: &Backing) -> String {
    match backing {
        Backing::File(path) | Backing::Device(path) => path.display().to_string(),
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
