//! The audit log: who changed what.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Access, Problem};
use crate::audit::Entry;

/// Entries that are told without a wish.
const USUAL: usize = 100;
/// Entries that are told at most.
const MOST: usize = 1000;

/// Which entries.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// How many at most: 1 to 1000, or 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only those with an `id` below this one.
    before: Option<u64>,
}

/// What people did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entries {
    /// The newest first.
    pub entries: Vec<Entry>,
}

/// Tells who changed what, from where, and what came of it; the newest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "people", params(Which),
    responses(
        (status = 200, body = Entries),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 503, body = Problem, description = "The log cannot be read.")
    )
)]
pub(super) async fn list(
    State(access): State<Access>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Entries>, Problem> {
    let wrong = |why: String| {
        Problem::bad_request(why).hint(format!("`limit` takes 1 to {MOST}, `before` the id of an entry"))
    };
    let Query(which) = which.map_err(|rejection| wrong(rejection.body_text()))?;
    let limit = which.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(wrong(format!("nobody can be told {limit} entries at once")));
    }
    Ok(Json(Entries { entries: access.entries(limit, which.before).await? }))
}
