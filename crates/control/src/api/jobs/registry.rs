//! What is remembered of jobs: when each began, and how those ended that are over.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{of, scrub};
use crate::api::model::{Job, JobKind, JobState, MemberState, Pool};
use crate::moment::Moment;

/// Jobs that are remembered after their end.
const MAX_ENDED: usize = 64;
/// A change that takes no longer than this, in seconds, is not worth a word.
const MOMENT_S: u64 = 2;

/// Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Of pools, as they were seen last.
    seen: Vec<Job>,
    /// Scrubs of each pool that were begun by then.
    scrubs: HashMap<String, u64>,
    /// That somebody has asked for, in the order in which they began.
    changes: Vec<Job>,
    /// The last one first.
    ended: VecDeque<Job>,
    changes_begun: u64,
}

impl Registry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All jobs: what goes on, then what has ended, the last one first.
    pub(super) fn look(&self, pools: &[Pool], now: Moment) -> Vec<Job> {
        let mut state = self.state();
        state.see(pools, now);
        let changes = state.changes.iter().filter(|job| now.since(job.begun) >= MOMENT_S);
        state.seen.iter().chain(changes).chain(&state.ended).cloned().collect()
    }

    /// A change begins: what is asked for, such as `POST /v1/volumes`. It goes on until what is given back is ended, or dropped.
    pub(in crate::api) fn begin(&self, title: String, now: Moment) -> Change {
        let mut state = self.state();
        state.changes_begun += 1;
        let id = format!("change:{}", state.changes_begun);
        state.changes.push(Job { id: id.clone(), kind: JobKind::Change, begun: now, ..Job::begun(title) });
        Change { registry: self.clone(), id }
    }

    fn end(&self, id: &str, now: Moment, state: JobState, sentence: Option<String>) {
        let mut all = self.state();
        let Some(place) = all.changes.iter().position(|job| job.id == id) else { return };
        let job = all.changes.remove(place);
        if now.since(job.begun) >= MOMENT_S {
            all.remember(Job { state, sentence, ended: Some(now), ..job });
        }
    }
}

impl State {
    fn remember(&mut self, job: Job) {
        self.ended.truncate(MAX_ENDED - 1);
        self.ended.push_front(job);
    }

    /// Notes what began in the pools, and what ended there.
    fn see(&mut self, pools: &[Pool], now: Moment) {
        let mut running: Vec<_> = pools.iter().flat_map(of).collect();
        for pool in pools {
            let known = self.scrubs.insert(pool.name.clone(), pool.scrub.begun).unwrap_or(0);
            let is_seen = self.seen.iter().any(|job| job.kind == JobKind::Scrub && job.pool == pool.name);
            // It began and ended while nobody looked.
            if pool.scrub.begun > known && !pool.scrub.runs && !is_seen {
                let job = Job { begun: now, ..scrub(pool) };
                self.remember(ended(job, pools, now));
            }
        }
        for before in std::mem::take(&mut self.seen) {
            match running.iter_mut().find(|job| job.id == before.id) {
                Some(job) => job.begun = before.begun,
                None => self.remember(ended(before, pools, now)),
            }
        }
        for job in &mut running {
            if job.begun == Moment::from_unix(0) {
                job.begun = now;
            }
        }
        self.seen = running;
    }
}

/// How a job of a pool ended that is seen no more.
fn ended(job: Job, pools: &[Pool], now: Moment) -> Job {
    let pool = pools.iter().find(|pool| pool.name == job.pool);
    let (state, sentence, progress) = match (job.kind, pool, job.slot) {
        (JobKind::Rebuild, Some(pool), Some(slot)) => {
            let member = pool.members.get(slot);
            match member.filter(|member| member.state == MemberState::InSync) {
                Some(_) => (JobState::Done, None, whole(job.progress)),
                None => (
                    JobState::Failed,
                    Some(out(member.and_then(|member| member.cause.as_deref()))),
                    job.progress,
                ),
            }
        }
        (JobKind::Scrub, Some(pool), _) => {
            let progress = pool.scrub.progress;
            let is_whole = progress.done_bytes >= progress.total_bytes;
            let state = if is_whole { JobState::Done } else { JobState::Ended };
            let found = (pool.scrub.bad, pool.scrub.repaired, pool.scrub.lost);
            let sentence = format!("{} bad blocks, {} repaired, {} lost", found.0, found.1, found.2);
            (state, Some(sentence), progress)
        }
        (JobKind::Destroy, Some(pool), _) if pool.volumes.iter().all(|volume| volume.name != job.volume) => {
            (JobState::Done, None, whole(job.progress))
        }
        (JobKind::Destroy, Some(_), _) => {
            let why = "the log says why; the next start of the node tries again".to_owned();
            (JobState::Failed, Some(why), job.progress)
        }
        _ => (JobState::Ended, Some("the pool is gone".to_owned()), job.progress),
    };
    Job { state, sentence, progress, ended: Some(now), can_be_ended: false, ..job }
}

fn whole(progress: crate::api::model::Progress) -> crate::api::model::Progress {
    crate::api::model::Progress { done_bytes: progress.total_bytes, left_s: None, ..progress }
}

fn out(cause: Option<&str>) -> String {
    cause.map_or_else(|| "the member went out".to_owned(), |cause| format!("the member went out: {cause}"))
}

/// A change that goes on.
pub struct Change {
    registry: Registry,
    id: String,
}

impl Change {
    /// It was done, or why not.
    pub fn end(self, problem: Option<String>, now: Moment) {
        let state = if problem.is_some() { JobState::Failed } else { JobState::Done };
        self.registry.end(&self.id, now, state, problem);
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // Of one that was ended there is nothing left.
        let why = "it was not made to its end".to_owned();
        self.registry.end(&self.id, Moment::now(), JobState::Failed, Some(why));
    }
}
