//! Whatever is drawn, it is a picture; and it shows what is known, and not what is not.

use super::*;
use crate::svg::{DASHES, Theme};
use proptest::prelude::*;

const DAY: u64 = 86_400;
/// 2026-11-22 02:50, UTC.
const NOW: u64 = 1_795_315_800;

fn lines(points: Vec<Vec<Option<Point>>>) -> Lines {
    let slots = points.iter().map(Vec::len).max().unwrap_or(0);
    let line = |(number, points)| Line { label: format!("line {number}"), points };
    Lines {
        title: "Operations".to_owned(),
        note: "volume demo".to_owned(),
        unit: Unit::Iops,
        clock: Clock::Utc,
        begin_s: NOW - slots as u64 * 10,
        step_s: 10,
        slots,
        lines: points.into_iter().enumerate().map(line).collect(),
        width: 720,
    }
}

fn values(values: &[f64]) -> Vec<Option<Point>> {
    values.iter().map(|value| (!value.is_nan()).then(|| Point::of(*value))).collect()
}

/// The paths with this class, as runs of coordinates.
fn paths(svg: &str, class: &str) -> Vec<Vec<Vec<(f64, f64)>>> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let has = |node: &roxmltree::Node| {
        node.has_tag_name("path")
            && node.attribute("class").is_some_and(|of| of.split(' ').any(|one| one == class))
    };
    let runs = |d: &str| {
        let runs = d.split('M').filter(|run| !run.is_empty());
        let pair = |pair: &str| {
            let (x, y) = pair.trim_end_matches('Z').split_once(' ').unwrap();
            (x.parse().unwrap(), y.trim_end_matches("h0").parse().unwrap())
        };
        runs.filter(|run| !run.contains("h28")).map(|run| run.split('L').map(pair).collect()).collect()
    };
    let drawn = document.descendants().filter(has).map(|node| runs(node.attribute("d").unwrap()));
    drawn.filter(|runs: &Vec<Vec<(f64, f64)>>| !runs.is_empty()).collect()
}

#[test]
fn a_line_has_gaps_where_it_is_unknown_and_a_dot_where_it_is_alone() {
    let unknown = f64::NAN;
    let svg = lines(vec![values(&[1.0, 2.0, unknown, 3.0, unknown, unknown, 4.0, 5.0])]).to_svg(Theme::Auto);
    let runs = paths(&svg, "l");
    assert_eq!(runs[0].iter().map(Vec::len).collect::<Vec<_>>(), [2, 2], "{svg}");
    assert_eq!(paths(&svg, "o")[0].len(), 1);
    // Nothing is drawn over the gaps, which are shaded.
    assert_eq!(svg.matches("<rect class=\"u\"").count(), 2);
    assert!(svg.contains("Shaded: nothing is known"), "{svg}");
}

#[test]
fn all_that_is_known_has_no_shade() {
    let svg = lines(vec![values(&[1.0; 8])]).to_svg(Theme::Auto);
    assert!(!svg.contains("class=\"u\"") && !svg.contains("Shaded"), "{svg}");
}

#[test]
fn a_value_twice_as_large_is_twice_as_high() {
    let svg = lines(vec![values(&[0.0, 500.0, 1000.0])]).to_svg(Theme::Auto);
    let run = &paths(&svg, "l")[0][0];
    let heights: Vec<_> = run.iter().map(|(_, y)| run[0].1 - y).collect();
    assert_eq!(heights, [0.0, 90.0, 180.0]);
    assert!((run[1].0 - run[0].0 - (run[2].0 - run[1].0)).abs() < 0.15, "{run:?}");
}

#[test]
fn more_slots_than_pixels_keep_their_extremes() {
    let mut points = values(&vec![100.0; DAY as usize / 10]);
    points[5000] = Some(Point::of(900.0));
    let chart = lines(vec![points]);
    let svg = chart.to_svg(Theme::Auto);
    let highest = |class| {
        let paths = paths(&svg, class);
        paths.iter().flatten().flatten().map(|(_, y)| *y).fold(f64::INFINITY, f64::min)
    };
    // 1000 IO/s is at 68, 0 at 248: the band has the peak, the line the mean.
    assert!((highest("a") - 86.0).abs() < 0.2 && highest("l") > 200.0, "{} {}", highest("a"), highest("l"));
    assert!(svg.len() < 40_000, "{}", svg.len());
    assert!((chart.lines[0].figures(chart.slots).unwrap().most - 900.0).abs() < 1e-9);
}

#[test]
fn what_was_drawn_stays_when_time_goes_on() {
    let wave = |slot: u64| Some(Point::of((slot % 97) as f64));
    let at = |begin: u64| {
        let points = vec![(begin..begin + 8640).map(wave).collect()];
        Lines { begin_s: begin * 10, ..lines(points) }.reduced(600)
    };
    let (one, next) = (at(179_531_580), at(179_531_580 + 15));
    assert_eq!((one.step_s, next.step_s, next.begin_s), (150, 150, one.begin_s + 150));
    assert_eq!(one.lines[0].points[2..500], next.lines[0].points[1..499]);
}

