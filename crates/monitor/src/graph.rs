//! Which graphs there are of what the history knows, and what is on them.
//!
//! A graph is of a family and of a subject: the operations of one volume, the states of the members of one pool. What else tells series
//! apart (the verb, the slot, the shard) are its lines. It is made of the names of series alone, so whatever is measured has one.

mod draw;
mod series;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chart::Unit;

use crate::history::Archive;
use crate::metric::{Family, Group, Kind, Unit as Measured, table};
use series::Series;

/// Series that are added up for a graph of all subjects; of more there is none.
const MAX_SUMMED: usize = 256;
/// In the order in which they are drawn; others follow.
const FIRST: [&str; 5] = ["read", "write", "flush", "discard", "write_zeroes"];

/// How far back a graph looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A day, of 10 s.
    Day,
    /// 7 days, of a minute.
    Week,
    /// 31 days, of 5 minutes.
    Month,
    /// 366 days, of an hour.
    Year,
}

impl Span {
    /// All, from the shortest to the longest.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    /// As it is written in paths and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The one with this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.name() == name)
    }

    /// Where it is read.
    pub fn archive(self) -> Archive {
        match self {
            Self::Day => Archive::Day,
            Self::Week => Archive::Week,
            Self::Month => Archive::Month,
            Self::Year => Archive::Years,
        }
    }

    /// Seconds.
    pub fn seconds(self) -> u64 {
        let days = match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
            Self::Year => 366,
        };
        days * 86_400
    }
}

/// A line of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// What tells it from the others.
    label: String,
    /// The series of which it is the sum, one or more.
    series: Vec<String>,
}

/// A graph that can be drawn.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Of what: the same as long as there is such a family and such a subject. Letters, digits and `_ . : - ~ @ ,` alone, so that it is
    /// a part of a path as it is: `volume_operations@demo`, `shard_cpu_seconds`.
    pub name: String,
    /// What is shown.
    pub family: &'static Family,
    /// Of whom: names of labels with their values; empty for what is of the node as a whole.
    pub subject: Vec<(&'static str, String)>,
    lines: Vec<Line>,
}

impl Graph {
    /// Above it.
    pub fn title(&self) -> &'static str {
        self.family.title
    }

    /// Where people look for it.
    pub fn group(&self) -> Group {
        self.family.group
    }

    /// Below the title: `volume demo`; what is measured, of what is of all.
    pub fn note(&self) -> String {
        let of = self.subject.iter().map(|(label, value)| format!("{label} {value}"));
        if self.subject.is_empty() {
            self.family.help.trim_end_matches('.').to_owned()
        } else {
            of.collect::<Vec<_>>().join(", ")
        }
    }

    /// Of its values: counters are shown as rates.
    pub fn unit(&self) -> Unit {
        match (self.family.kind, self.family.unit) {
            (Kind::Counter, Measured::Bytes) => Unit::BytesPerSecond,
            // Seconds in a second.
            (Kind::Counter, Measured::Seconds) | (_, Measured::Ratio) => Unit::Share,
            (Kind::Counter, _) if self.family.name.ends_with("_operations_total") => Unit::Iops,
            (Kind::Counter, _) => Unit::PerSecond,
            (_, Measured::Seconds) => Unit::Seconds,
            (_, Measured::Bytes) => Unit::Bytes,
            (_, Measured::Celsius) => Unit::Celsius,
            (_, Measured::Count | Measured::State) => Unit::Count,
        }
    }

    /// What its lines are called, in the order in which they are drawn.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.label.as_str())
    }
}

/// Whether a label says of whom a graph is, and not which line it is.
fn is_subject(family: &Family, label: &str) -> bool {
    let has = |label| family.position(label).is_some();
    match label {
        "volume" | "pool" | "initiator" => true,
        "verb" | "of" | "shard" => false,
        // Portals and members beside each other, but where each has several lines of its own.
        _ => has("verb") || (label == "protocol" && has("initiator")),
    }
}

/// What a graph is called in a path: what has a meaning there is written as `~` and two hexadecimal digits a byte.
fn graph_name(family: &Family, subject: &[(&'static str, String)]) -> String {
    let stem = family.name.trim_start_matches("fels_").trim_end_matches("_total");
    let mut name = stem.to_owned();
    for (number, (_, value)) in subject.iter().enumerate() {
        name.push(if number == 0 { '@' } else { ',' });
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"._:-".contains(&byte) {
                name.push(char::from(byte));
            } else {
                // Writing to a String does not fail.
                let _ = write!(name, "~{byte:02X}");
            }
        }
    }
    name
}

/// All graphs of these series, by group, then by family in the order of the table, then by name. Series that nobody knows are left out.
pub fn all<'a>(series: impl Iterator<Item = &'a str>) -> Vec<Graph> {
    let mut graphs: BTreeMap<(usize, String), Graph> = BTreeMap::new();
    for name in series {
        let Some(of) = Series::read(name) else { continue };
        // Which build runs is no curve, and half of all operations took less than the median says on its own.
        if *of.family == table::BUILD || of.part == Some("p50") {
            continue;
        }
        let rank = table::ALL.iter().position(|family| *family == of.family).unwrap_or_default();
        let (subject, label) = of.split();
        let mut add = |subject: Vec<(&'static str, String)>| {
            let name_of = graph_name(of.family, &subject);
            let graph = graphs.entry((rank, name_of.clone())).or_insert_with(|| Graph {
                name: name_of,
                family: of.family,
                subject,
                lines: Vec::new(),
            });
            match graph.lines.iter_mut().find(|line| line.label == label) {
                Some(line) => line.series.push(name.to_owned()),
                None => graph.lines.push(Line { label: label.clone(), series: vec![name.to_owned()] }),
            }
        };
        if !subject.is_empty() && of.adds_up() {
            add(Vec::new());
        }
        add(subject);
    }
    let mut graphs: Vec<_> = graphs.into_values().collect();
    graphs.retain(|graph| graph.lines.iter().map(|line| line.series.len()).sum::<usize>() <= MAX_SUMMED);
    for graph in &mut graphs {
        graph.lines.sort_by_cached_key(|line| order(&line.label));
        graph.lines.iter_mut().for_each(|line| line.series.sort());
    }
    graphs.sort_by_key(Graph::group);
    graphs
}

/// The graph with this name.
pub fn find<'a>(name: &str, series: impl Iterator<Item = &'a str>) -> Option<Graph> {
    // Only those of the family are looked at.
    let stem = name.split('@').next().unwrap_or_default();
    let prefix = format!("fels_{stem}");
    all(series.filter(|series| series.starts_with(&prefix))).into_iter().find(|graph| graph.name == name)
}

/// Verbs as they are known, then numbers by size, then the alphabet.
fn order(label: &str) -> (usize, u64, String) {
    let words = label.split(' ').next().unwrap_or_default();
    let first = FIRST.iter().position(|verb| *verb == words).unwrap_or(FIRST.len());
    let number = label.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(u64::MAX);
    (first, number, label.to_owned())
}
