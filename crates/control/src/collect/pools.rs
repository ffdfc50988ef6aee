//! Pools and their members.

use monitor::metric::{Family, Snapshot, table};
use plane::meter::GaugeFigures;
use plane::pool::{Assembled, Handle, MemberState, MemberStatus, PoolFigures, Status};

use super::volumes::{NAMES, histogram};
use crate::offline::survival::Survival;

/// Where what was asked of something goes: requests, bytes, times, queue and errors.
pub(super) struct Asked {
    operations: &'static Family,
    bytes: &'static Family,
    latency: &'static Family,
    in_flight: &'static Family,
    errors: &'static Family,
}

const OF_POOL: Asked = Asked {
    operations: &table::POOL_OPERATIONS,
    bytes: &table::POOL_BYTES,
    latency: &table::POOL_LATENCY,
    in_flight: &table::POOL_IN_FLIGHT,
    errors: &table::POOL_ERRORS,
};

pub(super) const OF_MEMBER: Asked = Asked {
    operations: &table::MEMBER_OPERATIONS,
    bytes: &table::MEMBER_BYTES,
    latency: &table::MEMBER_LATENCY,
    in_flight: &table::MEMBER_IN_FLIGHT,
    errors: &table::MEMBER_ERRORS,
};

pub(super) fn add(snapshot: &mut Snapshot, pool: &Assembled, figures: &PoolFigures) {
    let status = Handle::new(pool.pool().shared().clone()).status();
    let name = status.name.as_str();
    let used = status.bytes.saturating_sub(pool.free_bytes());
    snapshot.push(&table::POOL_CAPACITY, &[name], status.bytes);
    snapshot.push(&table::POOL_USED, &[name], used);
    snapshot.push(&table::POOL_USAGE, &[name], part(used, status.bytes));
    let degraded = status.members.iter().filter(|member| member.state != MemberState::InSync).count();
    let state = if status.has_failed { 2 } else { u64::from(degraded > 0) };
    snapshot.push(&table::POOL_STATE, &[name], state);
    snapshot.push(&table::POOL_DEGRADED_SLOTS, &[name], degraded as u64);
    let good: Vec<_> = status.members.iter().map(|member| member.state == MemberState::InSync).collect();
    let survival = Survival::of(status.level, &good);
    snapshot.push(&table::POOL_REDUNDANCY, &[name], survival.any as u64);
    snapshot.push(&table::POOL_CHECKSUM_ERRORS, &[name], status.wrong);
    snapshot.push(&table::POOL_UNREADABLE, &[name], status.unreadable);
    snapshot.push(&table::POOL_REPAIRED, &[name], status.repaired);
    snapshot.push(&table::POOL_UNREPAIRABLE, &[name], status.lost);
    snapshot.push(&table::POOL_SCRUB_ERRORS, &[name], status.scrub.bad);
    let verified = if status.scrub.runs { part(status.scrub.rows, status.rows) } else { 1.0 };
    snapshot.push(&table::POOL_SCRUB_PROGRESS, &[name], verified);
    // What is acknowledged is in the journals of the members, flushed through their caches: docs/formats/pool.md.
    snapshot.push(&table::POOL_WRITE_CACHE_SAFE, &[name], 1);
    for (slot, member) in status.members.iter().enumerate() {
        add_member(snapshot, &status, slot, member);
    }
    OF_POOL.add(snapshot, &[name], &figures.pool);
    for (slot, asked) in figures.slots.iter().enumerate() {
        OF_MEMBER.add(snapshot, &[name, &slot.to_string()], asked);
    }
}

impl Asked {
    pub(super) fn add(&self, snapshot: &mut Snapshot, labels: &[&str], figures: &GaugeFigures) {
        let mut errors = 0;
        for (verb, counted) in NAMES.iter().zip(&figures.verbs) {
            let labels = [labels, &[*verb]].concat();
            errors += counted.errors;
            snapshot.push(self.operations, &labels, counted.requests);
            if matches!(*verb, "read" | "write") {
                snapshot.push(self.bytes, &labels, counted.bytes);
            }
            if matches!(*verb, "read" | "write" | "flush") {
                snapshot.push(self.latency, &labels, histogram(counted));
            }
        }
        snapshot.push(self.in_flight, labels, figures.in_flight);
        snapshot.push(self.errors, labels, errors);
    }
}

/// What `some` is of `all`.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn part(some: u64, all: u64) -> f64 {
    some as f64 / all.max(1) as f64
}

fn add_member(snapshot: &mut Snapshot, status: &Status, slot: usize, member: &MemberStatus) {
    let (state, rebuilt) = match member.state {
        MemberState::InSync => (0, 1.0),
        MemberState::Rebuilding { rows } => (1, part(rows, status.rows)),
        MemberState::Out => (2, 0.0),
    };
    let labels = [status.name.as_str(), &slot.to_string()];
    snapshot.push(&table::MEMBER_STATE, &labels, state);
    snapshot.push(&table::MEMBER_REBUILT, &labels, rebuilt);
}
