//! Limits: from figures to `ok`, `warning` and `critical`, without a clock of their own and without I/O.
//!
//! [`Judge`] is the state machine of one limit of one thing. A value that swings around a bound, or passes it for a moment, changes
//! nothing: a bound has to be passed for a while, and to be left by more than the hysteresis for a while. [`rules`] are the limits that
//! every node has; [`source`] finds the figures that they look at.

pub mod baseline;
pub mod rules;
pub mod source;
#[cfg(test)]
mod tests;
pub mod words;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How something is, held against its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nobody knows: there is no figure.
    #[default]
    Unknown,
    /// All is well.
    Ok,
    /// To be seen to when it suits.
    Warning,
    /// To be seen to now.
    Critical,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 4] = [Level::Unknown, Level::Ok, Level::Warning, Level::Critical];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Whether somebody is to see to it.
    pub fn is_bad(self) -> bool {
        self >= Level::Warning
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = NoLevel;

    fn from_str(text: &str) -> Result<Level, NoLevel> {
        Level::ALL.into_iter().find(|level| level.name() == text).ok_or(NoLevel)
    }
}

/// There is no such word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a level is `unknown`, `ok`, `warning` or `critical`")]
pub struct NoLevel;

/// On which side of a bound it is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is as large as the bound, or larger.
    Above,
    /// What is as small as the bound, or smaller.
    Below,
}

/// What is too much, or too little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// On which side it is bad.
    pub side: Side,
    /// From where on it is a warning.
    pub warning: Option<f64>,
    /// From where on it is critical: not less far than the warning.
    pub critical: Option<f64>,
    /// By how much a bound has to be left again.
    pub hysteresis: f64,
    /// How long it has to be bad.
    pub raise_after: Duration,
    /// How long it has to be well again.
    pub clear_after: Duration,
}

/// How long there may be no figure until nobody knows any more.
pub const UNKNOWN_AFTER: Duration = Duration::from_secs(120);

impl Limit {
    fn passes(&self, bound: f64, value: f64) -> bool {
        match self.side {
            Side::Above => value >= bound,
            Side::Below => value <= bound,
        }
    }

    fn leaves(&self, bound: f64, value: f64) -> bool {
        match self.side {
            Side::Above => value < bound - self.hysteresis,
            Side::Below => value > bound + self.hysteresis,
        }
    }
}

/// One bound: passed or not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Latch {
    is_on: bool,
    /// Since when the figure says the opposite.
    since: Option<Duration>,
}

impl Latch {
    fn of(is_on: bool) -> Latch {
        Latch { is_on, since: None }
    }

    fn judge(&mut self, limit: &Limit, bound: Option<f64>, at: Duration, value: f64) {
        let Some(bound) = bound else { return *self = Latch::default() };
        let opposes = if self.is_on { limit.leaves(bound, value) } else { limit.passes(bound, value) };
        if !opposes {
            self.since = None;
            return;
        }
        let since = *self.since.get_or_insert(at);
        let needed = if self.is_on { limit.clear_after } else { limit.raise_after };
        if at.saturating_sub(since) >= needed {
            *self = Latch::of(!self.is_on);
        }
    }
}

/// One thing, held against one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Judge {
    warning: Latch,
    critical: Latch,
    /// There was a figure, and it has not been missing for long.
    is_known: bool,
    /// When the last figure was there.
    seen: Option<Duration>,
}

impl Judge {
    /// As it was before a restart.
    pub fn resumed(level: Level) -> Judge {
        Judge {
            warning: Latch::of(level >= Level::Warning),
            critical: Latch::of(level == Level::Critical),
            is_known: level != Level::Unknown,
            seen: None,
        }
    }

    /// Takes the next figure, if there is one, and says how it is now. `at` is of a clock that never goes back.
    pub fn judge(&mut self, limit: &Limit, at: Duration, value: Option<f64>) -> Level {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.warning.judge(limit, limit.warning, at, value);
            self.critical.judge(limit, limit.critical, at, value);
            (self.is_known, self.seen) = (true, Some(at));
        } else {
            let seen = *self.seen.get_or_insert(at);
            // What was not seen did not last.
            (self.warning.since, self.critical.since) = (None, None);
            if at.saturating_sub(seen) >= UNKNOWN_AFTER {
                self.is_known = false;
            }
        }
        self.level()
    }

    /// How it is.
    pub fn level(&self) -> Level {
        match (self.is_known, self.warning.is_on, self.critical.is_on) {
            (false, ..) => Level::Unknown,
            (true, _, true) => Level::Critical,
            (true, true, false) => Level::Warning,
            (true, false, false) => Level::Ok,
        }
    }
}
