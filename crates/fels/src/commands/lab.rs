//! `fels lab`: measures, verifies what a crash left, and lists the profiles.

use crate::message::{Failure, print};
use clap::{Args, Subcommand, ValueEnum};
use lab::initiator::OpenOptions;
use lab::load::{Arrivals, Load, Rate};
use lab::profile::{self, PROFILES};
use lab::target::Credentials;
use lab::{LabError, Progress, RunOptions, Target, Test, VerifyOptions, report};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a process ends with that a second signal stopped, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;
/// Seconds between two lines of progress where nobody watches.
const QUIET_S: u32 = 10;

/// Measure a target: profiles and loads of one's own
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<Run>),
    Verify(Box<Verify>),
    Profiles(Profiles),
}

/// Run a profile, or one load of your own, and print its table
///
/// Ctrl-C ends the run and still prints what was measured; a second one ends at once.
#[derive(Debug, Args)]
struct Run {
    /// A profile of `fels lab profiles`; without one, the flags below are the load
    profile: Option<String>,
    #[command(flatten)]
    target: TargetFlags,
    /// What the operations are; --rwmix and --random change the shares
    #[arg(long, value_enum, conflicts_with = "profile")]
    rw: Option<Pattern>,
    /// Bytes of an operation, such as 4k
    #[arg(long, value_name = "BYTES", value_parser = bytes, conflicts_with = "profile")]
    bs: Option<u64>,
    /// Operations in flight for each job
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Jobs, each with a session of its own
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Operations of 100 that read
    #[arg(long, value_name = "PERCENT", conflicts_with = "profile")]
    rwmix: Option<u8>,
    /// Operations of 100 that go to a random place
    #[arg(long, value_name = "PERCENT", conflicts_with = "profile")]
    random: Option<u8>,
    /// How long each test is measured, such as 30s or 2m
    #[arg(long, value_name = "SPAN", value_parser = span)]
    time: Option<Duration>,
    /// How long each test runs before it is measured
    #[arg(long, value_name = "SPAN", value_parser = span)]
    warmup: Option<Duration>,
    /// Open loop: so many operations per second are due, however slow the target is
    #[arg(long, value_name = "IOPS")]
    rate: Option<f64>,
    /// Open loop: when they are due
    #[arg(long, value_enum, requires = "rate", default_value = "poisson")]
    arrivals: ArrivalsFlag,
    /// Bytes of the target that are used, such as 10g; all of it if not given
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    size: Option<u64>,
    /// Where they begin
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "0")]
    offset: u64,
    /// Write stamped blocks, check every read, and read everything again at the end
    #[arg(long)]
    verify: bool,
    /// Note in FILE what the target acknowledged as durable, for `fels lab verify`
    #[arg(long, value_name = "FILE", requires = "verify")]
    journal: Option<PathBuf>,
    /// Flush after every N writes of a job
    #[arg(long, value_name = "N", default_value_t = 0)]
    flush_every: u64,
    /// Every write goes to stable media before it is acknowledged
    #[arg(long)]
    fua: bool,
    /// Threads of the lab; the smaller of jobs and cores if not given
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The same seed asks for the same operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write everything measured to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Do not measure the lab itself beside each test
    #[arg(long)]
    no_ceiling: bool,
}

/// Check that a target still has what a journal says is durable
///
/// Ends with 1 if any block is wrong, and names it.
#[derive(Debug, Args)]
struct Verify {
    #[command(flatten)]
    target: TargetFlags,
    /// What `fels lab run --journal` wrote
    #[arg(long, value_name = "FILE")]
    journal: PathBuf,
    /// Write the result to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// List the profiles and their tests
#[derive(Debug, Args)]
struct Profiles {}

#[derive(Debug, Args)]
struct TargetFlags {
    /// iscsi://[user[%secret]@]host[:port]/iqn/lun, nvme://host[:port]/nqn/nsid, nbd://host[:port]/export,
    /// nbd+unix:///export?socket=PATH, file:PATH or null:
    #[arg(long, value_name = "URL")]
    target: Target,
    /// iSCSI and NVMe: digests of headers
    #[arg(long)]
    header_digest: bool,
    /// iSCSI and NVMe: digests of data
    #[arg(long)]
    data_digest: bool,
    /// iSCSI: the name of this initiator
    #[arg(long, value_name = "IQN")]
    initiator_name: Option<String>,
    /// NVMe: the name of this host
    #[arg(long, value_name = "NQN", value_parser = host_nqn)]
    host_nqn: Option<String>,
    /// iSCSI: the name that the target has to prove (mutual CHAP); its secret is in FELS_CHAP_TARGET_SECRET
    #[arg(long, value_name = "NAME")]
    target_user: Option<String>,
    /// How long a command may take before its connection is given up
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "30s")]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pattern {
    Read,
    Write,
    Randread,
    Randwrite,
    Rw,
    Randrw,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsFlag {
    Constant,
    Poisson,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Run(run) => measure(run),
        Command::Verify(verify) => check(verify),
        Command::Profiles(_) => print(&profiles()),
    }
}

