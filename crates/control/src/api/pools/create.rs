//! A pool more. It is written into the configuration, and opened with the next start of the node; what it is to live on is looked at
//! now: a node that finds something else there would not start.

use std::path::{Path as FilePath, PathBuf};

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use plane::pool::Seen;

use super::super::model::{Changed, PoolSettings, PoolWish};
use super::super::wish::{Body, version};
use super::super::{Context, Problem};
use super::members::{place, seen};
use crate::administration::{Edit, Request};
use crate::offline::is_device;

/// Enters a pool into the configuration; the next start of the node makes it.
#[utoipa::path(
    post, path = "/v1/pools", tag = "pools",
    request_body = PoolWish,
    responses(
        (status = 200, body = Changed),
        (status = 400, body = Problem, description = "The request is not understood, or a field is wrong."),
        (status = 404, body = Problem, description = "There is no such thing."),
        (status = 409, body = Problem, description = "There is such a pool, or something is on its members."),
        (status = 412, body = Problem, description = "The configuration is another one by now."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn create(
    State(context): State<Context>,
    headers: HeaderMap,
    Body(wish): Body<PoolWish>,
) -> Result<Json<Changed>, Problem> {
    let version = version(&headers, wish.version.as_deref())?;
    let Some(name) = wish.pool.name.clone() else {
        return Err(Problem::bad_request("the pool has no name").hint("give `pool.name`").at("name"));
    };
    let node = context.clone();
    node.change(async move {
        let mut steps = blanks(&context, &wish.pool).await?;
        let Ok(serde_json::Value::Object(settings)) = serde_json::to_value(&wish.pool) else {
            return Err(Problem::bad_request("the keys of the pool cannot be read"));
        };
        let request = Request { edit: Edit::AddPool { settings }, version, dry_run: wish.dry_run };
        let outcome = context.administration().change(request).await.map_err(|error| {
            let prefix = format!("pool.{name}.");
            super::super::volumes::of_section(Problem::from(error), &prefix)
        })?;
        steps.extend(outcome.steps);
        Ok(Changed { done: outcome.done, steps, version: outcome.version.to_string(), volume: None })
    })
    .await
}

/// What is going to be made; refuses what is not blank.
async fn blanks(context: &Context, wish: &PoolSettings) -> Result<Vec<String>, Problem> {
    let mut taken: Vec<PathBuf> = Vec::new();
    let mut missing = Vec::new();
    for (field, text) in wish
        .members
        .iter()
        .map(|text| ("members", text))
        .chain(wish.spares.iter().map(|text| ("spares", text)))
    {
        let path = place(text).map_err(|problem| problem.at(field))?;
        if taken.contains(&path) {
            let problem =
                Problem::bad_request(format!("{text} is named twice")).hint("name each member once");
            return Err(problem.at(field));
        }
        if is_missing(context, &path).await.map_err(|problem| problem.at(field))? {
            if wish.member_size.is_none() {
                let problem = Problem::bad_request(format!(
                    "{text} is not there, and nobody said how large it is to be"
                ));
                return Err(problem
                    .hint("give `member_size`, or a file or disk that is there")
                    .at("member_size"));
            }
            missing.push(text.clone());
        }
        taken.push(path);
    }
    Ok(if missing.is_empty() {
        Vec::new()
    } else {
        vec![format!("the next start makes {}", missing.join(", "))]
    })
}

/// Whether there is nothing at a path; refuses what may not be lost.
async fn is_missing(context: &Context, path: &FilePath) -> Result<bool, Problem> {
    let shown = path.display();
    match seen(context, path).await? {
        Seen::Missing if is_device(path) => Err(Problem::refused(format!("there is no device {shown}"))),
        Seen::Missing if !path.parent().is_some_and(FilePath::is_dir) => {
            Err(Problem::refused(format!("there is no directory for {shown}"))
                .hint("make it first, or correct the path"))
        }
        Seen::Missing => Ok(true),
        Seen::Blank { .. } => Ok(false),
        Seen::InUse => Err(Problem::refused(format!("{shown} is in use, here or by another process"))
            .hint("give another file or disk")),
        Seen::Member(seen) => {
            Err(Problem::refused(format!("{shown} is a member of the pool {}", seen.label.name))
                .hint("`fels pool import` says how that pool is opened again"))
        }
        Seen::Other(why) => Err(Problem::refused(format!("{shown} {why}"))
            .hint("give another one, or wipe it if nobody needs what is on it")),
    }
}
