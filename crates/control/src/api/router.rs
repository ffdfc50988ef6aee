//! All paths of the API, and the document that describes them.

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::wish::MAX_BODY_BYTES;
use super::{Context, Problem, jobs, model, pools};

/// How long a request may take: longer than a member may be silent before it is out.
const DEADLINE: Duration = Duration::from_secs(45);

/// The description of the API (OpenAPI 3.1), derived from the code that answers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Fels",
        description = "The control API of a Fels node. Errors are problem details (RFC 9457) with a hint.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    paths(
        pools::list,
        pools::one,
        pools::scrub::start,
        pools::scrub::stop,
        pools::members::offline,
        pools::members::online,
        pools::members::replace,
        pools::spares::add,
        pools::spares::remove,
        pools::grow::grow,
        jobs::list,
        openapi
    ),
    components(schemas(Problem, model::Wish, model::MemberWish)),
    tags(
        (name = "pools", description = "Pools and their members."),
        (name = "jobs", description = "What goes on in the background."),
        (name = "about", description = "The API itself.")
    )
)]
pub struct ApiDocument;

/// The document.
pub fn document() -> Document {
    ApiDocument::openapi()
}

/// Describes the API.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "about", responses((status = 200, description = "This document.")))]
async fn openapi() -> Json<Document> {
    Json(document())
}

/// Everything that can be asked of a node. Who may ask is for the listener to say.
pub fn router(context: Context) -> Router {
    Router::new()
        .route("/v1/pools", get(pools::list))
        .route("/v1/pools/{pool}", get(pools::one))
        .route("/v1/pools/{pool}/scrub", post(pools::scrub::start).delete(pools::scrub::stop))
        .route("/v1/pools/{pool}/members/{slot}/offline", post(pools::members::offline))
        .route("/v1/pools/{pool}/members/{slot}/online", post(pools::members::online))
        .route("/v1/pools/{pool}/members/{slot}/replace", post(pools::members::replace))
        .route("/v1/pools/{pool}/spares", post(pools::spares::add))
        .route("/v1/pools/{pool}/spares/{id}", delete(pools::spares::remove))
        .route("/v1/pools/{pool}/grow", post(pools::grow::grow))
        .route("/v1/jobs", get(jobs::list))
        .route("/v1/openapi.json", get(openapi))
        .fallback(|| async {
            Problem::not_found("this node has no such path").hint("/v1/openapi.json lists all of them")
        })
        .method_not_allowed_fallback(|| async {
            Problem::method("this path does not take that method")
                .hint("/v1/openapi.json says which ones it takes")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn(in_time))
        .with_state(context)
}

/// Nobody waits for ever.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::late(format!("not done within {} seconds", DEADLINE.as_secs())).into_response(),
    }
}