/// A number of bytes: k, m, g and t are 1024 and its powers.
fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches("ib").trim_end_matches('b');
    let (number, factor) = match digits.char_indices().last() {
        Some((at, 'k')) => (&digits[..at], 1 << 10),
        Some((at, 'm')) => (&digits[..at], 1 << 20),
        Some((at, 'g')) => (&digits[..at], 1 << 30),
        Some((at, 't')) => (&digits[..at], 1u64 << 40),
        _ => (digits, 1),
    };
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    value.ok_or_else(|| "write it as 4096, 4k, 1m or 10g".to_owned())
}

/// A span of time in seconds, or with ms, s, m or h.
fn span(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let value = found.and_then(|(number, seconds)| Some(number.parse::<f64>().ok()? * seconds));
    value
        .filter(|seconds| (0.0..1e7).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "write it as 30s, 500ms or 2m".to_owned())
}

fn host_nqn(text: &str) -> Result<String, String> {
    lab::target::check_nqn(text).map(|()| text.to_owned())
}

impl TargetFlags {
    fn open(&self) -> OpenOptions {
        let mut options = OpenOptions {
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            timeout: self.timeout,
            ..OpenOptions::default()
        };
        if let Some(name) = &self.initiator_name {
            options.initiator_name.clone_from(name);
        }
        if let Some(name) = &self.host_nqn {
            options.host_nqn.clone_from(name);
        }
        options
    }

    fn target(&self) -> Result<Target, Failure> {
        let mut target = self.target.clone();
        if let (Target::Iscsi(iscsi), Some(user)) = (&mut target, &self.target_user) {
            let secret = std::env::var("FELS_CHAP_TARGET_SECRET").unwrap_or_default();
            if secret.is_empty() || iscsi.chap.is_none() {
                return Err(Failure::usage(
                    "mutual CHAP needs a user of ours and the secret of the target",
                    "write user%secret@ in the address and set FELS_CHAP_TARGET_SECRET",
                ));
            }
            iscsi.mutual = Some(Credentials { user: user.clone(), secret });
        }
        Ok(target)
    }
}

impl Run {
    fn tests(&self) -> Result<Vec<Test>, Failure> {
        let Some(name) = &self.profile else {
            let load = self.change(&self.own());
            let kind = if load.random_percent > 0 { "random" } else { "sequential" };
            let name = format!("{kind} {} B {}% read", load.block_size, load.read_percent);
            return Ok(vec![Test { name, load }]);
        };
        let profile = profile::find(name).ok_or_else(|| {
            let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
            Failure::usage(format!("there is no profile {name:?}"), &format!("use {}", names.join(" or ")))
        })?;
        let tests = profile.loads();
        Ok(tests.map(|(name, load)| Test { name: name.to_owned(), load: self.change(&load) }).collect())
    }

    /// The load that --rw and its companions describe.
    fn own(&self) -> Load {
        let (read_percent, random_percent) = match self.rw.unwrap_or(Pattern::Randread) {
            Pattern::Read => (100, 0),
            Pattern::Write => (0, 0),
            Pattern::Randread => (100, 100),
            Pattern::Randwrite => (0, 100),
            Pattern::Rw => (50, 0),
            Pattern::Randrw => (50, 100),
        };
        let standard = Load::default();
        Load {
            read_percent: self.rwmix.unwrap_or(read_percent),
            random_percent: self.random.unwrap_or(random_percent),
            block_size: self.bs.map_or(standard.block_size, |bytes| bytes.try_into().unwrap_or(u32::MAX)),
            ..standard
        }
    }

    /// What may be changed of a profile as well.
    fn change(&self, load: &Load) -> Load {
        let arrivals = match self.arrivals {
            ArrivalsFlag::Constant => Arrivals::Constant,
            ArrivalsFlag::Poisson => Arrivals::Poisson,
        };
        Load {
            depth: self.depth.unwrap_or(load.depth),
            jobs: self.jobs.unwrap_or(load.jobs),
            time: self.time.unwrap_or(load.time),
            warm_up: self.warmup.unwrap_or(load.warm_up),
            rate: self.rate.map(|per_second| Rate { per_second, arrivals }),
            size: self.size.or(load.size),
            offset: self.offset,
            verify: self.verify,
            flush_every: self.flush_every,
            fua: self.fua,
            seed: self.seed,
            ..load.clone()
        }
    }
}

/// A lab's error has its hint in its sentence.
fn failure(error: &LabError) -> Failure {
    let text = error.to_string();
    match text.split_once("; hint: ") {
        Some((sentence, hint)) => Failure::new(sentence, Some(hint)),
        None => Failure::new(text, None),
    }
}

