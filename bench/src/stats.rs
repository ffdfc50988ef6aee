//! Samples, and what they say together: median, spread, ratios, and what a reader should be warned of.

use serde::Serialize;

use crate::client::Window;
use crate::machine::CpuTimes;
use crate::rows::Row;

/// The last round may differ from the first by this share.
const DRIFT: f64 = 0.15;
/// From this share of its core on, the client is the limit of a row.
const CLIENT_LIMIT_PERCENT: f64 = 95.0;
/// From this share of one core on, other programs disturb a row.
const OTHERS_PERCENT: f64 = 10.0;

/// One measured window of one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Name of the row.
    pub row: &'static str,
    /// Name of the target.
    pub target: String,
    /// Round, from 1.
    pub round: u32,
    /// Requests that were completed.
    pub requests: f64,
    /// Seconds in which they were, by the client's clock.
    pub seconds: f64,
    /// Requests per second.
    pub iops: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Mean latency in microseconds, by Little's law: requests in flight / IOPS.
    pub latency_us: f64,
    /// utime + stime of the server, in seconds.
    pub server_cpu_s: f64,
    /// utime + stime of the clients, in seconds.
    pub client_cpu_s: f64,
    /// CPU seconds of everything else on the machine.
    pub others_cpu_s: f64,
    /// CPU seconds that the hypervisor gave to somebody else.
    pub stolen_s: f64,
    /// Seconds between the two readings of the CPU times.
    pub wall_s: f64,
}

impl Sample {
    /// A sample of a window and the CPU time that was spent around it.
    pub fn new(row: &Row, target: &str, round: u32, window: Window, cpu: CpuTimes, wall_s: f64) -> Self {
        Self {
            row: row.name,
            target: target.to_owned(),
            round,
            requests: window.requests,
            seconds: window.seconds,
            iops: window.iops,
            mib_per_s: window.iops * f64::from(row.request_bytes) / f64::from(1 << 20),
            latency_us: f64::from(row.in_flight()) / window.iops * 1e6,
            server_cpu_s: cpu.server,
            client_cpu_s: cpu.clients,
            others_cpu_s: cpu.others(),
            stolen_s: cpu.stolen,
            wall_s,
        }
    }

    /// Server CPU seconds per million requests, which is microseconds per request.
    pub fn server_cpu_per_million(&self) -> f64 {
        self.server_cpu_s / self.requests * 1e6
    }

    fn percent(&self, seconds: f64) -> f64 {
        seconds / self.wall_s * 100.0
    }
}

/// Median, smallest and largest of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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

/// All rounds of one row of one target.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the row.
    pub row: &'static str,
    /// Name of the target.
    pub target: String,
    /// The program that made the load.
    pub client: &'static str,
    /// How many rounds were measured.
    pub rounds: usize,
    /// Requests per second.
    pub iops: Spread,
    /// MiB per second.
    pub mib_per_s: Spread,
    /// Mean latency in microseconds, by Little's law.
    pub latency_us: Spread,
    /// Server CPU seconds per million requests.
    pub server_cpu_s_per_million: Spread,
    /// Median share of one core that the server used.
    pub server_percent: f64,
    /// Median share of one core that the clients used.
    pub client_percent: f64,
    /// Median share of one core that everything else used.
    pub others_percent: f64,
    /// What a reader should be warned of.
    pub warnings: Vec<String>,
}

/// One target beside another in one row.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Name of the row.
    pub row: &'static str,
    /// The target that is compared.
    pub target: String,
    /// The target that it is compared with.
    pub base: String,
    /// IOPS: ratio of the medians, smallest and largest ratio of a round. Above 1 is better.
    pub iops: Spread,
    /// Server CPU per request, in the same way. Below 1 is better.
    pub server_cpu: Spread,
    /// Whether the client had no more to give for the target: a faster client would show a larger ratio.
    pub client_limited: bool,
}

impl Ratio {
    /// Ahead only if every round was.
    pub fn verdict(&self) -> &'static str {
        if self.iops.min > 1.0 {
            "ahead"
        } else if self.iops.max < 1.0 {
            "behind"
        } else {
            "even"
        }
    }

    /// Whether the server spent less CPU per request in every round.
    pub fn cheaper(&self) -> bool {
        self.server_cpu.max < 1.0
    }
}

