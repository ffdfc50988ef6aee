//! The audit log: who changed what.

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::asker::Asker;
use super::frame::{Frame, Place};
use super::parts::{Kind, State as Shape};
use super::{House, page};
use crate::api::{Entries, Problem};
use crate::audit::Entry;

/// Entries of a page.
const ROWS: usize = 100;

#[derive(Default, Deserialize)]
pub(super) struct Asked {
    before: Option<u64>,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Log {
    frame: Frame,
    entries: Vec<Row>,
    older: Option<u64>,
}

struct Row {
    at: String,
    who: String,
    by: String,
    from: String,
    what: String,
    steps: Vec<String>,
    state: Shape,
}

/// Lists who changed what, the newest first.
pub(super) async fn list(
    State(house): State<House>,
    asker: Asker,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(Asked { before }) = asked.unwrap_or(Query(Asked::default()));
    let before = before.map(|id| format!("&before={id}")).unwrap_or_default();
    let entries: Entries = asker.get(&format!("/v1/audit?limit={ROWS}{before}")).await?;
    let frame = Frame::new(&house, &asker, Place::Audit, "Audit").await?;
    let older =
        entries.entries.last().map(|entry| entry.id).filter(|id| *id > 1 && entries.entries.len() == ROWS);
    page(&Log { frame, entries: entries.entries.into_iter().map(row).collect(), older })
}

fn row(entry: Entry) -> Row {
    let state = match entry.status {
        200..300 => Shape::new(Kind::Ok, "done"),
        401 | 403 => Shape::new(Kind::Warning, "refused"),
        400..500 => Shape::new(Kind::Off, "not done"),
        _ => Shape::new(Kind::Critical, "failed"),
    };
    Row {
        at: entry.at.to_string(),
        who: entry.who,
        by: entry.by.unwrap_or_default(),
        from: entry.from,
        what: format!("{} {}", entry.method, entry.path),
        steps: entry.steps,
        state,
    }
}
