//! Volumes: what they are wished to be, and making it so.

use std::collections::HashMap;
use std::path::{Component, Path};

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;

use super::model::{
    BackingWish, Changed, Volume, VolumeChange, VolumeEnd, VolumeLimits, VolumeSettings, VolumeState,
    VolumeWish, Volumes,
};
use super::wish::{Body, Names, version};
use super::{Actor, Context, Problem};
use crate::administration::{Edit, Request, State as Wished};
use crate::config::{Backing, Volume as Configured};
use crate::diff::{Step, diff};
use crate::people::Role;
use crate::store::document::Settings;

/// Lists all volumes.
#[utoipa::path(get, path = "/v1/volumes", tag = "volumes", responses((status = 200, body = Volumes)))]
pub(super) async fn list(State(context): State<Context>) -> Json<Volumes> {
    let state = context.administration().state();
    Json(Volumes { volumes: all(&context, &state), version: state.document.version.to_string() })
}

/// Tells how a volume is.
#[utoipa::path(
    get, path = "/v1/volumes/{volume}", tag = "volumes",
    params(("volume" = String, Path, description = "The name of the volume.")),
    responses(
        (status = 200, body = Volume),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such volume.")
    )
)]
pub(super) async fn one(
    State(context): State<Context>,
    Names(name): Names<String>,
) -> Result<Json<Volume>, Problem> {
    let state = context.administration().state();
    find(&context, &state, &name).map(Json).ok_or_else(|| missing(&state, &name))
}

