//! Growing: a pool has what its members have room for.

use axum::Json;
use axum::extract::State;

use super::super::model::{Change, Wish};
use super::super::wish::{Body, Names};
use super::super::{Context, Problem};
use super::{change, find};

/// Gives a pool the room that its members have, once all of them were replaced by larger ones.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/grow", tag = "pools",
    params(("pool" = String, Path, description = "The name of the pool.")),
    request_body = Option<Wish>,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool."),
        (status = 409, body = Problem, description = "The pool has no room to grow, or not all members are in sync."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn grow(
    State(context): State<Context>,
    Names(name): Names<String>,
    Body(wish): Body<Wish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let steps = vec![format!(
            "give pool {name} all that its members have room for; volumes can have it from the next start of the node on"
        )];
        if wish.dry_run {
            handle.check_growth()?;
        } else {
            handle.grow()?;
        }
        Ok(change(&context, pool, wish.dry_run, steps))
    }).await
}
