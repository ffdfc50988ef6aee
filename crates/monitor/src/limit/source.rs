//! Where the figures of limits come from.

use std::collections::{BTreeMap, HashMap};

use super::baseline::Baseline;
use crate::metric::{Family, Kind, Sample, View, table};

/// Of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The mean of the last interval.
    Mean,
    /// What half of the operations did not pass.
    P50,
    /// What 99 of a hundred did not pass.
    P99,
}

impl Part {
    /// As it stands behind the name of a series.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }
}

/// What a limit looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// A gauge as it is, a counter as a rate per second, a histogram by a part.
    Figure(&'static Family, Option<Part>),
    /// By how much a counter has grown since the last look.
    Growth(&'static Family),
    /// 0: the pool is whole. 1: not all members are in sync, and another one may fail. 2: none may fail any more, or it has failed.
    PoolHealth,
    /// The mean of a histogram as a part of what is usual for it; as long as it is short in itself, it is 1.
    AgainstHistory(&'static Family),
}

/// What is shorter than this is not slow, whatever is usual.
const NOT_SLOW_S: f64 = 0.005;

/// The figure of one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What it is of: names and values of labels.
    pub labels: Vec<(&'static str, String)>,
    /// None: not known.
    pub value: Option<f64>,
}

/// What has to be remembered between two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// What is usual, by series.
    pub baselines: BTreeMap<String, Baseline>,
    /// Counters as they were, by series.
    pub counters: HashMap<String, f64>,
}

/// Series that are remembered at most.
const MAX_REMEMBERED: usize = 10_000;

impl Source {
    /// The metric that it looks at first.
    pub fn family(&self) -> &'static Family {
        match self {
            Self::Figure(family, _) | Self::Growth(family) | Self::AgainstHistory(family) => family,
            Self::PoolHealth => &table::POOL_STATE,
        }
    }

    /// The figures of all that it looks at and that `only` (names and values of labels) lets through.
    pub fn readings(&self, view: &View, only: &[(String, String)], memory: &mut Memory) -> Vec<Reading> {
        let name = self.family().name;
        let its = view.readings.iter().filter(|reading| reading.series.starts_with(name));
        let rates: HashMap<&str, f64> = its.map(|reading| (reading.series.as_str(), reading.value)).collect();
        let wanted =
            |sample: &&Sample| only.iter().all(|(name, value)| sample.label(name) == Some(value.as_str()));
        let of = |sample: &Sample, value: Option<f64>| Reading { labels: labels(sample), value };
        let samples = view.snapshot.of(self.family()).filter(wanted);
        match self {
            Self::Figure(family, part) => samples
                .map(|sample| {
                    let value = match (family.kind, part) {
                        (Kind::Gauge, _) => sample.value.number(),
                        (_, part) => rates.get(sample.series(part.map(Part::name)).as_str()).copied(),
                    };
                    of(sample, value)
                })
                .collect(),
            Self::Growth(_) => samples.map(|sample| of(sample, memory.growth(sample))).collect(),
            Self::PoolHealth => samples.map(|sample| of(sample, health(view, sample))).collect(),
            Self::AgainstHistory(_) => samples
                .map(|sample| {
                    let mean = rates.get(sample.series(Some("mean")).as_str()).copied();
                    of(sample, memory.against_history(&sample.series(None), mean))
                })
                .collect(),
        }
    }
}

impl Memory {
    fn growth(&mut self, sample: &Sample) -> Option<f64> {
        let now = sample.value.number()?;
        if self.counters.len() >= MAX_REMEMBERED {
            self.counters.clear();
        }
        let before = self.counters.insert(sample.series(None), now);
        // A counter begins at zero with the node: what it has at the first look happened since the start.
        let before = before.filter(|before| *before <= now).unwrap_or(0.0);
        Some(now - before)
    }

    fn against_history(&mut self, series: &str, mean: Option<f64>) -> Option<f64> {
        let mean = mean.filter(|mean| mean.is_finite())?;
        if !self.baselines.contains_key(series) && self.baselines.len() >= MAX_REMEMBERED {
            return None;
        }
        let times = self.baselines.entry(series.to_owned()).or_default().hold(mean)?;
        Some(if mean < NOT_SLOW_S { times.min(1.0) } else { times })
    }
}

fn labels(sample: &Sample) -> Vec<(&'static str, String)> {
    let values = sample.labels.iter().map(ToString::to_string);
    sample.family.labels.iter().copied().zip(values).collect()
}

fn health(view: &View, sample: &Sample) -> Option<f64> {
    let pool = sample.label("pool")?;
    let of =
        |family: &'static Family| view.snapshot.of(family).find(|sample| sample.label("pool") == Some(pool));
    let state = sample.value.number()?;
    let redundancy = of(&table::POOL_REDUNDANCY).and_then(|sample| sample.value.number());
    Some(match (state, redundancy) {
        (state, _) if state < 0.5 => 0.0,
        (state, _) if state >= 2.0 => 2.0,
        (_, Some(redundancy)) if redundancy < 0.5 => 2.0,
        _ => 1.0,
    })
}
