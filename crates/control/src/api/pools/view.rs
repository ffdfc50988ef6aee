//! A pool as it is told.

use std::time::Instant;

use plane::pool::{Assembled, MemberState as PlaneState, Status};

use super::super::model::{Blocks, Member, MemberState, Pool, PoolState, PoolVolume, Progress, Scrub};
use super::super::{Context, handle};
use crate::offline::survival::{Survival, hex};

/// How a pool is now.
pub(super) fn of(context: &Context, pool: &Assembled) -> Pool {
    let status = handle(pool).status();
    let members: Vec<_> = (0..status.members.len()).map(|slot| member(context, &status, slot)).collect();
    let state = state(&status);
    let volume = |entry: &plane::pool::format::VolumeEntry| PoolVolume {
        name: entry.name.clone(),
        size_bytes: entry.bytes,
    };
    Pool {
        sentence: sentence(&status, &members),
        state,
        id: hex(&status.id),
        raid: status.level.to_string(),
        unit_bytes: status.unit,
        integrity: status.integrity,
        size_bytes: status.bytes,
        free_bytes: pool.free_bytes(),
        member_bytes: handle(pool).member_bytes(),
        members,
        blocks: Blocks {
            wrong: status.wrong,
            unreadable: status.unreadable,
            repaired: status.repaired,
            lost: status.lost,
        },
        scrub: scrub(context, &status),
        volumes: pool.pool().volumes().iter().map(volume).collect(),
        name: status.name,
    }
}

fn member(context: &Context, status: &Status, slot: usize) -> Member {
    let member = &status.members[slot];
    let subject = (status.name.clone(), Some(slot));
    let (state, progress) = match member.state {
        PlaneState::InSync => (MemberState::InSync, None),
        PlaneState::Out => (MemberState::Out, None),
        PlaneState::Rebuilding { rows } => {
            let unit = u64::from(status.unit);
            let seen = context.paces().see(subject.clone(), rows * unit, status.rows * unit, Instant::now());
            (MemberState::Rebuilding, Some(seen))
        }
    };
    if progress.is_none() {
        context.paces().forget(&subject);
    }
    Member {
        slot,
        place: member.place.as_ref().map(|place| context.told(place)),
        state,
        cause: member.cause.map(|cause| cause.to_string()),
        progress,
    }
}

fn scrub(context: &Context, status: &Status) -> Scrub {
    let (scrub, unit) = (&status.scrub, u64::from(status.unit));
    let (done_bytes, total_bytes) = (scrub.rows * unit, status.rows * unit);
    let subject = (status.name.clone(), None);
    let progress = if scrub.runs {
        context.paces().see(subject, done_bytes, total_bytes, Instant::now())
    } else {
        context.paces().forget(&subject);
        Progress { done_bytes, total_bytes, ..Progress::default() }
    };
    Scrub {
        runs: scrub.runs,
        begun: scrub.begun,
        progress,
        bad: scrub.bad,
        repaired: scrub.repaired,
        lost: scrub.lost,
        uneven: scrub.uneven,
    }
}

fn state(status: &Status) -> PoolState {
    let any = |wanted: fn(&PlaneState) -> bool| status.members.iter().any(|member| wanted(&member.state));
    if status.has_failed {
        PoolState::Failed
    } else if any(|state| *state == PlaneState::Out) {
        PoolState::Degraded
    } else if any(|state| matches!(state, PlaneState::Rebuilding { .. })) {
        PoolState::Rebuilding
    } else {
        PoolState::Ok
    }
}

fn sentence(status: &Status, members: &[Member]) -> String {
    if status.has_failed {
        let level = status.level;
        return format!(
            "more members failed than {level} can do without: nothing is written any more; bring them back and start the node again"
        );
    }
    let good = members.iter().map(|member| member.state == MemberState::InSync);
    let mut sentence = Survival::of(status.level, &good.collect::<Vec<_>>()).sentence();
    for member in members.iter().filter(|member| member.state == MemberState::Rebuilding) {
        let progress = member.progress.unwrap_or_default();
        sentence.push_str(&format!("; member {} is being rebuilt, {} %", member.slot, progress.percent()));
    }
    match status.lost {
        0 => {}
        1 => sentence.push_str("; 1 block is lost"),
        lost => sentence.push_str(&format!("; {lost} blocks are lost")),
    }
    sentence
}
