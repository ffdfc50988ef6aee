//! What the clients print, as figures.

use serde::Deserialize;

use crate::error::Error;
use crate::limit::Latency;
use crate::rows::Load;
use crate::stats::float;

/// What a client reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Requests per second of all sessions.
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
}

impl Figures {
    /// Those of clients that ran together, as one: of latencies the mean over all requests, of percentiles the worst.
    pub fn of_all(all: &[Figures]) -> Figures {
        let sum = |part: fn(&Figures) -> f64| all.iter().map(part).sum::<f64>();
        let worst = |part: fn(&Figures) -> Option<f64>| all.iter().filter_map(part).reduce(f64::max);
        let iops = sum(|one| one.iops);
        Figures {
            iops,
            mib_per_s: sum(|one| one.mib_per_s),
            mean_us: sum(|one| one.iops * one.mean_us) / iops,
            p50_us: worst(|one| one.p50_us),
            p99_us: worst(|one| one.p99_us),
            p99_9_us: worst(|one| one.p99_9_us),
        }
    }
}

fn wrong(program: &'static str, reason: impl Into<String>) -> Error {
    Error::Output { program, reason: reason.into() }
}

fn parse<'a, T: Deserialize<'a>>(program: &'static str, text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| wrong(program, error.to_string()))
}

#[derive(Deserialize)]
struct LabReport {
    tests: Vec<LabTest>,
}

#[derive(Deserialize)]
struct LabTest {
    total: LabSummary,
    errors: u64,
    dropped: u64,
}

#[derive(Deserialize)]
struct LabSummary {
    operations: u64,
    iops: f64,
    mib_per_s: f64,
    latency_us: LabLatency,
}

#[derive(Deserialize)]
struct LabLatency {
    mean: f64,
    p50: f64,
    p99: f64,
    p99_9: f64,
}

/// Reads what `fels lab run --json` wrote.
pub fn lab(text: &str) -> Result<Figures, Error> {
    let report: LabReport = parse("fels lab", text)?;
    let [test] = report.tests.as_slice() else { return Err(wrong("fels lab", "not exactly one test")) };
    if test.errors > 0 {
        return Err(wrong("fels lab", format!("{} requests failed", test.errors)));
    }
    if test.dropped > 0 {
        return Err(wrong("fels lab", format!("{} requests were due and dropped", test.dropped)));
    }
    if test.total.operations == 0 {
        return Err(wrong("fels lab", "not a single request was completed"));
    }
    let latency = &test.total.latency_us;
    Ok(Figures {
        iops: test.total.iops,
        mib_per_s: test.total.mib_per_s,
        mean_us: latency.mean,
        p50_us: Some(latency.p50),
        p99_us: Some(latency.p99),
        p99_9_us: Some(latency.p99_9),
    })
}

#[derive(Deserialize)]
struct FioReport {
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    error: i64,
    read: FioSide,
    write: FioSide,
}

#[derive(Deserialize)]
struct FioSide {
    iops: f64,
    bw_bytes: f64,
    total_ios: u64,
    clat_ns: FioLatency,
    lat_ns: FioLatency,
}

#[derive(Deserialize)]
struct FioLatency {
    mean: f64,
    #[serde(default)]
    percentile: std::collections::BTreeMap<String, f64>,
}

/// Reads what `fio --output-format=json --group_reporting` wrote. Percentiles are those of the larger side.
pub fn fio(text: &str) -> Result<Figures, Error> {
    // fio writes notes of its engines before the JSON.
    let start = text.find('{').ok_or_else(|| wrong("fio", "no JSON"))?;
    let report: FioReport = parse("fio", &text[start..])?;
    let [job] = report.jobs.as_slice() else { return Err(wrong("fio", "not exactly one group of jobs")) };
    if job.error != 0 {
        return Err(wrong("fio", format!("error {}", job.error)));
    }
    let iops = job.read.iops + job.write.iops;
    if iops <= 0.0 {
        return Err(wrong("fio", "not a single request was completed"));
    }
    let larger = if job.read.total_ios >= job.write.total_ios { &job.read } else { &job.write };
    let at = |percentile: &str| larger.clat_ns.percentile.get(percentile).map(|ns| ns / 1e3);
    Ok(Figures {
        iops,
        mib_per_s: (job.read.bw_bytes + job.write.bw_bytes) / f64::from(1 << 20),
        mean_us: (job.read.iops * job.read.lat_ns.mean + job.write.iops * job.write.lat_ns.mean) / iops / 1e3,
        p50_us: at("50.000000"),
        p99_us: at("99.000000"),
        p99_9_us: at("99.900000"),
    })
}

