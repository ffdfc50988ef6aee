//! What goes on in the background, as a list.

use axum::Json;
use axum::extract::State;

use super::model::{Job, JobKind, Jobs, MemberState, Pool};
use super::{Context, pools};

/// Lists what goes on in the background.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", responses((status = 200, body = Jobs)))]
pub(super) async fn list(State(context): State<Context>) -> Json<Jobs> {
    let pools = pools::look(&context);
    Json(Jobs { jobs: pools.iter().flat_map(of).collect() })
}

fn of(pool: &Pool) -> Vec<Job> {
    let name = &pool.name;
    let rebuilding = pool.members.iter().filter(|member| member.state == MemberState::Rebuilding);
    let rebuilds = rebuilding.map(|member| Job {
        id: format!("rebuild:{name}:{}", member.slot),
        kind: JobKind::Rebuild,
        pool: name.clone(),
        slot: Some(member.slot),
        progress: member.progress.unwrap_or_default(),
    });
    let scrub = pool.scrub.runs.then(|| Job {
        id: format!("scrub:{name}"),
        kind: JobKind::Scrub,
        pool: name.clone(),
        slot: None,
        progress: pool.scrub.progress,
    });
    rebuilds.chain(scrub).collect()
}
