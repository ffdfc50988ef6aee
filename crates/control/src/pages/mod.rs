//! The dashboard: pages for browsers, served beside the control API where that is served over TCP ([`crate::api`]).
//!
//! A page has no rights of its own. What it shows and what its forms do is asked of the API, in this process, with what the browser
//! sent (`asker`): there is one way to do a thing, one place that decides who may, and one audit log. `frame` is what is around a page,
//! `form` what is asked and answered, `parts` what many pages show, `live` what changes on a page that is open; a file each page.
//! How it looks, and why, is in `docs/concepts/dashboard.md`.

mod alerts;
mod asker;
mod assets;
mod audit;
mod events;
mod form;
mod frame;
mod graphs;
mod initiators;
mod lab;
mod live;
mod login;
mod notes;
mod overview;
mod parts;
mod pools;
mod settings;
mod volumes;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

use crate::api::people::model::Me;
use crate::api::{Problem, harden};
use asker::{Asker, segment};
use frame::Frame;
use notes::Notes;

/// Bytes of a form at most, but for that of the configuration.
const MAX_FORM_BYTES: usize = 64 << 10;
/// Pages that are kept up to date at once: each keeps a connection.
const MAX_STREAMS: usize = 16;

/// What a page may run and load: what this node serves, and nothing that stands in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What all pages work with.
#[derive(Clone)]
struct House {
    api: Router,
    notes: Notes,
    streams: Arc<Semaphore>,
}

/// The pages, and behind them the API.
pub(crate) fn router(api: Router) -> Router {
    let house = House { api, notes: Notes::default(), streams: Arc::new(Semaphore::new(MAX_STREAMS)) };
    let pages = routes().with_state::<()>(house.clone());
    let live = live::Live { house: house.clone(), pages: pages.clone() };
    let live = Router::new().route("/live", get(live::stream)).with_state(live);
    pages
        .merge(live)
        .layer(from_fn_with_state(house.clone(), dress))
        .fallback(move |request: Request| elsewhere(house, request))
}

fn routes() -> Router<House> {
    Router::new()
        .route("/", get(overview::show))
        .route("/login", get(login::ask).post(login::enter))
        .route("/logout", post(login::leave))
        .route("/setup", get(login::ask_first).post(login::enter_first))
        .merge(pools::routes())
        .merge(volumes::routes())
        .route("/initiators", get(initiators::list))
        .merge(alerts::routes())
        .route("/events", get(events::list))
        .merge(graphs::routes())
        .merge(lab::routes())
        .route("/audit", get(audit::list))
        .merge(settings::routes())
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .merge(settings::configuration::routes())
        .route("/assets/{name}", get(assets::serve))
}

/// A template as an answer.
fn page(template: &impl Template) -> Result<Response, Problem> {
    template.render().map(form::html).map_err(|error| {
        tracing::error!("a page cannot be made: {error}");
        broken()
    })
}

fn broken() -> Problem {
    Problem {
        kind: "urn:fels:page".to_owned(),
        title: "This page cannot be shown".to_owned(),
        status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
        detail: "the node cannot make this page".to_owned(),
        hint: Some("see the log of the node".to_owned()),
        fields: Box::default(),
    }
}

/// There is no such page.
fn nowhere() -> Problem {
    Problem {
        kind: "urn:fels:not-found".to_owned(),
        title: "There is no such page".to_owned(),
        status: StatusCode::NOT_FOUND.as_u16(),
        detail: "this node has no such page".to_owned(),
        hint: Some("begin at the overview".to_owned()),
        fields: Box::default(),
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    frame: Frame,
    problem: Problem,
}

/// Tells people what the API tells programs, and browsers what they may.
async fn dress(State(house): State<House>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let asker = Asker::of(&parts, house.api.clone());
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = told(&house, &asker, problem).await;
    }
    let policy = HeaderValue::from_static(POLICY);
    response.headers_mut().entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    // With `no-referrer` browsers would say of the node's own forms that they come from nowhere (`Origin: null`).
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    harden(asker.peer(), &mut response);
    response
}

/// What the pages do not have, the API has or nobody.
async fn elsewhere(house: House, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let asker = Asker::of(&parts, house.api.clone());
    let accepts = parts.headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    let is_browser = accepts.contains("text/html") && !asker.path.starts_with("/v1/");
    let answer = TowerToHyperService::new(house.api.clone()).call(Request::from_parts(parts, body)).await;
    let mut response = match answer {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let problem = if is_browser { response.extensions_mut().remove::<Problem>() } else { None };
    match problem {
        Some(problem) => {
            let mut response = told(&house, &asker, problem).await;
            harden(asker.peer(), &mut response);
            response
        }
        None => response,
    }
}

/// A problem as a page; who has not come in is led to where he can.
async fn told(house: &House, asker: &Asker, problem: Problem) -> Response {
    let me = asker.get::<Me>("/v1/me").await.ok();
    if problem.status == StatusCode::UNAUTHORIZED.as_u16() {
        // Nobody who may look all the same: there are no users.
        if me.is_some_and(|me| me.role.is_some()) {
            return Redirect::to("/setup").into_response();
        }
        if [Method::GET, Method::HEAD].contains(&asker.method) {
            return Redirect::to(&login::address(asker)).into_response();
        }
        let problem = Problem {
            title: "Your session has ended".to_owned(),
            detail: "nothing was done: you have to sign in again first".to_owned(),
            hint: Some(
                "sign in on another tab, and send this page again: what you typed is still in it".to_owned(),
            ),
            ..problem
        };
        return in_frame(Frame::bare(&problem.title), problem);
    }
    // With the way to all the rest, for who may see that.
    let frame = Frame::new(house, asker, None, &problem.title).await;
    in_frame(frame.unwrap_or_else(|_| Frame::bare(&problem.title)), problem)
}

fn in_frame(frame: Frame, problem: Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match (ProblemPage { frame, problem }).render() {
        Ok(text) => (status, form::html(text)).into_response(),
        Err(_) => status.into_response(),
    }
}

#[cfg(test)]
mod tests;
