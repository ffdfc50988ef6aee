//! A chart of bars as SVG: text in, text out. It is read on light and on dark ground, and needs no script and no font of its own.

use std::fmt::Write as _;

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
/// Width of one character, about: what is longer is cut.
const CHARACTER: u32 = 7;

/// Colours of light ground, and of dark.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}.h{font-size:16px;font-weight:600}.p{font-weight:600}.n{fill:#59636e}\
.b0{fill:#0969da}.b1{fill:#8c959f}.b2{fill:none;stroke:#59636e;stroke-dasharray:3 2}.s{stroke:#1f2328;stroke-width:1.5;opacity:.7}\
.g{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#9198a1}.b0{fill:#4493f8}.b1{fill:#656c76}\
.b2{stroke:#9198a1}.s{stroke:#e6edf3}.g{fill:#0d1117}}";

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
pub struct Chart {
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

/// What XML does not take as it is.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// As much of a text as has room in `width` pixels.
fn fit(text: &str, width: u32) -> String {
    let most = (width / CHARACTER).max(1) as usize;
    if text.chars().count() <= most {
        return escape(text);
    }
    let cut: String = text.chars().take(most - 1).collect();
    escape(&cut) + "\u{2026}"
}

fn panel_height(panel: &Panel) -> u32 {
    LINE + u32::try_from(panel.bars.len()).unwrap_or(0) * LINE
}

/// What is drawn of a value: nothing of what is no number or below zero.
fn drawable(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}

fn text(svg: &mut String, class: &str, x: u32, y: u32, text: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
}

fn panel(svg: &mut String, panel: &Panel, left: u32, top: u32, width: u32) {
    text(svg, "p", left, top + 13, &fit(&panel.title, width));
    let room = f64::from(width.saturating_sub(LABELS + FIGURES).max(1));
    let longest = |bar: &Bar| drawable(bar.spread.map_or(bar.value, |(_, most)| most.max(bar.value)));
    let most = panel.bars.iter().map(longest).fold(0.0, f64::max);
    let pixels = |value: f64| if most > 0.0 { drawable(value) / most * room } else { 0.0 };
    let start = f64::from(left + LABELS);
    for (index, bar) in (0..).zip(&panel.bars) {
        let y = top + LINE + index * LINE;
        text(svg, "n", left, y + 13, &fit(&bar.label, LABELS));
        let class = match bar.tone {
            Tone::Ours => "b0",
            Tone::Other => "b1",
            Tone::Limit => "b2",
        };
        let (length, at) = (pixels(bar.value), y + (LINE - BAR) / 2);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{start:.0}\" y=\"{at}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"1\"/>"
        );
        let mut end = length;
        if let Some((least, largest)) = bar.spread {
            let (from, to, middle) = (pixels(least), pixels(largest), at + BAR / 2);
            end = end.max(to);
            if to - from >= 1.0 {
                let _ = writeln!(
                    svg,
                    "<line class=\"s\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>",
                    start + from,
                    start + to
                );
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\">{}</text>",
            start + end + 6.0,
            y + 13,
            fit(&bar.figure, FIGURES)
        );
    }
}

impl Chart {
    /// The chart as SVG.
    pub fn to_svg(&self) -> String {
        let columns = self.columns.max(1);
        let width = self.width.max(columns * (LABELS + FIGURES + GAP) + 2 * MARGIN);
        let each = (width - 2 * MARGIN - (columns - 1) * GAP) / columns;
        let mut body = String::new();
        text(&mut body, "h", MARGIN, MARGIN + 16, &escape(&self.title));
        text(&mut body, "n", MARGIN, MARGIN + 36, &escape(&self.note));
        let mut top = MARGIN + 52;
        for row in self.panels.chunks(columns as usize) {
            for (column, one) in (0..).zip(row) {
                panel(&mut body, one, MARGIN + column * (each + GAP), top, each);
            }
            top += row.iter().map(panel_height).max().unwrap_or(0) + GAP;
        }
        let height = top.saturating_sub(GAP) + MARGIN;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"g\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n",
            escape(&self.title)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64, spread: Option<(f64, f64)>) -> Bar {
        Bar { label: label.to_owned(), value, spread, figure: format!("{value}"), tone: Tone::Ours }
    }

    fn chart(bars: Vec<Bar>) -> String {
        let panels = vec![Panel { title: "IOPS".to_owned(), bars }];
        let (title, note) = ("A & B <c>".to_owned(), String::new());
        Chart { title, note, panels, columns: 1, width: 432 }.to_svg()
    }

    /// The numbers of an attribute in the order of the elements.
    fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
        let of = |line: &str| -> Option<f64> {
            let rest = line.strip_prefix(element)?.split_once(&format!(" {attribute}=\""))?.1;
            rest.split('"').next()?.parse().ok()
        };
        svg.lines().filter_map(of).collect()
    }

    #[test]
    fn bars_are_to_scale_and_the_longest_sample_fills_the_room() {
        // 432 - 2 * 16 - 96 - 104 = 200 pixels.
        let svg = chart(vec![bar("a", 50.0, Some((40.0, 100.0))), bar("b", 25.0, None)]);
        assert_eq!(numbers(&svg, "<rect class=\"b0\"", "width"), [100.0, 50.0]);
        assert_eq!(numbers(&svg, "<line", "x1"), [192.0]);
        assert_eq!(numbers(&svg, "<line", "x2"), [312.0]);
    }

    #[test]
    fn text_is_text_and_not_markup() {
        let svg = chart(vec![bar("<script>", 1.0, None)]);
        assert!(svg.contains("A &amp; B &lt;c&gt;") && svg.contains("&lt;script&gt;"), "{svg}");
        assert!(!svg.contains("<script"));
    }

    #[test]
    fn what_is_no_number_has_no_bar() {
        let svg = chart(vec![bar("a", f64::NAN, None), bar("b", f64::INFINITY, None), bar("c", -1.0, None)]);
        assert_eq!(numbers(&svg, "<rect class=\"b0\"", "width"), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn long_names_are_cut_where_their_room_ends() {
        assert_eq!(fit("a name that is too long", 70), "a name th\u{2026}");
        assert_eq!(fit("short", 70), "short");
    }

    #[test]
    fn panels_stand_beside_each_other_and_none_leaves_the_picture() {
        let one = Panel { title: "p".to_owned(), bars: vec![bar("a", 1.0, None)] };
        let two = Panel { bars: vec![bar("a", 1.0, None), bar("b", 1.0, None)], ..one.clone() };
        let chart = Chart {
            title: String::new(),
            note: String::new(),
            panels: vec![one.clone(), two, one],
            columns: 2,
            width: 800,
        };
        let svg = chart.to_svg();
        let tops = numbers(&svg, "<text class=\"p\"", "y");
        assert!((tops[0] - tops[1]).abs() < 1e-9 && tops[2] > tops[1], "{tops:?}");
        let height = numbers(&svg, "<svg", "height")[0];
        assert!(numbers(&svg, "<rect class=\"b0\"", "y").iter().all(|y| y + f64::from(BAR) < height));
    }

    #[test]
    fn both_grounds_have_colours() {
        let svg = chart(Vec::new());
        assert!(svg.contains("prefers-color-scheme:dark") && svg.ends_with("</svg>\n"));
    }
}
