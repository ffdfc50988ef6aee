//! What only the whole file shows.

use super::Machine;
use super::error::Problems;
use super::nbd::ReadNbd;
use super::node::Root;
use super::nvme::ReadNvme;
use super::volume::{Backing, ReadVolume};
use crate::size::display_bytes;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;

/// Namespaces of a subsystem: what one list of Identify shows.
const MAX_NAMESPACES: usize = 1024;

/// Checks that concern several sections.
pub(super) fn whole(problems: &mut Problems<'_>, root: &Root, machine: Machine) {
    names(problems, &root.volumes);
    backings(problems, &root.volumes);
    memory(problems, &root.volumes, machine);
    portals(problems, root);
    exposure(problems, root);
    if let Some(nbd) = &root.nbd {
        is_local(problems, nbd.portals(), "NBD has no authentication");
        nbd_socket(problems, nbd, &root.volumes);
    }
    if let Some(nvme) = &root.nvme {
        is_local(problems, nvme.portals(), "NVMe has no authentication yet");
        subsystems(problems, &root.volumes);
    }
}

fn names(problems: &mut Problems<'_>, volumes: &[ReadVolume]) {
    let mut seen = HashMap::new();
    for (index, read) in volumes.iter().enumerate() {
        let name = read.volume.name.as_str();
        if !name.is_empty() && seen.insert(name, index).is_some() {
            problems.add(read.name_span.clone(), format!("there are two volumes `{name}`"));
        }
    }
}

fn backings(problems: &mut Problems<'_>, volumes: &[ReadVolume]) {
    let mut seen: HashMap<_, &str> = HashMap::new();
    for read in volumes {
        let (Backing::File(path) | Backing::Device(path)) = &read.volume.backing else { continue };
        if let Some(other) = seen.insert(path, &read.volume.name) {
            let what = if matches!(read.volume.backing, Backing::File(_)) { "file" } else { "device" };
            problems.add_hint(
                read.backing_span.clone(),
                format!("the {what} {} is used by the volume `{other}` already", path.display()),
                "two volumes on one backing would overwrite each other: give each its own",
            );
        }
    }
}

fn memory(problems: &mut Problems<'_>, volumes: &[ReadVolume], machine: Machine) {
    let mut total: u64 = 0;
    for read in volumes.iter().filter(|read| read.volume.backing == Backing::Memory) {
        let before = total;
        total = total.saturating_add(read.volume.size_bytes);
        if before <= machine.memory_bytes && total > machine.memory_bytes {
            problems.add_hint(
                read.backing_span.clone(),
                format!(
                    "the memory volumes up to this one take {}, the machine has {}",
                    display_bytes(total),
                    display_bytes(machine.memory_bytes)
                ),
                "make them smaller, or let some live in a file",
            );
        }
    }
}

fn portals(problems: &mut Problems<'_>, root: &Root) {
    let iscsi = root.iscsi.iscsi.listen.iter().zip(&root.iscsi.listen_spans);
    let nbd = root.nbd.iter().flat_map(ReadNbd::portals);
    let nvme = root.nvme.iter().flat_map(ReadNvme::portals);
    let portals: Vec<_> = iscsi.chain(nbd).chain(nvme).collect();
    for (index, (portal, span)) in portals.iter().enumerate() {
        if portal.port() == 0 {
            continue;
        }
        let earlier = portals.iter().take(index);
        if let Some((other, _)) = earlier.into_iter().find(|(other, _)| overlap(portal, other)) {
            let message = if other == portal {
                format!("the portal {portal} is there twice")
            } else {
                format!("the portals {other} and {portal} cover each other")
            };
            problems.add_hint((*span).clone(), message, "keep one of them");
        }
    }
}

