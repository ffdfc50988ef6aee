//! What changes on a page that is open: the parts of it that say so, as server-sent events. The page is made again as whoever looks at
//! it would get it, and what differs is sent; so who may not look any more is sent nothing.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRef, Query, State};
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::channel::{Channel, Sender};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::json;

use super::House;
use super::asker::Asker;
use crate::api::Problem;

/// How often a page is looked at.
const PERIOD: Duration = Duration::from_secs(2);
/// Bytes of a page at most.
const MAX_PAGE_BYTES: usize = 4 << 20;
/// Bytes of the address of a page at most.
const MAX_PATH: usize = 512;

/// What streams work with.
#[derive(Clone)]
pub(super) struct Live {
    pub house: House,
    pub pages: Router,
}

impl FromRef<Live> for House {
    fn from_ref(live: &Live) -> House {
        live.house.clone()
    }
}

/// Which page.
#[derive(Deserialize)]
pub(super) struct Which {
    page: String,
}

/// Sends the parts of a page that change, for as long as somebody looks.
pub(super) async fn stream(
    State(live): State<Live>,
    asker: LiveAsker,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Response, Problem> {
    let LiveAsker(asker) = asker;
    if asker.me().await?.is_none() {
        return Ok(StatusCode::UNAUTHORIZED.into_response());
    }
    let path = which.map(|Query(which)| which.page).unwrap_or_default();
    // Streams of streams would never end.
    if !path.starts_with('/') || path.len() > MAX_PATH || path.starts_with("/live") {
        return Ok(StatusCode::NOT_FOUND.into_response());
    }
    let Ok(permit) = live.house.streams.clone().try_acquire_owned() else {
        return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
    };
    let (sender, body) = Channel::<Bytes, Infallible>::new(2);
    tokio::spawn(async move {
        let _permit = permit;
        follow(&live.pages, &asker, &path, sender).await;
    });
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::new(body)).into_response())
}

/// Who asks for a stream.
pub(super) struct LiveAsker(Asker);

impl axum::extract::FromRequestParts<Live> for LiveAsker {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        live: &Live,
    ) -> Result<LiveAsker, Infallible> {
        Ok(LiveAsker(Asker::of(parts, live.house.api.clone())))
    }
}

async fn follow(pages: &Router, asker: &Asker, path: &str, mut sender: Sender<Bytes>) {
    let mut known: HashMap<String, String> = HashMap::new();
    loop {
        let Some(page) = look(pages, asker, path).await else {
            // Who has gone, or may not look any more: the page says so by itself when it is asked for again.
            let _ = sender.send_data(Bytes::from_static(b"event: end\ndata: {}\n\n")).await;
            return;
        };
        let mut events = String::new();
        for (id, html) in parts(&page) {
            if known.get(id).is_none_or(|before| before != html) {
                events.push_str(&event(id, html));
                known.insert(id.to_owned(), html.to_owned());
            }
        }
        // Said all the same, so that who has gone is noticed, and others have his place.
        if events.is_empty() {
            events.push_str(": nothing new\n\n");
        }
        if sender.send_data(Bytes::from(events)).await.is_err() {
            return;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// A part of a page, as an event. JSON has no line feeds.
fn event(id: &str, html: &str) -> String {
    format!("event: part\ndata: {}\n\n", json!({ "id": id, "html": html }))
}

/// The page as it is now, if he may see it.
async fn look(pages: &Router, asker: &Asker, path: &str) -> Option<String> {
    let request: Request<Body> = asker.request(Method::GET, path, None).ok()?;
    let response = match TowerToHyperService::new(pages.clone()).call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    if response.status() != StatusCode::OK {
        return None;
    }
    let bytes = to_bytes(response.into_body(), MAX_PAGE_BYTES).await.ok()?;
    String::from_utf8(bytes.into()).ok()
}

/// The parts of a page that change: between `<!--live NAME-->` and `<!--/live-->`. No text of anybody else has these marks: it is escaped.
fn parts(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("<!--live ").skip(1).filter_map(|rest| {
        let (id, rest) = rest.split_once("-->")?;
        let (html, _) = rest.split_once("<!--/live-->")?;
        Some((id, html))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_page_are_found_by_their_marks() {
        let page =
            "<p>x</p><!--live a--><b>1</b>\n<!--/live--><i></i><!--live b-->2<!--/live--><!--live c-->";
        assert_eq!(parts(page).collect::<Vec<_>>(), [("a", "<b>1</b>\n"), ("b", "2")]);
    }

    #[test]
    fn an_event_is_one_line_whatever_the_part_has() {
        let event = event("a", "1\n\n2\r\"</script>");
        assert_eq!(event.matches('\n').count(), 3, "{event}");
        assert!(event.ends_with("\n\n") && !event.contains('\r'));
    }
}