/// What the limit's client prints.
#[derive(Deserialize, serde::Serialize)]
pub struct BareOutput {
    /// Answers.
    pub operations: u64,
    /// In so many seconds.
    pub seconds: f64,
    /// Of an open loop.
    pub latency: Option<Latency>,
}

/// Reads what the limit's client wrote. The latency of a closed loop is by Little's law, exact for a fixed number in flight.
pub fn bare(text: &str, load: &Load) -> Result<Figures, Error> {
    let output: BareOutput = parse("bench limit-drive", text)?;
    if output.operations == 0 || output.seconds <= 0.0 {
        return Err(wrong("bench limit-drive", "not a single answer arrived"));
    }
    let figures = of_rate(float(output.operations) / output.seconds, load);
    Ok(output.latency.map_or(figures, |latency| Figures {
        mean_us: latency.mean_us,
        p50_us: Some(latency.p50_us),
        p99_us: Some(latency.p99_us),
        p99_9_us: Some(latency.p99_9_us),
        ..figures
    }))
}

fn of_rate(iops: f64, load: &Load) -> Figures {
    Figures {
        iops,
        mib_per_s: iops * f64::from(load.request_bytes) / f64::from(1 << 20),
        mean_us: f64::from(load.in_flight()) / iops * 1e6,
        ..Figures::default()
    }
}

/// The figures of one process of `iscsi-perf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PerfOutput {
    /// Average I/Os per second over the whole run, rounded down by the client.
    iops: u64,
    /// Bytes of each request as the client computed them from the target's block size.
    request_bytes: u64,
}

/// Reads what the processes of `iscsi-perf` wrote. The latency is by Little's law.
pub fn iscsi_perf_all(texts: &[String], load: &Load) -> Result<Figures, Error> {
    let mut iops = 0.0;
    for text in texts {
        let output = iscsi_perf(text)?;
        if output.request_bytes != u64::from(load.request_bytes) {
            let reason = format!("requests of {} bytes, not {}", output.request_bytes, load.request_bytes);
            return Err(wrong("iscsi-perf", reason));
        }
        iops += float(output.iops);
    }
    Ok(of_rate(iops, load))
}

/// Reads what `iscsi-perf` wrote.
///
/// Progress lines are overwritten by carriage returns and contain an average as well; the final figure is
/// the segment that *begins* with `iops average`, and counts only when the run says `finished.`.
fn iscsi_perf(text: &str) -> Result<PerfOutput, Error> {
    let wrong = |reason| wrong("iscsi-perf", reason);
    if text.contains("ABORTED!") || !text.contains("finished.") {
        return Err(wrong("the run did not finish"));
    }
    let mut iops = None;
    let mut request_bytes = None;
    for segment in text.split(['\r', '\n']) {
        if let Some(rest) = segment.strip_prefix("iops average ") {
            iops = leading_number(rest);
        } else if let Some(rest) = segment.strip_prefix("FIXED transfer size of ") {
            request_bytes = rest.split_once('(').and_then(|(_, bytes)| leading_number(bytes));
        }
    }
    match (iops, request_bytes) {
        (Some(0), _) => Err(wrong("not a single request was completed")),
        (Some(iops), Some(request_bytes)) => Ok(PerfOutput { iops, request_bytes }),
        (None, _) => Err(wrong("no final 'iops average'")),
        (_, None) => Err(wrong("no 'FIXED transfer size'")),
    }
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
