//! What takes a while: as it goes on, and how it ended.
//!
//! Rebuilds and scrubs are seen in the pools, also those that nobody has asked for here. A change that somebody asked for is a
//! job, too, once it has taken a moment: whoever did not wait for its answer finds it here.

mod registry;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use tokio::sync::watch;

pub(super) use registry::Registry;

use super::model::{Job, JobKind, JobState, Jobs, JobsAsked, MemberState, Pool};
use super::wish::{Asked, Names};
use super::{Context, Problem, pools};
use crate::moment::Moment;

/// How often it is looked what began and what ended.
const LOOK: Duration = Duration::from_secs(1);

/// Lists what goes on; with `ended` also what ended lately.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", params(JobsAsked),
    responses(
        (status = 200, body = Jobs),
        (status = 400, body = Problem, description = "The request is not understood.")
    )
)]
pub(super) async fn list(State(context): State<Context>, Asked(asked): Asked<JobsAsked>) -> Json<Jobs> {
    let mut jobs = look(&context);
    jobs.retain(|job| asked.ended || job.state == JobState::Running);
    Json(Jobs { jobs })
}

/// Tells how a job is: the one that runs, or the last one of that name.
#[utoipa::path(
    get, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "Its `id`, such as `scrub:tank`.")),
    responses(
        (status = 200, body = Job),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such job.")
    )
)]
pub(super) async fn one(
    State(context): State<Context>,
    Names(id): Names<String>,
) -> Result<Json<Job>, Problem> {
    find(&context, &id).map(Json)
}

/// Ends a job where it is. What a scrub has repaired stays repaired.
#[utoipa::path(
    delete, path = "/v1/jobs/{job}", tag = "jobs",
    params(("job" = String, Path, description = "Its `id`, such as `scrub:tank`.")),
    responses(
        (status = 200, body = Job),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such job."),
        (status = 409, body = Problem, description = "It cannot be ended, or it has ended already."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(super) async fn cancel(
    State(context): State<Context>,
    Names(id): Names<String>,
) -> Result<Json<Job>, Problem> {
    let job = find(&context, &id)?;
    if job.state != JobState::Running {
        return Err(Problem::refused(format!("the job {id} has ended already"))
            .hint("`fels job list` says what goes on"));
    }
    match job.kind {
        JobKind::Scrub => {}
        JobKind::Rebuild => {
            let slot = job.slot.unwrap_or_default();
            return Err(Problem::refused(
                "a member is rebuilt until it is whole: without it the pool is not",
            )
            .hint(format!("fels pool offline {} {slot}   takes the member out instead", job.pool)));
        }
        JobKind::Destroy => {
            return Err(Problem::refused("nobody has the volume any more: what is left of it is of no use")
                .hint(format!("fels job wait {id}   waits for the end")));
        }
        JobKind::Change => {
            return Err(Problem::refused(
                "a change is made to its end: half of one would be worse than none",
            )
            .hint(format!("fels job wait {id}   waits for it")));
        }
    }
    let (_, pool) = pools::find(&context, &job.pool)?;
    pool.stop_scrub();
    pools::until("the end of the scrub", || !pool.status().scrub.runs).await?;
    find(&context, &id).map(Json)
}

/// Looks from time to time, so that the end of a job is known that nobody watched.
pub(super) async fn watch(context: Context, mut stopped: watch::Receiver<bool>) {
    loop {
        let next = async {
            // What ends without being told goes on in pools.
            context.0.pools.any().await;
            tokio::time::sleep(LOOK).await;
        };
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = next => drop(look(&context)),
        }
    }
}

/// All jobs as they are now.
fn look(context: &Context) -> Vec<Job> {
    let pools = pools::look(context);
    context.jobs().look(&pools, Moment::now())
}

fn find(context: &Context, id: &str) -> Result<Job, Problem> {
    // What runs stands first.
    let job = look(context).into_iter().find(|job| job.id == id);
    job.ok_or_else(|| {
        let shown: String = id.chars().take(64).collect();
        Problem::not_found(format!("there is no job {shown}"))
            .hint("/v1/jobs lists what goes on, and what ended lately")
    })
}

/// What goes on in a pool.
fn of(pool: &Pool) -> Vec<Job> {
    let rebuilding = pool.members.iter().filter(|member| member.state == MemberState::Rebuilding);
    let rebuilds = rebuilding.map(|member| Job {
        id: format!("rebuild:{}:{}", pool.name, member.slot),
        kind: JobKind::Rebuild,
        pool: pool.name.clone(),
        slot: Some(member.slot),
        progress: member.progress.unwrap_or_default(),
        ..Job::begun(format!("give the member in slot {} of pool {} what it lacks", member.slot, pool.name))
    });
    let destroyed = pool.volumes.iter().filter_map(|volume| {
        Some(Job {
            id: format!("destroy:{}:{}", pool.name, volume.name),
            kind: JobKind::Destroy,
            pool: pool.name.clone(),
            volume: volume.name.clone(),
            progress: volume.destroying?,
            ..Job::begun(format!("destroy the bytes of volume {} on pool {}", volume.name, pool.name))
        })
    });
    rebuilds.chain(pool.scrub.runs.then(|| scrub(pool))).chain(destroyed).collect()
}

fn scrub(pool: &Pool) -> Job {
    Job {
        id: format!("scrub:{}", pool.name),
        kind: JobKind::Scrub,
        pool: pool.name.clone(),
        progress: pool.scrub.progress,
        can_be_ended: true,
        ..Job::begun(format!("read all of pool {}, verify it, and repair what is wrong", pool.name))
    }
}

#[cfg(test)]
mod tests;
