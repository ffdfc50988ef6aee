//! Lines over time: what each was on average, and a band from its smallest to its largest value.

mod draw;
mod reduce;
mod terminal;
#[cfg(test)]
mod tests;

use crate::numbers::{Unit, known};
use crate::svg::COLOURS;
use crate::time::Clock;

/// Lines that are drawn: as many as can be told apart by colour and dash together.
pub const MAX_LINES: usize = 2 * COLOURS;

/// What a line was in one slot of time. What is no number is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The smallest value.
    pub least: f64,
    /// The mean.
    pub mean: f64,
    /// The largest value.
    pub most: f64,
}

impl Point {
    /// One value.
    pub fn of(value: f64) -> Point {
        Point { least: value, mean: value, most: value }
    }

    /// As it is drawn: in order, and finite.
    fn known(self) -> Option<Point> {
        let mean = known(self.mean)?;
        let least = known(self.least).unwrap_or(mean).min(mean);
        let most = known(self.most).unwrap_or(mean).max(mean);
        Some(Point { least, mean, most })
    }
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// What it is of.
    pub label: String,
    /// A point for each slot, from the beginning on; nothing where it is unknown.
    pub points: Vec<Option<Point>>,
}

/// Lines on one scale, over the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Above everything.
    pub title: String,
    /// Below the title.
    pub note: String,
    /// Of all values.
    pub unit: Unit,
    /// How times are counted.
    pub clock: Clock,
    /// When the first slot begins, by the clock.
    pub begin_s: u64,
    /// Seconds of a slot; 0 is taken for 1.
    pub step_s: u64,
    /// Slots: lines that have fewer points are unknown at the end.
    pub slots: usize,
    /// From the most important one on; of more than [`MAX_LINES`] the rest is named as left out.
    pub lines: Vec<Line>,
    /// Pixels, 320 at least.
    pub width: u32,
}

/// A line as figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// The last value that is known.
    pub last: f64,
    /// The mean of all that is known.
    pub mean: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Line {
    /// What is known of it in so many slots; nothing if that is nothing.
    pub fn figures(&self, slots: usize) -> Option<Figures> {
        let points = || self.points.iter().take(slots).filter_map(|point| point.and_then(Point::known));
        let count = points().count();
        let last = points().next_back()?.mean;
        // Each divided, so that the sum of large values is one.
        let mean = points().map(|point| point.mean / count as f64).sum();
        let least = points().map(|point| point.least).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.most).fold(f64::NEG_INFINITY, f64::max);
        Some(Figures { last, mean, least, most })
    }
}

impl Lines {
    fn step_s(&self) -> u64 {
        self.step_s.max(1)
    }

    fn end_s(&self) -> u64 {
        self.begin_s.saturating_add(self.step_s().saturating_mul(self.slots as u64))
    }

    /// What is drawn, and how many are left out.
    fn drawn(&self) -> (&[Line], usize) {
        let drawn = self.lines.len().min(MAX_LINES);
        (&self.lines[..drawn], self.lines.len() - drawn)
    }

    /// From when to when.
    fn range(&self) -> String {
        let zone = if self.clock == Clock::Utc { " UTC" } else { "" };
        format!("{} to {}{zone}", self.clock.show(self.begin_s), self.clock.show(self.end_s()))
    }

    /// All lines, for those who do not see them.
    fn in_words(&self) -> String {
        let (drawn, _) = self.drawn();
        let line = |line: &Line| match line.figures(self.slots) {
            Some(figures) => format!(
                " {}: last {}, mean {}, least {}, most {}.",
                line.label,
                self.unit.show(figures.last),
                self.unit.show(figures.mean),
                self.unit.show(figures.least),
                self.unit.show(figures.most)
            ),
            None => format!(" {}: unknown.", line.label),
        };
        drawn.iter().map(line).fold(format!("From {}.", self.range()), |words, line| words + &line)
    }
}
