//! Growing: a pool has what its members have room for.

use axum::Json;
use axum::extract::State;
use plane::pool::{Handle, Place};

use super::super::model::{Change, Wish};
use super::super::wish::{Body, Names};
use super::super::{Context, Problem};
use super::{change, find, followed};
use crate::administration::PoolEdit;

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
        let steps =
            vec![format!("give pool {name} all that its members have room for; volumes can have it at once")];
        if wish.dry_run {
            handle.check_growth()?;
        } else {
            handle.grow()?;
        }
        let change = change(&context, &pool, wish.dry_run, steps);
        let edit = PoolEdit { member_bytes: smallest_file(&handle), ..PoolEdit::default() };
        Ok(followed(&context, &handle, edit, change).await)
    })
    .await
}

/// Bytes of the smallest of the files that a pool lives on: what files have to have that are made for it from now on.
fn smallest_file(handle: &Handle) -> Option<u64> {
    let bytes = |slot| match handle.place(slot)? {
        Place::Path(path) => {
            std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
        }
        Place::Memory(_) => None,
    };
    (0..handle.status().members.len()).filter_map(bytes).min()
}
