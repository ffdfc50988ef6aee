//! Graphs: which there are, and each over a day, a week, a month and a year. Pictures are drawn by the API; a page has them as images.

mod index;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use chart::Unit;

use super::asker::{Asker, segment};
use super::frame::{Frame, Place};
use super::{House, page};
use crate::api::Problem;
use crate::api::model::{Graph, GraphData, GraphLine, Graphs};

pub(super) fn routes() -> Router<House> {
    Router::new().route("/graphs", get(index::list)).route("/graphs/{graph}", get(one))
}

/// How far pictures look back: as the API calls it, as a heading, in words, and seconds until there is more to be seen.
const SPANS: [(&str, &str, &str, u32); 4] = [
    ("day", "Day", "the last 24 hours", 10),
    ("week", "Week", "the last 7 days", 60),
    ("month", "Month", "the last 31 days", 300),
    ("year", "Year", "the last 366 days", 3600),
];

/// Widths of pictures: several beside each other, and two.
const NARROW: u32 = 480;
const WIDE: u32 = 640;

/// A picture of a graph, which comes again by itself when there is more to be seen.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(path = "parts/picture.html")]
pub(super) struct Picture {
    /// Where it leads to.
    page: String,
    /// Where it is, without what is behind the `?`.
    file: String,
    /// What it shows, for who cannot see it.
    alt: String,
    every_s: u32,
    /// Pixels on a desk; on a phone it is drawn narrower.
    width: u32,
}

impl HtmlSafe for Picture {}

impl Picture {
    /// Of the last day.
    fn of_day(graph: &Graph) -> Picture {
        Picture::of(&graph.name, &graph.title, &of_whom(graph), SPANS[0])
    }

    fn of(name: &str, title: &str, whom: &str, span: (&str, &str, &str, u32)) -> Picture {
        let (name, (span, _, words, every_s)) = (segment(name), span);
        let whom = if whom.is_empty() { String::new() } else { format!(", {whom}") };
        Picture {
            page: format!("/graphs/{name}"),
            file: format!("/graphs/{name}/{span}.svg"),
            alt: format!("{title}{whom}: {words}"),
            every_s,
            width: NARROW,
        }
    }
}

/// The graphs of a volume that say most.
const OF_VOLUMES: [&str; 4] =
    ["volume_operations", "volume_bytes", "volume_latency_seconds", "layer_share_ratio"];
/// Those of a pool; those of its volumes are on their pages.
const OF_POOLS: [&str; 4] = ["pool_operations", "pool_latency_seconds", "pool_used_bytes", "member_state"];
/// Those of the node as a whole.
const OF_NODE: [&str; 4] =
    ["volume_operations", "volume_bytes", "process_cpu_seconds", "process_resident_memory_bytes"];

/// Those of some graphs whose names begin with one of these and end with the same.
fn chosen(graphs: &[Graph], stems: &[&str], subject: &str) -> Vec<Picture> {
    let names = stems
        .iter()
        .map(|stem| if subject.is_empty() { (*stem).to_owned() } else { format!("{stem}@{subject}") });
    names.filter_map(|name| graphs.iter().find(|graph| graph.name == name)).map(Picture::of_day).collect()
}

/// The pictures for the page of a volume.
pub(super) async fn of_volume(asker: &Asker, name: &str) -> Vec<Picture> {
    of_thing(asker, "volume", name, &OF_VOLUMES).await
}

/// The pictures for the page of a pool.
pub(super) async fn of_pool(asker: &Asker, name: &str) -> Vec<Picture> {
    of_thing(asker, "pool", name, &OF_POOLS).await
}

/// Nothing as long as the history cannot be read: the page of a thing says what is more important than its past.
async fn of_thing(asker: &Asker, label: &str, name: &str, stems: &[&str]) -> Vec<Picture> {
    let found = asker.get::<Graphs>(&format!("/v1/graphs?{label}={}", segment(name))).await;
    found.map(|found| chosen(&found.graphs, stems, name)).unwrap_or_default()
}

/// Of whom a graph is: `volume db`; nothing of the node as a whole.
fn of_whom(graph: &Graph) -> String {
    let of = graph.subject.iter().map(|(label, value)| format!("{label} {value}"));
    of.collect::<Vec<_>>().join(", ")
}

/// The page of that, if it has one.
fn page_of(graph: &Graph) -> Option<(String, String)> {
    let find = |label: &str| graph.subject.get(label).map(|name| (label.to_owned(), name));
    let (label, name) = find("volume").or_else(|| find("pool"))?;
    Some((format!("/{label}s/{}", segment(name)), format!("{label} {name}")))
}

#[derive(Template)]
#[template(path = "graph.html")]
struct One {
    frame: Frame,
    whom: String,
    thing: Option<(String, String)>,
    spans: Vec<Drawn>,
    /// Other graphs of the same.
    others: Vec<(String, String)>,
}

/// A graph over one span.
struct Drawn {
    id: &'static str,
    heading: &'static str,
    words: &'static str,
    picture: Picture,
    rows: Vec<Row>,
}

/// A line in figures.
struct Row {
    label: String,
    /// The last one, the mean, the least, the most; nothing where nothing is known.
    figures: Option<[String; 4]>,
}

async fn one(
    State(house): State<House>,
    asker: Asker,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let mut told = Vec::new();
    for (span, ..) in SPANS {
        let data: GraphData = asker.get(&format!("/v1/graphs/{}/{span}", segment(&name))).await?;
        told.push(data);
    }
    let Graphs { graphs } = asker.get("/v1/graphs").await?;
    let Some(graph) = graphs.iter().find(|graph| graph.name == name) else { return Err(super::nowhere()) };
    let whom = of_whom(graph);
    let title = if whom.is_empty() { graph.title.clone() } else { format!("{}: {whom}", graph.title) };
    let frame = Frame::new(&house, &asker, Place::Graphs, &title).await?;
    let spans = SPANS.into_iter().zip(&told).map(|(span, data)| drawn(graph, &whom, span, data)).collect();
    let is_other =
        |other: &&Graph| other.subject == graph.subject && other.name != graph.name && !whom.is_empty();
    let others = graphs.iter().filter(is_other);
    let others =
        others.map(|other| (format!("/graphs/{}", segment(&other.name)), other.title.clone())).collect();
    page(&One { frame, thing: page_of(graph), spans, others, whom })
}

fn drawn(
    graph: &Graph,
    whom: &str,
    span: (&'static str, &'static str, &'static str, u32),
    data: &GraphData,
) -> Drawn {
    let unit = Unit::from(data.unit);
    let row = |line: &GraphLine| Row {
        label: line.label.clone(),
        figures: line.figures.map(|of| [of.last, of.mean, of.least, of.most].map(|value| unit.show(value))),
    };
    Drawn {
        id: span.0,
        heading: span.1,
        words: span.2,
        picture: Picture { width: WIDE, ..Picture::of(&graph.name, &graph.title, whom, span) },
        rows: data.lines.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests;
