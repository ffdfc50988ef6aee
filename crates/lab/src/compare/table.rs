//! The tables of a comparison, for people.

use std::fmt::Write as _;

use super::arithmetic::Spread;
use super::rows::{Cell, Row};
use super::{CompareReport, Sample};

/// Digits of a factor.
const FACTOR_DIGITS: usize = 6;
/// Digits of its spread.
const SPREAD_DIGITS: usize = 3;
/// Wrong blocks that are named for each measurement.
const NAMED: usize = 10;

/// Appends a line. Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {{
        let _ = writeln!($out, $($argument)*);
    }};
}

/// The whole report.
pub fn table(report: &CompareReport) -> String {
    let mut out = String::new();
    let what = report
        .profile
        .as_deref()
        .map_or_else(|| "a load of one's own".to_owned(), |name| format!("profile {name}"));
    line!(
        out,
        "{what}, {} in turns; medians, and the least and the most of the rounds",
        rounds(report.rounds)
    );
    line!(out, "host {} ({} CPUs, Linux {})", report.host.name, report.host.cpus, report.host.kernel);
    for column in &report.targets {
        line!(out, "  {}: {}", column.name, column.target);
    }
    let names = || report.targets.iter().map(|column| column.name.clone());

    let base = report.targets.first().map_or("", |column| column.name.as_str());
    let mut grid = vec![head(format!("factor ({base} = 1)"), names(), "lab us per I/O")];
    for row in &report.rows {
        let cells = row.cells.iter().enumerate().map(|(index, cell)| factor(index == 0, cell));
        grid.push(head(label(row), cells, &costs(row)));
    }
    line!(out, "");
    print_grid(&mut out, &grid);

    let mut grid = vec![head("IO/s".to_owned(), names(), "lab itself")];
    for row in &report.rows {
        let cells = row.cells.iter().map(|cell| cell.iops.map_or_else(dash, iops));
        grid.push(head(label(row), cells, &row.ceiling_iops.map_or_else(dash, iops)));
    }
    line!(out, "");
    print_grid(&mut out, &grid);
    if !report.effects.is_empty() {
        let mut grid =
            vec![head("effect of".to_owned(), ["from", "to"].map(str::to_owned).into_iter(), "factor")];
        for effect in &report.effects {
            let label = format!("{}, {}, {}", effect.factor, effect.test, effect.direction.name());
            let values = [effect.from.clone(), effect.to.clone()];
            let Spread { median, least, most } = effect.ratio;
            let pairs = if effect.pairs > 1 { format!(", {} pairs", effect.pairs) } else { String::new() };
            let ratio = format!(
                "{} [{}..{}]{pairs}",
                digits(median, FACTOR_DIGITS),
                digits(least, SPREAD_DIGITS),
                digits(most, SPREAD_DIGITS)
            );
            grid.push(head(label, values.into_iter(), &ratio));
        }
        line!(out, "");
        print_grid(&mut out, &grid);
    }
    let notes = notes(report);
    if !notes.is_empty() {
        line!(out, "\n{}", notes.trim_end());
    }
    out
}

fn notes(report: &CompareReport) -> String {
    let mut out = String::new();
    for sample in &report.samples {
        wrong(&mut out, sample);
    }
    for lost in &report.lost {
        let cells = report.rows.iter().flat_map(|row| &row.cells);
        let measured = cells.filter(|cell| cell.target == lost.target).map(|cell| cell.rounds).max();
        line!(
            out,
            "LOST {} in round {} at {}: {}; it has {} of {}",
            lost.target,
            lost.round,
            lost.test,
            lost.reason,
            measured.unwrap_or(0),
            rounds(report.rounds)
        );
    }
    for remark in &report.remarks {
        line!(out, "note: {remark}");
    }
    if report.interrupted {
        line!(out, "interrupted: this is what was measured up to then");
    }
    out
}

fn wrong(out: &mut String, sample: &Sample) {
    let findings = &sample.report.findings;
    let place = format!("round {}, {}, {}", sample.round, sample.target, sample.report.name);
    for finding in findings.first.iter().take(NAMED) {
        line!(out, "WRONG {place}: {finding}");
    }
    let more = findings.count - findings.first.len().min(NAMED) as u64;
    if more > 0 {
        line!(out, "WRONG {place}: and {more} blocks more");
    }
}

fn rounds(count: usize) -> String {
    format!("{count} round{}", if count == 1 { "" } else { "s" })
}

fn dash() -> String {
    "-".to_owned()
}

fn head(first: String, cells: impl Iterator<Item = String>, last: &str) -> Vec<String> {
    std::iter::once(first).chain(cells).chain(std::iter::once(last.to_owned())).collect()
}

fn label(row: &Row) -> String {
    format!("{}, {}", row.test, row.direction.name())
}

/// The base has its own spread, as a part of its median.
fn factor(is_base: bool, cell: &Cell) -> String {
    let own = cell.iops.filter(|iops| is_base && iops.median > 0.0);
    let spread = if is_base { own.map(|iops| iops.per(iops.median)) } else { cell.factor };
    let Some(Spread { median, least, most }) = spread else { return dash() };
    let factor = if is_base { "1".to_owned() } else { digits(median, FACTOR_DIGITS) };
    format!("{factor} [{}..{}]", digits(least, SPREAD_DIGITS), digits(most, SPREAD_DIGITS))
}

fn iops(spread: Spread) -> String {
    format!("{:.1} [{:.0}..{:.0}]", spread.median, spread.least, spread.most)
}

/// Of all targets, in their order.
fn costs(row: &Row) -> String {
    let cost = |cell: &Cell| cell.lab_us_per_io.map_or_else(dash, |us| digits(us, SPREAD_DIGITS));
    row.cells.iter().map(cost).collect::<Vec<_>>().join(" / ")
}

/// So many digits that matter.
fn digits(value: f64, count: usize) -> String {
    let whole = format!("{:.0}", value.trunc()).len();
    format!("{value:.*}", count.saturating_sub(whole))
}

/// The first column to the left, the others to the right; a rule below the head.
fn print_grid(out: &mut String, grid: &[Vec<String>]) {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |column: usize| grid.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (index, row) in grid.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        line!(out, "{}", cells.collect::<Vec<_>>().join(" | "));
        if index == 0 {
            let rules = widths.iter().map(|&width| "-".repeat(width));
            line!(out, "{}", rules.collect::<Vec<_>>().join("-|-"));
        }
    }
}