/// Makes a volume, and serves it.
#[utoipa::path(
    post, path = "/v1/volumes", tag = "volumes",
    request_body = VolumeWish,
    responses(
        (status = 200, body = Changed),
        (status = 400, body = Problem, description = "The request is not understood, or a field is wrong."),
        (status = 404, body = Problem, description = "There is no such thing."),
        (status = 409, body = Problem, description = "It is there already, or cannot be made."),
        (status = 412, body = Problem, description = "The configuration is another one by now."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(super) async fn create(
    State(context): State<Context>,
    Extension(actor): Extension<Actor>,
    headers: HeaderMap,
    Body(wish): Body<VolumeWish>,
) -> Result<Json<Changed>, Problem> {
    let version = version(&headers, wish.version.as_deref())?;
    let Some(name) = wish.volume.name.clone() else {
        return Err(Problem::bad_request("the volume has no name").hint("give `volume.name`"));
    };
    check_reach(&actor, &wish.volume)?;
    let settings = settings(&with_place(&context, wish.volume)?)?;
    let edit = Edit::Create { settings, existing: wish.existing };
    make(context, name, Request { edit, version, dry_run: wish.dry_run }).await
}

/// Changes a volume in use: its size, who may use it, whether it is served.
#[utoipa::path(
    patch, path = "/v1/volumes/{volume}", tag = "volumes",
    params(("volume" = String, Path, description = "The name of the volume.")),
    request_body = VolumeChange,
    responses(
        (status = 200, body = Changed),
        (status = 400, body = Problem, description = "The request is not understood, or a field is wrong."),
        (status = 404, body = Problem, description = "There is no such volume."),
        (status = 409, body = Problem, description = "It cannot be so."),
        (status = 412, body = Problem, description = "The configuration is another one by now."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(super) async fn change(
    State(context): State<Context>,
    Extension(actor): Extension<Actor>,
    Names(name): Names<String>,
    headers: HeaderMap,
    Body(wish): Body<VolumeChange>,
) -> Result<Json<Changed>, Problem> {
    let version = version(&headers, wish.version.as_deref())?;
    if wish.set.name.as_ref().is_some_and(|other| *other != name)
        || wish.unset.iter().any(|key| key == "name")
    {
        return Err(Problem::refused("the name of a volume cannot be changed: its identity follows from it")
            .hint("delete it with `keep_data`, and create one of another name with `existing`"));
    }
    check_known(&context, &name)?;
    check_reach(&actor, &wish.set)?;
    let edit = Edit::Change { name: name.clone(), set: settings(&wish.set)?, unset: wish.unset };
    make(context, name, Request { edit, version, dry_run: wish.dry_run }).await
}

/// Takes a volume out of service and destroys its bytes, unless they are to be kept.
#[utoipa::path(
    delete, path = "/v1/volumes/{volume}", tag = "volumes",
    params(("volume" = String, Path, description = "The name of the volume.")),
    request_body = Option<VolumeEnd>,
    responses(
        (status = 200, body = Changed),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such volume."),
        (status = 409, body = Problem, description = "It cannot be done now."),
        (status = 412, body = Problem, description = "The configuration is another one by now."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(super) async fn delete(
    State(context): State<Context>,
    Names(name): Names<String>,
    headers: HeaderMap,
    Body(wish): Body<VolumeEnd>,
) -> Result<Json<Changed>, Problem> {
    let version = version(&headers, wish.version.as_deref())?;
    check_known(&context, &name)?;
    let edit = Edit::Delete { name: name.clone(), keep_data: wish.keep_data };
    make(context, name, Request { edit, version, dry_run: wish.dry_run }).await
}

async fn make(context: Context, name: String, request: Request) -> Result<Json<Changed>, Problem> {
    let node = context.clone();
    node.change(async move {
        let outcome = context.administration().change(request).await.map_err(|error| {
            let problem = Problem::from(error);
            let prefix = format!("volume.{name}.");
            of_section(problem, &prefix)
        })?;
        let state = context.administration().state();
        Ok(Changed {
            done: outcome.done,
            steps: outcome.steps,
            version: outcome.version.to_string(),
            volume: find(&context, &state, &name),
        })
    })
    .await
}

/// Fields by the names that they have in the wish. Lines are of a text that nobody has seen.
pub(super) fn of_section(mut problem: Problem, prefix: &str) -> Problem {
    for wrong in &mut problem.fields {
        wrong.line = None;
        if let Some(field) = wrong.field.as_ref().and_then(|field| field.strip_prefix(prefix)) {
            wrong.field = Some(field.to_owned());
        }
    }
    problem
}

/// Who may change volumes may not read, by way of a volume, every file and disk that the node can.
fn check_reach(actor: &Actor, wish: &VolumeSettings) -> Result<(), Problem> {
    let inside =
        |file: &String| Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    let backing = wish.backing.as_ref();
    let reaches_out = backing.is_some_and(|backing| {
        backing.device.is_some() || backing.file.as_ref().is_some_and(|file| !inside(file))
    });
    let users = wish.chap.iter().flatten().chain(&wish.chap_mutual);
    let reads_files = users.into_iter().any(|user| user.secret_file.is_some());
    if actor.role == Some(Role::Admin) || !(reaches_out || reads_files) {
        return Ok(());
    }
    Err(Problem::forbidden(
        "devices, files outside of the data directory and files of secrets are for admins",
    )
    .hint("take a pool or a file in the data directory, and `secret` for CHAP; or ask an admin"))
}

fn check_known(context: &Context, name: &str) -> Result<(), Problem> {
    let state = context.administration().state();
    let is_known = state.document.config.volumes.iter().any(|volume| volume.name == *name);
    if is_known { Ok(()) } else { Err(missing(&state, name)) }
}

/// Why a volume is not found among those that are served.
pub(super) fn not_served(context: &Context, name: &str) -> Problem {
    match check_known(context, name) {
        Ok(()) => Problem::not_found(format!("volume {name} is not served"))
            .hint(format!("`fels volume show {name}` says why")),
        Err(problem) => problem,
    }
}

fn missing(state: &Wished, name: &str) -> Problem {
    let shown: String = name.chars().take(64).collect();
    let names: Vec<_> =
        state.document.config.volumes.iter().take(16).map(|volume| volume.name.as_str()).collect();
    let problem = Problem::not_found(format!("this node has no volume {shown}"));
    if names.is_empty() {
        return problem.hint("it has none: `fels volume create` makes one");
    }
    problem.hint(format!("it has {}", names.join(", ")))
}

/// Where a volume lives of which nobody said it: on the only pool, or in a file of its name.
fn with_place(context: &Context, wish: VolumeSettings) -> Result<VolumeSettings, Problem> {
    if wish.backing.is_some() || wish.pool.is_some() {
        return Ok(wish);
    }
    let state = context.administration().state();
    match &state.running.pools[..] {
        [] => {
            let file = wish.name.as_ref().map(|name| format!("{name}.img"));
            Ok(VolumeSettings { backing: Some(BackingWish { file, ..BackingWish::default() }), ..wish })
        }
        [pool] => Ok(VolumeSettings { pool: Some(pool.name.clone()), ..wish }),
        pools => {
            let names: Vec<_> = pools.iter().map(|pool| pool.name.as_str()).collect();
            Err(Problem::bad_request("nobody said on which pool the volume is to live")
                .hint(format!("give `pool`: {}; or `backing`", names.join(", "))))
        }
    }
}

fn settings(wish: &VolumeSettings) -> Result<Settings, Problem> {
    match serde_json::to_value(wish) {
        Ok(serde_json::Value::Object(settings)) => Ok(settings),
        _ => Err(Problem::bad_request("the keys of the volume cannot be read")),
    }
}

/// All volumes that are wished, and those that are served all the same.
fn all(context: &Context, state: &Wished) -> Vec<Volume> {
    let wished = state.wished().volumes;
    let running = &state.running.volumes;
    let named_wished: HashMap<_, _> = wished.iter().map(|volume| (&volume.name, volume)).collect();
    let named_running: HashMap<_, _> = running.iter().map(|volume| (&volume.name, volume)).collect();
    let left = running.iter().filter(|volume| !named_wished.contains_key(&volume.name));
    let steps = diff(&state.running, &state.document.config).unwrap_or_default();
    let is_so = |volume: &Configured| {
        let name = &volume.name;
        named_wished.contains_key(name) && named_running.get(name).is_some_and(|runs| *runs == volume)
    };
    wished.iter().chain(left).map(|volume| view(context, state, &steps, volume, is_so(volume))).collect()
}

fn find(context: &Context, state: &Wished, name: &str) -> Option<Volume> {
    let named = |volumes: &'_ [Configured]| volumes.iter().find(|volume| volume.name == name).cloned();
    let (wished, runs) = (named(&state.wished().volumes), named(&state.running.volumes));
    let is_so = wished.is_some() && wished == runs;
    let steps = diff(&state.running, &state.document.config).unwrap_or_default();
    Some(view(context, state, &steps, &wished.or(runs)?, is_so))
}

/// A volume as it is told. `is_so`: what runs is what is wished.
fn view(context: &Context, state: &Wished, steps: &[Step], volume: &Configured, is_so: bool) -> Volume {
    let name = &volume.name;
    let waits =
        steps.iter().find(|step| matches!(step, Step::Later { volume: Some(about), .. } if about == name));
    let note = state.undone.get(name).cloned().or_else(|| waits.map(Step::sentence));
    let (backing, place) = match &volume.backing {
        Backing::File(path) => ("file", Some(context.told_path(path))),
        Backing::Device(path) => ("device", Some(path.display().to_string())),
        Backing::Pool(name) => ("pool", Some(name.clone())),
        Backing::Memory => ("memory", None),
        Backing::Null => ("null", None),
    };
    Volume {
        name: name.clone(),
        id: context.administration().volume_id(name).to_string(),
        size_bytes: volume.size_bytes,
        block_size: volume.block_size,
        backing: backing.to_owned(),
        place,
        state: match (is_so, volume.enabled) {
            (true, true) => VolumeState::Serving,
            (true, false) => VolumeState::Disabled,
            (false, _) => VolumeState::Waiting,
        },
        note,
        limits: VolumeLimits { iops: volume.limits.iops, bytes_per_s: volume.limits.bytes_per_second },
        alias: volume.alias.clone(),
        target: volume.target_name(),
        chap_users: volume.chap.iter().map(|user| user.user.clone()).collect(),
        allow: volume.allow.clone(),
        nbd: volume.nbd,
        subsystem: volume.nvme.is_offered.then(|| volume.nvme.subsystem_nqn()),
        nsid: volume.nvme.nsid.filter(|_| volume.nvme.is_offered && volume.enabled),
        hosts: volume.nvme.hosts.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Peer, Who};
    use super::*;
    use serde_json::json;

    #[test]
    fn only_admins_reach_beyond_pools_and_the_data_directory() {
        let may = |role, wish: serde_json::Value| {
            let actor = Actor { who: Who::Nobody, from: Peer::Local { uid: 0 }, role: Some(role) };
            check_reach(&actor, &serde_json::from_value(wish).unwrap()).is_ok()
        };
        for inside in [
            json!({ "pool": "tank" }),
            json!({ "backing": { "file": "images/a.img" } }),
            json!({ "backing": { "memory": true } }),
            json!({ "chap": [{ "user": "u", "secret": "s" }] }),
        ] {
            assert!(may(Role::Operator, inside));
        }
        for outside in [
            json!({ "backing": { "file": "/etc/shadow" } }),
            json!({ "backing": { "file": "a/../../b.img" } }),
            json!({ "backing": { "device": "/dev/sda" } }),
            json!({ "chap": [{ "user": "u", "secret_file": "/etc/shadow" }] }),
            json!({ "chap_mutual": { "user": "u", "secret_file": "/etc/shadow" } }),
        ] {
            assert!(!may(Role::Operator, outside.clone()) && may(Role::Admin, outside));
        }
    }
}
