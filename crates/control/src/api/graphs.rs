//! Graphs of what the node knows of its past: which there are, and each as a picture and as figures.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use chart::{Lines, Theme};
use monitor::graph::{self, Span};

use super::model::{Graph, GraphData, GraphTheme, Graphs, GraphsAsked, Pictured};
use super::wish::{Asked, Names};
use super::{Context, Problem};

/// Slots that are told of a line, about: what a picture has room for.
const TOLD_SLOTS: usize = 720;
/// What a picture may be: its style is in it, and nothing else comes with it.
const ALONE: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'";

/// Lists the graphs of everything that was measured.
#[utoipa::path(
    get, path = "/v1/graphs", tag = "graphs", params(GraphsAsked),
    responses(
        (status = 200, body = Graphs),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 503, body = Problem, description = "The history cannot be read now.")
    )
)]
pub(super) async fn list(
    State(context): State<Context>,
    Asked(asked): Asked<GraphsAsked>,
) -> Result<Json<Graphs>, Problem> {
    let wanted: Vec<_> = [("volume", asked.volume), ("pool", asked.pool)]
        .into_iter()
        .filter_map(|(label, name)| Some((label, name?)))
        .collect();
    let work = context.observer().look_back(move |history| {
        let series = history.series();
        // Of ten thousand series those of one volume are few.
        let may_be = |series: &&str| {
            wanted.iter().all(|(label, name)| series.contains(label) && series.contains(name))
        };
        let graphs = graph::all(series.iter().map(String::as_str).filter(may_be));
        let is = |graph: &graph::Graph| wanted.iter().all(|of| graph.subject.contains(of));
        graphs.iter().filter(|graph| is(graph)).map(Graph::of).collect()
    });
    Ok(Json(Graphs { graphs: work.await.ok_or_else(unread)? }))
}

/// Tells what is on a graph.
#[utoipa::path(
    get, path = "/v1/graphs/{name}/{span}", tag = "graphs",
    params(
        ("name" = String, Path, description = "The name of the graph, as `/v1/graphs` tells it."),
        ("span" = String, Path, description = "`day`, `week`, `month` or `year`.")
    ),
    responses(
        (status = 200, body = GraphData),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such graph."),
        (status = 503, body = Problem, description = "The history cannot be read now.")
    )
)]
pub(super) async fn data(
    State(context): State<Context>,
    Names((name, span)): Names<(String, String)>,
) -> Result<Json<GraphData>, Problem> {
    let span = Span::of(&span).ok_or_else(|| no_span(&span))?;
    let of = name.clone();
    let told = drawn(&context, name, span, move |lines| GraphData::of(of, span, &lines, TOLD_SLOTS));
    Ok(Json(told.await?))
}

/// Draws a graph, as SVG.
#[utoipa::path(
    get, path = "/graphs/{name}/{file}", tag = "graphs",
    params(
        ("name" = String, Path, description = "The name of the graph, as `/v1/graphs` tells it."),
        ("file" = String, Path, description = "`day.svg`, `week.svg`, `month.svg` or `year.svg`."),
        Pictured
    ),
    responses(
        (status = 200, body = String, content_type = "image/svg+xml"),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such graph."),
        (status = 503, body = Problem, description = "The history cannot be read now.")
    )
)]
pub(super) async fn picture(
    State(context): State<Context>,
    Names((name, file)): Names<(String, String)>,
    Asked(asked): Asked<Pictured>,
) -> Result<Response, Problem> {
    let span = file.strip_suffix(".svg").and_then(Span::of).ok_or_else(|| no_span(&file))?;
    let theme = match asked.theme {
        None | Some(GraphTheme::Auto) => Theme::Auto,
        Some(GraphTheme::Light) => Theme::Light,
        Some(GraphTheme::Dark) => Theme::Dark,
    };
    let svg = drawn(&context, name, span, move |lines| {
        let width = asked.width.unwrap_or(lines.width);
        Lines { width, ..lines }.to_svg(theme)
    });
    // Until there is more to be seen.
    let fresh = format!("private, max-age={}", span.archive().step_s().min(60));
    let said = [
        (header::CONTENT_TYPE, "image/svg+xml; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, ALONE),
        (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
        (header::CACHE_CONTROL, fresh.as_str()),
    ];
    Ok((said, svg.await?).into_response())
}

/// What the history has for a graph, made into something where nobody has to wait for it.
async fn drawn<T: Send + 'static>(
    context: &Context,
    name: String,
    span: Span,
    make: impl FnOnce(Lines) -> T + Send + 'static,
) -> Result<T, Problem> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let work = context.observer().look_back(move |history| {
        let series = history.series();
        let found = graph::find(&name, series.iter().map(String::as_str)).ok_or_else(|| no_graph(&name))?;
        let lines = found.draw(span, now_s, |series, archive, time_s| history.read(series, archive, time_s));
        lines.map(make).map_err(|error| {
            tracing::warn!("a graph cannot be drawn: {error}");
            unread()
        })
    });
    work.await.ok_or_else(unread)?
}

fn no_graph(name: &str) -> Problem {
    // As long as a name usually is; more of what somebody sent is of no use to him.
    let shown: String = name.chars().take(64).collect();
    Problem::not_found(format!("there is no graph {shown}"))
        .hint("/v1/graphs lists all of them; what was never measured has none")
}

fn no_span(asked: &str) -> Problem {
    let shown: String = asked.chars().take(64).collect();
    Problem::not_found(format!("no graph goes back by {shown}")).hint("ask for day, week, month or year")
}

fn unread() -> Problem {
    Problem::unavailable("the history of metrics cannot be read").hint("see the log of the node")
}
