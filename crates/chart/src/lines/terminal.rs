//! Lines for a terminal: a field of braille for each, so that none hides another and no colour is needed.

use std::fmt::Write as _;

use super::{Figures, Line, Lines};
use crate::time::Mark;

/// Rows of a field.
const ROWS: usize = 4;
/// Dots of a character: two beside each other, four above each other.
const ACROSS: usize = 2;
const DOWN: usize = 4;
/// The bits of the dots of a character, by column and from the top (Unicode, Braille Patterns).
const DOTS: [[u32; DOWN]; ACROSS] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// No dot.
const BLANK: u32 = 0x2800;
/// For what stands at the scale.
const SCALE: usize = 14;
/// Characters between two marks of time, at least.
const MARK: u64 = 12;

impl Lines {
    /// The lines as text of so many columns, 40 at least.
    pub fn to_terminal(&self, columns: usize) -> String {
        let room = columns.clamp(40, 400) - SCALE - 1;
        let (drawn, left_out) = self.drawn();
        let mut text = plain(&self.title) + "\n";
        if !self.note.is_empty() {
            text = text + &plain(&self.note) + "\n";
        }
        text = text + &self.range() + "\n";
        // What is told of a line is of all that is known of it; what is drawn has room for less.
        let picture = Lines { lines: drawn.to_vec(), ..self.clone() }.reduced(room * ACROSS);
        for (line, drawn) in drawn.iter().zip(&picture.lines) {
            text += "\n";
            let field = match line.figures(self.slots) {
                // A field of nothing but zeroes says no more.
                Some(figures) if figures.most <= figures.least => {
                    format!("{}: {} all the time\n", plain(&line.label), self.unit.show(figures.last))
                }
                Some(figures) => picture.field(&plain(&line.label), drawn, &figures, room),
                None => format!("{}: nothing is known of this time\n", plain(&line.label)),
            };
            text += &field;
        }
        if left_out > 0 {
            // Writing to a String does not fail.
            let _ = writeln!(text, "\nand {left_out} more, which are not drawn");
        }
        text
    }

    /// A line with its figures, its field, and the marks of time below.
    fn field(&self, label: &str, line: &Line, figures: &Figures, room: usize) -> String {
        let show = |value| self.unit.show(value);
        let mut text = format!(
            "{label}: last {}, mean {}, least {}, most {}\n",
            show(figures.last),
            show(figures.mean),
            show(figures.least),
            show(figures.most)
        );
        // Of what is drawn: the means.
        let means = || line.points.iter().flatten().map(|point| point.mean);
        let marks =
            self.unit.marks(means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
        let (lowest, highest) = (marks[0], marks[marks.len() - 1]);
        let field = dots(line, self.slots, (lowest, highest), room);
        for (number, row) in field.iter().enumerate() {
            let label = match number {
                0 => show(highest),
                _ if number == ROWS - 1 => show(lowest),
                _ => String::new(),
            };
            let row: String = row.iter().filter_map(|bits| char::from_u32(BLANK + bits)).collect();
            let _ = writeln!(text, "{label:>SCALE$} {row}");
        }
        text + &self.marks_below(room) + "\n"
    }

    fn marks_below(&self, room: usize) -> String {
        let mut below = vec![' '; SCALE + 1 + room];
        let length = (self.end_s() - self.begin_s).max(1) as f64;
        for Mark { at_s, label } in self.clock.marks(self.begin_s, self.end_s(), room as u64 / MARK) {
            let at = SCALE + 1 + (at_s.saturating_sub(self.begin_s) as f64 / length * room as f64) as usize;
            let width = label.chars().count();
            let from = at.saturating_sub(width / 2).min(below.len() - width);
            // None is written over another.
            if below[from.saturating_sub(1)..from + width].iter().all(|sign| *sign == ' ') {
                below[from..from + width]
                    .iter_mut()
                    .zip(label.chars())
                    .for_each(|(place, sign)| *place = sign);
            }
        }
        below.into_iter().collect::<String>().trim_end().to_owned()
    }
}

/// A name that does nothing to the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect()
}

/// The characters of a field, row by row: each column of dots reaches to the one before it.
fn dots(line: &Line, slots: usize, (lowest, highest): (f64, f64), room: usize) -> Vec<Vec<u32>> {
    let mut field = vec![vec![0; room]; ROWS];
    let height = ROWS * DOWN - 1;
    // From the top.
    let row = |value: f64| {
        let part = ((value - lowest) / (highest - lowest)).clamp(0.0, 1.0);
        height - (part * height as f64).round() as usize
    };
    let width = room * ACROSS;
    let mut before: Option<usize> = None;
    for column in 0..width {
        // Few slots are stretched over the room.
        let point = line.points.get(column * slots / width).copied().flatten();
        let now = point.map(|point| row(point.mean));
        if let Some(now) = now {
            let before = before.unwrap_or(now);
            for dot in now.min(before)..=now.max(before) {
                field[dot / DOWN][column / ACROSS] |= DOTS[column % ACROSS][dot % DOWN];
            }
        }
        before = now;
    }
    field
}