/// The flag that the first signal sets; the second one ends the process.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |error| Failure::new(format!("the handlers of signals cannot be set: {error}"), None);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds it unarmed and arms it.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}

fn measure(arguments: &Run) -> Result<(), Failure> {
    let options = RunOptions {
        target: arguments.target.target()?,
        profile: arguments.profile.clone(),
        tests: arguments.tests()?,
        open: arguments.target.open(),
        threads: arguments.threads,
        journal: arguments.journal.clone(),
        ceiling: !arguments.no_ceiling,
    };
    let stop = stop_flag()?;
    let mut line = ProgressLine::new();
    let result = lab::run(&options, |progress| line.show(progress), &stop);
    line.clear();
    let report = result.map_err(|error| failure(&error))?;
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    if let Some(path) = &arguments.json {
        write_json(path, &report.to_json())?;
    }
    if !to_stdout {
        print(&report::table(&report))?;
    }
    let wrong: u64 = report.tests.iter().map(|test| test.findings.count).sum();
    let errors: u64 = report.tests.iter().map(|test| test.errors).sum();
    match (wrong, errors) {
        (0, 0) => Ok(()),
        (0, errors) => Err(Failure::new(format!("{errors} operations failed"), None)),
        (wrong, _) => Err(Failure::new(
            format!("{wrong} blocks are wrong"),
            Some("the target lost or changed data: keep its files and logs"),
        )),
    }
}

fn check(arguments: &Verify) -> Result<(), Failure> {
    let options = VerifyOptions {
        target: arguments.target.target()?,
        journal: arguments.journal.clone(),
        open: arguments.target.open(),
    };
    let report = lab::verify_journal(&options, &stop_flag()?).map_err(|error| failure(&error))?;
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Failure::new(format!("the result cannot be written as JSON: {error}"), None))?;
        write_json(path, &json)?;
    }
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "{} MiB read, {} blocks had to be durable, {} of them are newer, {} blocks are wrong",
        report.bytes >> 20,
        report.durable_blocks,
        report.newer_blocks,
        report.findings.count
    );
    for finding in &report.findings.first {
        let _ = writeln!(text, "WRONG {finding}");
    }
    let more = report.findings.count - report.findings.first.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "WRONG and {more} blocks more");
    }
    print(&text)?;
    match report.findings.count {
        0 if report.interrupted => Err(Failure::new("interrupted before everything was read", None)),
        0 => Ok(()),
        count => Err(Failure::new(
            format!("{count} blocks are wrong"),
            Some("the target lost or changed data: keep its files and logs"),
        )),
    }
}

fn write_json(path: &Path, json: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(&format!("{json}\n"));
    }
    std::fs::write(path, json).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()), Some("check the path and the space on its disk"))
    })
}

fn profiles() -> String {
    let mut text = String::new();
    for profile in PROFILES {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: {}; {} s a test", profile.name, profile.about, profile.time_s);
        for test in profile.tests {
            let _ = writeln!(
                text,
                "  {:26} {:>6} bytes  {:>3} % read  {:>3} % random  {:>2} jobs x {:>2} in flight",
                test.name, test.block_size, test.read_percent, test.random_percent, test.jobs, test.depth
            );
        }
    }
    text
}

/// One line that is written over each second on a terminal; elsewhere a line every ten seconds.
struct ProgressLine {
    terminal: bool,
    shown: bool,
}

impl ProgressLine {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), shown: false }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        let (number, tests) = progress.number;
        let (second, seconds) = progress.seconds;
        let phase = if progress.warming { "warming up".to_owned() } else { format!("{second}/{seconds} s") };
        let text = format!(
            "[{number}/{tests}] {} {phase}: {:.0} IO/s, {:.1} MiB/s, mean {:.3} ms, p99 {:.3} ms",
            progress.test,
            progress.iops,
            progress.mib_per_s,
            progress.mean_us / 1e3,
            progress.p99_us / 1e3
        );
        let mut stderr = std::io::stderr().lock();
        // Where nobody listens any more there is nobody to tell that.
        if self.terminal {
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
            self.shown = true;
        } else if !progress.warming && second % QUIET_S == 0 {
            let _ = writeln!(stderr, "{text}");
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spans_are_read_as_people_write_them() {
        assert_eq!((bytes("4k"), bytes("1GiB"), bytes("512")), (Ok(4096), Ok(1 << 30), Ok(512)));
        assert!(bytes("k").is_err() && bytes("-1").is_err() && bytes("99999999999t").is_err());
        assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!((span("2m"), span("30")), (Ok(Duration::from_secs(120)), Ok(Duration::from_secs(30))));
        assert!(span("-1s").is_err() && span("x").is_err() && span("nan").is_err());
    }

    #[test]
    fn profiles_are_listed_with_their_tests() {
        let text = profiles();
        assert!(text.contains("vmware: ") && text.contains("RealLife-60%Rand-65%Read"), "{text}");
    }
}
