//! Figures of one moment.

use super::definition::{Family, Kind};
use super::histogram::Histogram;
use std::fmt::Write as _;
use std::time::Duration;

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A counter, or a gauge that counts things.
    Integer(u64),
    /// In the family's unit. A counter of seconds is one of these, too. What is no number is unknown.
    Number(f64),
    /// For families of that kind.
    Histogram(Box<Histogram>),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<Histogram> for Value {
    fn from(value: Histogram) -> Self {
        Self::Histogram(Box::new(value))
    }
}

impl Value {
    /// As a number; `None` for histograms and for what is no finite number.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => value.is_finite().then_some(*value),
            Self::Histogram(_) => None,
        }
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What it is.
    pub family: &'static Family,
    /// Values of the family's labels, in their order.
    pub labels: Vec<Box<str>>,
    /// How much.
    pub value: Value,
}

impl Sample {
    /// What the series is called: `name{label="value"}`, as Prometheus writes it. A `part` of a histogram (`mean`, `p99`)
    /// stands behind the name, after a colon.
    pub fn series(&self, part: Option<&str>) -> String {
        let labels: usize = self.labels.iter().map(|label| label.len() + 16).sum();
        let mut name = String::with_capacity(self.family.name.len() + labels + 8);
        name.push_str(self.family.name);
        if let Some(part) = part {
            name.push(':');
            name.push_str(part);
        }
        self.write_labels(&mut name, None);
        name
    }

    /// The value of the label, if the family has it.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(self.family.position(name)?).map(AsRef::as_ref)
    }

    /// Appends `{label="value",...}`, with one more label at the end if there is one; nothing without labels.
    pub(crate) fn write_labels(&self, out: &mut String, more: Option<(&str, &str)>) {
        let own = self.family.labels.iter().copied().zip(self.labels.iter().map(AsRef::as_ref));
        let mut separator = '{';
        for (name, value) in own.chain(more) {
            out.push(separator);
            separator = ',';
            // Writing to a String does not fail.
            let _ = write!(out, "{name}=\"");
            for character in value.chars() {
                match character {
                    '\\' => out.push_str("\\\\"),
                    '"' => out.push_str("\\\""),
                    '\n' => out.push_str("\\n"),
                    other => out.push(other),
                }
            }
            out.push('"');
        }
        if separator == ',' {
            out.push('}');
        }
    }
}

/// All figures of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was taken, by the clock on the wall: seconds since 1970.
    pub unix_s: u64,
    /// When it was taken, by a clock that never jumps.
    pub at: Duration,
    samples: Vec<Sample>,
}

impl Snapshot {
    /// One without figures. `at` is of any clock that never jumps, the same for all snapshots of a process.
    pub fn new(unix_s: u64, at: Duration) -> Self {
        Self { unix_s, at, samples: Vec::new() }
    }

    /// Adds a figure: one value for each label of the family, in their order.
    ///
    /// # Panics
    /// If the labels or the kind of value are not those of the family, and debug assertions are on. Without
    /// them what does not fit is left out.
    pub fn push(&mut self, family: &'static Family, labels: &[&str], value: impl Into<Value>) {
        let value = value.into();
        let is_histogram = matches!(value, Value::Histogram(_));
        let fits = family.labels.len() == labels.len() && is_histogram == (family.kind == Kind::Histogram);
        debug_assert!(fits, "{} has the labels {:?}, not {labels:?}", family.name, family.labels);
        if fits {
            let labels = labels.iter().map(|label| Box::from(*label)).collect();
            self.samples.push(Sample { family, labels, value });
        }
    }

    /// The figures, in the order in which they came.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The figures of one family.
    pub fn of<'a>(&'a self, family: &'static Family) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| sample.family == family)
    }
}
