//! Lines as SVG.

use std::fmt::Write as _;

use super::{Line, Lines, Point};
use crate::svg::{Body, COLOURS, DASHES, Theme, fit};

/// Space around everything.
const MARGIN: f64 = 16.0;
const ROW: f64 = 18.0;
/// For what stands at the scale.
const SCALE: f64 = 76.0;
const HEIGHT: f64 = 180.0;
/// Of a column of figures below the lines.
const FIGURE: f64 = 92.0;
/// Of a piece of line before its name.
const SAMPLE: f64 = 36.0;
/// Between two marks of time, at least.
const MARK: f64 = 62.0;
const LEAST_WIDTH: u32 = 320;
const MOST_WIDTH: u32 = 4096;
/// Bands are drawn of so many lines: those of more hide each other, and the figures below say the same.
const MOST_BANDS: usize = 4;
/// Heads of the columns of figures, the first of them at the end of the row.
const HEADS: [&str; 4] = ["most", "least", "mean", "last"];

/// Where things are: time from left to right, values from bottom to top.
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    lowest: f64,
    highest: f64,
    slots: f64,
}

impl Frame {
    /// Of a time, in slots from the beginning.
    fn x(&self, slot: f64) -> f64 {
        let part = if self.slots > 0.0 { (slot / self.slots).clamp(0.0, 1.0) } else { 0.0 };
        self.left + part * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let part = ((value - self.lowest) / (self.highest - self.lowest)).clamp(0.0, 1.0);
        self.bottom - part * (self.bottom - self.top)
    }
}

/// What tells a line from the others.
struct Look {
    colour: usize,
    dash: &'static str,
}

impl Look {
    fn of(number: usize) -> Look {
        // The second time around, colours and dashes meet others.
        Look { colour: (number + number / COLOURS) % COLOURS, dash: DASHES[number % COLOURS] }
    }
}

