//! From what fio counts to what the lab reports.
//!
//! fio counts up from the start of a job; the lab has seconds, and jobs of one name are one test.

use std::collections::HashMap;
use std::time::Duration;

use ring::BusyPoll;

use super::output::{Io, Job, Options, Snapshot};
use crate::initiator::Geometry;
use crate::ledger::Findings;
use crate::load::{Ended, Load, Tallies, Tally};
use crate::report::{self, Summary, TestReport};
use crate::run::{Measured, Phase, Progress, Second};

/// EILSEQ: with this number fio ends a job that has read something wrong.
const WRONG_DATA: i64 = 84;
/// Above this fio does not know how long a job still takes, in seconds.
const UNKNOWN_ETA: u64 = 1 << 30;

/// All that fio has said so far.
#[derive(Debug, Default)]
pub(super) struct Figures {
    version: String,
    /// When the last object was written, in milliseconds.
    at_ms: u64,
    tests: Vec<Figure>,
}

/// The jobs of one name in one group.
#[derive(Debug)]
struct Figure {
    name: String,
    group: u64,
    options: Options,
    now: Counts,
    seconds: Vec<Second>,
    clones: u32,
    cpu_percent: f64,
    errors: u64,
    wrong: u64,
}

/// From the start of the job.
#[derive(Clone, Debug, Default)]
struct Counts {
    reads: Count,
    writes: Count,
    flushes: Count,
    trims: u64,
}

/// Operations of one kind.
#[derive(Clone, Debug, Default)]
struct Count {
    operations: u64,
    bytes: u64,
    /// Of the clone that ran longest.
    runtime_ms: u64,
    latency_sum_ns: f64,
    least_ns: Option<u64>,
    most_ns: u64,
    bins: HashMap<u64, u64>,
}

impl Count {
    fn add(&mut self, io: &Io) {
        if io.total_ios == 0 {
            return;
        }
        let latency = &io.lat_ns;
        self.operations += io.total_ios;
        self.bytes += io.bytes;
        self.runtime_ms = self.runtime_ms.max(io.runtime);
        self.latency_sum_ns += latency.mean * io.total_ios as f64;
        self.least_ns = Some(self.least_ns.map_or(latency.min, |least| least.min(latency.min)));
        self.most_ns = self.most_ns.max(latency.max);
        for (&latency_ns, &count) in &latency.bins {
            *self.bins.entry(latency_ns).or_default() += count;
        }
    }

    /// What came since `before`.
    fn since(&self, before: &Count) -> Tally {
        let mut tally = Tally {
            operations: self.operations.saturating_sub(before.operations),
            bytes: self.bytes.saturating_sub(before.bytes),
            ..Tally::default()
        };
        for (latency_ns, &count) in &self.bins {
            let count = count.saturating_sub(before.bins.get(latency_ns).copied().unwrap_or(0));
            tally.latency_ns.saturating_record_n(*latency_ns, count);
        }
        tally
    }

    /// The whole. Percentiles are as fine as fio's bins (1.6 %); mean, least and most are exact.
    fn summary(&self) -> Summary {
        let mut summary = Summary::of(&self.since(&Count::default()), self.runtime_ms as f64 / 1e3);
        self.exact(&mut summary);
        summary
    }

    fn exact(&self, summary: &mut Summary) {
        if self.operations > 0 {
            summary.latency_us.mean = self.latency_sum_ns / self.operations as f64 / 1e3;
            summary.latency_us.min = self.least_ns.unwrap_or(0) as f64 / 1e3;
            summary.latency_us.max = self.most_ns as f64 / 1e3;
        }
    }

    fn merged(&self, other: &Count) -> Count {
        let mut both = self.clone();
        both.operations += other.operations;
        both.bytes += other.bytes;
        both.latency_sum_ns += other.latency_sum_ns;
        both.least_ns = self.least_ns.into_iter().chain(other.least_ns).min();
        both.most_ns = both.most_ns.max(other.most_ns);
        for (&latency_ns, &count) in &other.bins {
            *both.bins.entry(latency_ns).or_default() += count;
        }
        both
    }
}

impl Counts {
    fn add(&mut self, job: &Job) {
        self.reads.add(&job.read);
        self.writes.add(&job.write);
        self.flushes.add(&job.sync);
        self.trims += job.trim.total_ios;
    }

    fn operations(&self) -> u64 {
        self.reads.operations + self.writes.operations
    }

    /// fio begins to count again after `ramp_time`.
    fn began_again(&self, before: &Counts) -> bool {
        self.reads.operations < before.reads.operations || self.writes.operations < before.writes.operations
    }

    fn since(&self, before: &Counts) -> Tallies {
        Tallies {
            reads: self.reads.since(&before.reads),
            writes: self.writes.since(&before.writes),
            flushes: self.flushes.since(&before.flushes),
        }
    }

