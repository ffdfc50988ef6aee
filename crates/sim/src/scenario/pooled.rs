//! Volumes on a pool, for a part of the seeds: members go and come back while initiators work.

use plane::pool::Level;

use crate::node::{PoolShape, member_path};
use crate::stage::Stage;

/// A third of the nodes have a pool, which can do without a member.
pub(super) fn draw(random: &mut fastrand::Rng) -> Option<PoolShape> {
    let (level, members) = match random.u8(0..12) {
        0 => (Level::Raid1, 2),
        1 => (Level::Raid10, 4),
        2 => (Level::Raid5, 3),
        3 => (Level::Raid6, 5),
        _ => return None,
    };
    Some(PoolShape { level, members, unit: 4096 << random.u32(0..4) })
}

/// A member is pulled out, does not take writes or becomes slow, if the others can do without it.
pub(super) fn lose(stage: &mut Stage) {
    let Some(pool) = stage.server.pool() else { return };
    let member = stage.random.usize(0..pool.members);
    let (path, way) = (member_path(member), stage.random.u8(0..6));
    // The pool may not have noticed yet that it lacks one.
    let lacks_another = stage.lost.is_some_and(|lost| lost != member);
    if lacks_another || !stage.server.is_pool_whole() {
        return;
    }
    if way < 4 {
        stage.lost = Some(member);
    }
    let machine = stage.server.machine().clone();
    match way {
        0..3 => machine.detach(&path),
        3 => machine.fail_writes(&path, 0..u64::MAX),
        _ => machine.slow_down(&path, 20),
    }
}

/// Members are well again and come back with the next start.
pub(super) fn give_back(stage: &mut Stage) {
    let Some(pool) = stage.server.pool() else { return };
    if stage.random.u8(0..4) == 0 {
        return;
    }
    stage.lost = None;
    for path in (0..pool.members).map(member_path) {
        stage.server.machine().repair(&path);
        stage.server.machine().attach(&path);
        stage.server.machine().slow_down(&path, 1);
    }
}
