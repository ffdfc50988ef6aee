//! Samples, and what they say together: median, spread, ratios, and what a reader should be warned of.

use serde::{Deserialize, Serialize};

use crate::client::Window;
use crate::rows::{Kind, Row};

/// The last round may differ from the first by this share.
const DRIFT: f64 = 0.15;
/// From this share of its core on, the client may be the limit of a row.
const CLIENT_LIMIT_PERCENT: f64 = 95.0;
/// From this share of one core on, other programs disturb a row.
pub const OTHERS_PERCENT: f64 = 10.0;

/// One measured window of one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Name of the row.
    pub row: &'static str,
    /// Name of the server.
    pub server: String,
    /// Round, from 1.
    pub round: u32,
    /// Requests per second.
    pub iops: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Half of the requests took no longer; none where the client does not tell.
    pub p50_us: Option<f64>,
    /// 99 of 100.
    pub p99_us: Option<f64>,
    /// 999 of 1000.
    pub p99_9_us: Option<f64>,
    /// CPU time of the server for each request, in microseconds.
    pub server_us: f64,
    /// CPU time of the clients for each request, in microseconds.
    pub client_us: f64,
    /// Share of one core that the server used.
    pub server_percent: f64,
    /// Share of one core that the clients used.
    pub client_percent: f64,
    /// Share of one core that everything else used.
    pub others_percent: f64,
    /// Share of one core that the hypervisor gave to somebody else.
    pub stolen_percent: f64,
}

impl Sample {
    /// A sample of a window.
    pub fn new(row: &Row, server: &str, round: u32, window: &Window) -> Self {
        let (figures, spent) = (&window.figures, &window.spent);
        let percent = |seconds: f64| seconds / spent.wall_s * 100.0;
        // The window of the CPU times lies within the measurement: what was spent in it, for the requests of it.
        let each_us = |seconds: f64| seconds / spent.wall_s / figures.iops * 1e6;
        Self {
            row: row.name,
            server: server.to_owned(),
            round,
            iops: figures.iops,
            mib_per_s: figures.mib_per_s,
            mean_us: figures.mean_us,
            p50_us: figures.p50_us,
            p99_us: figures.p99_us,
            p99_9_us: figures.p99_9_us,
            server_us: each_us(spent.server_s),
            client_us: each_us(spent.clients_s),
            server_percent: percent(spent.server_s),
            client_percent: percent(spent.clients_s),
            others_percent: percent(spent.others_s),
            stolen_percent: percent(spent.stolen_s),
        }
    }
}

/// One figure that is not of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    /// Name of the row.
    pub row: &'static str,
    /// Name of the server.
    pub server: String,
    /// Round, from 1.
    pub round: u32,
    /// What it is.
    pub what: &'static str,
    /// Its unit; empty for a ratio.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
}

impl Fact {
    /// A figure.
    pub fn new(
        row: &Row,
        server: &str,
        round: u32,
        what: &'static str,
        unit: &'static str,
        value: f64,
    ) -> Self {
        Self { row: row.name, server: server.to_owned(), round, what, unit, value }
    }
}

/// All rounds of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactSummary {
    /// Name of the row.
    pub row: String,
    /// Name of the server.
    pub server: String,
    /// What it is.
    pub what: String,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// Of all rounds.
    pub value: Spread,
}

/// The spread of every figure, in the order in which they came first.
pub fn summarize_facts(facts: &[Fact]) -> Vec<FactSummary> {
    let mut summaries: Vec<FactSummary> = Vec::new();
    for fact in facts {
        let same =
            |other: &&Fact| (other.row, &other.server, other.what) == (fact.row, &fact.server, fact.what);
        let first = facts.iter().find(same).is_some_and(|first| first.round == fact.round);
        let values = facts.iter().filter(same).map(|other| other.value);
        if let Some(value) = Spread::of(values).filter(|_| first) {
            let (row, what, unit) = (fact.row.to_owned(), fact.what.to_owned(), fact.unit.to_owned());
            summaries.push(FactSummary { row, server: fact.server.clone(), what, unit, value });
        }
    }
    summaries
}

