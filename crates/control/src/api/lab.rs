//! Reports of the lab that are kept beside the node.

use std::io;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::wish::Names;
use super::{Context, Problem};
use crate::moment::Moment;
use crate::reports::{self, Kept, Report};

/// Reports of the lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reports {
    /// The newest first.
    pub reports: Vec<ReportEntry>,
    /// Older ones that are not listed.
    pub left_out: usize,
}

/// A report at one look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportEntry {
    /// Its name in the folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What it says; nothing of what cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<ReportSays>,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
}

/// What a report says at one look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportSays {
    /// What was measured, in words.
    pub title: String,
    /// When it was over.
    #[schema(value_type = String, format = DateTime)]
    pub ended: Moment,
    /// The machine on which the lab ran.
    pub host: String,
    /// Addresses of what was measured.
    pub targets: Vec<String>,
    /// Somebody ended it early.
    pub interrupted: bool,
    /// Wrong blocks, operations that failed, targets that went away: a sentence each.
    pub faults: Vec<String>,
}

fn entry(kept: Kept) -> ReportEntry {
    let (says, wrong) = match kept.report {
        Ok(report) => (Some(says(&report)), None),
        Err(why) => (None, Some(why)),
    };
    ReportEntry { name: kept.name, bytes: kept.bytes, says, wrong }
}

fn says(report: &Report) -> ReportSays {
    ReportSays {
        title: report.title(),
        ended: Moment::from_unix(report.ended_unix_s),
        host: report.host.name.clone(),
        targets: report.addresses().into_iter().map(str::to_owned).collect(),
        interrupted: report.interrupted,
        faults: report.faults(),
    }
}

/// Works in the folder where nobody has to wait for it.
async fn look<T: Send + 'static>(
    context: &Context,
    work: impl FnOnce(&std::path::Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let data = context.administration().data().to_owned();
    let done = tokio::task::spawn_blocking(move || work(&data)).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn unreadable(error: &io::Error) -> Problem {
    Problem::unavailable(format!("reports of the lab cannot be read: {error}"))
        .hint("the folder `lab` in the data directory has to belong to the user who runs the node")
}

/// Lists the reports of the lab that are kept beside the node, the newest first.
#[utoipa::path(
    get, path = "/v1/lab", tag = "lab",
    responses(
        (status = 200, body = Reports),
        (status = 503, body = Problem, description = "They cannot be read.")
    )
)]
pub(super) async fn list(State(context): State<Context>) -> Result<Json<Reports>, Problem> {
    let (kept, left_out) = look(&context, reports::list).await.map_err(|error| unreadable(&error))?;
    Ok(Json(Reports { reports: kept.into_iter().map(entry).collect(), left_out }))
}

/// Tells a report as the lab has written it.
#[utoipa::path(
    get, path = "/v1/lab/{report}", tag = "lab", params(("report" = String, Path, description = "Its name.")),
    responses(
        (status = 200, body = Object, description = "What `--json` of `fels lab` writes."),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such report."),
        (status = 409, body = Problem, description = "It is no report of the lab that is understood here."),
        (status = 503, body = Problem, description = "It cannot be read.")
    )
)]
pub(super) async fn one(
    State(context): State<Context>,
    Names(name): Names<String>,
) -> Result<Response, Problem> {
    let shown: String = name.chars().take(64).collect();
    let text = look(&context, move |data| reports::read(data, &name)).await;
    let text = text.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Problem::not_found(format!("there is no report {shown}")).hint("/v1/lab lists all of them")
        }
        _ => unreadable(&error),
    })?;
    let text =
        text.ok_or_else(|| Problem::refused(format!("the report {shown} is too large to be shown")))?;
    // What is no report is not handed out.
    Report::read(&text).map_err(|why| Problem::refused(format!("{shown}: {why}")))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
