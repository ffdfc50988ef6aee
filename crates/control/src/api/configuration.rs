//! The configuration as one document: read, compared, replaced.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::model::{Changed, ConfigurationText, ConfigurationWish};
use super::wish::{Asked, Body, Names, version};
use super::{Context, Peer, Problem};
use crate::administration::{Edit, Request, State as Wished};
use crate::config::{MAX_FILE_BYTES, without_secrets};
use crate::store::document::Document as Editor;

/// Bytes of a configuration in JSON at most: those of the file, most of them as they are.
pub(super) const MAX_BYTES: usize = 2 * MAX_FILE_BYTES as usize;

/// How a configuration is to be told.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// With all secrets: only on the socket of the node.
    #[serde(default)]
    secrets: bool,
}

/// Tells the configuration: as JSON, or as the text alone with `Accept: application/toml`.
#[utoipa::path(
    get, path = "/v1/configuration", tag = "configuration",
    params(How),
    responses(
        (status = 200, content((ConfigurationText = "application/json"), (String = "application/toml")),
            headers(("etag" = String, description = "The version."))),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 403, body = Problem, description = "Secrets are told on the socket of the node only.")
    )
)]
pub(super) async fn all(
    State(context): State<Context>,
    Asked(how): Asked<How>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let state = context.administration().state();
    let text = state.document.text.clone();
    answer(&context, &state, text, how, is_local(peer), &headers)
}

/// Tells the part of the configuration that makes a volume.
#[utoipa::path(
    get, path = "/v1/configuration/volumes/{volume}", tag = "configuration",
    params(("volume" = String, Path, description = "The name of the volume."), How),
    responses(
        (status = 200, content((ConfigurationText = "application/json"), (String = "application/toml")),
            headers(("etag" = String, description = "The version of the whole."))),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 403, body = Problem, description = "Secrets are told on the socket of the node only."),
        (status = 404, body = Problem, description = "There is no such volume.")
    )
)]
pub(super) async fn volume(
    State(context): State<Context>,
    Names(name): Names<String>,
    Asked(how): Asked<How>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let state = context.administration().state();
    let alone = Editor::parse(&state.document.text).ok().and_then(|editor| editor.volume_alone(&name));
    let Some(text) = alone else {
        let shown: String = name.chars().take(64).collect();
        return Err(
            Problem::not_found(format!("this node has no volume {shown}")).hint("/v1/volumes lists them")
        );
    };
    answer(&context, &state, text, how, is_local(peer), &headers)
}

/// Replaces the configuration, and makes the node what it says.
///
/// Volumes that are new in it are served, others altered in use, and those that it does not have any more are taken out of service; their
/// bytes stay. What needs a start of the node is said.
#[utoipa::path(
    put, path = "/v1/configuration", tag = "configuration",
    request_body = ConfigurationWish,
    responses(
        (status = 200, body = Changed),
        (status = 400, body = Problem, description = "The request is not understood, or the configuration is wrong."),
        (status = 404, body = Problem, description = "There is no such thing."),
        (status = 409, body = Problem, description = "It cannot be so."),
        (status = 412, body = Problem, description = "The configuration is another one by now."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(super) async fn replace(
    State(context): State<Context>,
    headers: HeaderMap,
    Body(wish): Body<ConfigurationWish, MAX_BYTES>,
) -> Result<Json<Changed>, Problem> {
    let version = version(&headers, wish.version.as_deref())?;
    let Some(text) = wish.text else {
        return Err(Problem::bad_request("there is no configuration in it").hint("give `text`, in TOML"));
    };
    let request = Request { edit: Edit::Whole(text), version, dry_run: wish.dry_run };
    let node = context.clone();
    node.change(async move {
        let outcome = context.administration().change(request).await?;
        let version = outcome.version.to_string();
        Ok(Changed { done: outcome.done, steps: outcome.steps, version, volume: None })
    })
    .await
}

/// Whether it is the user of the node, or root, on its socket: others do not get in there.
fn is_local(peer: Peer) -> bool {
    matches!(peer, Peer::Local { .. })
}

fn answer(
    context: &Context,
    state: &Wished,
    text: String,
    how: How,
    is_local: bool,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    if how.secrets && !is_local {
        return Err(Problem::forbidden("secrets are told on the socket of the node only")
            .hint("run `fels dump --secrets` on the node, as its user or as root"));
    }
    let text = if how.secrets { text } else { without_secrets(&text) };
    let version = state.document.version.to_string();
    let tag = [(header::ETAG, format!("\"{version}\""))];
    let wants_text = headers
        .get(header::ACCEPT)
        .and_then(|kinds| kinds.to_str().ok())
        .is_some_and(|kinds| kinds.contains("application/toml") || kinds.contains("text/"));
    if wants_text {
        return Ok((tag, [(header::CONTENT_TYPE, "application/toml")], text).into_response());
    }
    let path = context.told_path(context.administration().store().path());
    Ok((tag, Json(ConfigurationText { text, version, path })).into_response())
}
