//! A run as a picture: what each test did, second by second.

use chart::{Clock, Line, Lines, Point, Theme, Unit};

use super::{Report, SecondReport, TestReport};

/// Of the picture, in pixels.
const WIDTH: u32 = 960;
/// A second that was cut short says nothing of a rate.
const WHOLE_S: f64 = 0.5;

/// The operations of every test over its seconds, as SVG: steadiness and drops are seen, which no mean tells.
pub fn picture(report: &Report) -> String {
    let point = |second: &SecondReport| (second.span_s > WHOLE_S).then(|| Point::of(second.iops));
    let line = |test: &TestReport| Line {
        label: test.name.clone(),
        points: test.seconds.iter().map(point).collect(),
    };
    let lines = Lines {
        title: report
            .profile
            .as_ref()
            .map_or_else(|| "A load of one's own".to_owned(), |name| format!("Profile {name}")),
        note: format!("{} on {}", report.target, report.host.name),
        unit: Unit::Iops,
        clock: Clock::Elapsed,
        begin_s: 0,
        step_s: 1,
        slots: report.tests.iter().map(|test| test.seconds.len()).max().unwrap_or(0),
        lines: report.tests.iter().map(line).collect(),
        width: WIDTH,
    };
    lines.to_svg(Theme::Auto)
}
