//! Bars beside each other, with the spread of their samples.

use crate::svg::{Body, Theme, fit, wrap};

/// Space around everything.
const MARGIN: u32 = 16;
/// Between two panels, either way.
const GAP: u32 = 28;
const LINE: u32 = 18;
const BAR: u32 = 12;
/// For the bars' names.
const LABELS: u32 = 96;
/// For the figures behind them.
const FIGURES: u32 = 104;

/// Who a bar belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// What the chart is about.
    Ours,
    /// What it is compared with.
    Other,
    /// What nobody can pass: an outline.
    Limit,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its name.
    pub label: String,
    /// How long it is, in the panel's unit.
    pub value: f64,
    /// The smallest and the largest sample: a line over the bar.
    pub spread: Option<(f64, f64)>,
    /// The figure, as it is written behind the bar.
    pub figure: String,
    /// Who it belongs to.
    pub tone: Tone,
}

/// Bars on one scale, which begins at zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What is compared, with the unit.
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// The chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Above everything.
    pub title: String,
    /// Below the title: where and when.
    pub note: String,
    /// Row by row.
    pub panels: Vec<Panel>,
    /// Panels beside each other.
    pub columns: u32,
    /// Pixels.
    pub width: u32,
}

fn panel_height(panel: &Panel) -> u32 {
    LINE + u32::try_from(panel.bars.len()).unwrap_or(0) * LINE
}

/// What is drawn of a value: nothing of what is no number or below zero.
fn drawable(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}

fn panel(body: &mut Body, panel: &Panel, left: u32, top: u32, width: u32) {
    let text = |body: &mut Body, class: &str, x: u32, y: u32, text: &str| {
        body.text(class, f64::from(x), f64::from(y), text);
    };
    text(body, "p", left, top + 13, &fit(&panel.title, width));
    let room = f64::from(width.saturating_sub(LABELS + FIGURES).max(1));
    let longest = |bar: &Bar| drawable(bar.spread.map_or(bar.value, |(_, most)| most.max(bar.value)));
    let most = panel.bars.iter().map(longest).fold(0.0, f64::max);
    let pixels = |value: f64| if most > 0.0 { (drawable(value) / most).min(1.0) * room } else { 0.0 };
    let start = f64::from(left + LABELS);
    for (index, bar) in (0..).zip(&panel.bars) {
        let y = top + LINE + index * LINE;
        text(body, "n", left, y + 13, &fit(&bar.label, LABELS));
        let class = match bar.tone {
            Tone::Ours => "b0",
            Tone::Other => "b1",
            Tone::Limit => "b2",
        };
        let (length, at) = (pixels(bar.value), y + (LINE - BAR) / 2);
        body.add(format_args!(
            "<rect class=\"{class}\" x=\"{start:.0}\" y=\"{at}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"1\"/>"
        ));
        let mut end = length;
        if let Some((least, largest)) = bar.spread {
            let (from, to, middle) = (pixels(least), pixels(largest), at + BAR / 2);
            end = end.max(to);
            if to - from >= 1.0 {
                body.add(format_args!(
                    "<line class=\"s\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>",
                    start + from,
                    start + to
                ));
            }
        }
        body.text("", start + end + 6.0, f64::from(y + 13), &fit(&bar.figure, FIGURES));
    }
}

impl Bars {
    /// The chart as SVG.
    pub fn to_svg(&self, theme: Theme) -> String {
        let columns = self.columns.max(1);
        let width = self.width.max(columns * (LABELS + FIGURES + GAP) + 2 * MARGIN);
        let each = (width - 2 * MARGIN - (columns - 1) * GAP) / columns;
        let mut body = Body::default();
        body.text("h", f64::from(MARGIN), f64::from(MARGIN + 16), &fit(&self.title, width - 2 * MARGIN));
        let mut top = MARGIN + 20;
        for line in wrap(&self.note, width - 2 * MARGIN) {
            top += LINE;
            body.text("n", f64::from(MARGIN), f64::from(top), &line);
        }
        top += LINE;
        for row in self.panels.chunks(columns as usize) {
            for (column, one) in (0..).zip(row) {
                panel(&mut body, one, MARGIN + column * (each + GAP), top, each);
            }
            top += row.iter().map(panel_height).max().unwrap_or(0) + GAP;
        }
        body.finish(width, top.saturating_sub(GAP) + MARGIN, &self.title, &self.in_words(), theme)
    }

    /// All figures, for those who do not see the bars.
    fn in_words(&self) -> String {
        let panel = |panel: &Panel| {
            let bars = panel.bars.iter().map(|bar| format!("{} {}", bar.label, bar.figure));
            format!("{}: {}.", panel.title, bars.collect::<Vec<_>>().join("; "))
        };
        self.panels.iter().map(panel).fold(self.note.clone(), |words, panel| words + " " + &panel)
    }
}

#[cfg(test)]
mod tests;