/// Median, smallest and largest of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`; none of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) };
        Some(Self { median, min, max })
    }
}

/// All rounds of one row of one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the row.
    pub row: String,
    /// Name of the server.
    pub server: String,
    /// How many rounds were measured.
    pub rounds: usize,
    /// Requests per second.
    pub iops: Spread,
    /// MiB per second.
    pub mib_per_s: Spread,
    /// Mean latency in microseconds.
    pub mean_us: Spread,
    /// 99 of 100 requests took no longer.
    pub p99_us: Option<Spread>,
    /// 999 of 1000.
    pub p99_9_us: Option<Spread>,
    /// CPU time of the server for each request, in microseconds.
    pub server_us: Spread,
    /// CPU time of the clients for each request, in microseconds.
    pub client_us: Spread,
    /// Median share of one core that the server used.
    pub server_percent: f64,
    /// Median share of one core that the clients used.
    pub client_percent: f64,
    /// Median share of one core that everything else used.
    pub others_percent: f64,
    /// Throughput against the better of the limits in the same round; the median.
    pub of_limit: Option<f64>,
    /// What a reader should be warned of.
    pub warnings: Vec<String>,
}

/// One server beside another in one row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// Name of the row.
    pub row: String,
    /// The server that is compared.
    pub server: String,
    /// The server that it is compared with.
    pub base: String,
    /// IOPS: of the ratios within a round, which are of neighbours in time. Above 1 is better.
    pub iops: Spread,
    /// Server CPU for each request: the same. Below 1 is better. None where there is no server.
    pub server_us: Option<Spread>,
    /// Mean latency: the same. Below 1 is better.
    pub mean_us: Spread,
    /// Whether the client's core was used up: then the true ratio of IOPS is larger.
    pub client_limited: bool,
}

impl Ratio {
    /// `ahead` when faster in every round, `behind` when slower in every round, else `even`.
    pub fn verdict(&self) -> &'static str {
        if self.iops.min > 1.0 {
            "ahead"
        } else if self.iops.max < 1.0 {
            "behind"
        } else {
            "even"
        }
    }

    /// Whether the median CPU for each request is smaller.
    pub fn cheaper(&self) -> bool {
        self.server_us.is_some_and(|spread| spread.median < 1.0)
    }
}

fn of<'a>(samples: &'a [Sample], row: &str, server: &str) -> Vec<&'a Sample> {
    samples.iter().filter(|sample| sample.row == row && sample.server == server).collect()
}

fn spread(samples: &[&Sample], figure: fn(&Sample) -> f64) -> Option<Spread> {
    Spread::of(samples.iter().map(|sample| figure(sample)))
}

fn known(samples: &[&Sample], figure: fn(&Sample) -> Option<f64>) -> Option<Spread> {
    Spread::of(samples.iter().filter_map(|sample| figure(sample)))
}

/// The summaries of all rows and servers that have samples, in this order. `limits` are the servers that no other can pass.
pub fn summarize(samples: &[Sample], rows: &[Row], servers: &[String], limits: &[String]) -> Vec<Summary> {
    let mut summaries = Vec::new();
    for row in rows {
        let limit: Vec<&Sample> = limits.iter().flat_map(|limit| of(samples, row.name, limit)).collect();
        for server in servers {
            let own = of(samples, row.name, server);
            // Who is asked so much and no more has no part of it.
            let is_held = !limits.contains(server) && row.kind == Kind::Closed;
            let of_limit = is_held.then(|| of_limit(&own, &limit)).flatten();
            summaries.extend(summary(samples, row, server, &own, of_limit));
        }
    }
    summaries
}

