//! Several targets under the same loads, in turns, and the factors between them.
//!
//! A round measures every target once on every test; the next round begins with the next target. What a machine does meanwhile
//! then hits all of them alike, and what does not shows in the spread.

mod arithmetic;
mod effects;
mod rows;
mod table;

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

pub use arithmetic::Spread;
pub use effects::Effect;
pub use rows::{Cell, Direction, Row};
pub use table::table;

use crate::error::LabError;
use crate::initiator::OpenOptions;
use crate::report::{self, Host, TestReport};
use crate::run::{self, Measurement, Progress, Test};
use crate::target::Target;
use rows::Measured;

/// The version of the JSON: raised when a field changes its meaning or goes.
pub const SCHEMA: u32 = 1;
/// Most targets: a table with more columns fits no screen.
pub const MAX_TARGETS: usize = 16;

/// A target with the name of its column.
#[derive(Clone, Debug)]
pub struct NamedTarget {
    /// Its column.
    pub name: String,
    /// Where it is.
    pub target: Target,
}

/// What is to be compared.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The first one is the base.
    pub targets: Vec<NamedTarget>,
    /// The profile's name, if the tests are one.
    pub profile: Option<String>,
    /// In this order.
    pub tests: Vec<Test>,
    /// How often every target is measured on every test.
    pub rounds: usize,
    /// How sessions are opened.
    pub open: OpenOptions,
    /// Threads; the smaller of jobs and cores if there is no number.
    pub threads: Option<usize>,
    /// Measure the lab itself in every round.
    pub ceiling: bool,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct CompareReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Of this program.
    pub version: String,
    /// Seconds since 1970.
    pub ended_unix_s: u64,
    /// Where the lab ran.
    pub host: Host,
    /// The profile's name.
    pub profile: Option<String>,
    /// Rounds that were asked for.
    pub rounds: usize,
    /// The columns; the first is the base.
    pub targets: Vec<Column>,
    /// Somebody ended it early; the measurement at hand is left out.
    pub interrupted: bool,
    /// Targets that went away, in the order in which they did.
    pub lost: Vec<Lost>,
    /// The table.
    pub rows: Vec<Row>,
    /// Where targets are pools: what each factor does, by the targets that differ in nothing else.
    pub effects: Vec<Effect>,
    /// What one has to know to judge the figures.
    pub remarks: Vec<String>,
    /// Every measurement, in the order in which they were made.
    pub samples: Vec<Sample>,
    /// The lab itself on `null:`, once for every test and round.
    pub ceilings: Vec<Sample>,
}

/// A target of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its address, without a secret.
    pub target: String,
}

/// A target that could not be measured to the end.
#[derive(Clone, Debug, Serialize)]
pub struct Lost {
    /// Which.
    pub target: String,
    /// In which round, from 1.
    pub round: usize,
    /// At which test.
    pub test: String,
    /// Why.
    pub reason: String,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// From 1.
    pub round: usize,
    /// Of the target.
    pub target: String,
    /// What was measured.
    pub report: TestReport,
}

impl CompareReport {
    /// A target went away, an operation failed, or a block was wrong.
    pub fn failed(&self) -> bool {
        !self.lost.is_empty() || self.wrong_blocks() > 0
    }

    /// Verified: wrong blocks of all targets.
    pub fn wrong_blocks(&self) -> u64 {
        self.samples.iter().map(|sample| sample.report.findings.count).sum()
    }

    /// Everything, for `--json`.
    pub fn to_json(&self) -> String {
        report::json(self)
    }
}

/// Measures all targets in turns; `progress` is called once a second. When `stop` becomes true, the measurement at hand is
/// given up, and the report has those before it. A target that fails is left out from then on, and named in the report.
pub fn compare(
    options: &CompareOptions,
    mut progress: impl FnMut(&Progress<'_>),
    stop: &AtomicBool,
) -> Result<CompareReport, LabError> {
    check(options)?;
    let mut comparison = Comparison {
        options,
        stop,
        number: 0,
        samples: Vec::new(),
        ceilings: Vec::new(),
        lost: Vec::new(),
        notes: Vec::new(),
        interrupted: false,
    };
    'rounds: for round in 1..=options.rounds {
        for test in &options.tests {
            for target in arithmetic::order(round, options.targets.len()) {
                if comparison.left() < 2 || !comparison.measure(round, test, target, &mut progress) {
                    break 'rounds;
                }
            }
            comparison.ceiling(round, test);
        }
    }
    Ok(comparison.report())
}

fn check(options: &CompareOptions) -> Result<(), LabError> {
    let problem = |problem: String, hint: &str| Err(LabError::Job { problem, hint: hint.to_owned() });
    match options.targets.len() {
        0 | 1 => {
            let problem_text = "one target only: there is nothing to compare it with".to_owned();
            return problem(problem_text, "name another one behind it, or use `fels lab run`");
        }
        targets if targets > MAX_TARGETS => {
            return problem(format!("{targets} targets"), "compare 16 at most");
        }
        _ => {}
    }
    if options.rounds == 0 {
        return problem("no rounds".to_owned(), "give --rounds 1 or more; 3 have a median");
    }
    run::check_verified(&options.tests)?;
    for (index, target) in options.targets.iter().enumerate() {
        if options.targets[..index].iter().any(|other| other.name == target.name) {
            return problem(format!("two targets are called {}", target.name), "write name=URL");
        }
        // Better now than when the others have been measured.
        let geometry = run::probe(&target.target, &options.open)?;
        for test in &options.tests {
            test.load.fits(&geometry).map_err(|misfit| LabError::Job {
                problem: format!("{}: {}", target.name, misfit.problem),
                hint: misfit.hint,
            })?;
        }
    }
    Ok(())
}

