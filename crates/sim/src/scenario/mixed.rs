//! One volume by three ways at once: on a calm network, and on one that resets, delays and chokes.

use std::time::Duration;

use super::accidents::{draw_end, part};
use super::pooled;
use crate::Failure;
use crate::node::{PoolShape, VolumePlan};
use crate::stage::Stage;

/// Two volumes, one on a file or a pool and one in RAM, small enough for everybody to meet everybody.
pub(super) fn shared(pool: Option<PoolShape>) -> Vec<VolumePlan> {
    vec![
        VolumePlan::new("file", 64 << 10, 512).on_pool(pool).in_subsystem("both"),
        VolumePlan::new("ram", 64 << 10, 512).in_memory().in_subsystem("both"),
    ]
}

fn stage(seed: u64) -> Stage {
    let mut random = fastrand::Rng::with_seed(seed);
    let shards = random.usize(1..=3);
    Stage::new(seed, shards, shared(pooled::draw(&mut random)), 3)
}

fn work(stage: &mut Stage) -> Result<(), Failure> {
    let (sessions, depth) = (stage.random.usize(4..=8), stage.random.usize(1..=3));
    stage.work(sessions, depth);
    let span = stage.random.u64(1..10);
    stage.go_on(Duration::from_millis(span))
}

/// Nothing befalls the node until it ends: what it holds is looked at while it goes on, and after its end.
pub fn calm(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = stage(seed);
    stage.server.start()?;
    for _ in 0..2 {
        work(&mut stage)?;
        pooled::lose(&mut stage);
        stage.look()?;
        work(&mut stage)?;
        let end = draw_end(&mut stage);
        pooled::give_back(&mut stage);
        stage.end(end)?;
    }
    stage.leave()
}

/// Connections are reset by the network, at both ends at once; messages are late; windows are small; clients fall over.
pub fn rough(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = stage(seed);
    stage.server.start()?;
    shake(stage)
}

/// The same with 1 to 8 receive buffers for each core of the node: who keeps one keeps others from being heard.
pub fn few_receive_buffers(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = stage(seed);
    stage.server.receive_buffers = 1 << stage.random.u32(0..4);
    stage.server.start()?;
    shake(stage)
}

fn shake(mut stage: Stage) -> Result<(u64, u64), Failure> {
    let us = Duration::from_micros;
    for _ in 0..2 {
        let (latency, window) = (stage.random.u64(100..5000), 1 << stage.random.u32(12..19));
        let cut = stage.random.f64();
        // Sessions need some messages to and fro until they are at work.
        let begin = us(latency * stage.random.u64(4..16));
        stage.world.configure(|settings| {
            settings.latency = us(20)..us(latency);
            settings.window = window;
            settings.cut = cut;
        });
        work(&mut stage)?;
        stage.go_on(begin)?;
        for _ in 0..stage.random.usize(1..=4) {
            if stage.random.u8(0..3) == 0 {
                pooled::lose(&mut stage);
            }
            let client = stage.random.usize(0..stage.clients.len());
            match stage.random.u8(0..6) {
                0 => stage.reboot_client(client),
                1 => part(&mut stage, client, true)?,
                _ => stage.world.cut(stage.clients[client].machine(), stage.server.machine()),
            }
            let span = Duration::from_millis(stage.random.u64(1..8));
            stage.go_on(span + begin)?;
        }
        let end = draw_end(&mut stage);
        pooled::give_back(&mut stage);
        stage.end(end)?;
    }
    stage.leave()
}
