//! Reports of the lab: which are kept beside the node, and what each says, as a picture and in tables.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use chart::{Theme, Unit};

use super::asker::{Asker, segment};
use super::frame::{Frame, Place};
use super::overview::capital;
use super::parts::{Kind, State as Shape, size};
use super::{House, page};
use crate::api::Problem;
use crate::api::lab::{ReportEntry, Reports};
use crate::moment::Moment;
use crate::reports::{Cell, Report, Row, Spread, Summary, Test};

mod picture;

/// What a picture may be: its style is in it, and nothing else comes with it.
const ALONE: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";
/// Rows of a table at most: who compares more has the report as JSON.
const MAX_ROWS: usize = 200;

pub(super) fn routes() -> Router<House> {
    Router::new()
        .route("/lab", get(list))
        .route("/lab/{report}", get(one))
        .route("/lab/{report}/picture.svg", get(draw))
}

#[derive(Template)]
#[template(path = "lab.html")]
struct List {
    frame: Frame,
    reports: Vec<Listed>,
    left_out: usize,
}

/// A report in the list.
struct Listed {
    name: String,
    ended: Option<Moment>,
    title: String,
    note: String,
    targets: Vec<String>,
    state: Shape,
    size: String,
}

async fn list(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Lab, "Lab").await?;
    let Reports { reports, left_out } = asker.get("/v1/lab").await?;
    page(&List { frame, reports: reports.into_iter().map(listed).collect(), left_out })
}

fn listed(entry: ReportEntry) -> Listed {
    let (name, size) = (entry.name, size(entry.bytes));
    let Some(says) = entry.says else {
        let note = entry.wrong.unwrap_or_default();
        let (title, state) = ("Not understood".to_owned(), Shape::new(Kind::Off, "not shown"));
        return Listed { name, ended: None, title, note, targets: Vec::new(), state, size };
    };
    Listed {
        name,
        ended: Some(says.ended),
        title: capital(&says.title),
        note: format!("measured on {}", says.host),
        targets: says.targets,
        state: state(!says.faults.is_empty(), says.interrupted),
        size,
    }
}

fn state(is_faulty: bool, is_interrupted: bool) -> Shape {
    match (is_faulty, is_interrupted) {
        (true, _) => Shape::new(Kind::Critical, "failed"),
        (false, true) => Shape::new(Kind::Warning, "ended early"),
        (false, false) => Shape::new(Kind::Ok, "whole"),
    }
}

#[derive(Template)]
#[template(path = "lab_report.html")]
struct One {
    frame: Frame,
    name: String,
    state: Shape,
    lead: String,
    faults: Vec<String>,
    facts: Vec<(String, String)>,
    tests: Vec<Measured>,
    /// The names of the targets that are compared.
    columns: Vec<String>,
    rows: Vec<Compared>,
    /// Rows that are not shown.
    more: usize,
    remarks: Vec<String>,
}

