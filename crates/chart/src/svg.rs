//! What all pictures have in common: text that is text, colours of light and of dark ground, and the frame.

use std::fmt::{self, Write as _};

/// Width of one character, about: what is longer than its room is cut.
const CHARACTER: u32 = 7;
/// Colours of lines; as many on dark ground.
pub const COLOURS: usize = 8;
/// Told apart without colours, too. One each colour.
pub const DASHES: [&str; COLOURS] = ["none", "7 3", "2 2", "9 3 2 3", "4 2", "12 3", "5 2 1 2 1 2", "1 3"];

/// For which ground a picture is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// For that which the reader prefers.
    #[default]
    Auto,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// What is the same on any ground.
const SHAPES: &[(&str, &str)] = &[
    ("text", "font:12px system-ui,sans-serif"),
    (".h", "font-size:16px;font-weight:600"),
    (".p", "font-weight:600"),
    (".e", "text-anchor:end"),
    (".m", "text-anchor:middle"),
    (".b2", "fill:none;stroke-dasharray:3 2"),
    (".s", "stroke-width:1.5;opacity:.7"),
    (".x", "stroke-width:1;shape-rendering:crispEdges"),
    (".r", "stroke-width:1;shape-rendering:crispEdges"),
    (".l", "fill:none;stroke-width:1.5;stroke-linejoin:round"),
    (".o", "fill:none;stroke-width:3;stroke-linecap:round"),
    (".a", "fill-opacity:.18"),
];

/// Colours: of light ground, and of dark; those of the dashboard, of which pictures are a part.
const INKS: &[(&str, &str, &str, &str)] = &[
    ("text", "fill", "#14202b", "#e7edf2"),
    (".n", "fill", "#4d5b69", "#a7b4c0"),
    (".g", "fill", "#ffffff", "#171f28"),
    (".b0", "fill", "#0a5687", "#7cc4ea"),
    (".b1", "fill", "#8793a0", "#6b7a89"),
    (".b2", "stroke", "#4d5b69", "#a7b4c0"),
    (".s", "stroke", "#14202b", "#e7edf2"),
    (".x", "stroke", "#8793a0", "#6b7a89"),
    (".r", "stroke", "#e3e8ed", "#2a3540"),
    (".u", "fill", "#f1f4f7", "#121a22"),
];

/// Colours of lines: of light ground, and of dark.
const LINES: [(&str, &str); COLOURS] = [
    ("#0969da", "#4493f8"),
    ("#bc4c00", "#f0883e"),
    ("#1a7f37", "#3fb950"),
    ("#8250df", "#ab7df8"),
    ("#9a6700", "#d29922"),
    ("#bf3989", "#f778ba"),
    ("#1b7c83", "#39c5cf"),
    ("#59636e", "#9198a1"),
];

/// The rules of a picture that stands alone or in a page: they touch nothing outside of it.
fn style(theme: Theme) -> String {
    let inks = |dark: bool| {
        let mut rules = String::new();
        for (of, what, on_light, on_dark) in INKS {
            let ink = if dark { on_dark } else { on_light };
            let _ = write!(rules, ".fels-chart {of}{{{what}:{ink}}}");
        }
        for (number, (on_light, on_dark)) in LINES.iter().enumerate() {
            let ink = if dark { on_dark } else { on_light };
            let _ =
                write!(rules, ".fels-chart .c{number}{{stroke:{ink}}}.fels-chart .f{number}{{fill:{ink}}}");
        }
        rules
    };
    let shapes = SHAPES.iter().fold(String::new(), |mut rules, (of, what)| {
        let _ = write!(rules, ".fels-chart {of}{{{what}}}");
        rules
    });
    match theme {
        Theme::Auto => {
            format!("{shapes}{}@media(prefers-color-scheme:dark){{{}}}", inks(false), inks(true))
        }
        Theme::Light => shapes + &inks(false),
        Theme::Dark => shapes + &inks(true),
    }
}

/// What XML does not take as it is.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML 1.0 has no words for them (2.2).
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// As much of a text as has room in `width` pixels, escaped.
pub fn fit(text: &str, width: u32) -> String {
    let most = (width / CHARACTER).max(1) as usize;
    if text.chars().count() <= most {
        return escape(text);
    }
    let cut: String = text.chars().take(most - 1).collect();
    escape(cut.trim_end()) + "\u{2026}"
}

/// A text in lines of at most `width` pixels, cut between words; a word that is longer is cut off.
pub fn wrap(text: &str, width: u32) -> Vec<String> {
    let most = (width / CHARACTER).max(1) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| fit(line, width)).collect()
}

/// The elements of a picture, one a line.
#[derive(Default)]
pub struct Body(String);

impl Body {
    /// Appends an element. Coordinates have to be finite.
    pub fn add(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// Appends a text, which is escaped already.
    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.add(format_args!("<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"));
    }

    /// The picture: what it is called and what it shows are for those who do not see it.
    pub fn finish(self, width: u32, height: u32, title: &str, shows: &str, theme: Theme) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fels-chart\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n\
             <rect class=\"g\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            escape(title),
            escape(shows),
            style(theme),
            self.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_where_their_room_ends() {
        assert_eq!(fit("a name that is too long", 70), "a name th\u{2026}");
        assert_eq!(fit("short", 70), "short");
        assert_eq!(wrap("one two three", 56), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 56), ["unbreak\u{2026}"]);
    }

    #[test]
    fn a_ground_that_is_asked_for_has_no_other_colours() {
        let of = |theme| Body::default().finish(1, 1, "", "", theme);
        assert!(of(Theme::Auto).contains("#ffffff") && of(Theme::Auto).contains("#171f28"));
        assert!(of(Theme::Light).contains("#ffffff") && !of(Theme::Light).contains("#171f28"));
        assert!(of(Theme::Dark).contains("#171f28") && !of(Theme::Dark).contains("#ffffff"));
        assert!(of(Theme::Auto).contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn lines_are_told_apart_by_their_dashes() {
        let mut dashes = DASHES.to_vec();
        dashes.sort_unstable();
        dashes.dedup();
        assert_eq!(dashes.len(), COLOURS);
    }
}
