//! The jobs of one thread, from start to end.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ring::{Buffer, Instant, Ring};

use super::job::Load;
use super::tally::Tallies;
use super::worker::{Common, Worker};
use crate::initiator::Session;
use crate::journal::{Journal, JournalError};
use crate::ledger::Findings;

/// Between two looks at the flag that ends a run early.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a read of the final pass.
const FINAL_READ: u64 = 256 << 10;

/// When a load runs, and what its blocks are stamped with.
#[derive(Clone)]
pub struct Plan {
    /// When it begins; all threads the same.
    pub start: Instant,
    /// Ends it early.
    pub stop: Arc<AtomicBool>,
    /// Names the run in stamps.
    pub run: u64,
}

/// What happened in one second on one thread.
#[derive(Clone, Debug)]
pub struct Sample {
    /// 0 is the first; those of the warm-up count too.
    pub second: u32,
    /// How long it was: the last one may be short.
    pub span: Duration,
    /// Operations that ended in it.
    pub tallies: Tallies,
    /// Open loop: operations that were due and not begun at its end.
    pub backlog: u64,
}

/// How a thread ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Operations that were in flight at the end of the time and ended after it.
    pub late: Tallies,
    /// Operations that failed.
    pub errors: u64,
    /// The first different ones.
    pub told: Vec<String>,
    /// Wrong blocks of a verified load.
    pub findings: Findings,
    /// Bytes that the final pass has read.
    pub proven_bytes: u64,
    /// Open loop: operations that were due and dropped.
    pub dropped: u64,
    /// Operations that the initiators sent again.
    pub retries: u64,
    /// Commands that the target takes at once from a session, where it says so.
    pub room: Option<u32>,
}

/// Runs the jobs `sessions` (index and session) of `load` on this ring; gives `sink` a sample every second.
/// The journal is only allowed with a verified load.
pub async fn drive(
    ring: Ring,
    load: Load,
    sessions: Vec<(u32, Session)>,
    plan: Plan,
    journal: Option<Journal>,
    mut sink: impl FnMut(Sample),
) -> Result<Ended, JournalError> {
    let common = Rc::new(Common::new(&ring, load.seed));
    let workers: Vec<_> = sessions
        .into_iter()
        .map(|(index, session)| {
            let proof = load.verify.then(|| (plan.run, journal.clone()));
            Worker::new(&common, session, &load, index, plan.start, proof)
        })
        .collect();
    ring.sleep_until(plan.start).await;
    workers.iter().for_each(Worker::start);
    sample_until_end(&common, &workers, &load, &plan, &mut sink).await;
    common.stop.set(true);
    common.idle.until(|| (common.active.get() == 0).then_some(())).await;

    let mut ended = Ended { late: std::mem::take(&mut *common.tallies.borrow_mut()), ..Ended::default() };
    ended.room = workers.iter().filter_map(|worker| worker.session.room()).min();
    for worker in &workers {
        if load.flush_every > 0 && common.errors.get() == 0 {
            worker.flush().await;
        }
    }
    if let Some(journal) = &journal {
        journal.write().await?;
    }
    for worker in &workers {
        ended.proven_bytes += prove(&common, worker).await;
        ended.retries += worker.session.retries();
        ended.dropped += worker.schedule.borrow().as_ref().map_or(0, super::Schedule::dropped);
        if let Some(proof) = &worker.proof {
            ended.findings.merge(std::mem::take(&mut proof.ledger.borrow_mut().findings));
        }
    }
    ended.errors = common.errors.get();
    ended.told = std::mem::take(&mut *common.told.borrow_mut());
    for worker in &workers {
        worker.session.close().await;
    }
    Ok(ended)
}

/// Gives a sample every second, until the time is over, the run is stopped or no task is left.
async fn sample_until_end(
    common: &Rc<Common>,
    workers: &[Rc<Worker>],
    load: &Load,
    plan: &Plan,
    sink: &mut impl FnMut(Sample),
) {
    let ring = &common.ring;
    let end = plan.start + load.warm_up + load.time;
    let mut from = plan.start;
    // The warm-up ends a sample, so that none has both.
    let warm = plan.start + load.warm_up;
    for second in 0.. {
        let next = from + Duration::from_secs(1);
        let boundary = if from < warm { next.min(warm) } else { next }.min(end);
        let mut over = boundary >= end;
        while ring.now() < boundary {
            ring.sleep_until(boundary.min(ring.now() + LOOK)).await;
            if plan.stop.load(Ordering::Relaxed) || common.active.get() == 0 {
                over = true;
                break;
            }
        }
        let now = ring.now();
        if over {
            common.stop.set(true);
        }
        let tallies = std::mem::take(&mut *common.tallies.borrow_mut());
        let backlog = |worker: &Rc<Worker>| worker.schedule.borrow().as_ref().map_or(0, |s| s.backlog(now));
        let backlog = workers.iter().map(backlog).sum();
        sink(Sample { second, span: now.since(from), tallies, backlog });
        if over {
            return;
        }
        from = now;
    }
}

/// The final pass of a verified load: everything it has written is read and checked. Gives the bytes read.
async fn prove(common: &Common, worker: &Worker) -> u64 {
    let Some(proof) = &worker.proof else { return 0 };
    let slot_size = u64::from(worker.load.block_size);
    let at_once =
        (FINAL_READ / slot_size).clamp(1, u64::from(worker.session.geometry().maximum_transfer) / slot_size);
    let slots = proof.ledger.borrow().len();
    let (mut slot, mut read) = (0, 0);
    while slot < slots {
        let end = {
            let ledger = proof.ledger.borrow();
            if ledger.generation(slot) == 0 {
                slot += 1;
                continue;
            }
            let most = slots.min(slot + at_once);
            (slot..most).find(|&slot| ledger.generation(slot) == 0).unwrap_or(most)
        };
        let length = (end - slot) * slot_size;
        let offset = worker.extent.offset + slot * slot_size;
        let (result, buffer) = worker.session.read(offset, Buffer::new(length as usize)).await;
        if let Err(error) = result {
            common.errors.set(common.errors.get() + 1);
            common.told.borrow_mut().push(format!("final pass: {error}"));
            if error.is_final() {
                break;
            }
        } else {
            let mut ledger = proof.ledger.borrow_mut();
            for (slot, data) in (slot..end).zip(buffer.chunks_exact(slot_size as usize)) {
                ledger.check(slot, data);
            }
            read += length;
        }
        slot = end;
    }
    read
}