/// What asks nobody who he is, is for this machine only.
fn is_local<'r>(
    problems: &mut Problems<'_>,
    portals: impl Iterator<Item = (&'r SocketAddr, &'r Range<usize>)>,
    lack: &str,
) {
    for (portal, span) in portals {
        if !portal.ip().to_canonical().is_loopback() {
            problems.add_hint(
                span.clone(),
                format!("{portal} can be reached from other machines, and {lack}"),
                "listen on 127.0.0.1, and let others in by iSCSI with CHAP or by a tunnel",
            );
        }
    }
}

fn nbd_socket(problems: &mut Problems<'_>, read: &ReadNbd, volumes: &[ReadVolume]) {
    let Some(path) = &read.nbd.socket else { return };
    let taken = |read: &&ReadVolume| matches!(&read.volume.backing, Backing::File(file) if file == path);
    if let Some(volume) = volumes.iter().find(taken) {
        let message = format!("the socket is the file of the volume `{}`", volume.volume.name);
        problems.add_hint(read.socket_span.clone(), message, "take another name, such as \"nbd.sock\"");
    }
}

/// A subsystem has no more namespaces than hosts can list, and somebody who may use all of them.
fn subsystems(problems: &mut Problems<'_>, volumes: &[ReadVolume]) {
    let mut seen: HashMap<&str, (usize, Option<Vec<&str>>)> = HashMap::new();
    for read in volumes.iter().filter(|read| read.volume.nvme.is_offered) {
        let namespace = &read.volume.nvme;
        let (count, admitted) = seen.entry(&namespace.subsystem).or_default();
        *count += 1;
        if *count == MAX_NAMESPACES + 1 {
            problems.add_hint(
                read.name_span.clone(),
                format!("the subsystem `{}` has more than {MAX_NAMESPACES} volumes", namespace.subsystem),
                "put some into another one with `subsystem`",
            );
        }
        if namespace.hosts.is_empty() {
            continue;
        }
        let before = admitted.take();
        let hosts = namespace.hosts.iter().map(String::as_str);
        let both: Vec<_> =
            hosts.filter(|host| before.as_ref().is_none_or(|old| old.contains(host))).collect();
        if both.is_empty() && before.is_some_and(|old| !old.is_empty()) {
            problems.add_hint(
                read.name_span.clone(),
                format!(
                    "with this volume, no host may use all volumes of the subsystem `{}`",
                    namespace.subsystem
                ),
                "name one host in `hosts` of all of them, or take another `subsystem`",
            );
        }
        *admitted = Some(both);
    }
}

/// Whether both cannot be listened on at once.
fn overlap(a: &SocketAddr, b: &SocketAddr) -> bool {
    a.port() == b.port()
        && a.is_ipv4() == b.is_ipv4()
        && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}

/// A target without authentication is for this machine only.
fn exposure(problems: &mut Problems<'_>, root: &Root) {
    let open = without_chap(root);
    if open.is_empty() {
        return;
    }
    for (portal, span) in root.iscsi.iscsi.listen.iter().zip(&root.iscsi.listen_spans) {
        if !portal.ip().to_canonical().is_loopback() {
            problems.add_hint(
                span.clone(),
                format!("{portal} can be reached from other machines, but there is no CHAP user for {open}"),
                "set `discovery_chap` in [iscsi] and `chap` on every volume, or listen on 127.0.0.1",
            );
        }
    }
}

/// What has no user, as the end of a sentence; empty when everything has one.
fn without_chap(root: &Root) -> String {
    let names: Vec<_> = root
        .volumes
        .iter()
        .filter(|read| !read.has_chap && !read.volume.name.is_empty())
        .map(|read| format!("`{}`", read.volume.name))
        .collect();
    let volumes = match &names[..] {
        [] => String::new(),
        [one] => format!("the volume {one}"),
        [first, second] => format!("the volumes {first} and {second}"),
        [first, second, rest @ ..] => format!("the volumes {first}, {second} and {} more", rest.len()),
    };
    match (root.iscsi.has_discovery_chap, volumes.is_empty()) {
        (true, _) => volumes,
        (false, true) => "discovery".to_owned(),
        (false, false) => format!("discovery and {volumes}"),
    }
}
