//! All paths of the API, and the document that describes them.

use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler as _;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::access::Access;
use super::actor::{ADMIN, Least, NEAR, OPERATOR, OWN, VIEWER};
use super::guard::{Guard, guard};
use super::ways::{Ways, describe};
use super::wish::MAX_BODY_BYTES;
use super::{
    Context, House, Problem, activity, alerts, audit, configuration, events, graphs, initiators, jobs, lab,
    limits, metrics, model, people, pools, portals, status, volumes,
};

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
        pools::create::create,
        pools::create::remove,
        pools::scrub::start,
        pools::scrub::stop,
        pools::extend::extend,
        pools::members::offline,
        pools::members::online,
        pools::members::replace,
        pools::spares::add,
        pools::spares::remove,
        pools::grow::grow,
        volumes::list,
        volumes::create,
        volumes::one,
        volumes::change,
        volumes::delete,
        configuration::all,
        configuration::volume,
        configuration::replace,
        portals::list,
        status::look,
        metrics::text,
        activity::all,
        activity::time,
        graphs::list,
        graphs::data,
        graphs::picture,
        jobs::list,
        jobs::one,
        jobs::cancel,
        events::list,
        events::stream,
        alerts::list,
        limits::list,
        alerts::test,
        alerts::acknowledge,
        alerts::mute,
        alerts::unmute,
        initiators::list,
        lab::list,
        lab::one,
        people::login::login,
        people::login::logout,
        people::setup::look,
        people::setup::first,
        people::me,
        people::users::list,
        people::users::create,
        people::users::one,
        people::users::remove,
        people::users::password,
        people::users::role,
        people::tokens::all,
        people::tokens::list,
        people::tokens::create,
        people::tokens::revoke,
        audit::list,
        openapi
    ),
    components(schemas(Problem, model::Wish, model::MemberWish, model::FurtherWish)),
    tags(
        (name = "pools", description = "Pools and their members."),
        (name = "initiators", description = "Who uses the volumes."),
        (name = "volumes", description = "Volumes, and what they are wished to be."),
        (name = "configuration", description = "What the node is wished to be, as one document."),
        (name = "node", description = "The node as a whole."),
        (name = "graphs", description = "What was measured, for two years."),
        (name = "alerts", description = "What has crossed a limit, and who is told."),
        (name = "lab", description = "What the lab measured."),
        (name = "jobs", description = "What goes on in the background."),
        (name = "people", description = "Who may administer the node, and what they did."),
        (name = "about", description = "The API itself.")
    )
)]
pub struct ApiDocument;

/// The document.
pub fn document() -> Document {
    let mut document = ApiDocument::openapi();
    describe(&mut document, ways().list());
    document
}

/// Describes the API.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "about", responses((status = 200, description = "This document.")))]
async fn openapi() -> Json<Document> {
    Json(document())
}

