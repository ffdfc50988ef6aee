//! Scrubbing: everything is read and verified.

use axum::Json;
use axum::extract::State;

use super::super::model::{Change, Wish};
use super::super::wish::{Body, Names};
use super::super::{Context, Problem};
use super::{change, find, until};

/// Begins to verify all of a pool, in the background.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/scrub", tag = "pools",
    params(("pool" = String, Path, description = "The name of the pool.")),
    request_body = Option<Wish>,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn start(
    State(context): State<Context>,
    Names(name): Names<String>,
    Body(wish): Body<Wish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let before = handle.status().scrub;
        let steps = if before.runs {
            vec![format!("pool {name} is being scrubbed already: nothing to do")]
        } else {
            vec![format!("read all of pool {name}, verify it, and repair what is wrong")]
        };
        if !wish.dry_run && !before.runs {
            handle.scrub();
            until("the scrub", || handle.status().scrub.begun != before.begun).await?;
        }
        Ok(change(&context, &pool, wish.dry_run, steps))
    })
    .await
}

/// Ends a scrub where it is.
#[utoipa::path(
    delete, path = "/v1/pools/{pool}/scrub", tag = "pools",
    params(("pool" = String, Path, description = "The name of the pool.")),
    request_body = Option<Wish>,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn stop(
    State(context): State<Context>,
    Names(name): Names<String>,
    Body(wish): Body<Wish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let runs = handle.status().scrub.runs;
        let steps = if runs {
            vec![format!("end the scrub of pool {name} where it is")]
        } else {
            vec![format!("pool {name} is not being scrubbed: nothing to do")]
        };
        if !wish.dry_run && runs {
            handle.stop_scrub();
            until("the end of the scrub", || !handle.status().scrub.runs).await?;
        }
        Ok(change(&context, &pool, wish.dry_run, steps))
    })
    .await
}