/// A test of a run.
struct Measured {
    name: String,
    kinds: Vec<(&'static str, Figures)>,
    ceiling: String,
}

/// Operations of one kind, in figures.
struct Figures {
    iops: String,
    rate: String,
    /// The mean, the median, the 99th percentile, the longest.
    latency: [String; 4],
}

/// A row of a comparison.
struct Compared {
    name: String,
    /// For each target its name, operations in a second, and the factor.
    cells: Vec<(String, String, String)>,
    ceiling: String,
}

async fn read(asker: &Asker, name: &str) -> Result<Report, Problem> {
    asker.get(&format!("/v1/lab/{}", segment(name))).await
}

async fn one(
    State(house): State<House>,
    asker: Asker,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let report = read(&asker, &name).await?;
    let frame = Frame::new(&house, &asker, Place::Lab, &capital(&report.title())).await?;
    page(&One::of(frame, name, &report))
}

async fn draw(asker: Asker, Path(name): Path<String>) -> Result<Response, Problem> {
    let report = read(&asker, &name).await?;
    let head = [
        (header::CONTENT_TYPE, "image/svg+xml; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, ALONE),
        // A report is written once.
        (header::CACHE_CONTROL, "private, max-age=60"),
    ];
    Ok((head, picture::svg(&report, Theme::Auto)).into_response())
}

impl One {
    fn of(frame: Frame, name: String, report: &Report) -> One {
        let faults = report.faults();
        let ended = Moment::from_unix(report.ended_unix_s);
        let mut facts = vec![("Ended".to_owned(), ended.to_string())];
        facts.extend(report.target.iter().map(|target| ("Target".to_owned(), target.clone())));
        facts.extend(
            report.targets.iter().map(|column| (format!("Target {}", column.name), column.target.clone())),
        );
        let host = &report.host;
        facts.push((
            "Measured on".to_owned(),
            format!("{}, {} processors, Linux {}", host.name, host.cpus, host.kernel),
        ));
        facts.push((
            "By".to_owned(),
            report.measured_by.clone().unwrap_or_else(|| format!("fels {}", report.version)),
        ));
        let of_tests = report
            .tests
            .iter()
            .flat_map(|test| test.remarks.iter().map(|remark| format!("{}: {remark}", test.name)));
        One {
            frame,
            state: state(!faults.is_empty(), report.interrupted),
            lead: lead(report),
            tests: report.tests.iter().take(MAX_ROWS).map(measured).collect(),
            columns: report.targets.iter().map(|column| column.name.clone()).collect(),
            rows: report.rows.iter().take(MAX_ROWS).map(compared).collect(),
            more: report.tests.len().saturating_sub(MAX_ROWS) + report.rows.len().saturating_sub(MAX_ROWS),
            remarks: report.remarks.iter().cloned().chain(of_tests).map(|remark| capital(&remark)).collect(),
            faults,
            facts,
            name,
        }
    }
}

fn lead(report: &Report) -> String {
    let early = if report.interrupted {
        " Somebody ended it early: this is what was measured up to then."
    } else {
        ""
    };
    if report.is_comparison() {
        format!(
            "Medians of {} rounds in turns, with the least and the most beside them; factors are of the first target.{early}",
            report.rounds
        )
    } else {
        format!("Each test as it was measured, reads and writes apart.{early}")
    }
}

fn measured(test: &Test) -> Measured {
    let kinds = [("all", &test.total), ("reads", &test.reads), ("writes", &test.writes)];
    let is_mixed = test.reads.operations > 0 && test.writes.operations > 0;
    // What only reads, or only writes, is said once.
    let shown = kinds
        .into_iter()
        .filter(|(name, of)| if *name == "all" { is_mixed || of.operations == 0 } else { of.operations > 0 });
    Measured {
        name: test.name.clone(),
        kinds: shown.map(|(name, of)| (name, figures(of))).collect(),
        ceiling: test.ceiling_iops.map_or_else(|| "not measured".to_owned(), |iops| Unit::Iops.show(iops)),
    }
}

fn figures(of: &Summary) -> Figures {
    let latency = [of.latency_us.mean, of.latency_us.p50, of.latency_us.p99, of.latency_us.max];
    let is_known = of.operations > 0;
    let shown = |unit: Unit, value: f64| if is_known { unit.show(value) } else { "none".to_owned() };
    Figures {
        iops: shown(Unit::Iops, of.iops),
        rate: shown(Unit::BytesPerSecond, of.mib_per_s * f64::from(1 << 20)),
        latency: latency.map(|us| shown(Unit::Seconds, us / 1e6)),
    }
}

fn compared(row: &Row) -> Compared {
    let iops = |spread: Spread| {
        let [median, least, most] =
            [spread.median, spread.least, spread.most].map(|value| Unit::Iops.show(value));
        if spread.least < spread.most { format!("{median} ({least} to {most})") } else { median }
    };
    let cell = |cell: &Cell| {
        let factor = cell
            .factor
            .map_or_else(String::new, |of| format!("{:.3} ({:.3} to {:.3})", of.median, of.least, of.most));
        (cell.target.clone(), cell.iops.map_or_else(|| "not measured".to_owned(), iops), factor)
    };
    Compared {
        name: format!("{}, {}", row.test, if row.direction == "read" { "reads" } else { "writes" }),
        cells: row.cells.iter().map(cell).collect(),
        ceiling: row.ceiling_iops.map_or_else(|| "not measured".to_owned(), iops),
    }
}

#[cfg(test)]
mod tests;