impl Lines {
    /// The lines as SVG.
    pub fn to_svg(&self, theme: Theme) -> String {
        let width = self.width.clamp(LEAST_WIDTH, MOST_WIDTH);
        let (drawn, left_out) = self.drawn();
        let (left, right, top) = (MARGIN + SCALE, f64::from(width) - MARGIN, MARGIN + 52.0);
        let picture = Lines { lines: drawn.to_vec(), ..self.clone() }.reduced((right - left) as usize);
        let points = || picture.lines.iter().flat_map(|line| line.points.iter().flatten());
        let least = points().map(|point| point.least).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.most).fold(f64::NEG_INFINITY, f64::max);
        let marks = if points().next().is_some() { self.unit.marks(least, most) } else { Vec::new() };
        let (lowest, highest) = (marks.first().copied().unwrap_or(0.0), marks.last().copied().unwrap_or(1.0));
        let frame =
            Frame { left, top, right, bottom: top + HEIGHT, lowest, highest, slots: picture.slots as f64 };
        let mut body = Body::default();
        let room = width - 2 * MARGIN as u32;
        body.text("h", MARGIN, MARGIN + 16.0, &fit(&self.title, room * 7 / 9));
        let between = if self.note.is_empty() { "" } else { " \u{b7} " };
        let note = format!("{}{between}{}", self.note, self.range());
        body.text("n", MARGIN, MARGIN + 36.0, &fit(&note, room));
        let is_unknown = unknown(&mut body, &frame, &picture);
        picture.scales(&mut body, &frame, &marks);
        for (number, of) in picture.lines.iter().enumerate().rev() {
            line(&mut body, &frame, &of.points, &Look::of(number), drawn.len() <= MOST_BANDS);
        }
        if marks.is_empty() {
            body.text("n m", f64::midpoint(left, right), top + HEIGHT / 2.0, "nothing is known of this time");
        }
        let mut bottom = self.legend(&mut body, drawn, frame.bottom + 2.0 * ROW + 8.0, width);
        let mut note = |text: &str| {
            bottom += ROW;
            body.text("n", MARGIN, bottom, &fit(text, room));
        };
        if left_out > 0 {
            note(&format!("and {left_out} more, which are not drawn"));
        }
        if is_unknown && !marks.is_empty() {
            note("Shaded: nothing is known of this time.");
        }
        body.finish(width, (bottom + MARGIN) as u32, &self.title, &self.in_words(), theme)
    }

    /// Marks of time and of values, with lines through the picture.
    fn scales(&self, body: &mut Body, frame: &Frame, marks: &[f64]) {
        let (left, right, top, bottom) = (frame.left, frame.right, frame.top, frame.bottom);
        for mark in marks {
            let y = frame.y(*mark);
            body.add(format_args!(
                "<line class=\"r\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            ));
            body.text("n e", left - 6.0, y + 4.0, &fit(&self.unit.show(*mark), SCALE as u32 + 8));
        }
        let most = ((right - left) / MARK) as u64;
        for mark in self.clock.marks(self.begin_s, self.end_s(), most) {
            let x = frame.x(mark.at_s.saturating_sub(self.begin_s) as f64 / self.step_s() as f64);
            body.add(format_args!(
                "<line class=\"r\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\"/>",
                bottom + 4.0
            ));
            // None is cut off at an end.
            let class = if x + MARK / 2.0 > right + MARGIN { "n e" } else { "n m" };
            body.text(class, x.min(right + MARGIN / 2.0), bottom + ROW, &fit(&mark.label, MARK as u32));
        }
        body.add(format_args!(
            "<line class=\"x\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>"
        ));
    }

    /// Each line by its name and in figures. It gives where it ends.
    fn legend(&self, body: &mut Body, drawn: &[Line], top: f64, width: u32) -> f64 {
        let right = f64::from(width) - MARGIN;
        // Where there is little room, the figures that say most.
        let heads = (((right - MARGIN - SAMPLE) / FIGURE - 1.5) as usize).clamp(1, HEADS.len());
        let shown = if heads < HEADS.len() { &HEADS[HEADS.len() - heads..] } else { &HEADS };
        let column = |number: usize| right - FIGURE * number as f64;
        for (number, head) in shown.iter().enumerate() {
            body.text("n e", column(number), top, head);
        }
        let mut y = top;
        for (number, line) in drawn.iter().enumerate() {
            y += ROW;
            let Look { colour, dash } = Look::of(number);
            body.add(format_args!(
                "<path class=\"l c{colour}\" stroke-dasharray=\"{dash}\" d=\"M{MARGIN:.1} {:.1}h{:.1}\"/>",
                y - 4.0,
                SAMPLE - 8.0
            ));
            let room = column(shown.len() - 1) - FIGURE - MARGIN - SAMPLE;
            body.text("", MARGIN + SAMPLE, y, &fit(&line.label, room.max(0.0) as u32));
            let figures = line.figures(self.slots);
            for (number, head) in shown.iter().enumerate() {
                let value = figures.map_or(f64::NAN, |figures| match *head {
                    "most" => figures.most,
                    "least" => figures.least,
                    "mean" => figures.mean,
                    _ => figures.last,
                });
                body.text("e", column(number), y, &fit(&self.unit.show(value), FIGURE as u32));
            }
        }
        y
    }
}

/// Shades the times of which nothing is known, and says whether there are any.
fn unknown(body: &mut Body, frame: &Frame, picture: &Lines) -> bool {
    let is_known =
        |slot: usize| picture.lines.iter().any(|line| matches!(line.points.get(slot), Some(Some(_))));
    let mut any = false;
    let mut slot = 0;
    while slot < picture.slots {
        let end = (slot..picture.slots).find(|slot| is_known(*slot)).unwrap_or(picture.slots);
        if end > slot {
            let (from, to) = (frame.x(slot as f64), frame.x(end as f64));
            body.add(format_args!(
                "<rect class=\"u\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{HEIGHT:.1}\"/>",
                frame.top,
                to - from
            ));
            any = true;
        }
        slot = end + 1;
    }
    any
}

/// Runs of what is known, each a band with a line; one that is alone is a dot.
fn line(body: &mut Body, frame: &Frame, points: &[Option<Point>], look: &Look, with_band: bool) {
    let colour = look.colour;
    let (mut band, mut path, mut dots) = (String::new(), String::new(), String::new());
    let mut begin = 0;
    for run in points.split(Option::is_none) {
        let known: Vec<_> = run
            .iter()
            .flatten()
            .zip(begin..)
            .map(|(point, slot)| (frame.x(slot as f64 + 0.5), point))
            .collect();
        begin += run.len() + 1;
        // Writing to a String does not fail.
        if let [(x, point)] = known[..] {
            let _ = write!(dots, "M{x:.1} {:.1}h0", frame.y(point.mean));
            continue;
        }
        for (number, (x, point)) in known.iter().enumerate() {
            let command = if number == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{x:.1} {:.1}", frame.y(point.mean));
            let _ = write!(band, "{command}{x:.1} {:.1}", frame.y(point.most));
        }
        for (x, point) in known.iter().rev() {
            let _ = write!(band, "L{x:.1} {:.1}", frame.y(point.least));
        }
        if !known.is_empty() {
            band.push('Z');
        }
    }
    let has_band = with_band && points.iter().flatten().any(|point| point.most > point.least);
    if has_band && !band.is_empty() {
        body.add(format_args!("<path class=\"a f{colour}\" d=\"{band}\"/>"));
    }
    if !path.is_empty() {
        body.add(format_args!(
            "<path class=\"l c{colour}\" stroke-dasharray=\"{}\" d=\"{path}\"/>",
            look.dash
        ));
    }
    if !dots.is_empty() {
        body.add(format_args!("<path class=\"o c{colour}\" d=\"{dots}\"/>"));
    }
}