#[test]
fn many_lines_are_told_apart_and_the_rest_is_named() {
    let chart = lines(vec![values(&[1.0, 2.0]); MAX_LINES + 3]);
    let svg = chart.to_svg(Theme::Auto);
    let document = roxmltree::Document::parse(&svg).unwrap();
    let look = |node: roxmltree::Node| {
        Some((node.attribute("class")?.to_owned(), node.attribute("stroke-dasharray")?.to_owned()))
    };
    let mut looks: Vec<_> = document.descendants().filter_map(look).collect();
    // Each twice: in the picture, and before its name.
    assert_eq!(looks.len(), 2 * MAX_LINES);
    looks.sort();
    looks.dedup();
    assert_eq!(looks.len(), MAX_LINES);
    assert!(svg.contains("and 3 more"), "{svg}");
    assert_eq!(DASHES.len() * 2, MAX_LINES);
}

#[test]
fn who_does_not_see_it_is_told_the_figures() {
    let chart = lines(vec![values(&[1000.0, 3000.0]), values(&[f64::NAN])]);
    let svg = chart.to_svg(Theme::Auto);
    let says = "<desc>From 2026-11-22 02:49 to 2026-11-22 02:50 UTC. line 0: last 3 k IO/s, mean 2 k IO/s, least 1 k IO/s, \
                most 3 k IO/s. line 1: unknown.</desc>";
    assert!(svg.contains(says), "{svg}");
    assert!(svg.contains("role=\"img\"") && svg.contains("<title>Operations</title>"));
}

#[test]
fn nothing_is_a_picture_too() {
    for chart in [lines(Vec::new()), lines(vec![values(&[f64::NAN; 5])])] {
        let svg = chart.to_svg(Theme::Auto);
        assert!(svg.contains("nothing is known of this time"), "{svg}");
    }
}

#[test]
fn a_terminal_shows_the_same() {
    let mut chart = lines(vec![values(&[0.0, 100.0, f64::NAN, 400.0]), Vec::new()]);
    chart.clock = Clock::Elapsed;
    chart.begin_s = 0;
    let text = chart.to_terminal(55);
    let expected = "\
Operations
volume demo
0:00 to 0:40

line 0: last 400 IO/s, mean 167 IO/s, least 0 IO/s, most 400 IO/s
      400 IO/s \u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}\u{2800}⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("        0 IO/s ⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⡇"), "{text}");
    assert!(text.contains("0:15"), "{text}");
    assert!(text.ends_with("line 1: nothing is known of this time\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
}

fn any_point() -> impl Strategy<Value = Option<Point>> {
    let value = prop_oneof![4 => 0.0..1e6, 1 => any::<f64>()];
    proptest::option::weighted(
        0.8,
        (value.clone(), value.clone(), value).prop_map(|(least, mean, most)| Point { least, mean, most }),
    )
}

fn any_unit() -> impl Strategy<Value = Unit> {
    proptest::sample::select(vec![
        Unit::Count,
        Unit::Iops,
        Unit::BytesPerSecond,
        Unit::Seconds,
        Unit::Share,
        Unit::Celsius,
    ])
}

prop_compose! {
    fn any_lines()(
        lines in proptest::collection::vec((any::<String>(), proptest::collection::vec(any_point(), 0..60)), 0..20),
        (title, note) in (any::<String>(), any::<String>()),
        unit in any_unit(),
        elapsed in any::<bool>(),
        (begin_s, step_s) in prop_oneof![(0..NOW, 0..4000u64), (any::<u64>(), any::<u64>())],
        slots in prop_oneof![0..80usize, 3000..9000usize],
        width in any::<u32>(),
    ) -> Lines {
        let clock = if elapsed { Clock::Elapsed } else { Clock::Utc };
        let lines = lines.into_iter().map(|(label, points)| Line { label, points }).collect();
        Lines { title, note, unit, clock, begin_s, step_s, slots, lines, width }
    }
}

/// Every number of a picture, as it would be drawn.
fn coordinates(document: &roxmltree::Document) -> Vec<f64> {
    let mut numbers = Vec::new();
    for node in document.descendants() {
        for attribute in
            node.attributes().filter(|one| !["class", "role", "stroke-dasharray"].contains(&one.name()))
        {
            let parts = attribute.value().split(|sign: char| sign == ' ' || "MLZh".contains(sign));
            numbers
                .extend(parts.filter(|part| !part.is_empty()).map(|part| part.parse::<f64>().expect(part)));
        }
    }
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_lines_are_well_formed_and_stay_in_the_picture(chart in any_lines()) {
        let svg = chart.to_svg(Theme::Auto);
        let document = roxmltree::Document::parse(&svg).map_err(|error| TestCaseError::fail(format!("{error}: {svg}")))?;
        let root = document.root_element();
        let size = |name| root.attribute(name).unwrap().parse::<f64>().unwrap();
        let largest = size("width").max(size("height"));
        prop_assert!(coordinates(&document).iter().all(|number| number.is_finite() && (0.0..=largest).contains(number)), "{svg}");
        let lowest = document.descendants().filter_map(|node| node.attribute("y")?.parse::<f64>().ok()).fold(0.0, f64::max);
        prop_assert!(lowest <= size("height"), "{svg}");
    }

    #[test]
    fn any_lines_are_text(chart in any_lines(), columns in 0..300usize) {
        let text = chart.to_terminal(columns);
        prop_assert!(text.lines().count() >= 1);
        let is_field = |line: &&str| {
            let mut field = line.chars().skip(15).peekable();
            field.peek().is_some() && field.all(|sign| ('\u{2800}'..='\u{28ff}').contains(&sign))
        };
        let own: Vec<_> = text.lines().filter(is_field).collect();
        prop_assert!(own.iter().all(|line| line.chars().count() <= columns.max(40)), "{text}");
    }
}
