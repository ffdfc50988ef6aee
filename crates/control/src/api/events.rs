//! What happened: as a list, and as a stream that goes on.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::channel::{Channel, Sender};
use hyper::body::Bytes;
use monitor::event::{Event, Severity};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Problem;
use crate::events::{Events, Listener, Record};

/// Events that are told without a wish.
const USUAL: usize = 100;
/// Events that are told at most.
const MOST: usize = 1000;
/// Events that a stream takes at once.
const AT_ONCE: usize = 100;
/// Pieces of a stream that wait for the one who listens.
const MAX_WAITING: usize = 4;
/// How long a stream is silent at most: less than what is in between gives up on.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a stream lasts: who listens comes again by himself, and shows anew that he may.
const LASTS: Duration = Duration::from_secs(15 * 60);
/// From which event on a stream that broke is to go on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Which events.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// How many at most: 1 to 1000, or 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only those with an `id` below this one.
    before: Option<u64>,
    /// Only those of this name, such as `member-faulted`.
    event: Option<String>,
    /// Only those that are as bad at least: `info`, `warning` or `critical`.
    severity: Option<String>,
    /// Only those of this pool.
    pool: Option<String>,
    /// Only those of this volume.
    volume: Option<String>,
    /// Only those that have this in their name, their sentence or one of their fields, however it is spelt.
    text: Option<String>,
}

/// Which events a stream has, and from where on.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    /// Only those with an `id` above this one; the header `Last-Event-ID` says the same. Without either only new ones.
    after: Option<u64>,
    /// Only those of this name, such as `member-faulted`.
    event: Option<String>,
    /// Only those that are as bad at least: `info`, `warning` or `critical`.
    severity: Option<String>,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Happened {
    /// The newest first.
    pub events: Vec<Record>,
}

/// Which events somebody wants.
#[derive(Clone, Debug, Default)]
struct Filter {
    event: Option<String>,
    severity: Option<Severity>,
    fields: Vec<(&'static str, String)>,
    /// In lower case.
    text: Option<String>,
}

impl Filter {
    fn new(event: Option<String>, severity: Option<&str>) -> Result<Filter, Problem> {
        let severity = severity.map(str::parse).transpose();
        let severity = severity.map_err(|error: monitor::event::NoSeverity| wrong(error.to_string()))?;
        if let Some(name) = &event
            && !Event::ALL.iter().any(|(known, _)| known == name)
        {
            let shown: String = name.chars().take(64).collect();
            return Err(Problem::bad_request(format!("there is no event `{shown}`"))
                .hint("docs/formats/events.md has all of them"));
        }
        Ok(Filter { event, severity, ..Filter::default() })
    }

    fn wants(&self, record: &Record) -> bool {
        let is = |(field, wanted): &(&str, String)| {
            record.fields.get(*field).and_then(|value| value.as_str()) == Some(wanted)
        };
        self.event.as_ref().is_none_or(|name| *name == record.event)
            && self.severity.is_none_or(|least| record.severity() >= least)
            && self.fields.iter().all(is)
            && self.text.as_ref().is_none_or(|text| has(record, text))
    }
}

/// Whether an event has a text somewhere that people read.
fn has(record: &Record, text: &str) -> bool {
    let fields = record.fields.values().filter_map(|value| value.as_str());
    let mut read = [record.event.as_str(), record.sentence.as_str()].into_iter().chain(fields);
    read.any(|words| words.to_lowercase().contains(text))
}

fn wrong(why: String) -> Problem {
    Problem::bad_request(why).hint(format!(
        "`limit` takes 1 to {MOST}, `before` and `after` the id of an event, `severity` info, warning or critical"
    ))
}

fn unreadable(error: &std::io::Error) -> Problem {
    Problem::unavailable(format!("the event log cannot be read: {error}")).hint("see the log of the node")
}

/// Lists what happened to the node, the newest first.
#[utoipa::path(
    get, path = "/v1/events", tag = "node", params(Which),
    responses(
        (status = 200, body = Happened),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 503, body = Problem, description = "The log cannot be read.")
    )
)]
pub(super) async fn list(
    State(events): State<Events>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Happened>, Problem> {
    let Query(which) = which.map_err(|rejection| wrong(rejection.body_text()))?;
    let limit = which.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(wrong(format!("nobody can be told {limit} events at once")));
    }
    let mut filter = Filter::new(which.event, which.severity.as_deref())?;
    filter.fields.extend(which.pool.map(|pool| ("pool", pool)));
    filter.fields.extend(which.volume.map(|volume| ("volume", volume)));
    filter.text = which.text.map(|text| text.to_lowercase());
    let read = move || events.read(limit, which.before, |record| filter.wants(record));
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    Ok(Json(Happened { events: read.map_err(|error| unreadable(&error))? }))
}

