//! Portals, and those who come by them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use monitor::metric::{Snapshot, table};
use plane::Verb;
use plane::live::Crowd;
use plane::session::traffic::{PortalFigures, VerbCounts};

use super::volumes::{NAMES, histogram};

/// Initiators that have series of their own, of which each has six.
pub(super) const MAX_INITIATORS: usize = 128;

pub(super) fn add(snapshot: &mut Snapshot, crowd: &Crowd) {
    for figures in &crowd.ledger.portals {
        portal(snapshot, figures);
    }
    initiators(snapshot, crowd);
}

fn portal(snapshot: &mut Snapshot, figures: &PortalFigures) {
    let (protocol, address) = (figures.portal.protocol, figures.portal.address.as_str());
    let mut errors = 0;
    for (verb, counted) in NAMES.iter().zip(&figures.verbs) {
        errors += counted.errors;
        let labels = [protocol, address, verb];
        snapshot.push(&table::PORTAL_OPERATIONS, &labels, counted.requests);
        if matches!(*verb, "read" | "write") {
            snapshot.push(&table::PORTAL_BYTES, &labels, counted.bytes);
            snapshot.push(&table::PORTAL_LATENCY, &labels, histogram(counted));
        }
    }
    let labels = [protocol, address];
    snapshot.push(&table::PORTAL_ERRORS, &labels, errors);
    snapshot.push(&table::PORTAL_IN_FLIGHT, &labels, figures.in_flight);
    snapshot.push(&table::PORTAL_CONNECTIONS, &labels, figures.connections);
}

fn moved(counts: &VerbCounts) -> u64 {
    [Verb::Read, Verb::Write].map(|verb| counts[verb as usize].bytes).iter().sum()
}

/// Those who have moved most; where that is the same, by protocol and name.
fn initiators(snapshot: &mut Snapshot, crowd: &Crowd) {
    let mut sessions: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for party in crowd.parties.iter().filter(|party| !party.volumes.is_empty()) {
        *sessions.entry((party.protocol, &party.initiator)).or_default() += party.sessions;
    }
    let mut all: Vec<_> = crowd.ledger.initiators.iter().collect();
    all.sort_by_key(|(_, counts)| Reverse(moved(counts)));
    for ((protocol, name), counts) in all.iter().take(MAX_INITIATORS) {
        for verb in [Verb::Read, Verb::Write] {
            let counted = counts[verb as usize];
            let labels = [protocol, name.as_str(), NAMES[verb as usize]];
            snapshot.push(&table::INITIATOR_OPERATIONS, &labels, counted.requests);
            snapshot.push(&table::INITIATOR_BYTES, &labels, counted.bytes);
        }
        let labels = [protocol, name.as_str()];
        let errors: u64 = counts.iter().map(|counted| counted.errors).sum();
        snapshot.push(&table::INITIATOR_ERRORS, &labels, errors);
        let there = sessions.get(&(*protocol, name.as_str())).copied().unwrap_or_default();
        snapshot.push(&table::INITIATOR_SESSIONS, &labels, there);
    }
    let left_out = all.len().saturating_sub(MAX_INITIATORS);
    snapshot.push(&table::INITIATORS_LEFT_OUT, &[], left_out as u64);
}
