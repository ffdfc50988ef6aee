//! All figures of now, as Prometheus reads them.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use monitor::prometheus::{CONTENT_TYPE, render};

use super::{Context, Problem};

/// Tells all metrics as they are now, in the text format of Prometheus. On this machine nobody is asked who he is.
#[utoipa::path(
    get, path = "/metrics", tag = "node",
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = 503, body = Problem, description = "The node is stopping.")
    )
)]
pub(super) async fn text(State(context): State<Context>) -> Result<Response, Problem> {
    // Rates over the time between two scrapes are right only if the figures are of the time of the scrape.
    let snapshot = context.observer().now().await.ok_or_else(|| Problem::late("the node is stopping"))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], render(&snapshot)).into_response())
}
