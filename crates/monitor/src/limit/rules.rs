//! The limits that every node has.

use std::time::Duration;

use super::source::{Part, Source};
use super::{Limit, Side};
use crate::metric::table;

/// A limit with what it looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// By which it is known and changed.
    pub name: String,
    /// What it looks at.
    pub source: Source,
    /// Of that, only what has these labels.
    pub only: Vec<(String, String)>,
    /// What is too much.
    pub limit: Limit,
}

/// One of the limits that every node has, as the documentation shows it.
#[derive(Debug)]
pub struct BuiltIn {
    /// By which it is known.
    pub name: &'static str,
    /// What it says, for the documentation.
    pub about: &'static str,
    source: Source,
    side: Side,
    warning: Option<f64>,
    critical: Option<f64>,
    hysteresis: f64,
    raise_after_s: u64,
    clear_after_s: u64,
}

const STATE: BuiltIn = BuiltIn {
    name: "",
    about: "",
    source: Source::PoolHealth,
    side: Side::Above,
    warning: Some(1.0),
    critical: Some(2.0),
    hysteresis: 0.0,
    raise_after_s: 0,
    clear_after_s: 0,
};

const DAY_S: u64 = 24 * 60 * 60;

/// All of them, in the order of the documentation.
pub static BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "pool-degraded",
        about: "A member of a pool is out or is rebuilt; critical when no other one may fail.",
        ..STATE
    },
    BuiltIn {
        name: "block-unrepairable",
        about: "A pool has lost blocks. It is well again when a day has passed without another one.",
        source: Source::Growth(&table::POOL_UNREPAIRABLE),
        warning: None,
        critical: Some(1.0),
        clear_after_s: DAY_S,
        ..STATE
    },
    BuiltIn {
        name: "pool-full",
        about: "Volumes have nearly all of a pool: a part of 1.",
        source: Source::Figure(&table::POOL_USAGE, None),
        warning: Some(0.92),
        critical: Some(0.98),
        hysteresis: 0.01,
        ..STATE
    },
    BuiltIn {
        name: "member-temperature",
        about: "A disk is hot: degrees Celsius, as smartctl tells them.",
        source: Source::Figure(&table::MEMBER_TEMPERATURE, None),
        warning: Some(57.0),
        critical: Some(60.0),
        hysteresis: 3.0,
        raise_after_s: 60,
        clear_after_s: 600,
        ..STATE
    },
    BuiltIn {
        name: "member-smart",
        about: "A disk reports trouble (1), or expects to fail (2), as smartctl tells it.",
        source: Source::Figure(&table::MEMBER_SMART, None),
        ..STATE
    },
    BuiltIn {
        name: "volume-latency",
        about: "Requests take several times as long as they usually do on that volume, and 5 ms at least.",
        source: Source::AgainstHistory(&table::VOLUME_LATENCY),
        warning: Some(4.0),
        critical: Some(20.0),
        hysteresis: 1.0,
        raise_after_s: 300,
        clear_after_s: 300,
        ..STATE
    },
    BuiltIn {
        name: "portals-uneven",
        about: "The idlest portal of a protocol moves less than half of what the busiest does: a part of 1.",
        source: Source::Figure(&table::PORTAL_EVENNESS, None),
        side: Side::Below,
        warning: Some(0.5),
        critical: None,
        hysteresis: 0.1,
        raise_after_s: 600,
        clear_after_s: 600,
    },
    BuiltIn {
        name: "write-cache-unsafe",
        about: "What a pool acknowledged may not survive a power cut (0; 1 is safe).",
        source: Source::Figure(&table::POOL_WRITE_CACHE_SAFE, None),
        side: Side::Below,
        warning: None,
        critical: Some(0.5),
        ..STATE
    },
];

impl BuiltIn {
    /// As a rule.
    pub fn rule(&self) -> Rule {
        Rule {
            name: self.name.to_owned(),
            source: self.source,
            only: Vec::new(),
            limit: Limit {
                side: self.side,
                warning: self.warning,
                critical: self.critical,
                hysteresis: self.hysteresis,
                raise_after: Duration::from_secs(self.raise_after_s),
                clear_after: Duration::from_secs(self.clear_after_s),
            },
        }
    }
}

/// The one of that name.
pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|rule| rule.name == name)
}

/// What a metric is called in a limit of one's own: a name, and `:mean`, `:p50` or `:p99` behind that of a histogram.
pub fn source(metric: &str) -> Result<Source, NoMetric> {
    let (name, part) = metric.split_once(':').map_or((metric, None), |(name, part)| (name, Some(part)));
    let family = crate::metric::find(name).ok_or(NoMetric::Unknown)?;
    let is_histogram = family.kind == crate::metric::Kind::Histogram;
    let part = match part {
        None if is_histogram => return Err(NoMetric::Part),
        None => None,
        Some(_) if !is_histogram => return Err(NoMetric::NoPart),
        Some("mean") => Some(Part::Mean),
        Some("p50") => Some(Part::P50),
        Some("p99") => Some(Part::P99),
        Some(_) => return Err(NoMetric::Part),
    };
    Ok(Source::Figure(family, part))
}

/// Why a text is no metric: the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMetric {
    /// There is none of that name.
    #[error("is no metric of a node")]
    Unknown,
    /// It is a histogram.
    #[error("is a histogram: write :mean, :p50 or :p99 behind it")]
    Part,
    /// It is none.
    #[error("is no histogram: it has no part behind a colon")]
    NoPart,
}
