//! `fels graph`: what the node knows of its past.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use control::api::model::{GraphData, Graphs};

use super::node::{NodeFlags, failure};
use super::print_json;
use super::table::{Align, row, table};
use crate::message::{Failure, print};

/// What a text that no terminal takes is as wide as.
const COLUMNS: usize = 100;

/// Show a graph in the terminal, or keep it as a picture; without a name, list them all
#[derive(Debug, Args)]
pub struct Arguments {
    /// The name of the graph, such as volume_operations@demo
    name: Option<String>,

    /// How far it looks back
    #[arg(long, value_enum, default_value = "day", requires = "name")]
    span: Span,

    /// Write it to FILE as SVG; - is the standard output
    #[arg(short, long, value_name = "FILE", requires = "name", conflicts_with = "json")]
    out: Option<PathBuf>,

    /// The ground for which the picture is; without a word, that of the reader
    #[arg(long, value_enum, requires = "out")]
    theme: Option<Theme>,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Span {
    /// The last 24 hours
    Day,
    /// The last 7 days
    Week,
    /// The last 31 days
    Month,
    /// The last 366 days
    Year,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Theme {
    /// Dark on light
    Light,
    /// Light on dark
    Dark,
}

impl Span {
    fn name(self) -> &'static str {
        match self {
            Span::Day => "day",
            Span::Week => "week",
            Span::Month => "month",
            Span::Year => "year",
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(name) = &arguments.name else { return list(arguments) };
    let client = arguments.node.client()?;
    let (name, span) = (graph_part(name), arguments.span.name());
    if let Some(out) = &arguments.out {
        let theme = match arguments.theme {
            None => "",
            Some(Theme::Light) => "?theme=light",
            Some(Theme::Dark) => "?theme=dark",
        };
        let svg = client.get_text(&format!("/graphs/{name}/{span}.svg{theme}"));
        let svg = svg.map_err(|error| failure(&error))?;
        if out.as_os_str() == "-" {
            return print(&svg);
        }
        return std::fs::write(out, svg)
            .map_err(|error| Failure::new(format!("{} cannot be written: {error}", out.display()), None));
    }
    let data: GraphData =
        client.get(&format!("/v1/graphs/{name}/{span}")).map_err(|error| failure(&error))?;
    if arguments.json { print_json(&data) } else { print(&data.lines().to_terminal(columns())) }
}

fn list(arguments: &Arguments) -> Result<(), Failure> {
    let all: Graphs = arguments.node.client()?.get("/v1/graphs").map_err(|error| failure(&error))?;
    if arguments.json {
        return print_json(&all);
    }
    if all.graphs.is_empty() {
        return print("nothing was measured yet; a node measures itself every 10 s\n");
    }
    let mut rows = vec![row(["graph", "of", "shows"])];
    rows.extend(all.graphs.iter().map(|graph| row([&graph.name, &graph.group, &graph.title])));
    print(&table(0, &[Align::Left, Align::Left, Align::Left], &rows))
}

/// Columns of the terminal.
fn columns() -> usize {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// A name as a part of a path: what it is made of stays, anything else cannot be one.
fn graph_part(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'@' | b',' | b'~' => char::from(byte).to_string(),
        other => super::node::encoded_byte(other),
    };
    name.bytes().map(encode).collect()
}