/// The samples of one row and target, in the order of the rounds.
fn of<'a>(samples: &'a [Sample], row: &str, target: &str) -> Vec<&'a Sample> {
    samples.iter().filter(|sample| sample.row == row && sample.target == target).collect()
}

/// What all samples say, by row and then by target; nothing where nothing was measured.
pub fn summarize(samples: &[Sample], rows: &[Row], targets: &[String]) -> Vec<Summary> {
    let pairs = rows.iter().flat_map(|row| targets.iter().map(move |target| (row, target)));
    pairs.filter_map(|(row, target)| summary(samples, row, target)).collect()
}

fn summary(samples: &[Sample], row: &Row, target: &str) -> Option<Summary> {
    let own = of(samples, row.name, target);
    let spread = |figure: fn(&Sample) -> f64| Spread::of(own.iter().map(|sample| figure(sample)));
    let percent = |figure: fn(&Sample) -> f64| {
        Spread::of(own.iter().map(|sample| sample.percent(figure(sample)))).map(|spread| spread.median)
    };
    let mut summary = Summary {
        row: row.name,
        target: target.to_owned(),
        client: row.client(),
        rounds: own.len(),
        iops: spread(|sample| sample.iops)?,
        mib_per_s: spread(|sample| sample.mib_per_s)?,
        latency_us: spread(|sample| sample.latency_us)?,
        server_cpu_s_per_million: spread(Sample::server_cpu_per_million)?,
        server_percent: percent(|sample| sample.server_cpu_s)?,
        client_percent: percent(|sample| sample.client_cpu_s)?,
        others_percent: percent(|sample| sample.others_cpu_s + sample.stolen_s)?,
        warnings: Vec::new(),
    };
    summary.warnings = warnings(samples, &own, &summary);
    Some(summary)
}

fn warnings(samples: &[Sample], own: &[&Sample], summary: &Summary) -> Vec<String> {
    let mut warnings = Vec::new();
    if summary.client_percent >= CLIENT_LIMIT_PERCENT {
        warnings.push("client is the limit".to_owned());
    }
    if summary.others_percent >= OTHERS_PERCENT {
        warnings.push(format!("other programs used {:.0} % of a core", summary.others_percent));
    }
    if let (Some(first), Some(last)) = (own.first(), own.last()) {
        let change = last.iops / first.iops - 1.0;
        if change.abs() > DRIFT {
            warnings.push(format!("drift {:+.0} % from first to last round", change * 100.0));
        }
    }
    // Exactly equal figures of different windows are more likely one figure seen twice than two measurements.
    let identical = |one: &Sample| {
        samples.iter().any(|other| {
            other.row == one.row
                && (other.target != one.target || other.round != one.round)
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

/// The ratios of `target` to `base` in every row that both have.
pub fn ratios(samples: &[Sample], rows: &[Row], target: &str, base: &str) -> Vec<Ratio> {
    rows.iter().filter_map(|row| ratio(samples, row, target, base)).collect()
}

fn ratio(samples: &[Sample], row: &Row, target: &str, base: &str) -> Option<Ratio> {
    let (ours, theirs) = (of(samples, row.name, target), of(samples, row.name, base));
    let spread = |figure: fn(&Sample) -> f64| {
        let per_round = ours.iter().filter_map(|our| {
            let their = theirs.iter().find(|their| their.round == our.round)?;
            Some(figure(our) / figure(their))
        });
        let rounds = Spread::of(per_round)?;
        let our_median = Spread::of(ours.iter().map(|sample| figure(sample)))?.median;
        let their_median = Spread::of(theirs.iter().map(|sample| figure(sample)))?.median;
        Some(Spread { median: our_median / their_median, ..rounds })
    };
    let client_percent = Spread::of(ours.iter().map(|sample| sample.percent(sample.client_cpu_s)))?.median;
    Some(Ratio {
        row: row.name,
        target: target.to_owned(),
        base: base.to_owned(),
        iops: spread(|sample| sample.iops)?,
        server_cpu: spread(Sample::server_cpu_per_million)?,
        client_limited: client_percent >= CLIENT_LIMIT_PERCENT,
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