/// Every way to ask, and who may come it.
pub(super) fn ways() -> Ways {
    Ways::default()
        .get("/v1/pools", VIEWER, pools::list)
        .post("/v1/pools", OPERATOR, pools::create::create)
        .get("/v1/pools/{pool}", VIEWER, pools::one)
        .delete("/v1/pools/{pool}", OPERATOR, pools::create::remove)
        .post("/v1/pools/{pool}/scrub", OPERATOR, pools::scrub::start)
        .delete("/v1/pools/{pool}/scrub", OPERATOR, pools::scrub::stop)
        .post("/v1/pools/{pool}/members", OPERATOR, pools::extend::extend)
        .post("/v1/pools/{pool}/members/{slot}/offline", OPERATOR, pools::members::offline)
        .post("/v1/pools/{pool}/members/{slot}/online", OPERATOR, pools::members::online)
        .post("/v1/pools/{pool}/members/{slot}/replace", OPERATOR, pools::members::replace)
        .post("/v1/pools/{pool}/spares", OPERATOR, pools::spares::add)
        .delete("/v1/pools/{pool}/spares/{id}", OPERATOR, pools::spares::remove)
        .post("/v1/pools/{pool}/grow", OPERATOR, pools::grow::grow)
        .get("/v1/volumes", VIEWER, volumes::list)
        .post("/v1/volumes", OPERATOR, volumes::create)
        .get("/v1/volumes/{volume}", VIEWER, volumes::one)
        .patch("/v1/volumes/{volume}", OPERATOR, volumes::change)
        .delete("/v1/volumes/{volume}", OPERATOR, volumes::delete)
        .get("/v1/configuration", VIEWER, configuration::all)
        .put(
            "/v1/configuration",
            ADMIN,
            configuration::replace.layer(DefaultBodyLimit::max(configuration::MAX_BYTES)),
        )
        .get("/v1/configuration/volumes/{volume}", VIEWER, configuration::volume)
        .get("/v1/portals", VIEWER, portals::list)
        .get("/v1/status", VIEWER, status::look)
        .get("/v1/volumes/{volume}/time", VIEWER, activity::time)
        .get("/v1/activity", VIEWER, activity::all)
        .get("/metrics", NEAR, metrics::text)
        .get("/v1/graphs", VIEWER, graphs::list)
        .get("/v1/graphs/{name}/{span}", VIEWER, graphs::data)
        .get("/graphs/{name}/{file}", VIEWER, graphs::picture)
        .get("/v1/jobs", VIEWER, jobs::list)
        .get("/v1/jobs/{job}", VIEWER, jobs::one)
        .delete("/v1/jobs/{job}", OPERATOR, jobs::cancel)
        .get("/v1/events", VIEWER, events::list)
        .get("/v1/events/stream", VIEWER, events::stream)
        .get("/v1/alerts", VIEWER, alerts::list)
        .get("/v1/alerts/limits", VIEWER, limits::list)
        .post("/v1/alerts/test", OPERATOR, alerts::test)
        .post("/v1/alerts/{alert}/ack", OPERATOR, alerts::acknowledge)
        .post("/v1/alerts/{alert}/mute", OPERATOR, alerts::mute)
        .post("/v1/alerts/{alert}/unmute", OPERATOR, alerts::unmute)
        .get("/v1/initiators", VIEWER, initiators::list)
        .get("/v1/lab", VIEWER, lab::list)
        .get("/v1/lab/{report}", VIEWER, lab::one)
        .post("/v1/login", Least::Anybody, people::login::login)
        .post("/v1/logout", VIEWER, people::login::logout)
        .get("/v1/setup", Least::Anybody, people::setup::look)
        .post("/v1/setup", Least::Anybody, people::setup::first)
        .get("/v1/me", VIEWER, people::me)
        .get("/v1/users", ADMIN, people::users::list)
        .post("/v1/users", ADMIN, people::users::create)
        .get("/v1/users/{user}", OWN, people::users::one)
        .delete("/v1/users/{user}", ADMIN, people::users::remove)
        .post("/v1/users/{user}/password", OWN, people::users::password)
        .post("/v1/users/{user}/role", ADMIN, people::users::role)
        .get("/v1/tokens", ADMIN, people::tokens::all)
        .get("/v1/users/{user}/tokens", OWN, people::tokens::list)
        .post("/v1/users/{user}/tokens", OWN, people::tokens::create)
        .delete("/v1/users/{user}/tokens/{token}", OWN, people::tokens::revoke)
        .get("/v1/audit", ADMIN, audit::list)
        .get("/v1/openapi.json", VIEWER, openapi)
}

/// Everything that can be asked of a node, by those who may. A listener says who is at the other end: it gives each request
/// a [`super::Peer`], without which everything is refused.
pub fn router(context: Context, access: Access) -> Router {
    let (router, table) = ways().into_parts();
    let at_the_door = Guard { access: access.clone(), table, jobs: context.jobs().clone() };
    router
        .fallback(|| async {
            Problem::not_found("this node has no such path").hint("/v1/openapi.json lists all of them")
        })
        .method_not_allowed_fallback(|| async {
            Problem::method("this path does not take that method")
                .hint("/v1/openapi.json says which ones it takes")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(at_the_door, guard))
        .layer(from_fn(in_time))
        .with_state(House { context, access })
}

/// Nobody waits for ever.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(DEADLINE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::late(format!("not done within {} seconds", DEADLINE.as_secs())).into_response(),
    }
}
