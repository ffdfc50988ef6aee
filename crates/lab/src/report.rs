//! What was measured, as data and as tables.

mod picture;
mod text;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::error::LabError;
use crate::ledger::Findings;
use crate::load::{Ended, Load, Tally};
use crate::run::{Measured, Second};

pub use picture::picture;
pub use text::table;

/// The version of the JSON: raised when a field changes its meaning or goes.
pub const SCHEMA: u32 = 1;
/// Two halves of a test that differ by more are no steady state.
const DRIFT: f64 = 0.10;
/// A second with less than this part of the median is a drop.
const DROP: f64 = 0.5;
/// Drops that are named.
const NAMED_DROPS: usize = 5;
/// A core that keeps more free memory than this for itself gets it from elsewhere: more than goes round between two programs.
const LONG_LIST: u64 = 256 << 20;
/// A result above this part of the lab's own ceiling says more about the lab than about the target.
const NEAR_CEILING: f64 = 0.5;

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Of this program.
    pub version: String,
    /// Seconds since 1970.
    pub ended_unix_s: u64,
    /// Where the lab ran.
    pub host: Host,
    /// What was measured.
    pub target: String,
    /// Another program than the lab, and what it was given.
    pub measured_by: Option<String>,
    /// The profile's name.
    pub profile: Option<String>,
    /// Somebody ended it early.
    pub interrupted: bool,
    /// In order.
    pub tests: Vec<TestReport>,
}

/// A machine.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: String,
    /// Its processors.
    pub cpus: usize,
}

