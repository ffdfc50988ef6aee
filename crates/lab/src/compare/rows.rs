//! The rows of a comparison, and what is doubtful about them: pure, from what was measured.

use serde::Serialize;

use super::Sample;
use super::arithmetic::{self, Drift, Figure, Spread};
use crate::load::Load;

/// Notes of single measurements that are repeated.
const OWN_REMARKS: usize = 5;
/// A result above this part of the lab's own ceiling says more about the lab than about the target.
const NEAR_CEILING: f64 = 0.5;

/// Reads and writes stand in rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

impl Direction {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "reads",
            Direction::Write => "writes",
        }
    }
}

/// One test in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The test.
    pub test: String,
    /// Of its operations.
    pub direction: Direction,
    /// One for each target, in their order.
    pub cells: Vec<Cell>,
    /// IO/s of the lab itself.
    pub ceiling_iops: Option<Spread>,
}

/// One target.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Which.
    pub target: String,
    /// Rounds that were measured.
    pub rounds: usize,
    /// IO/s over its rounds.
    pub iops: Option<Spread>,
    /// As a factor of the first target, over the rounds that both have.
    pub factor: Option<Spread>,
    /// Processor time of the lab for each operation of the test, in microseconds; the median of the rounds.
    pub lab_us_per_io: Option<f64>,
}

/// What the arithmetic needs of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) round: usize,
    pub(super) test: String,
    pub(super) target: String,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_iops: f64,
    pub(super) write_iops: f64,
    pub(super) lab_us_per_io: Option<f64>,
}

impl Measured {
    /// None of one with errors: its figures are those of a target that was going away.
    pub(super) fn of(sample: &Sample) -> Option<Measured> {
        let report = &sample.report;
        let iops = report.total.iops;
        let measured = Measured {
            round: sample.round,
            test: report.name.clone(),
            target: sample.target.clone(),
            reads: report.reads.operations,
            writes: report.writes.operations,
            read_iops: report.reads.iops,
            write_iops: report.writes.iops,
            lab_us_per_io: report.lab_cpus.filter(|_| iops > 0.0).map(|cpus| cpus * 1e6 / iops),
        };
        (report.errors == 0).then_some(measured)
    }

    pub(super) fn iops(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Read => self.read_iops,
            Direction::Write => self.write_iops,
        }
    }
}

pub(super) fn directions(load: &Load) -> impl Iterator<Item = Direction> {
    let reads = (load.read_percent > 0).then_some(Direction::Read);
    let writes = (load.read_percent < 100).then_some(Direction::Write);
    reads.into_iter().chain(writes)
}

/// One target on one test, by rounds.
pub(super) fn series<'a>(measured: &'a [Measured], test: &str, target: &str) -> Vec<&'a Measured> {
    let mut found: Vec<_> = measured.iter().filter(|one| one.test == test && one.target == target).collect();
    found.sort_by_key(|one| one.round);
    found
}

pub(super) fn figures(series: &[&Measured], direction: Direction) -> Vec<Figure> {
    series.iter().map(|one| Figure { round: one.round, value: one.iops(direction) }).collect()
}

fn spread(figures: &[Figure]) -> Option<Spread> {
    Spread::of(&figures.iter().map(|figure| figure.value).collect::<Vec<_>>())
}

/// The table.
pub(super) fn rows(
    tests: &[(&str, &Load)],
    targets: &[String],
    measured: &[Measured],
    ceilings: &[Measured],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (test, load) in tests {
        for direction in directions(load) {
            let base = targets.first().map(|base| figures(&series(measured, test, base), direction));
            let base = base.unwrap_or_default();
            let cell = |target: &String| {
                let series = series(measured, test, target);
                let figures = figures(&series, direction);
                let lab: Vec<f64> = series.iter().filter_map(|one| one.lab_us_per_io).collect();
                Cell {
                    target: target.clone(),
                    rounds: series.len(),
                    iops: spread(&figures),
                    factor: arithmetic::factor(&base, &figures),
                    lab_us_per_io: Spread::of(&lab).map(|spread| spread.median),
                }
            };
            let ceiling: Vec<f64> =
                ceilings.iter().filter(|one| one.test == *test).map(|one| one.iops(direction)).collect();
            rows.push(Row {
                test: (*test).to_owned(),
                direction,
                cells: targets.iter().map(cell).collect(),
                ceiling_iops: Spread::of(&ceiling),
            });
        }
    }
    rows
}