struct Comparison<'a> {
    options: &'a CompareOptions,
    stop: &'a AtomicBool,
    number: usize,
    samples: Vec<Sample>,
    ceilings: Vec<Sample>,
    lost: Vec<Lost>,
    notes: Vec<String>,
    interrupted: bool,
}

impl Comparison<'_> {
    fn is_lost(&self, name: &str) -> bool {
        self.lost.iter().any(|lost| lost.target == name)
    }

    /// Targets that are still there.
    fn left(&self) -> usize {
        self.options.targets.len() - self.lost.len()
    }

    /// One target on one test; false when somebody has ended it.
    fn measure(
        &mut self,
        round: usize,
        test: &Test,
        target: usize,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> bool {
        let options = self.options;
        let NamedTarget { name, target } = &options.targets[target];
        self.number += 1;
        if self.is_lost(name) {
            return true;
        }
        let number = (self.number, options.rounds * options.tests.len() * options.targets.len());
        let label = format!("round {round} of {}, {name}, {}", options.rounds, test.name);
        let measured = self.measurement(target, test).run(&label, number, progress, self.stop);
        if self.stop.load(Ordering::Relaxed) {
            self.interrupted = true;
            return false;
        }
        let lost = |reason: String| Lost { target: name.clone(), round, test: test.name.clone(), reason };
        match measured {
            Ok(measured) => {
                let report = report::test_report(&test.name, &test.load, measured, None);
                if report.errors > 0 {
                    let first = report.error_texts.first().map_or("no reason was given", String::as_str);
                    self.lost.push(lost(format!("{} operations failed: {first}", report.errors)));
                }
                self.samples.push(Sample { round, target: name.clone(), report });
            }
            // Whatever it is, the rounds before it were measured.
            Err(error) => self.lost.push(lost(error.to_string())),
        }
        true
    }

    fn measurement<'a>(&'a self, target: &'a Target, test: &'a Test) -> Measurement<'a> {
        Measurement {
            target,
            load: &test.load,
            open: &self.options.open,
            threads: run::threads(self.options.threads, target, &test.load),
            journal: None,
        }
    }

    /// What the lab itself can do with that load.
    fn ceiling(&mut self, round: usize, test: &Test) {
        let wanted = self.options.ceiling
            && self.options.targets.iter().all(|target| target.target != Target::Null)
            && !self.stop.load(Ordering::Relaxed);
        if wanted {
            let load = run::ceiling_load(&test.load);
            let lab = Measurement { load: &load, ..self.measurement(&Target::Null, test) };
            match lab.run("null:", (0, 0), &mut |_| (), &AtomicBool::new(false)) {
                Ok(measured) => {
                    let report = report::test_report(&test.name, &load, measured, None);
                    self.ceilings.push(Sample { round, target: Target::Null.to_string(), report });
                }
                Err(error) => {
                    self.notes.push(format!("round {round}: the lab itself was not measured: {error}"));
                }
            }
        }
    }

    fn report(self) -> CompareReport {
        let names: Vec<String> = self.options.targets.iter().map(|target| target.name.clone()).collect();
        let measured: Vec<_> = self.samples.iter().filter_map(Measured::of).collect();
        let ceilings: Vec<_> = self.ceilings.iter().filter_map(Measured::of).collect();
        let tests: Vec<_> = self.options.tests.iter().map(|test| (test.name.as_str(), &test.load)).collect();
        let rows = rows::rows(&tests, &names, &measured, &ceilings);
        let factors: Vec<_> =
            self.options.targets.iter().map(|target| effects::factors(&target.target)).collect();
        let effects = effects::effects(&tests, &names, &factors, &measured);
        let mut remarks = rows::remarks(&tests, &names, &measured, &rows);
        if let (..2, Some(last)) = (self.left(), self.lost.last()) {
            remarks.push(format!("it ended in round {}: nothing was left to compare with", last.round));
        }
        remarks.extend(self.notes);
        remarks.extend(rows::own_remarks(&self.samples));
        let column =
            |target: &NamedTarget| Column { name: target.name.clone(), target: target.target.to_string() };
        CompareReport {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ended_unix_s: run::unix_s(),
            host: Host::this(),
            profile: self.options.profile.clone(),
            rounds: self.options.rounds,
            targets: self.options.targets.iter().map(column).collect(),
            interrupted: self.interrupted,
            lost: self.lost,
            rows,
            effects,
            remarks,
            samples: self.samples,
            ceilings: self.ceilings,
        }
    }
}

#[cfg(test)]
mod tests;
