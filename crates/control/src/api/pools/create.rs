//! A pool more, and a pool less. What it is to live on is looked at before anything is done: nobody's bytes are overwritten.

use std::path::{Path as FilePath, PathBuf};

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use plane::pool::Seen;

use super::super::model::{Changed, PoolEnd, PoolSettings, PoolWish, Quantity};
use super::super::wish::{Body, Names, version};
use super::super::{Context, Problem};
use super::members::{place, seen};
use crate::administration::{Edit, Request};
use crate::config::{Backing, Volume};
use crate::offline::is_device;

/// Makes a pool of blank members, writes it into the configuration, and opens it.
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
        let mut wish = wish;
        let mut steps = if wish.existing {
            as_it_is(&context, &mut wish.pool).await?
        } else {
            blanks(&context, &wish.pool).await?
        };
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

/// Closes a pool on which no volume is, and takes it out of the configuration. What is on its members stays.
#[utoipa::path(
    delete, path = "/v1/pools/{pool}", tag = "pools",
    params(("pool" = String, Path, description = "The name of the pool.")),
    request_body = Option<PoolEnd>,
    responses(
        (status = 200, body = Changed),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool."),
        (status = 409, body = Problem, description = "It has volumes."),
        (status = 412, body = Problem, description = "The configuration is another one by now."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn remove(
    State(context): State<Context>,
    headers: HeaderMap,
    Names(name): Names<String>,
    Body(wish): Body<PoolEnd>,
) -> Result<Json<Changed>, Problem> {
    let version = version(&headers, wish.version.as_deref())?;
    let node = context.clone();
    node.change(async move {
        context.pool(&name)?;
        in_use(&context, &name)?;
        let request = Request { edit: Edit::RemovePool { name }, version, dry_run: wish.dry_run };
        let outcome = context.administration().change(request).await?;
        let version = outcome.version.to_string();
        Ok(Changed { done: outcome.done, steps: outcome.steps, version, volume: None })
    })
    .await
}

/// A pool with volumes is needed, whether or not they are served now.
fn in_use(context: &Context, pool: &str) -> Result<(), Problem> {
    let state = context.administration().state();
    let on_it = |volume: &&Volume| volume.backing == Backing::Pool(pool.to_owned());
    let names: Vec<_> =
        state.document.config.volumes.iter().filter(on_it).map(|volume| volume.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let shown = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 5 { format!(" and {} more", names.len() - 5) } else { String::new() };
    Err(Problem::refused(format!("pool {pool} has volumes: {shown}{more}"))
        .hint("delete them first; `fels volume delete --keep-data` leaves their bytes on the pool"))
}

/// Takes what was not said of a pool that is there from its members; refuses those of none.
async fn as_it_is(context: &Context, wish: &mut PoolSettings) -> Result<Vec<String>, Problem> {
    let mut known = None;
    for text in &wish.members {
        let path = place(text).map_err(|problem| problem.at("members"))?;
        if let Seen::Member(seen) = seen(context, &path).await? {
            known = Some(seen.label);
        }
    }
    let label = known.ok_or_else(|| {
        Problem::refused("no pool is on these members")
            .hint(
                "leave `existing` (--existing) out, and it is made; `fels pool import` looks where pools are",
            )
            .at("members")
    })?;
    let geometry = &label.geometry;
    wish.raid.get_or_insert_with(|| geometry.level.to_string());
    wish.unit.get_or_insert(Quantity::Number(geometry.unit.into()));
    wish.integrity.get_or_insert(label.integrity);
    Ok(Vec::new())
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
    Ok(if missing.is_empty() { Vec::new() } else { vec![format!("make {}", missing.join(", "))] })
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
