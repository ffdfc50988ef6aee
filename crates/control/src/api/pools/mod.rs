//! Pools: how they are, and what can be done to them while they are in use.

pub(super) mod create;
pub(super) mod extend;
pub(super) mod grow;
pub(crate) mod joining;
pub(super) mod members;
pub(super) mod scrub;
pub(super) mod spares;
mod view;

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use plane::pool::{Assembled, Handle};

use super::model::{Change, Pool, Pools};
use super::wish::Names;
use super::{Context, Problem, handle};
use crate::administration::{PoolEdit, point};
use crate::offline::table::PoolTable;

/// How long the keeper of a pool may take for what it is asked: longer than a member may be silent.
const KEEPER_TIME: Duration = Duration::from_secs(30);
/// How often it is looked whether it has done it.
const LOOK: Duration = Duration::from_millis(5);

/// Lists all pools.
#[utoipa::path(get, path = "/v1/pools", tag = "pools", responses((status = 200, body = Pools)))]
pub(super) async fn list(State(context): State<Context>) -> Json<Pools> {
    let mut pools = look(&context);
    view::add_io(&context, &mut pools).await;
    Json(Pools { pools })
}

/// Tells how a pool is.
#[utoipa::path(
    get, path = "/v1/pools/{pool}", tag = "pools",
    params(("pool" = String, Path, description = "The name of the pool.")),
    responses(
        (status = 200, body = Pool),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool.")
    )
)]
pub(super) async fn one(
    State(context): State<Context>,
    Names(name): Names<String>,
) -> Result<Json<Pool>, Problem> {
    let pool = context.pool(&name)?;
    let mut pool = view::of(&context, &pool);
    view::add_io(&context, std::slice::from_mut(&mut pool)).await;
    Ok(Json(pool))
}

/// How all pools are.
pub(super) fn look(context: &Context) -> Vec<Pool> {
    context.pools().iter().map(|pool| view::of(context, pool)).collect()
}

/// Waits for what the keeper was asked.
pub(super) async fn until(what: &str, condition: impl Fn() -> bool) -> Result<(), Problem> {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(LOOK).await;
        }
    };
    let late = |_| Problem::late(format!("{what} was asked for, and did not happen yet"));
    tokio::time::timeout(KEEPER_TIME, waiting).await.map_err(late)
}

/// What was done, or would be.
fn change(context: &Context, pool: &Assembled, dry_run: bool, steps: Vec<String>) -> Change {
    if !dry_run {
        for step in &steps {
            tracing::info!(pool = pool.pool().shared().name, "asked for: {step}");
        }
    }
    Change { done: !dry_run, steps, configuration: None, written: false, pool: view::of(context, pool) }
}

/// Lets the configuration say what the pool is by now. What keeps it from that is one more sentence: the pool is what it is.
async fn followed(context: &Context, handle: &Handle, edit: PoolEdit, mut change: Change) -> Change {
    if !change.done {
        return change;
    }
    let edit = PoolEdit::of(handle, edit);
    let path = context.administration().store().name();
    match context.administration().follow(&edit).await {
        Ok(()) => {
            point("followed");
            context.administration().end_joining(&edit.name).await;
            change.written = true;
        }
        Err(error) => {
            tracing::warn!(
                pool = edit.name,
                "the configuration does not say what the pool is by now: {error}"
            );
            change.steps.push(format!("{path} does not say so yet: {error}"));
        }
    }
    change
}

/// The table that the configuration needs when one of the pool's members is another one, or a further one.
fn configuration(context: &Context, handle: &Handle, changed: &[(usize, &FilePath)]) -> String {
    let status = handle.status();
    let member = |slot: usize| match changed.iter().find(|(other, _)| *other == slot) {
        Some((_, place)) => Some((*place).to_owned()),
        None => handle.place(slot).map(|place| PathBuf::from(context.told(&place))),
    };
    let slots = changed.iter().fold(status.members.len(), |slots, (slot, _)| slots.max(slot + 1));
    PoolTable {
        name: status.name.clone(),
        level: status.level,
        unit: status.unit,
        integrity: status.integrity,
        members: (0..slots).map(member).collect(),
        spares: status
            .spares
            .iter()
            .filter_map(|spare| handle.spare_place(&spare.id))
            .map(|place| PathBuf::from(context.told(&place)))
            .collect(),
        member_bytes: None,
    }
    .to_string()
}

/// The pool of that name, and its handle.
pub(super) fn find(context: &Context, name: &str) -> Result<(Arc<Assembled>, Handle), Problem> {
    let pool = context.pool(name)?;
    let handle = handle(&pool);
    Ok((pool, handle))
}
