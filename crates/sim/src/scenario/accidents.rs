//! The power, the process and the network fail while several sessions work.

use std::time::Duration;

use super::{pooled, volumes_on};
use crate::Failure;
use crate::stage::{End, Stage};

fn stage(seed: u64) -> Stage {
    let mut random = fastrand::Rng::with_seed(seed);
    let shards = random.usize(1..=3);
    Stage::new(seed, shards, volumes_on(pooled::draw(&mut random)), 2)
}

pub(super) fn draw_end(stage: &mut Stage) -> End {
    match stage.random.u8(0..10) {
        0..6 => End::PowerCut,
        6..9 => End::Kill,
        _ => End::Stop,
    }
}

/// Sessions work, and at a random moment the power goes, or the process; everything is read back and judged; and
/// again.
pub fn power(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = stage(seed);
    stage.server.start()?;
    for _ in 0..3 {
        let (sessions, depth) = (stage.random.usize(2..=6), stage.random.usize(1..=4));
        stage.work(sessions, depth);
        let span = stage.random.u64(1..25);
        stage.go_on(Duration::from_millis(span / 2))?;
        pooled::lose(&mut stage);
        stage.go_on(Duration::from_millis(span - span / 2))?;
        let end = draw_end(&mut stage);
        pooled::give_back(&mut stage);
        stage.end(end)?;
    }
    stage.leave()
}

/// As [`power`], and before it the network is parted for a moment or for longer than anybody has patience, and
/// clients fall over and come again under the same names.
pub fn network(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = stage(seed);
    stage.server.start()?;
    for _ in 0..2 {
        let (sessions, depth) = (stage.random.usize(2..=6), stage.random.usize(1..=3));
        stage.work(sessions, depth);
        for _ in 0..stage.random.usize(1..=3) {
            let span = stage.random.u64(1..8);
            stage.go_on(Duration::from_millis(span))?;
            let client = stage.random.usize(0..stage.clients.len());
            match stage.random.u8(0..3) {
                0 => stage.reboot_client(client),
                short => part(&mut stage, client, short == 1)?,
            }
        }
        let end = draw_end(&mut stage);
        stage.end(end)?;
    }
    stage.leave()
}

/// Nothing gets through between a client and the node. The others are kept from working for as long as it takes:
/// they would fill the history with hours of work.
pub(super) fn part(stage: &mut Stage, client: usize, short: bool) -> Result<(), Failure> {
    let (machine, server) = (stage.clients[client].machine().clone(), stage.server.machine().clone());
    stage.world.partition(&machine, &server);
    let span = if short { stage.random.u64(1..10) } else { 20 };
    stage.go_on(Duration::from_millis(span))?;
    if !short {
        stage.control.pause.set(true);
        let seconds = stage.random.u64(1..12);
        stage.go_on(Duration::from_secs(seconds))?;
        stage.control.pause.set(false);
    }
    stage.world.heal(&machine, &server);
    let span = stage.random.u64(0..10);
    stage.go_on(Duration::from_millis(span))
}
