//! What only the whole file shows.

use super::Machine;
use super::error::Problems;
use super::iscsi::ReadIscsi;
use super::node::Root;
use super::volume::{Backing, ReadVolume};
use crate::size::display_bytes;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Checks that concern several sections.
pub(super) fn whole(problems: &mut Problems<'_>, root: &Root, machine: Machine) {
    names(problems, &root.volumes);
    backings(problems, &root.volumes);
    memory(problems, &root.volumes, machine);
    portals(problems, &root.iscsi);
    exposure(problems, root);
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

fn portals(problems: &mut Problems<'_>, read: &ReadIscsi) {
    let portals = &read.iscsi.listen;
    for (index, (portal, span)) in portals.iter().zip(&read.listen_spans).enumerate() {
        if portal.port() == 0 {
            continue;
        }
        let earlier = portals.iter().take(index);
        if let Some(other) = earlier.into_iter().find(|other| overlap(portal, other)) {
            let message = if other == portal {
                format!("the portal {portal} is there twice")
            } else {
                format!("the portals {other} and {portal} cover each other")
            };
            problems.add_hint(span.clone(), message, "keep one of them");
        }
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
    let mut open: Vec<_> = root
        .volumes
        .iter()
        .filter(|read| read.volume.chap.is_empty() && !read.volume.name.is_empty())
        .map(|read| format!("the volume `{}`", read.volume.name))
        .collect();
    if root.iscsi.iscsi.discovery_chap.is_empty() {
        open.insert(0, "discovery".to_owned());
    }
    if open.is_empty() {
        return;
    }
    if open.len() > 4 {
        let more = open.len() - 3;
        open.truncate(3);
        open.push(format!("{more} volumes more"));
    }
    let last = open.pop().unwrap_or_default();
    let (open, verb) =
        if open.is_empty() { (last, "has") } else { (format!("{} and {last}", open.join(", ")), "have") };
    for (portal, span) in root.iscsi.iscsi.listen.iter().zip(&root.iscsi.listen_spans) {
        if !portal.ip().to_canonical().is_loopback() {
            problems.add_hint(
                span.clone(),
                format!("{portal} can be reached from other machines, but {open} {verb} no CHAP user"),
                "set `discovery_chap` in [iscsi] and `chap` on every volume, or listen on 127.0.0.1",
            );
        }
    }
}