/// What one has to know to judge the rows.
pub(super) fn remarks(
    tests: &[(&str, &Load)],
    targets: &[String],
    measured: &[Measured],
    rows: &[Row],
) -> Vec<String> {
    let mut remarks = Vec::new();
    // Where operations are due at certain times, all targets that keep up have the same figures.
    let closed: Vec<&str> =
        tests.iter().filter(|(_, load)| load.rate.is_none()).map(|(test, _)| *test).collect();
    for test in &closed {
        for target in targets {
            same_rounds(&mut remarks, test, target, &series(measured, test, target));
        }
    }
    same_cells(&mut remarks, rows.iter().filter(|row| closed.contains(&row.test.as_str())));
    if let Some(base) = targets.first() {
        for (test, _) in tests {
            let totals: Vec<f64> =
                series(measured, test, base).iter().map(|one| one.read_iops + one.write_iops).collect();
            remarks.extend(drifting(test, base, &totals));
        }
    }
    for row in rows {
        near_ceiling(&mut remarks, row);
    }
    remarks
}

/// Two rounds of a target with the same counts were not both measured.
fn same_rounds(remarks: &mut Vec<String>, test: &str, target: &str, series: &[&Measured]) {
    for (index, one) in series.iter().enumerate() {
        let counts = |one: &Measured| (one.reads, one.writes);
        let same = series[..index].iter().find(|other| arithmetic::same_counts(counts(one), counts(other)));
        if let Some(other) = same {
            remarks.push(format!(
                "identical samples: {target} on {test} counted {} reads and {} writes in round {} and in round {}; \
                 one of them was not measured",
                one.reads, one.writes, other.round, one.round
            ));
        }
    }
}

/// Two cells with the same figure were not both measured.
fn same_cells<'a>(remarks: &mut Vec<String>, rows: impl Iterator<Item = &'a Row>) {
    let cells: Vec<(&Row, &Cell, f64)> = rows
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
        .filter_map(|(row, cell)| Some((row, cell, cell.iops?.median)))
        .collect();
    let place = |row: &Row, cell: &Cell| format!("{} on {}, {}", cell.target, row.test, row.direction.name());
    for (index, &(row, cell, iops)) in cells.iter().enumerate() {
        let same = cells[..index].iter().find(|other| arithmetic::same(other.2, iops));
        if let Some((other_row, other_cell, _)) = same {
            remarks.push(format!(
                "identical samples: {} and {} are equal to nine digits ({iops:.3} IO/s); \
                 one of them was not measured",
                place(other_row, other_cell),
                place(row, cell)
            ));
        }
    }
}

fn drifting(test: &str, base: &str, rounds: &[f64]) -> Option<String> {
    let (first, last) = (rounds.first()?, rounds.last()?);
    let hint = "hint: leave the machine alone, and take more --rounds";
    let figures = format!("from {first:.0} to {last:.0} IO/s");
    Some(match arithmetic::drift(rounds)? {
        Drift::Moved(change) => format!(
            "the machine drifts: {base} on {test} went {figures} ({:+.1} %) from the first round to the last, \
             beyond the rounds between them; {hint}",
            change * 100.0
        ),
        Drift::Trend(change) => format!(
            "the machine drifts: {base} on {test} went {figures} ({:+.1} %), the same way in every round; {hint}",
            change * 100.0
        ),
    })
}

fn near_ceiling(remarks: &mut Vec<String>, row: &Row) {
    let Some(ceiling) = row.ceiling_iops else { return };
    let near = |cell: &&Cell| cell.iops.is_some_and(|iops| iops.median > ceiling.median * NEAR_CEILING);
    let names: Vec<_> = row.cells.iter().filter(near).map(|cell| cell.target.as_str()).collect();
    if !names.is_empty() {
        remarks.push(format!(
            "{}, {}: {} above half of the lab's own ceiling ({:.0} IO/s): the lab may be the limit; \
             hint: more --threads or another machine",
            row.test,
            row.direction.name(),
            names.join(", "),
            ceiling.median
        ));
    }
}

/// What single measurements have to say.
pub(super) fn own_remarks(samples: &[Sample]) -> Vec<String> {
    let all: Vec<String> = samples
        .iter()
        .flat_map(|sample| {
            let place = format!("round {}, {}, {}", sample.round, sample.target, sample.report.name);
            sample.report.remarks.iter().map(move |remark| format!("{place}: {remark}"))
        })
        .collect();
    let more = all.len().saturating_sub(OWN_REMARKS);
    let mut told: Vec<_> = all.into_iter().take(OWN_REMARKS).collect();
    if more > 0 {
        told.push(format!("and {more} notes more about single measurements: --json has them"));
    }
    told
}
