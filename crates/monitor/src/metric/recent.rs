//! From snapshot to snapshot: counters become rates, histograms what happened lately.

use super::definition::{Kind, Unit};
use super::histogram::Histogram;
use super::snapshot::{Sample, Snapshot, Value};
use super::table;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What is said of histograms "lately" looks back as long as this, at least, and twice as long at most: what asks every
/// five minutes misses nothing.
const WINDOW: Duration = Duration::from_secs(300);
/// Below this rate of the busiest portal nothing is said about evenness: bytes per second.
const WORTH_COMPARING: f64 = 1e6;

/// One value of one series over the last interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// As [`Sample::series`] writes it. Histograms give three, `:mean`, `:p50` and `:p99`.
    pub series: String,
    /// In the family's unit, a second for counters. NaN when it is not known.
    pub value: f64,
}

/// The state of things after a snapshot.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// What was measured, and what follows from it.
    pub snapshot: Arc<Snapshot>,
    /// The last interval.
    pub readings: Vec<Reading>,
    /// The last minutes of each histogram.
    windows: HashMap<String, Histogram>,
}

impl View {
    /// The value of a series over the last interval; `None` when it is not known.
    pub fn reading(&self, series: &str) -> Option<f64> {
        let reading = self.readings.iter().find(|reading| reading.series == series)?;
        reading.value.is_finite().then_some(reading.value)
    }

    /// What a histogram has seen in the last five to ten minutes, or since it exists.
    pub fn lately(&self, sample: &Sample) -> Option<&Histogram> {
        self.windows.get(&sample.series(None))
    }
}

/// What has to be remembered of earlier snapshots.
#[derive(Debug, Default)]
pub struct Recent {
    previous: HashMap<String, Value>,
    previous_at: Option<Duration>,
    /// Where windows begin.
    base: HashMap<String, Histogram>,
    /// Where they will begin.
    next_base: HashMap<String, Histogram>,
    next_base_at: Option<Duration>,
}

impl Recent {
    /// Nothing is known yet: the first snapshot gives no rates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next snapshot. A counter that is smaller than it was has begun anew; what it did in between is not known.
    pub fn push(&mut self, mut snapshot: Snapshot) -> View {
        let elapsed_s = self
            .previous_at
            .and_then(|at| snapshot.at.checked_sub(at))
            .map_or(0.0, |elapsed| elapsed.as_secs_f64());
        let mut values = HashMap::with_capacity(snapshot.samples().len());
        let mut readings = Vec::with_capacity(snapshot.samples().len());
        let mut windows = HashMap::new();
        let mut portals = Portals::default();
        for sample in snapshot.samples() {
            let series = sample.series(None);
            let before = self.previous.get(&series);
            match (&sample.value, sample.family.kind) {
                (Value::Histogram(now), _) => {
                    let base = self.base.get(&series);
                    let window = base.and_then(|base| now.since(base)).unwrap_or_else(|| (**now).clone());
                    windows.insert(series.clone(), window);
                    readings.extend(parts(sample, now, before));
                }
                (value, Kind::Counter) => {
                    let rate = rate(value, before, elapsed_s);
                    if *sample.family == table::PORTAL_BYTES && is_path(sample) {
                        portals.add(sample, rate);
                    }
                    readings.push(Reading { series: series.clone(), value: rate });
                }
                (value, _) => {
                    let value = value.number().unwrap_or(f64::NAN);
                    readings.push(Reading { series: series.clone(), value });
                }
            }
            values.insert(series, sample.value.clone());
        }
        for (protocol, evenness) in portals.evenness() {
            snapshot.push(&table::PORTAL_EVENNESS, &[&protocol], evenness);
            let series = snapshot.samples().last().map(|sample| sample.series(None));
            readings.extend(series.map(|series| Reading { series, value: evenness }));
        }
        self.previous = values;
        self.previous_at = Some(snapshot.at);
        self.move_base(snapshot.at);
        View { snapshot: Arc::new(snapshot), readings, windows }
    }

    fn move_base(&mut self, at: Duration) {
        let due = self.next_base_at.is_none_or(|begun| at.saturating_sub(begun) >= WINDOW);
        if due {
            let histograms = self.previous.iter().filter_map(|(series, value)| match value {
                Value::Histogram(histogram) => Some((series.clone(), (**histogram).clone())),
                Value::Integer(_) | Value::Number(_) => None,
            });
            let next = histograms.collect();
            self.base = std::mem::replace(&mut self.next_base, next);
            self.next_base_at = Some(at);
        }
    }
}

/// Whether somebody has used a portal, and it is one of the network: else it is no path that could be as busy as the others.
fn is_path(sample: &Sample) -> bool {
    let is_used = sample.value.number().is_some_and(|bytes| bytes > 0.0);
    is_used && sample.label("address").is_some_and(|address| address.parse::<SocketAddr>().is_ok())
}

/// Per second; NaN when it cannot be said.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(now: &Value, before: Option<&Value>, elapsed_s: f64) -> f64 {
    let grown = match (now, before) {
        // As integers: a difference of large numbers loses nothing.
        (Value::Integer(now), Some(Value::Integer(before))) => {
            now.checked_sub(*before).map(|grown| grown as f64)
        }
        (now, Some(before)) => match (now.number(), before.number()) {
            (Some(now), Some(before)) if now >= before => Some(now - before),
            _ => None,
        },
        (_, None) => None,
    };
    if elapsed_s > 0.0 { grown.map_or(f64::NAN, |grown| grown / elapsed_s) } else { f64::NAN }
}

/// The series of a histogram.
fn parts(sample: &Sample, now: &Histogram, before: Option<&Value>) -> [Reading; 3] {
    let interval = match before {
        Some(Value::Histogram(before)) => now.since(before),
        _ => None,
    };
    let interval = interval.as_ref();
    let reading = |part: &str, value: Option<f64>| Reading {
        series: sample.series(Some(part)),
        value: value.unwrap_or(f64::NAN),
    };
    debug_assert_eq!(sample.family.unit, Unit::Seconds, "histograms are of seconds");
    [
        reading("mean", interval.and_then(Histogram::mean_s)),
        reading("p50", interval.and_then(|interval| interval.quantile_s(0.5))),
        reading("p99", interval.and_then(|interval| interval.quantile_s(0.99))),
    ]
}

/// Bytes per second of every portal of every protocol.
#[derive(Default)]
struct Portals(BTreeMap<String, BTreeMap<String, f64>>);

impl Portals {
    fn add(&mut self, sample: &Sample, rate: f64) {
        if let (Some(protocol), Some(address)) = (sample.label("protocol"), sample.label("address")) {
            let portals = self.0.entry(protocol.to_owned()).or_default();
            *portals.entry(address.to_owned()).or_default() += rate;
        }
    }

    /// For each protocol with several portals that have something to do: what the idlest moves as a part of what the
    /// busiest does.
    fn evenness(self) -> Vec<(String, f64)> {
        let several = self.0.into_iter().filter(|(_, portals)| portals.len() > 1);
        let evenness = |portals: &BTreeMap<String, f64>| {
            let busiest = portals.values().copied().fold(0.0, f64::max);
            let idlest = portals.values().copied().fold(f64::INFINITY, f64::min);
            let is_known = portals.values().all(|rate| rate.is_finite()) && busiest >= WORTH_COMPARING;
            if is_known { idlest / busiest } else { f64::NAN }
        };
        several.map(|(protocol, portals)| (protocol, evenness(&portals))).collect()
    }
}