/// Tells what happens from now on, as server-sent events: `id`, and the event as JSON in `data`.
#[utoipa::path(
    get, path = "/v1/events/stream", tag = "node",
    params(From, ("Last-Event-ID" = Option<u64>, Header, description = "As `after`.")),
    responses(
        (status = 200, content_type = "text/event-stream", body = Object, description = "Events, for as long as both sides want: `id`, and the event as JSON in `data`."),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 503, body = Problem, description = "Too many listen already, or the node ends.")
    )
)]
pub(super) async fn stream(
    State(events): State<Events>,
    headers: HeaderMap,
    from: Result<Query<From>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(from) = from.map_err(|rejection| wrong(rejection.body_text()))?;
    let filter = Filter::new(from.event, from.severity.as_deref())?;
    let last = headers.get(LAST_EVENT_ID).map(|value| value.to_str().ok().and_then(|id| id.parse().ok()));
    let last = match last {
        Some(None) => return Err(wrong("`Last-Event-ID` is no id of an event".to_owned())),
        last => last.flatten(),
    };
    let listener = events.listen().ok_or_else(|| {
        Problem::unavailable("too many listen to events already, or the node ends")
            .hint("close what listens and is not needed; or ask for the list")
    })?;
    let after = last.or(from.after).unwrap_or_else(|| listener.newest());
    let (sender, body) = Channel::<Bytes, Infallible>::new(MAX_WAITING);
    tokio::spawn(send(events, listener, filter, after, sender));
    // A connection that idles after its stream would hold up the end of the node.
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CONNECTION, "close")];
    Ok((head, Body::new(body)).into_response())
}

/// Sends events until the one who listens goes, or comes to his time, or the node ends. Who reads slowly is waited for, and gets what he missed
/// from the log: nothing is kept for him.
async fn send(
    events: Events,
    mut listener: Listener,
    filter: Filter,
    mut after: u64,
    mut sender: Sender<Bytes>,
) {
    let end = tokio::time::sleep(LASTS);
    tokio::pin!(end);
    // What is there at once tells a browser that it is connected.
    let mut text = ": fels\n\n".to_owned();
    loop {
        if !text.is_empty() && sender.send_data(Bytes::from(std::mem::take(&mut text))).await.is_err() {
            return;
        }
        let (told, read) = (events.clone(), after);
        let read = tokio::task::spawn_blocking(move || told.after(read, AT_ONCE)).await;
        let Ok(Ok(news)) = read else { return };
        if let Some(newest) = news.last() {
            after = newest.id;
            news.iter().filter(|record| filter.wants(record)).for_each(|record| add(&mut text, record));
            continue;
        }
        tokio::select! {
            () = listener.wait(after) => if listener.has_to_go() { return },
            () = tokio::time::sleep(HEARTBEAT) => text.push_str(": alive\n\n"),
            () = &mut end => return,
        }
    }
}

fn add(text: &mut String, record: &Arc<Record>) {
    let Ok(data) = serde_json::to_string(&**record) else { return };
    // Writing to a String does not fail.
    let _ = write!(text, "id: {}\ndata: {data}\n\n", record.id);
}