/// The median of what part these samples are of the better of the limits in their rounds.
fn of_limit(own: &[&Sample], limits: &[&Sample]) -> Option<f64> {
    let parts = own.iter().filter_map(|sample| {
        let same = limits.iter().filter(|limit| limit.round == sample.round);
        Some(sample.iops / same.map(|limit| limit.iops).reduce(f64::max)?)
    });
    Spread::of(parts).map(|spread| spread.median)
}

fn summary(
    samples: &[Sample],
    row: &Row,
    server: &str,
    own: &[&Sample],
    of_limit: Option<f64>,
) -> Option<Summary> {
    let median = |figure: fn(&Sample) -> f64| spread(own, figure).map(|spread| spread.median);
    let iops = spread(own, |sample| sample.iops)?;
    let (client_percent, others_percent) =
        (median(|sample| sample.client_percent)?, median(|sample| sample.others_percent)?);
    let mut warnings = warnings(samples, own);
    if client_percent >= CLIENT_LIMIT_PERCENT
        && median(|sample| sample.server_percent)? < CLIENT_LIMIT_PERCENT
    {
        warnings.push("client is the limit".to_owned());
    }
    Some(Summary {
        row: row.name.to_owned(),
        server: server.to_owned(),
        rounds: own.len(),
        iops,
        mib_per_s: spread(own, |sample| sample.mib_per_s)?,
        mean_us: spread(own, |sample| sample.mean_us)?,
        p99_us: known(own, |sample| sample.p99_us),
        p99_9_us: known(own, |sample| sample.p99_9_us),
        server_us: spread(own, |sample| sample.server_us)?,
        client_us: spread(own, |sample| sample.client_us)?,
        server_percent: median(|sample| sample.server_percent)?,
        client_percent,
        others_percent,
        of_limit,
        warnings,
    })
}

fn warnings(samples: &[Sample], own: &[&Sample]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let (Some(first), Some(last)) = (own.first(), own.last()) {
        let drift = last.iops / first.iops - 1.0;
        if drift.abs() > DRIFT {
            warnings.push(format!("drift {:+.0} % from first to last round", drift * 100.0));
        }
    }
    // Equal to the last digit is more likely one figure seen twice than two measurements.
    let identical = |one: &Sample| {
        samples.iter().any(|other| {
            other.row == one.row
                && (other.server != one.server || other.round != one.round)
                && other.iops.to_bits() == one.iops.to_bits()
        })
    };
    let rounds: Vec<String> =
        own.iter().filter(|sample| identical(sample)).map(|sample| sample.round.to_string()).collect();
    if !rounds.is_empty() {
        warnings.push(format!("identical sample in round {}", rounds.join(", ")));
    }
    warnings
}

/// The ratio of `server` to `base` in a row, if both have samples.
pub fn ratio(samples: &[Sample], row: &str, server: &str, base: &str) -> Option<Ratio> {
    let (ours, theirs) = (of(samples, row, server), of(samples, row, base));
    let ratio = |figure: fn(&Sample) -> f64| {
        Spread::of(ours.iter().filter_map(|our| {
            let their = theirs.iter().find(|their| their.round == our.round)?;
            Some(figure(our) / figure(their))
        }))
    };
    let client_percent = spread(&ours, |sample| sample.client_percent)?.median;
    let server_percent = spread(&ours, |sample| sample.server_percent)?.median;
    Some(Ratio {
        row: row.to_owned(),
        server: server.to_owned(),
        base: base.to_owned(),
        iops: ratio(|sample| sample.iops)?,
        server_us: ratio(|sample| sample.server_us).filter(|spread| spread.max.is_finite()),
        mean_us: ratio(|sample| sample.mean_us)?,
        client_limited: client_percent >= CLIENT_LIMIT_PERCENT && server_percent < CLIENT_LIMIT_PERCENT,
    })
}

/// A count as a floating point number. Counts here stay far below 2^53, so nothing is lost.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
