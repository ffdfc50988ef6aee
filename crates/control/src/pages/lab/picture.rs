//! A report as a picture: a run second by second, a comparison as bars beside each other.

use chart::{Bar, Bars, Clock, Line, Lines, Panel, Point, Theme, Tone, Unit};

use crate::moment::Moment;
use crate::reports::{Cell, Report, Row, Second, Test};

/// Of the picture, in pixels.
const WIDTH: u32 = 960;
/// A second that was cut short says nothing of a rate.
const WHOLE_S: f64 = 0.5;
/// Panels of a comparison at most.
const MAX_PANELS: usize = 60;

/// The report as SVG.
pub(super) fn svg(report: &Report, theme: Theme) -> String {
    if report.is_comparison() { bars(report).to_svg(theme) } else { lines(report).to_svg(theme) }
}

fn title(report: &Report) -> String {
    super::capital(&report.title())
}

/// Steadiness and drops are seen, which no mean tells.
fn lines(report: &Report) -> Lines {
    let point = |second: &Second| (second.span_s > WHOLE_S).then(|| Point::of(second.iops));
    let line =
        |test: &Test| Line { label: test.name.clone(), points: test.seconds.iter().map(point).collect() };
    Lines {
        title: title(report),
        note: format!("operations second by second, {}", report.target.as_deref().unwrap_or_default()),
        unit: Unit::Iops,
        clock: Clock::Elapsed,
        begin_s: 0,
        step_s: 1,
        slots: report.tests.iter().map(|test| test.seconds.len()).max().unwrap_or(0),
        lines: report.tests.iter().map(line).collect(),
        width: WIDTH,
    }
}

fn bars(report: &Report) -> Bars {
    let ended = Moment::from_unix(report.ended_unix_s);
    Bars {
        title: title(report),
        note: format!(
            "IO/s, medians of {} rounds; a line is from the least to the most; {}, {ended}",
            report.rounds, report.host.name
        ),
        panels: report.rows.iter().take(MAX_PANELS).map(panel).collect(),
        columns: 2,
        width: WIDTH,
    }
}

fn panel(row: &Row) -> Panel {
    let bar = |(number, cell): (usize, &Cell)| {
        let iops = cell.iops?;
        Some(Bar {
            label: cell.target.clone(),
            value: iops.median,
            spread: Some((iops.least, iops.most)),
            figure: Unit::Iops.show(iops.median),
            // The first one is that of which the others are factors.
            tone: if number == 0 { Tone::Ours } else { Tone::Other },
        })
    };
    let verb = if row.direction == "read" { "reads" } else { "writes" };
    Panel {
        title: format!("{}, {verb}", row.test),
        bars: row.cells.iter().enumerate().filter_map(bar).collect(),
    }
}
