//! Charts: figures in, text out. [`Lines`] are drawn over time, [`Bars`] beside each other.
//!
//! SVG is read on light and on dark ground, by eyes that tell no colours apart and by screen readers; it needs no script and no font of its own.
//! What is no number is unknown, and drawn as a gap. Everything else is drawn, whatever it is: names are escaped and cut, and no
//! coordinate leaves the picture.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "pixels: numbers are rounded to what is drawn, and clamped before"
)]

mod bars;
mod lines;
mod numbers;
mod svg;
mod time;

pub use bars::{Bar, Bars, Panel, Tone};
pub use lines::{Figures, Line, Lines, MAX_LINES, Point};
pub use numbers::Unit;
pub use svg::Theme;
pub use time::Clock;
