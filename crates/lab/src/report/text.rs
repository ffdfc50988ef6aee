//! The tables for people.

use std::fmt::Write as _;

use super::{Report, SecondReport, Summary, TestReport};

/// Width of a test's name.
const NAME: usize = 26;

/// Appends a line. Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {{
        let _ = writeln!($out, $($argument)*);
    }};
}

/// The whole report.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    let profile = report.profile.as_deref().map_or_else(String::new, |name| format!(", profile {name}"));
    line!(out, "target {}{profile}", report.target);
    if let Some(program) = &report.measured_by {
        line!(out, "measured by {program}");
    }
    line!(out, "host {} ({} CPUs, Linux {})", report.host.name, report.host.cpus, report.host.kernel);
    line!(out, "");
    if report.tests.is_empty() && report.interrupted {
        line!(out, "interrupted before anything was measured");
        return out;
    }
    line!(out, "{:NAME$} | Latency ms |      IO/s |  MB/s (MiB/s) | lab's own IO/s | lab CPUs", "test");
    line!(out, "{:-<NAME$}-|------------|-----------|---------------|----------------|---------", "");
    for test in &report.tests {
        let ceiling = test.ceiling_iops.map_or_else(|| "-".to_owned(), |iops| format!("{iops:.0}"));
        let cpus = test.lab_cpus.map_or_else(|| "-".to_owned(), |cpus| format!("{cpus:.2}"));
        let total = &test.total;
        line!(
            out,
            "{:NAME$} | {:>10} | {:>9.1} | {:>13.2} | {ceiling:>14} | {cpus:>8}",
            test.name,
            milliseconds(total.latency_us.mean),
            total.iops,
            total.mib_per_s
        );
    }
    for test in &report.tests {
        details(&mut out, test);
    }
    if report.interrupted {
        line!(out, "\ninterrupted: this is what was measured up to then");
    }
    out
}

fn details(out: &mut String, test: &TestReport) {
    let load = &test.load;
    line!(out, "");
    line!(
        out,
        "{}: {} bytes, {} % read, {} % random, {} jobs x {} in flight, {} threads, {:.1} s",
        test.name,
        load.block_size,
        load.read_percent,
        load.random_percent,
        load.jobs,
        load.depth,
        test.threads,
        test.measured_s
    );
    line!(
        out,
        "  latency ms |      IO/s |  MB/s |    mean     p50     p90     p95     p99   p99.9  p99.99     max"
    );
    for (name, summary) in [("reads", &test.reads), ("writes", &test.writes), ("flushes", &test.flushes)] {
        if summary.operations > 0 {
            summary_line(out, name, summary);
        }
    }
    if let Some((least, most)) = extremes(&test.seconds) {
        line!(out, "  per second: {least:.0} to {most:.0} IO/s");
    }
    if let Some(check) = &test.verified_by {
        line!(out, "  verified by {check}: {} wrong", test.findings.count);
        for text in &test.wrong_texts {
            line!(out, "  WRONG {text}");
        }
        let more = test.findings.count.saturating_sub(test.wrong_texts.len() as u64);
        if more > 0 {
            line!(out, "  WRONG and {more} more");
        }
    } else if load.verify {
        line!(
            out,
            "  verified: {} MiB read again in the final pass, {} wrong blocks",
            test.proven_bytes >> 20,
            test.findings.count
        );
        for finding in &test.findings.first {
            line!(out, "  WRONG {finding}");
        }
        let more = test.findings.count - test.findings.first.len() as u64;
        if more > 0 {
            line!(out, "  WRONG and {more} blocks more");
        }
    }
    if test.errors > 0 {
        line!(out, "  {} operations failed:", test.errors);
        for text in &test.error_texts {
            line!(out, "    {text}");
        }
    }
    for remark in &test.remarks {
        line!(out, "  note: {remark}");
    }
}

fn summary_line(out: &mut String, name: &str, summary: &Summary) {
    let latency = &summary.latency_us;
    let times = [
        latency.mean,
        latency.p50,
        latency.p90,
        latency.p95,
        latency.p99,
        latency.p99_9,
        latency.p99_99,
        latency.max,
    ];
    let _ = write!(out, "  {name:10} | {:>9.0} | {:>5.0} |", summary.iops, summary.mib_per_s);
    for us in times {
        let _ = write!(out, "{:>8}", milliseconds(us));
    }
    line!(out, "");
}

/// The least and the most of the whole seconds.
fn extremes(seconds: &[SecondReport]) -> Option<(f64, f64)> {
    let whole = || seconds.iter().filter(|second| second.span_s > 0.5).map(|second| second.iops);
    Some((whole().min_by(f64::total_cmp)?, whole().max_by(f64::total_cmp)?))
}

/// Three digits that matter.
fn milliseconds(us: f64) -> String {
    let ms = us / 1e3;
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.3}"),
    }
}
