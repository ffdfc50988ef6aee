//! What only the whole file shows.

mod http;
mod own;
mod pools;

use super::Machine;
use super::error::Problems;
use super::http::ReadHttp;
use super::munin::ReadMunin;
use super::nbd::ReadNbd;
use super::node::Root;
use super::nvme::MAX_NAMESPACES;
use super::nvme::ReadNvme;
use super::pool::Member;
use super::volume::{Backing, ReadVolume, lexical};
use crate::size::display_bytes;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Checks that concern several sections.
pub(super) fn whole(problems: &mut Problems<'_>, root: &Root, machine: Machine) {
    names(problems, &root.volumes);
    backings(problems, root);
    own::files(problems, root);
    pools::names(problems, &root.pools);
    pools::known(problems, &root.pools, &root.volumes);
    pools::room(problems, &root.pools, &root.volumes);
    memory(problems, root, machine);
    portals(problems, root);
    exposure(problems, root);
    if let Some(nbd) = &root.nbd {
        is_local(problems, nbd.portals(), "NBD has no authentication", BY_ISCSI);
        nbd_socket(problems, nbd, root);
    }
    if let Some(http) = &root.http {
        http::is_guarded(problems, http, &root.data);
    }
    if let Some(munin) = &root.munin {
        let hint = "listen on 127.0.0.1, and let the master in by ssh: `address ssh://HOST/bin/nc 127.0.0.1 4949` in its munin.conf";
        is_local(problems, munin.portals(), "Munin asks nobody who he is", hint);
    }
    if let Some(nvme) = &root.nvme {
        is_local(problems, nvme.portals(), "NVMe has no authentication yet", BY_ISCSI);
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

/// What a file or device is used for, in the order in which the file's readers meet it.
struct Use<'r> {
    path: &'r Path,
    span: &'r Range<usize>,
    owner: String,
    hint: &'static str,
}

fn uses(root: &Root) -> impl Iterator<Item = Use<'_>> {
    let volumes = root.volumes.iter().filter_map(|read| {
        let (Backing::File(path) | Backing::Device(path)) = &read.volume.backing else { return None };
        let hint = "two volumes on one backing would overwrite each other: give each its own";
        Some(Use {
            path,
            span: &read.backing_span,
            owner: format!("the volume `{}`", read.volume.name),
            hint,
        })
    });
    let members = root.pools.iter().flat_map(|read| {
        let owner = format!("the pool `{}`", read.pool.name);
        let spares = read.pool.spares.iter().zip(&read.spare_spans);
        read.pool.members.iter().zip(&read.member_spans).chain(spares).filter_map(move |(member, span)| {
            let hint = "a member belongs to one pool, once: give each its own";
            Some(Use { path: member.path()?, span, owner: owner.clone(), hint })
        })
    });
    volumes.chain(members)
}

/// One path for one file, however it is written, as far as that can be said without looking at the disk.
fn plain(path: &Path) -> PathBuf {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| lexical(&path))
}

fn backings(problems: &mut Problems<'_>, root: &Root) {
    let mut seen: HashMap<_, String> = HashMap::new();
    for Use { path, span, owner, hint } in uses(root) {
        let what = if super::volume::is_device(path) { "device" } else { "file" };
        if let Some(other) = seen.insert(plain(path), owner) {
            let message = format!("the {what} {} is used by {other} already", path.display());
            problems.add_hint(span.clone(), message, hint);
        }
    }
}

fn memory(problems: &mut Problems<'_>, root: &Root, machine: Machine) {
    let volumes = root.volumes.iter().filter(|read| read.volume.backing == Backing::Memory);
    let volumes = volumes.map(|read| ("volumes", read.volume.size_bytes, &read.backing_span));
    let members = root.pools.iter().flat_map(|read| read.pool.members.iter().zip(&read.member_spans));
    let members = members.filter_map(|(member, span)| match member {
        Member::Memory(bytes) => Some(("volumes and members", *bytes, span)),
        _ => None,
    });
    let mut total: u64 = 0;
    for (what, bytes, span) in volumes.chain(members) {
        let before = total;
        total = total.saturating_add(bytes);
        if before <= machine.memory_bytes && total > machine.memory_bytes {
            problems.add_hint(
                span.clone(),
                format!(
                    "the memory {what} up to this one take {}, the machine has {}",
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
    let http = root.http.iter().flat_map(ReadHttp::portals);
    let munin = root.munin.iter().flat_map(ReadMunin::portals);
    let portals: Vec<_> = iscsi.chain(nbd).chain(nvme).chain(http).chain(munin).collect();
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

/// What to do for those who are elsewhere.
const BY_ISCSI: &str = "listen on 127.0.0.1, and let others in by iSCSI with CHAP or by a tunnel";

/// What asks nobody who he is, is for this machine only.
fn is_local<'r>(
    problems: &mut Problems<'_>,
    portals: impl Iterator<Item = (&'r SocketAddr, &'r Range<usize>)>,
    lack: &str,
    hint: &str,
) {
    for (portal, span) in portals {
        if !portal.ip().to_canonical().is_loopback() {
            problems.add_hint(
                span.clone(),
                format!("{portal} can be reached from other machines, and {lack}"),
                hint,
            );
        }
    }
}

fn nbd_socket(problems: &mut Problems<'_>, read: &ReadNbd, root: &Root) {
    let Some(path) = &read.nbd.socket else { return };
    if let Some(taken) = uses(root).find(|taken| plain(taken.path) == plain(path)) {
        let message = format!("the socket is the file of {}", taken.owner);
        problems.add_hint(read.socket_span.clone(), message, "take another name, such as \"nbd.sock\"");
    }
}

/// A subsystem has no more namespaces than hosts can list, and somebody who may use all of them.
fn subsystems(problems: &mut Problems<'_>, volumes: &[ReadVolume]) {
    let mut seen: HashMap<&str, (usize, Option<Vec<&str>>)> = HashMap::new();
    numbers(problems, volumes);
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

/// A number of a subsystem is that of one volume.
fn numbers(problems: &mut Problems<'_>, volumes: &[ReadVolume]) {
    let mut seen: HashMap<(&str, u32), &str> = HashMap::new();
    for read in volumes {
        let namespace = &read.volume.nvme;
        let Some(nsid) = namespace.nsid else { continue };
        if let Some(other) = seen.insert((&namespace.subsystem, nsid), &read.volume.name) {
            problems.add_hint(
                read.name_span.clone(),
                format!(
                    "the volume `{other}` is the namespace {nsid} of the subsystem `{}` too",
                    namespace.subsystem
                ),
                "give one of them another `nsid`, or none",
            );
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
