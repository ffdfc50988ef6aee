//! Volumes, their layers and who uses them.

use std::collections::BTreeMap;
use std::time::Duration;

use monitor::metric::{BUCKETS, Histogram, Snapshot, table};
use plane::layers::Followed;
use plane::meter::{VERBS, VerbFigures};
use plane::volume::Figures;

use super::Cores;

/// As [`plane::Verb`] has them.
pub(super) const NAMES: [&str; VERBS] = ["read", "write", "flush", "discard", "write_zeroes"];

pub(super) fn add(snapshot: &mut Snapshot, cores: &Cores, lately: &[Followed]) {
    for (figures, lately) in cores.volumes.iter().zip(lately) {
        volume(snapshot, figures);
        layers(snapshot, figures, lately);
        sessions(snapshot, figures, cores);
    }
}

fn volume(snapshot: &mut Snapshot, figures: &Figures) {
    let name = figures.name.as_str();
    for (verb, counted) in NAMES.iter().zip(&figures.verbs) {
        snapshot.push(&table::VOLUME_OPERATIONS, &[name, verb], counted.requests);
        // Only these move bytes.
        if matches!(*verb, "read" | "write") {
            snapshot.push(&table::VOLUME_BYTES, &[name, verb], counted.bytes);
            snapshot.push(&table::VOLUME_LATENCY, &[name, verb], histogram(counted));
        }
    }
    let errors: u64 = figures.verbs.iter().map(|counted| counted.errors).sum();
    snapshot.push(&table::VOLUME_ERRORS, &[name], errors);
    snapshot.push(&table::VOLUME_IN_FLIGHT, &[name], figures.in_flight as u64);
    snapshot.push(&table::VOLUME_CAPACITY, &[name], figures.bytes);
}

/// How long requests took. Without times, everything was done in the turn in which it came.
pub(super) fn histogram(counted: &VerbFigures) -> Histogram {
    if let Some(times) = &counted.times {
        return Histogram::of(&times.buckets, u128::from(times.sum));
    }
    let mut buckets = [0; BUCKETS];
    buckets[0] = counted.requests;
    Histogram::of(&buckets, 0)
}

fn layers(snapshot: &mut Snapshot, figures: &Figures, lately: &Followed) {
    let name = figures.name.as_str();
    for (layer, _, time) in figures.shares() {
        snapshot.push(&table::LAYER_TIME, &[name, layer], time.as_secs_f64());
    }
    for (of, followed) in [("mean", lately), ("p99", &lately.slowest(100))] {
        for ((layer, _), share) in figures.layers.iter().zip(shares(&followed.means())) {
            snapshot.push(&table::LAYER_SHARE, &[name, layer, of], share);
        }
    }
}

/// What each of some times is of all of them; nothing where there was no time.
pub(crate) fn shares(times: &[Duration]) -> Vec<f64> {
    let whole: Duration = times.iter().sum();
    if whole.is_zero() {
        return Vec::new();
    }
    times.iter().map(|time| time.as_secs_f64() / whole.as_secs_f64()).collect()
}

fn sessions(snapshot: &mut Snapshot, figures: &Figures, cores: &Cores) {
    let mut counts: BTreeMap<&str, u64> =
        ["iscsi", "nvme", "nbd"].into_iter().map(|name| (name, 0)).collect();
    for party in cores.crowd.parties.iter().filter(|party| party.volumes.contains(&figures.place)) {
        *counts.entry(party.protocol).or_default() += party.sessions;
    }
    for (protocol, count) in counts {
        snapshot.push(&table::VOLUME_SESSIONS, &[&figures.name, protocol], count);
    }
}