    /// How long the job was at work since `before`, if that is `span_ms` ago. A job that reads what it has written does one
    /// after the other, and a mixture does both at once.
    fn worked_ms(&self, before: &Counts, span_ms: u64, is_mixed: bool) -> u64 {
        let since = |now: &Count, before: &Count| now.runtime_ms.saturating_sub(before.runtime_ms);
        let (reads, writes) = (since(&self.reads, &before.reads), since(&self.writes, &before.writes));
        let worked_ms = if is_mixed { reads.max(writes) } else { reads + writes };
        worked_ms.min(span_ms)
    }
}

/// What happened since the object before.
#[derive(Debug)]
pub(super) struct FioSecond {
    test: String,
    number: (usize, usize),
    seconds: (u32, u32),
    tallies: Tallies,
    span_s: f64,
}

impl FioSecond {
    /// As the lab's own loads show it.
    pub(super) fn progress(&self) -> Progress<'_> {
        let latency = self.tallies.latency_ns();
        let span_s = self.span_s.max(1e-9);
        Progress {
            test: &self.test,
            number: self.number,
            seconds: self.seconds,
            phase: Phase::Measuring,
            iops: self.tallies.operations() as f64 / span_s,
            mib_per_s: self.tallies.bytes() as f64 / span_s / f64::from(1 << 20),
            mean_us: latency.mean() / 1e3,
            p99_us: latency.value_at_quantile(0.99) as f64 / 1e3,
        }
    }
}

impl Figures {
    /// Of fio, such as `fio-3.33`.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The next object; gives what is new in it, if anything is.
    pub(super) fn take(&mut self, snapshot: Snapshot) -> Option<FioSecond> {
        let span_ms =
            if self.at_ms == 0 { u64::MAX } else { snapshot.timestamp_ms.saturating_sub(self.at_ms) };
        self.at_ms = snapshot.timestamp_ms;
        self.version = snapshot.version;
        let elapsed = snapshot.jobs.iter().map(|job| job.elapsed).max().unwrap_or(0);
        let eta = snapshot.jobs.iter().map(|job| job.eta).filter(|&eta| eta < UNKNOWN_ETA).max().unwrap_or(0);
        let mut news = Vec::new();
        for (index, mut figure) in merge(snapshot.jobs, &snapshot.options).into_iter().enumerate() {
            let known = |old: &&mut Figure| old.name == figure.name && old.group == figure.group;
            let mut before = Counts::default();
            if let Some(old) = self.tests.iter_mut().find(known) {
                before = std::mem::take(&mut old.now);
                figure.seconds = std::mem::take(&mut old.seconds);
            }
            if figure.now.began_again(&before) {
                before = Counts::default();
                figure.seconds.clear();
            }
            let tallies = figure.now.since(&before);
            let worked_ms = figure.now.worked_ms(&before, span_ms, figure.is_mixed());
            if tallies.operations() > 0 && worked_ms > 0 {
                let span = Duration::from_millis(worked_ms);
                figure.seconds.push(Second { span, tallies: tallies.clone(), ..Second::default() });
                news.push((index, worked_ms, tallies));
            }
            match self.tests.iter().position(|old| old.name == figure.name && old.group == figure.group) {
                Some(place) => self.tests[place] = figure,
                None => self.tests.push(figure),
            }
        }
        let mut news = news.into_iter();
        let (index, mut worked_ms, mut tallies) = news.next()?;
        for (_, also_ms, other) in news {
            worked_ms = worked_ms.max(also_ms);
            tallies.merge(&other);
        }
        Some(FioSecond {
            test: self.tests.get(index).map_or_else(String::new, |figure| figure.name.clone()),
            number: (index + 1, self.tests.len()),
            seconds: (elapsed as u32, (elapsed + eta) as u32),
            tallies,
            span_s: worked_ms as f64 / 1e3,
        })
    }

    /// One report for each name.
    pub(super) fn tests(&self, geometry: &Geometry) -> Vec<TestReport> {
        self.tests.iter().map(|figure| figure.report(*geometry)).collect()
    }
}

/// Clones of a job into one.
fn merge(jobs: Vec<Job>, global: &Options) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for job in jobs {
        let place = figures.iter().position(|figure| figure.name == job.name && figure.group == job.group);
        let place = place.unwrap_or_else(|| {
            let mut options = global.clone();
            options.extend(job.options.clone());
            figures.push(Figure {
                name: job.name.clone(),
                group: job.group,
                options,
                now: Counts::default(),
                seconds: Vec::new(),
                clones: 0,
                cpu_percent: 0.0,
                errors: 0,
                wrong: 0,
            });
            figures.len() - 1
        });
        let figure = &mut figures[place];
        figure.now.add(&job);
        figure.clones += 1;
        figure.cpu_percent += job.usr_cpu + job.sys_cpu;
        match job.error {
            0 => {}
            WRONG_DATA => figure.wrong += job.total_err.max(1),
            _ => figure.errors += job.total_err.max(1),
        }
    }
    figures
}