impl Host {
    /// This one.
    pub fn this() -> Host {
        let read = |file: &str| {
            let path = format!("/proc/sys/kernel/{file}");
            std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
        };
        Host {
            name: read("hostname"),
            kernel: read("osrelease"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// One test.
#[derive(Clone, Debug, Serialize)]
pub struct TestReport {
    /// Its name.
    pub name: String,
    /// What was asked.
    pub load: Load,
    /// Bytes of the target's blocks.
    pub target_block_size: u32,
    /// Bytes of the target.
    pub target_size: u64,
    /// Threads of the lab.
    pub threads: usize,
    /// How long it was measured.
    pub measured_s: f64,
    /// Reads and writes.
    pub total: Summary,
    /// Reads.
    pub reads: Summary,
    /// Writes.
    pub writes: Summary,
    /// Flushes.
    pub flushes: Summary,
    /// One entry a second.
    pub seconds: Vec<SecondReport>,
    /// Operations that were in flight at the end, and are in no figure above.
    pub late_operations: u64,
    /// Latency of the slowest of them, in microseconds.
    pub late_max_us: f64,
    /// The lab's own processors in use, on average.
    pub lab_cpus: Option<f64>,
    /// The same load on `null:`: what the lab itself can do.
    pub ceiling_iops: Option<f64>,
    /// Most free memory that the kernel kept for one core meanwhile, in bytes: see `page_lists`.
    pub core_list_bytes: Option<u64>,
    /// Operations that failed.
    pub errors: u64,
    /// The first different ones.
    pub error_texts: Vec<String>,
    /// Operations that the initiators sent again.
    pub retries: u64,
    /// Commands that the target takes at once from a session, where it says so.
    pub target_room: Option<u32>,
    /// Open loop: operations that were due and dropped.
    pub dropped: u64,
    /// Open loop: most operations due and not begun at the end of a second.
    pub backlog_max: u64,
    /// Verified: bytes of the final pass.
    pub proven_bytes: u64,
    /// Verified: wrong blocks.
    pub findings: Findings,
    /// Verified by another program: which checks it made.
    pub verified_by: Option<String>,
    /// Verified by another program: what it found wrong, in its words.
    pub wrong_texts: Vec<String>,
    /// What one has to know to judge the figures.
    pub remarks: Vec<String>,
}

impl TestReport {
    /// Whether nothing was measured and nothing found.
    pub(crate) fn says_nothing(&self) -> bool {
        self.seconds.is_empty() && self.total.operations == 0 && self.errors == 0 && self.findings.count == 0
    }
}

/// Operations of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Number.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
    /// Per second.
    pub iops: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// How long they took.
    pub latency_us: Latency,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub max: f64,
}

/// One second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SecondReport {
    /// How long it was.
    pub span_s: f64,
    /// Reads that ended.
    pub reads: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Of both, per second.
    pub iops: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Latency {
            mean: histogram.mean() / 1e3,
            min: histogram.min() as f64 / 1e3,
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

impl Summary {
    pub(crate) fn of(tally: &Tally, span_s: f64) -> Summary {
        let per_second = |count: u64| if span_s > 0.0 { count as f64 / span_s } else { 0.0 };
        Summary {
            operations: tally.operations,
            bytes: tally.bytes,
            iops: per_second(tally.operations),
            mib_per_s: per_second(tally.bytes) / f64::from(1 << 20),
            latency_us: Latency::of(&tally.latency_ns),
        }
    }
}

impl SecondReport {
    fn of(second: &Second) -> SecondReport {
        let (span_s, tallies) = (second.span.as_secs_f64(), &second.tallies);
        let latency = tallies.latency_ns();
        SecondReport {
            span_s,
            reads: tallies.reads.operations,
            writes: tallies.writes.operations,
            bytes: tallies.bytes(),
            iops: if span_s > 0.0 { tallies.operations() as f64 / span_s } else { 0.0 },
            mean_us: latency.mean() / 1e3,
            p99_us: latency.value_at_quantile(0.99) as f64 / 1e3,
        }
    }
}

/// Sums up a measurement.
pub(crate) fn test_report(
    name: &str,
    load: &Load,
    measured: Measured,
    ceiling: Option<&Measured>,
) -> TestReport {
    let (mut reads, mut writes, mut flushes) = (Tally::default(), Tally::default(), Tally::default());
    for second in &measured.seconds {
        reads.merge(&second.tallies.reads);
        writes.merge(&second.tallies.writes);
        flushes.merge(&second.tallies.flushes);
    }
    let mut total = reads.clone();
    total.merge(&writes);
    let span = |measured: &Measured| {
        measured.seconds.iter().map(|second| second.span).sum::<Duration>().as_secs_f64()
    };
    let measured_s = span(&measured);
    let ceiling_iops = ceiling.map(|ceiling| {
        let operations: u64 = ceiling.seconds.iter().map(|second| second.tallies.operations()).sum();
        operations as f64 / span(ceiling).max(1e-9)
    });
    let late = &measured.ended.late;
    let mut report = TestReport {
        name: name.to_owned(),
        load: load.clone(),
        target_block_size: measured.geometry.block_size,
        target_size: measured.geometry.size,
        threads: measured.threads,
        measured_s,
        total: Summary::of(&total, measured_s),
        reads: Summary::of(&reads, measured_s),
        writes: Summary::of(&writes, measured_s),
        flushes: Summary::of(&flushes, measured_s),
        seconds: measured.seconds.iter().map(SecondReport::of).collect(),
        late_operations: late.operations(),
        late_max_us: late.reads.latency_ns.max().max(late.writes.latency_ns.max()) as f64 / 1e3,
        lab_cpus: measured.cpu.filter(|_| measured_s > 0.0).map(|cpu| cpu.as_secs_f64() / measured_s),
        ceiling_iops,
        core_list_bytes: measured.page_lists,
        errors: measured.ended.errors,
        error_texts: measured.ended.told,
        retries: measured.ended.retries,
        target_room: measured.ended.room,
        dropped: measured.ended.dropped,
        backlog_max: measured.seconds.iter().map(|second| second.backlog).max().unwrap_or(0),
        proven_bytes: measured.ended.proven_bytes,
        findings: measured.ended.findings,
        verified_by: None,
        wrong_texts: Vec::new(),
        remarks: Vec::new(),
    };
    report.remarks = remarks(&report);
    report
}

/// Of a test that could not be measured, among others that were.
pub(crate) fn failed_report(name: &str, load: &Load, error: &LabError) -> TestReport {
    let ended = Ended { errors: 1, told: vec![error.to_string()], ..Ended::default() };
    test_report(name, load, Measured::nothing(ended), None)
}

/// What one has to know to judge the figures.
pub(crate) fn remarks(report: &TestReport) -> Vec<String> {
    let mut remarks = Vec::new();
    // A last second that was cut short says nothing.
    let seconds: Vec<_> = report.seconds.iter().filter(|second| second.span_s > 0.5).collect();
    remarks.extend(steadiness(&seconds));
    let identical = seconds.windows(2).filter(|pair| {
        let key = |second: &SecondReport| (second.reads, second.writes, second.mean_us.to_bits());
        key(pair[0]) == key(pair[1]) && pair[0].iops > 0.0
    });
    match identical.count() {
        0 => {}
        count => {
            remarks.push(format!("{count} seconds are identical to the one before: this is not measured"));
        }
    }
    if let Some(ceiling) = report.ceiling_iops.filter(|ceiling| report.total.iops > ceiling * NEAR_CEILING) {
        remarks.push(format!(
            "above half of the lab's own ceiling ({ceiling:.0} IO/s): the lab may be the limit; \
             hint: more --threads or another machine"
        ));
    }
    // Of a session that broke nothing is known.
    let room = report.target_room.filter(|room| *room < report.load.depth && report.errors == 0);
    if let Some(room) = room {
        remarks.push(format!(
            "the target takes {room} commands at once from a session: of {} in flight the others waited in the lab, and \
             their latencies have that in them; hint: less --depth, or more --jobs",
            report.load.depth
        ));
    }
    if let Some(bytes) = report.core_list_bytes.filter(|bytes| *bytes > LONG_LIST) {
        remarks.push(format!(
            "the kernel kept up to {} MiB of free memory for one core: pages that one core sends and another receives are \
             in no cache then; hint: `sysctl -w vm.percpu_pagelist_high_fraction=20000` on this machine",
            bytes >> 20
        ));
    }
    if report.total.operations == 0 {
        remarks.push("nothing was completed".to_owned());
    }
    let checks_nothing =
        report.load.verify && report.verified_by.is_none() && report.load.read_percent == 100;
    if checks_nothing {
        remarks.push("nothing was written, so that nothing was verified".to_owned());
    }
    if report.late_operations > 0 && report.late_max_us > report.total.latency_us.max * 2.0 {
        remarks.push(format!(
            "{} operations were in flight at the end; the slowest took {:.1} ms",
            report.late_operations,
            report.late_max_us / 1e3
        ));
    }
    if report.dropped > 0 {
        remarks.push(format!(
            "the target cannot keep the rate: {} operations were due and dropped; latencies are a lower bound",
            report.dropped
        ));
    } else if let Some(rate) =
        report.load.rate.filter(|rate| report.backlog_max as f64 > rate.per_second / 10.0)
    {
        remarks.push(format!(
            "the target did not keep up with {} IO/s: up to {} operations were due and not begun",
            rate.per_second, report.backlog_max
        ));
    }
    if report.retries > 0 {
        remarks.push(format!("{} commands were sent again (unit attention or busy)", report.retries));
    }
    remarks
}

fn steadiness(seconds: &[&SecondReport]) -> Vec<String> {
    let mut remarks = Vec::new();
    if seconds.len() < 4 {
        return remarks;
    }
    let mean =
        |part: &[&SecondReport]| part.iter().map(|second| second.iops).sum::<f64>() / part.len() as f64;
    let (first, second) = seconds.split_at(seconds.len() / 2);
    let (before, after) = (mean(first), mean(second));
    if before > 0.0 && (after / before - 1.0).abs() > DRIFT {
        remarks.push(format!(
            "no steady state: the second half had {after:.0} IO/s, the first {before:.0} ({:+.0} %); \
             hint: a longer --time or --warmup",
            (after / before - 1.0) * 100.0
        ));
    }
    let mut sorted: Vec<f64> = seconds.iter().map(|second| second.iops).collect();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let drops = seconds.iter().enumerate().filter(|(_, second)| second.iops < median * DROP);
    let drops: Vec<_> =
        drops.map(|(index, second)| format!("{} ({:.0} IO/s)", index + 1, second.iops)).collect();
    if !drops.is_empty() {
        let more = drops.len().saturating_sub(NAMED_DROPS);
        let named = drops.iter().take(NAMED_DROPS).cloned().collect::<Vec<_>>().join(", ");
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        remarks.push(format!("sudden drops below half of the median {median:.0} IO/s: second {named}{rest}"));
    }
    remarks
}

/// Two tests with the same figures were not both measured.
pub(crate) fn flag_identical_tests(tests: &mut [TestReport]) {
    for index in 1..tests.len() {
        let (before, rest) = tests.split_at_mut(index);
        let test = &mut rest[0];
        let same = before.iter().find(|other| {
            other.total.operations > 0
                && other.total.operations == test.total.operations
                && other.total.latency_us.mean.to_bits() == test.total.latency_us.mean.to_bits()
        });
        if let Some(other) = same {
            test.remarks.push(format!("identical to {}: this is not measured", other.name));
        }
    }
}

impl Report {
    /// Something failed, or was wrong.
    pub fn failed(&self) -> bool {
        self.tests.iter().any(|test| test.errors > 0 || test.findings.count > 0)
    }

    /// Everything, for `--json`.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

/// As the files of `--json` are written.
pub(crate) fn json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report)
        .unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string()))
}

#[cfg(test)]
mod tests;
