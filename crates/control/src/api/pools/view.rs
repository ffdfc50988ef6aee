//! A pool as it is told.

use std::fmt::Write as _;

use plane::pool::{Assembled, Handle, MemberState as PlaneState, SpareStatus, Status};

use super::super::model::{
    Blocks, Io, Member, MemberState, Pool, PoolState, PoolVolume, Progress, Scrub, Spare,
};
use super::super::{Context, handle};
use crate::offline::survival::{Survival, hex};

/// How a pool is now.
pub(super) fn of(context: &Context, pool: &Assembled) -> Pool {
    let handle = handle(pool);
    let status = handle.status();
    let members: Vec<_> =
        (0..status.members.len()).map(|slot| member(context, &handle, &status, slot)).collect();
    let state = state(&status);
    let volume = |entry: &plane::pool::format::VolumeEntry| PoolVolume {
        name: entry.name.clone(),
        size_bytes: entry.bytes,
        destroying: status
            .erasing
            .iter()
            .find(|erasure| erasure.volume == entry.name)
            .map(|erasure| told(erasure.done_bytes, erasure.total_bytes, 0, None)),
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
        member_bytes: handle.member_bytes(),
        members,
        blocks: Blocks {
            wrong: status.wrong,
            unreadable: status.unreadable,
            repaired: status.repaired,
            lost: status.lost,
        },
        scrub: scrub(&status),
        spares: status.spares.iter().map(|one| spare(context, &handle, one)).collect(),
        volumes: pool.pool().volumes().iter().map(volume).collect(),
        io: None,
        name: status.name,
    }
}

/// Adds what each pool and its members were asked for: `pools` are some of those of the node, in any order.
pub(super) async fn add_io(context: &Context, pools: &mut [Pool]) {
    // Of a node that is stopping it is not known any more.
    let Some(cores) = context.collector().cores().await else { return };
    for figures in &cores.pools {
        let Some(told) = pools.iter_mut().find(|told| told.name == figures.name) else { continue };
        told.io = Some(Io::of_gauge(&figures.pool));
        for (member, figures) in told.members.iter_mut().zip(&figures.slots) {
            member.io = Some(Io::of_gauge(figures));
        }
    }
}

fn member(context: &Context, handle: &Handle, status: &Status, slot: usize) -> Member {
    let member = &status.members[slot];
    let micros = |time: std::time::Duration| time.as_micros() as u64;
    Member {
        slot,
        set: member.set,
        place: handle.place(slot).map(|place| context.told(&place)),
        state: match member.state {
            PlaneState::InSync => MemberState::InSync,
            PlaneState::Out => MemberState::Out,
            PlaneState::Rebuilding { .. } => MemberState::Rebuilding,
        },
        cause: member.cause.map(|cause| cause.to_string()),
        progress: member.progress.map(|progress| {
            let unit = u64::from(status.unit);
            told(progress.rows * unit, progress.of * unit, progress.bytes_per_second, progress.left)
        }),
        slow: member.slow,
        read_us: member.read_time.map(micros),
        write_us: member.write_time.map(micros),
        io: None,
    }
}

fn told(done_bytes: u64, total_bytes: u64, rate: u64, left: Option<std::time::Duration>) -> Progress {
    let left = left.map(|left| left.as_millis().div_ceil(1000) as u64);
    Progress { done_bytes, total_bytes, bytes_per_s: (rate > 0).then_some(rate), left_s: left }
}

fn scrub(status: &Status) -> Scrub {
    let (scrub, unit) = (&status.scrub, u64::from(status.unit));
    let (done_bytes, total_bytes) = (scrub.rows * unit, status.rows * unit);
    let rate = if scrub.runs { scrub.bytes_per_second } else { 0 };
    Scrub {
        runs: scrub.runs,
        begun: scrub.begun,
        progress: told(done_bytes, total_bytes, rate, scrub.left),
        bad: scrub.bad,
        repaired: scrub.repaired,
        lost: scrub.lost,
        uneven: scrub.uneven,
    }
}

fn spare(context: &Context, handle: &Handle, spare: &SpareStatus) -> Spare {
    Spare { id: hex(&spare.id), place: handle.spare_place(&spare.id).map(|place| context.told(&place)) }
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
    // Writing to a String does not fail.
    for member in members.iter().filter(|member| member.state == MemberState::Rebuilding) {
        let progress = member.progress.unwrap_or_default();
        let _ = write!(sentence, "; member {} is being rebuilt, {} %", member.slot, progress.percent());
    }
    for member in members.iter().filter(|member| member.slow) {
        let _ = write!(sentence, "; member {} is slow", member.slot);
    }
    match status.lost {
        0 => {}
        1 => sentence.push_str("; 1 block is lost"),
        lost => {
            let _ = write!(sentence, "; {lost} blocks are lost");
        }
    }
    sentence
}