impl Figure {
    fn report(&self, geometry: Geometry) -> TestReport {
        let Counts { reads, writes, flushes, trims } = &self.now;
        let longest = reads.runtime_ms.max(writes.runtime_ms);
        let total = reads.merged(writes);
        let span_ms = if self.is_mixed() { longest } else { reads.runtime_ms + writes.runtime_ms };
        let ended =
            Ended { errors: self.errors, findings: Findings::counted(self.wrong), ..Ended::default() };
        let measured = Measured {
            geometry,
            threads: self.clones as usize,
            seconds: self.seconds.clone(),
            ended,
            cpu: None,
            page_lists: None,
        };
        let load = self.load(Duration::from_millis(span_ms));
        let mut report = report::test_report(&self.name, &load, measured, None);
        report.measured_s = span_ms as f64 / 1e3;
        report.reads = reads.summary();
        report.writes = writes.summary();
        report.flushes = Summary { iops: 0.0, ..flushes.summary() };
        if report.measured_s > 0.0 {
            report.flushes.iops = flushes.operations as f64 / report.measured_s;
        }
        report.total = Summary::of(&total.since(&Count::default()), report.measured_s);
        total.exact(&mut report.total);
        report.lab_cpus = (self.now.operations() > 0).then_some(self.cpu_percent / 100.0);
        let check = self.verification();
        report.verified_by = check.map(|check| format!("fio ({check})"));
        report.remarks = report::remarks(&report);
        if total.operations > 0 && total.bins.is_empty() {
            let switches = "disable_lat and gtod_reduce";
            report
                .remarks
                .push(format!("the job measures no latency; hint: take {switches} out of the job file"));
        }
        if *trims > 0 {
            report.remarks.push(format!("{trims} trims are in no figure"));
        }
        report
    }

    /// An option by any of its names; the job's own before the global one.
    fn option(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.options.get(*name)).map(String::as_str)
    }

    /// What the job does, without what stands behind a colon; by either name of the option.
    fn pattern(&self) -> &str {
        self.option(&["rw", "readwrite"]).unwrap_or("read").split(':').next().unwrap_or_default()
    }

    /// Whether it reads and writes at once.
    fn is_mixed(&self) -> bool {
        matches!(self.pattern(), "rw" | "readwrite" | "randrw")
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.option(&[name])?.trim_end_matches('%').parse().ok()
    }

    fn verification(&self) -> Option<&str> {
        self.option(&["verify"]).filter(|check| !matches!(*check, "0" | "none" | ""))
    }

    /// What the job file asked for, as far as a load of the lab can say it.
    fn load(&self, time: Duration) -> Load {
        let rw = self.pattern();
        let read_percent = match rw {
            _ if self.is_mixed() => self
                .number::<u8>("rwmixread")
                .or_else(|| self.number::<u8>("rwmixwrite").map(|writes| 100u8.saturating_sub(writes)))
                .unwrap_or(50),
            rw if rw.ends_with("read") => 100,
            _ => 0,
        };
        let random = if rw.starts_with("rand") { 100 } else { 0 };
        let asked = self.option(&["bs", "blocksize"]).and_then(bytes);
        let Counts { reads, writes, .. } = &self.now;
        let mean = (reads.bytes + writes.bytes).checked_div(self.now.operations());
        Load {
            read_percent,
            random_percent: self.number("percentage_random").filter(|_| random > 0).unwrap_or(random),
            block_size: asked.or(mean).unwrap_or(4096).try_into().unwrap_or(u32::MAX),
            depth: self.number("iodepth").unwrap_or(1),
            jobs: self.clones,
            offset: self.option(&["offset"]).and_then(bytes).unwrap_or(0),
            size: self.option(&["size"]).and_then(bytes),
            rate: None,
            time,
            warm_up: Duration::ZERO,
            seed: self.number("randseed").unwrap_or(0),
            verify: self.verification().is_some(),
            fua: false,
            flush_every: self.number("fsync").or_else(|| self.number("fdatasync")).unwrap_or(0),
            busy_poll: BusyPoll::Most(Duration::ZERO),
        }
    }
}

/// `4096`, `8k` or `8ki`; of several, the first, which is that of reads. Not percentages.
fn bytes(text: &str) -> Option<u64> {
    let text = text.split([',', '-']).next()?.trim().to_ascii_lowercase();
    let text = text.trim_end_matches('b').trim_end_matches('i');
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1u64 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_writes_them() {
        assert_eq!((bytes("8k"), bytes("4096"), bytes("10g")), (Some(8192), Some(4096), Some(10 << 30)));
        assert_eq!((bytes("8k,4k"), bytes("1MiB"), bytes("64ki")), (Some(8192), Some(1 << 20), Some(65536)));
        assert_eq!((bytes("50%"), bytes(""), bytes("x")), (None, None, None));
    }
}
