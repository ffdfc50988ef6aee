//! Disks that fail while the rest of the machine is well.

use std::rc::Rc;
use std::time::Duration;

use ring::Buffer;

use super::accidents::draw_end;
use super::mixed::shared;
use super::volumes;
use crate::history::Wish;
use crate::stage::{End, Stage};
use crate::transport::Transport;
use crate::trouble::Trouble;
use crate::{Failure, SECTOR};

fn at_work(seed: u64) -> Result<Stage, Failure> {
    let mut stage = Stage::new(seed, 2, volumes(), 2);
    stage.server.start()?;
    let depth = stage.random.usize(1..=3);
    stage.work(4, depth);
    Ok(stage)
}

fn wait(stage: &mut Stage, milliseconds: std::ops::Range<u64>) -> Result<(), Failure> {
    let span = stage.random.u64(milliseconds);
    stage.go_on(Duration::from_millis(span))
}

fn ensure(right: bool, what: &str) -> Result<(), Failure> {
    if right { Ok(()) } else { Err(Failure(what.to_owned())) }
}

/// Some sectors of a volume cannot be read: exactly the commands that touch them end with MEDIUM ERROR, and all is
/// as before when they can be read again.
pub fn unreadable_blocks(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = at_work(seed)?;
    wait(&mut stage, 1..10)?;
    let volume = stage.random.usize(0..3);
    let plan = stage.server.volumes()[volume].clone();
    let bad = stage.random.u64(0..64);
    let bad = bad..bad + stage.random.u64(1..8);
    let bytes = bad.start * SECTOR as u64..bad.end * SECTOR as u64;
    let touched = bad.clone();
    stage.tolerate(Rc::new(move |trouble, place, wish| {
        let reads = matches!(wish, Wish::Read | Wish::Compare(_) | Wish::CompareAndWrite(_));
        let touches = place.first < touched.end && touched.start < place.first + place.count;
        reads && touches && place.volume == volume && trouble.is_unreadable()
    }));
    stage.server.machine().fail_reads(&plan.path(), bytes);
    wait(&mut stage, 3..20)?;
    stage.rest()?;
    probe(&mut stage, volume, &bad)?;
    stage.server.machine().repair(&plan.path());
    stage.end(End::PowerCut)?;
    stage.leave()
}

/// Reads each of the first blocks by itself: exactly the bad ones fail.
fn probe(stage: &mut Stage, volume: usize, bad: &std::ops::Range<u64>) -> Result<(), Failure> {
    let transport = *stage.random.choice(&Transport::ALL).expect("there is one");
    let connector = stage.clients[0].connector(&stage.server, transport, volume, 0, 1 << 20);
    let block = u64::from(stage.server.volumes()[volume].block_size);
    let (first, end) = (bad.start * SECTOR as u64, bad.end * SECTOR as u64);
    stage.world.block_on(stage.clients[0].reactor(), async move {
        let session = connector.connect().await.map_err(|error| Failure::of(&error))?;
        for offset in (0..64 << 10).step_by(block as usize) {
            let (result, _) = session.read(offset, Buffer::new(block as usize)).await;
            let touches = offset < end && first < offset + block;
            ensure(result.is_err() == touches, &format!("the block at {offset} reads as {result:?}"))?;
        }
        session.close().await;
        Ok(())
    })?
}

/// A flush fails: the volume is fail-stop, nothing that is asked for later is acknowledged until the node is started
/// again, even though the disk would be well again; the other volumes go on.
pub fn lost_flush(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = at_work(seed)?;
    wait(&mut stage, 1..10)?;
    let volume = stage.random.usize(0..3);
    let path = stage.server.volumes()[volume].path();
    stage.tolerate(Rc::new(move |trouble, place, wish| {
        let writes = !matches!(wish, Wish::Read | Wish::Compare(_));
        writes && place.volume == volume && trouble.is_failed()
    }));
    stage.server.machine().fail_flushes(&path);
    wait(&mut stage, 1..20)?;
    stage.server.machine().repair(&path);
    wait(&mut stage, 1..20)?;
    stage.rest()?;
    if stage.control.history.borrow().has_failed(volume) {
        stage.tolerate(Rc::new(|_, _, _| false));
    }
    stage.end(End::PowerCut)?;
    stage.work(4, 2);
    wait(&mut stage, 1..10)?;
    stage.end(End::PowerCut)?;
    stage.leave()
}

/// The disk is full: writes that need space end with SPACE ALLOCATION FAILED and the rest goes on.
pub fn full_disk(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = Stage::new(seed, 2, volumes(), 2);
    stage.server.start()?;
    let capacity = stage.random.u64(16..100) << 10;
    stage.server.machine().set_capacity(Some(capacity));
    stage.tolerate(Rc::new(|trouble, _, wish| {
        !matches!(wish, Wish::Read | Wish::Compare(_)) && trouble == Trouble::NoSpace
    }));
    let depth = stage.random.usize(1..=3);
    stage.work(4, depth);
    for _ in 0..50 {
        wait(&mut stage, 1..30)?;
        if stage.control.tolerated.get() > 0 {
            break;
        }
    }
    ensure(stage.control.tolerated.get() > 0, "no write found the disk full")?;
    stage.end(End::PowerCut)?;
    stage.server.machine().set_capacity(None);
    stage.tolerate(Rc::new(|_, _, _| false));
    stage.work(4, depth);
    wait(&mut stage, 1..10)?;
    stage.end(End::PowerCut)?;
    stage.leave()
}

/// The disk of one volume stands still, for longer than initiators wait: the sessions of others do not notice.
pub fn stalled_disk(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = at_work(seed)?;
    wait(&mut stage, 1..10)?;
    let stalled = stage.random.usize(0..3);
    let path = stage.server.volumes()[stalled].path();
    stage.server.machine().stall(&path);
    wait(&mut stage, 5..10)?;
    stage.control.pause.set(true);
    let seconds = stage.random.u64(1..12);
    stage.go_on(Duration::from_secs(seconds))?;
    for volume in (0..3).filter(|volume| *volume != stalled) {
        let start = stage.world.now();
        stage.read_back(volume)?;
        let took = stage.world.now().since(start);
        ensure(took < Duration::from_millis(500), "another volume waited for the stalled one")?;
    }
    stage.control.pause.set(false);
    wait(&mut stage, 1..5)?;
    stage.server.machine().release(&path);
    wait(&mut stage, 1..10)?;
    let end = if stage.random.bool() { End::PowerCut } else { End::Stop };
    stage.end(end)?;
    stage.leave()
}

/// The disks stand still, time and again, while NVMe hosts reset their controllers: a reset is over when nothing of the
/// controller can come any more, and not before.
pub fn resets_on_stalled_disks(seed: u64) -> Result<(u64, u64), Failure> {
    let mut stage = Stage::new(seed, 2, shared(None), 3);
    stage.server.start()?;
    stage.control.resets_one_of.set(1);
    let depth = stage.random.usize(1..=3);
    stage.work(6, depth);
    let path = stage.server.volumes()[0].path();
    for _ in 0..3 {
        wait(&mut stage, 1..8)?;
        stage.server.machine().stall(&path);
        wait(&mut stage, 2..15)?;
        stage.server.machine().release(&path);
    }
    wait(&mut stage, 1..8)?;
    let end = draw_end(&mut stage);
    stage.end(end)?;
    stage.leave()
}
