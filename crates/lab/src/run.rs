//! Runs tests one after the other: threads, samples, the lab's own ceiling; and checks journals.

mod measure;
mod probe;
mod verify;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use verify::{VerifyOptions, VerifyReport, verify_journal};

use crate::error::LabError;
use crate::initiator::OpenOptions;
use crate::load::Load;
use crate::report::{self, Report, TestReport};
use crate::target::Target;
pub(crate) use measure::{Measured, Measurement, Second};
pub(crate) use probe::probe;

/// How long the lab's own ceiling is measured.
const CEILING_TIME: Duration = Duration::from_secs(1);
/// And before.
const CEILING_WARM_UP: Duration = Duration::from_millis(200);

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    /// As it is printed.
    pub name: String,
    /// What is asked of the target.
    pub load: Load,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// On what.
    pub target: Target,
    /// The profile's name, if the tests are one.
    pub profile: Option<String>,
    /// In this order.
    pub tests: Vec<Test>,
    /// How sessions are opened.
    pub open: OpenOptions,
    /// Threads; the smaller of jobs and cores if there is no number.
    pub threads: Option<usize>,
    /// Where to note what is durable; one verified test only.
    pub journal: Option<PathBuf>,
    /// Measure the lab itself with the same load beside every test.
    pub ceiling: bool,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A pool is filled; so many hundredths of its volume are.
    Filling(u32),
    /// What is measured does not count yet.
    WarmingUp,
    /// It counts.
    Measuring,
}

/// How a test goes, once a second.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Its name.
    pub test: &'a str,
    /// Its number from 1, and how many there are.
    pub number: (usize, usize),
    /// The seconds measured, and how many there will be.
    pub seconds: (u32, u32),
    /// What is being done.
    pub phase: Phase,
    /// Reads and writes per second.
    pub iops: f64,
    /// MiB per second.
    pub mib_per_s: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

impl<'a> Progress<'a> {
    /// Of a pool that is filled before its first test.
    pub(crate) fn filling(test: &'a str, number: (usize, usize), percent: u32) -> Self {
        let (iops, mib_per_s, mean_us, p99_us) = (0.0, 0.0, 0.0, 0.0);
        Self {
            test,
            number,
            seconds: (0, 0),
            phase: Phase::Filling(percent),
            iops,
            mib_per_s,
            mean_us,
            p99_us,
        }
    }
}

/// Runs all tests; `progress` is called once a second, and for each hundredth of a pool that is filled. When `stop`
/// becomes true, the test at hand ends, and the report has what was measured so far.
pub fn run(
    options: &RunOptions,
    mut progress: impl FnMut(&Progress<'_>),
    stop: &AtomicBool,
) -> Result<Report, LabError> {
    check(options)?;
    let mut tests: Vec<TestReport> = Vec::new();
    for (index, test) in options.tests.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let number = (index + 1, options.tests.len());
        // One thread writes a journal: its order is the order of the acknowledgements.
        let measurement = Measurement {
            target: &options.target,
            load: &test.load,
            open: &options.open,
            threads: if options.journal.is_some() {
                1
            } else {
                threads(options.threads, &options.target, &test.load)
            },
            journal: options.journal.as_deref(),
        };
        let measured = match measurement.run(&test.name, number, &mut progress, stop) {
            Ok(measured) => measured,
            Err(error) if tests.is_empty() => return Err(error),
            // The tests before it were measured.
            Err(error) => {
                tests.push(report::failed_report(&test.name, &test.load, &error));
                break;
            }
        };
        let wanted = options.ceiling && options.target != Target::Null && !stop.load(Ordering::Relaxed);
        let ceiling = wanted.then(|| {
            let load = ceiling_load(&test.load);
            let lab = Measurement { target: &Target::Null, load: &load, journal: None, ..measurement };
            lab.run("null:", number, &mut |_| (), &AtomicBool::new(false))
        });
        // The target was measured, whatever becomes of the lab itself.
        let (ceiling, unknown) = ceiling.map_or((None, None), |ceiling| match ceiling {
            Ok(ceiling) => (Some(ceiling), None),
            Err(error) => (None, Some(format!("the lab itself was not measured: {error}"))),
        });
        let mut report = report::test_report(&test.name, &test.load, measured, ceiling.as_ref());
        report.remarks.extend(unknown);
        // One that was stopped while its pool was filled, or that warmed up: a row of zeroes would be no figures.
        if stop.load(Ordering::Relaxed) && report.says_nothing() {
            break;
        }
        tests.push(report);
    }
    report::flag_identical_tests(&mut tests);
    Ok(Report {
        schema: report::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ended_unix_s: unix_s(),
        host: report::Host::this(),
        target: options.target.to_string(),
        measured_by: None,
        profile: options.profile.clone(),
        interrupted: stop.load(Ordering::Relaxed),
        tests,
    })
}

/// The same load without what the lab does not do itself. Of nothing there is no place: a range may be larger than all of it.
pub(crate) fn ceiling_load(load: &Load) -> Load {
    Load {
        offset: 0,
        size: None,
        rate: None,
        time: CEILING_TIME,
        warm_up: CEILING_WARM_UP,
        verify: false,
        flush_every: 0,
        ..load.clone()
    }
}

/// Refuses to verify where nothing would be written: only what this run has written is checked, and what checks nothing would
/// say that all is well.
pub(crate) fn check_verified(tests: &[Test]) -> Result<(), LabError> {
    let in_vain = |test: &Test| test.load.verify && test.load.read_percent == 100;
    if !tests.is_empty() && tests.iter().all(in_vain) {
        return Err(LabError::Job {
            problem: "nothing would be written, so that there is nothing to verify".to_owned(),
            hint: "add --rw randrw or --rw randwrite, which write over what is there, or leave --verify out"
                .to_owned(),
        });
    }
    Ok(())
}

fn check(options: &RunOptions) -> Result<(), LabError> {
    check_verified(&options.tests)?;
    if options.journal.is_none() {
        return Ok(());
    }
    let verified = options.tests.len() == 1 && options.tests.iter().all(|test| test.load.verify);
    if !verified {
        return Err(LabError::Job {
            problem: "a journal needs exactly one test, and stamped blocks".to_owned(),
            hint: "add --verify".to_owned(),
        });
    }
    let durable = options.tests.iter().all(|test| test.load.fua || test.load.flush_every > 0);
    if !durable {
        return Err(LabError::Job {
            problem: "nothing would ever be durable, so the journal would stay empty".to_owned(),
            hint: "add --flush-every N or --fua".to_owned(),
        });
    }
    Ok(())
}

/// As many as there are cores, if nothing else is asked for, and no more than jobs. A pool is measured by one: the core is
/// what it is measured in.
pub(crate) fn threads(wanted: Option<usize>, target: &Target, load: &Load) -> usize {
    if matches!(target, Target::Pool(_)) {
        return 1;
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    wanted.unwrap_or_else(cores).clamp(1, (load.jobs as usize).max(1))
}

/// Seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
