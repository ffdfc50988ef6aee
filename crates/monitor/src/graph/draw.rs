//! What is on a graph: lines with what the history knows of them.

use std::ops::Range;

use chart::{Clock, Line, Lines, MAX_LINES, Point};

use super::{Graph, Span};
use crate::history::{Archive, Points};

impl Graph {
    /// The lines over a span that ends now, `now_s` seconds after the beginning of 1970. `read` reads the history as
    /// [`crate::history::History::read`] does; its errors are given on.
    ///
    /// Of more lines than can be drawn those come first that reach highest.
    pub fn draw<E>(
        &self,
        span: Span,
        now_s: u64,
        mut read: impl FnMut(&str, Archive, Range<u64>) -> Result<Option<Points>, E>,
    ) -> Result<Lines, E> {
        let archive = span.archive();
        let step_s = archive.step_s();
        let end_s = now_s / step_s * step_s;
        let begin_s = end_s.saturating_sub(span.seconds());
        let slots = ((end_s - begin_s) / step_s) as usize;
        let mut lines = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let mut sum = Sum::new(begin_s, step_s, slots);
            for series in &line.series {
                if let Some(points) = read(series, archive, begin_s..end_s)? {
                    sum.add(&points);
                }
            }
            lines.push(Line { label: line.label.clone(), points: sum.points(line.series.len() == 1) });
        }
        if lines.len() > MAX_LINES {
            let highest = |line: &Line| line.figures(slots).map_or(f64::NEG_INFINITY, |figures| figures.most);
            lines.sort_by(|one, other| highest(other).total_cmp(&highest(one)));
        }
        let (title, note) = (self.title().to_owned(), self.note());
        let (unit, clock) = (self.unit(), Clock::Utc);
        Ok(Lines { title, note, unit, clock, begin_s, step_s, slots, lines, width: WIDTH })
    }
}

/// Of a picture, in pixels.
const WIDTH: u32 = 760;

/// Series slot by slot.
struct Sum {
    begin_s: u64,
    step_s: u64,
    points: Vec<Option<Point>>,
}

impl Sum {
    fn new(begin_s: u64, step_s: u64, slots: usize) -> Self {
        Self { begin_s, step_s, points: vec![None; slots] }
    }

    fn add(&mut self, points: &Points) {
        // The history begins and ends where it wants, in slots of the same length.
        let first = points.begin_s.saturating_sub(self.begin_s) / self.step_s;
        for (slot, place) in points.slots.iter().zip(self.points.iter_mut().skip(first as usize)) {
            if slot.is_known() {
                let [least, mean, most] = [slot.min, slot.mean, slot.max].map(f64::from);
                let sum = place.get_or_insert(Point { least: 0.0, mean: 0.0, most: 0.0 });
                sum.least += least;
                sum.mean += mean;
                sum.most += most;
            }
        }
    }

    /// Of several series nobody knows whether their smallest values were at the same time: their sum has only a mean.
    fn points(self, is_one: bool) -> Vec<Option<Point>> {
        let point = |point: Point| if is_one { point } else { Point::of(point.mean) };
        self.points.into_iter().map(|sum| sum.map(point)).collect()
    }
}
