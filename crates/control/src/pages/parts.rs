//! Small things that many pages have: states, sizes, bars.

use std::fmt;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::api::model::{Health, MemberState, PoolState, Progress, VolumeState};

/// A state as a shape, a word and a colour: never by colour alone.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(path = "parts/state.html")]
pub(super) struct State {
    /// Which shape and colour.
    pub kind: Kind,
    /// The word.
    pub word: String,
}

impl HtmlSafe for State {}

/// How something is; each has its shape and its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ok,
    /// Good to know, and nothing else.
    Info,
    Busy,
    Warning,
    Critical,
    Off,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Busy => "busy",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl State {
    pub fn new(kind: Kind, word: impl Into<String>) -> State {
        State { kind, word: word.into() }
    }

    pub fn of_health(health: Health) -> State {
        match health {
            Health::Ok => State::new(Kind::Ok, "well"),
            Health::Warning => State::new(Kind::Warning, "warning"),
            Health::Critical => State::new(Kind::Critical, "critical"),
        }
    }

    pub fn of_pool(state: PoolState) -> State {
        match state {
            PoolState::Ok => State::new(Kind::Ok, "ok"),
            PoolState::Rebuilding => State::new(Kind::Busy, "rebuilding"),
            PoolState::Degraded => State::new(Kind::Warning, "degraded"),
            PoolState::Failed => State::new(Kind::Critical, "failed"),
        }
    }

    pub fn of_member(state: MemberState, slow: bool) -> State {
        match state {
            MemberState::InSync if slow => State::new(Kind::Warning, "slow"),
            MemberState::InSync => State::new(Kind::Ok, "in sync"),
            MemberState::Rebuilding => State::new(Kind::Busy, "rebuilding"),
            MemberState::Out => State::new(Kind::Critical, "out"),
        }
    }

    pub fn of_volume(state: VolumeState) -> State {
        match state {
            VolumeState::Serving => State::new(Kind::Ok, "serving"),
            VolumeState::Disabled => State::new(Kind::Off, "off"),
            VolumeState::Waiting => State::new(Kind::Warning, "waiting"),
        }
    }
}

/// How far something is, or how full.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(path = "parts/bar.html")]
pub(super) struct Bar {
    /// What it is of, for who cannot see it.
    pub label: String,
    /// Of a hundred.
    pub percent: u64,
    /// Beside it.
    pub text: String,
    /// Whether there is little left.
    pub is_full: bool,
}

impl HtmlSafe for Bar {}

impl Bar {
    /// How much of something is taken.
    pub fn taken(label: impl Into<String>, taken: u64, of: u64) -> Bar {
        let percent = (u128::from(taken) * 100).checked_div(u128::from(of)).unwrap_or(0) as u64;
        let text = format!("{} of {} taken", size(taken), size(of));
        Bar { label: label.into(), percent: percent.min(100), text, is_full: percent >= 92 }
    }

    /// How far a job is.
    pub fn done(label: impl Into<String>, progress: &Progress) -> Bar {
        let percent = progress.percent();
        let rate = progress.bytes_per_s.map(|rate| format!(", {}/s", size(rate))).unwrap_or_default();
        let left = progress.left_s.map(|left| format!(", {} left", time(left))).unwrap_or_default();
        Bar { label: label.into(), percent, text: format!("{percent} %{rate}{left}"), is_full: false }
    }
}

/// Bytes as people read them, to three digits.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    // The rounding of a figure for people.
    #[allow(clippy::cast_precision_loss)]
    let mut number = bytes as f64;
    while number >= 999.5 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || number >= 99.95 || number.fract() == 0.0 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {}", UNITS[unit])
}

/// Seconds as people read them.
pub(super) fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// Seconds in about as many words as matter: a page that is open does not change with each of them.
pub(super) fn about(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds % 86400 / 3600, seconds % 3600 / 60);
    let parts = match (days, hours) {
        (0, 0) if minutes == 0 => return "less than a minute".to_owned(),
        (0, _) => [(hours, "h"), (minutes, "min")],
        _ => [(days, "d"), (hours, "h")],
    };
    let words = parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count} {unit}"));
    words.collect::<Vec<_>>().join(" ")
}

/// So many of something, in words.
pub(super) fn count(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_a_unit() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1024, "1 KiB"),
            (1000, "0.98 KiB"),
            (10 << 20, "10 MiB"),
            (1877 << 20, "1.83 GiB"),
            (5 << 40, "5 TiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn times_have_two_units_at_most() {
        for (seconds, shown) in [
            (59, "less than a minute"),
            (60, "1 min"),
            (3600, "1 h"),
            (7599, "2 h 6 min"),
            (86400, "1 d"),
            (90061, "1 d 1 h"),
        ] {
            assert_eq!(about(seconds), shown);
        }
    }

    #[test]
    fn a_state_has_a_shape_and_a_word_that_is_escaped() {
        let shown = State::new(Kind::Warning, "<b>").to_string();
        assert!(shown.contains("<svg") && shown.contains("state-warning"), "{shown}");
        assert!(!shown.contains("<b>"), "{shown}");
    }

    #[test]
    fn what_is_not_done_is_not_told_as_done() {
        let bar = Bar::taken("pool", 999, 1000);
        assert_eq!((bar.percent, bar.is_full), (99, true));
        assert_eq!(Bar::taken("none", 0, 0).percent, 0);
    }
}
