//! What of the lab's JSON is shown. A run has tests of one target, a comparison has rows with a cell for each target.

use serde::Deserialize;

/// The version of the JSON that is understood.
const SCHEMA: u32 = 1;

/// A report, of `fels lab run`, `compare` or `fio`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Report {
    schema: u32,
    /// Of the program that wrote it.
    pub version: String,
    /// Seconds since 1970.
    pub ended_unix_s: u64,
    /// Where the lab ran.
    pub host: Host,
    /// The profile's name.
    #[serde(default)]
    pub profile: Option<String>,
    /// Somebody ended it early.
    #[serde(default)]
    pub interrupted: bool,
    /// What a run measured.
    #[serde(default)]
    pub target: Option<String>,
    /// Another program than the lab, and what it was given.
    #[serde(default)]
    pub measured_by: Option<String>,
    /// Of a run, in order.
    #[serde(default)]
    pub tests: Vec<Test>,
    /// Of a comparison; the first one is the base.
    #[serde(default)]
    pub targets: Vec<Column>,
    /// Rounds of a comparison that were asked for.
    #[serde(default)]
    pub rounds: usize,
    /// Of a comparison: a test in one direction each.
    #[serde(default)]
    pub rows: Vec<Row>,
    /// Targets of a comparison that went away.
    #[serde(default)]
    pub lost: Vec<Lost>,
    /// What one has to know to judge a comparison.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: String,
    /// Its processors.
    pub cpus: usize,
}

/// One test of a run.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Reads and writes.
    pub total: Summary,
    /// Reads.
    pub reads: Summary,
    /// Writes.
    pub writes: Summary,
    /// One entry a second.
    #[serde(default)]
    pub seconds: Vec<Second>,
    /// The same load on nothing: what the lab itself can do.
    #[serde(default)]
    pub ceiling_iops: Option<f64>,
    /// Operations that failed.
    #[serde(default)]
    pub errors: u64,
    /// The first different ones.
    #[serde(default)]
    pub error_texts: Vec<String>,
    /// What was wrong.
    #[serde(default)]
    pub findings: Findings,
    /// What one has to know to judge the figures.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Summary {
    /// Number.
    pub operations: u64,
    /// In a second.
    pub iops: f64,
    /// MiB in a second.
    pub mib_per_s: f64,
    /// How long they took.
    pub latency_us: Latency,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// What half of them did not pass.
    pub p50: f64,
    /// What 99 of a hundred did not pass.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// One second.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Second {
    /// How long it was.
    pub span_s: f64,
    /// Operations per second.
    pub iops: f64,
}

/// Blocks that were wrong.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub struct Findings {
    /// How many.
    pub count: u64,
}

/// A target of a comparison.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its address, without a secret.
    pub target: String,
}

/// One test in one direction.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Row {
    /// The test.
    pub test: String,
    /// Of its operations: `read` or `write`.
    pub direction: String,
    /// One for each target, in their order.
    pub cells: Vec<Cell>,
    /// Operations per second of the lab itself.
    #[serde(default)]
    pub ceiling_iops: Option<Spread>,
}

/// One target in a row.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Cell {
    /// Which.
    pub target: String,
    /// Operations per second over its rounds.
    #[serde(default)]
    pub iops: Option<Spread>,
    /// As a factor of the first target.
    #[serde(default)]
    pub factor: Option<Spread>,
}

/// A median and what it is the median of.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// A target that went away.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Lost {
    /// Which.
    pub target: String,
    /// In which round.
    pub round: usize,
    /// Why.
    pub reason: String,
}

impl Report {
    /// Reads what `--json` of the lab writes; what is wrong with it is the end of a sentence.
    pub fn read(text: &[u8]) -> Result<Report, String> {
        let report: Report =
            serde_json::from_slice(text).map_err(|error| format!("it is no report of the lab: {error}"))?;
        if report.schema != SCHEMA {
            return Err(format!("it has the schema {}, and only {SCHEMA} is known here", report.schema));
        }
        if report.target.is_none() && report.targets.is_empty() {
            return Err("it is no report of the lab: it has no target".to_owned());
        }
        Ok(report)
    }

    /// Whether several targets were compared.
    pub fn is_comparison(&self) -> bool {
        self.target.is_none()
    }

    /// What was measured.
    pub fn title(&self) -> String {
        let what = self
            .profile
            .as_ref()
            .map_or_else(|| "a load of one's own".to_owned(), |name| format!("profile {name}"));
        if self.is_comparison() { format!("{what}, {} targets", self.targets.len()) } else { what }
    }

    /// The addresses of what was measured.
    pub fn addresses(&self) -> Vec<&str> {
        let columns = self.targets.iter().map(|column| column.target.as_str());
        self.target.as_deref().into_iter().chain(columns).collect()
    }

    /// Wrong blocks, operations that failed, targets that went away.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for test in &self.tests {
            if test.findings.count > 0 {
                faults.push(format!("{}: {} blocks are wrong", test.name, test.findings.count));
            }
            if test.errors > 0 {
                let first = test.error_texts.first().map_or("no reason was given", String::as_str);
                faults.push(format!("{}: {} operations failed: {first}", test.name, test.errors));
            }
        }
        let lost = |lost: &Lost| format!("{} was lost in round {}: {}", lost.target, lost.round, lost.reason);
        faults.extend(self.lost.iter().map(lost));
        faults
    }
}
