//! Graphs, as they go over the wire.

use std::collections::BTreeMap;

use chart::{Clock, Figures, Line, Lines, Point, Unit};
use monitor::graph::{self, Span};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// All graphs that can be drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Graphs {
    /// By where people look for them.
    pub graphs: Vec<Graph>,
}

/// A graph. It is drawn at `/graphs/{name}/day.svg`, `week.svg`, `month.svg` and `year.svg`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Graph {
    /// Its name, a part of a path as it is.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// Where people look for it: `Volumes`, `Pools`, `Process`.
    pub group: String,
    /// Of whom, such as `volume`: `demo`; empty for what is of the node as a whole.
    pub subject: BTreeMap<String, String>,
    /// In what its values are.
    pub unit: GraphUnit,
    /// What its lines are called.
    pub lines: Vec<String>,
}

/// In what the values of a graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphUnit {
    /// Things, or states that have a number.
    Count,
    /// Things in a second.
    PerSecond,
    /// Operations in a second.
    Iops,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// A part of 1.
    Share,
    /// Degrees Celsius.
    Celsius,
}

/// What is on a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphData {
    /// Its name.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// Of whom.
    pub note: String,
    /// How far it looks back: `day`, `week`, `month` or `year`.
    pub span: String,
    /// In what its values are.
    pub unit: GraphUnit,
    /// When the first slot begins: seconds since 1970.
    pub begin_s: u64,
    /// Seconds of a slot.
    pub step_s: u64,
    /// Slots.
    pub slots: usize,
    /// From the most important one on.
    pub lines: Vec<GraphLine>,
}

/// A line in figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphFigures {
    /// The last value that is known.
    pub last: f64,
    /// The mean of all that is known.
    pub mean: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

/// A line of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphLine {
    /// What it is of.
    pub label: String,
    /// The whole span in figures; nothing where nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<GraphFigures>,
    /// For each slot the smallest value, the mean and the largest; null where nothing is known.
    pub points: Vec<Option<[f64; 3]>>,
}

/// Of which graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GraphsAsked {
    /// Only those of this volume.
    pub volume: Option<String>,
    /// Only those of this pool, and of its members.
    pub pool: Option<String>,
}

/// How a picture is wished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Pictured {
    /// For which ground; for that which the reader prefers, where nothing is said.
    #[param(inline)]
    pub theme: Option<GraphTheme>,
    /// Its width in pixels, from 320 to 4096; others are taken for the nearest.
    pub width: Option<u32>,
}

/// For which ground a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphTheme {
    /// For that which the reader prefers.
    Auto,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Graph {
    /// As it is told.
    pub fn of(graph: &graph::Graph) -> Graph {
        Graph {
            name: graph.name.clone(),
            title: graph.title().to_owned(),
            group: graph.group().title().to_owned(),
            subject: graph
                .subject
                .iter()
                .map(|(label, value)| ((*label).to_owned(), value.clone()))
                .collect(),
            unit: graph.unit().into(),
            lines: graph.lines().map(str::to_owned).collect(),
        }
    }
}

impl GraphData {
    /// As it is told: of each line about so many slots, and all of it in figures.
    pub fn of(name: String, span: Span, whole: &Lines, slots: usize) -> GraphData {
        let lines = whole.reduced(slots);
        let told = |point: &Option<Point>| point.map(|point| [point.least, point.mean, point.most]);
        let line = |(line, of): (&Line, &Line)| GraphLine {
            label: line.label.clone(),
            figures: of.figures(whole.slots).map(GraphFigures::from),
            points: line.points.iter().map(told).collect(),
        };
        GraphData {
            name,
            title: lines.title,
            note: lines.note,
            span: span.name().to_owned(),
            unit: lines.unit.into(),
            begin_s: lines.begin_s,
            step_s: lines.step_s,
            slots: lines.slots,
            lines: lines.lines.iter().zip(&whole.lines).map(line).collect(),
        }
    }

    /// As it is drawn.
    pub fn lines(&self) -> Lines {
        let point = |point: &Option<[f64; 3]>| point.map(|[least, mean, most]| Point { least, mean, most });
        let line = |line: &GraphLine| Line {
            label: line.label.clone(),
            points: line.points.iter().map(point).collect(),
        };
        Lines {
            title: self.title.clone(),
            note: self.note.clone(),
            unit: self.unit.into(),
            clock: Clock::Utc,
            begin_s: self.begin_s,
            step_s: self.step_s,
            slots: self.slots,
            lines: self.lines.iter().map(line).collect(),
            width: 0,
        }
    }
}

impl From<Figures> for GraphFigures {
    fn from(Figures { last, mean, least, most }: Figures) -> GraphFigures {
        GraphFigures { last, mean, least, most }
    }
}

/// Both ways, said once.
macro_rules! units {
    ($($unit:ident),+) => {
        impl From<Unit> for GraphUnit {
            fn from(unit: Unit) -> GraphUnit {
                match unit { $(Unit::$unit => GraphUnit::$unit),+ }
            }
        }

        impl From<GraphUnit> for Unit {
            fn from(unit: GraphUnit) -> Unit {
                match unit { $(GraphUnit::$unit => Unit::$unit),+ }
            }
        }
    };
}

units!(Count, PerSecond, Iops, Bytes, BytesPerSecond, Seconds, Share, Celsius);
