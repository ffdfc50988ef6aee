//! The run: servers up, volumes filled, rounds in turn, everything down again on every way out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;

use crate::cli::Options;
use crate::client::{Client, Window};
use crate::error::Error;
use crate::machine::{CpuTimes, Machine, memory_kib, ticks_per_second};
use crate::process::{Interrupt, quick_output};
use crate::report;
use crate::rows::{ROWS, Row, select};
use crate::stats::{Sample, float};
use crate::target::{Kind, Place, Server, Target};

/// Volumes and sockets live here; the process id is appended.
const WORK_PREFIX: &str = "/dev/shm/fels-bench-";

/// Something that could not be measured. Never left out of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Name of the target.
    pub target: String,
    /// Name of the row, or what was being done.
    pub at: String,
    /// Why.
    pub reason: String,
}

/// Everything that a report is made of.
#[derive(Debug)]
pub struct Outcome {
    /// The rows that were asked for.
    pub rows: Vec<Row>,
    /// The targets that were asked for.
    pub targets: Vec<Target>,
    /// What was measured.
    pub samples: Vec<Sample>,
    /// What was not.
    pub failures: Vec<Failure>,
    /// Commands that were run, with the working directory as `$WORK`.
    pub commands: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// Whether somebody stopped the run.
    pub interrupted: bool,
}

impl Outcome {
    /// Names of the targets.
    pub fn target_names(&self) -> Vec<String> {
        self.targets.iter().map(|target| target.name.clone()).collect()
    }

    /// Success only if everything that was asked for was measured.
    pub fn exit_code(&self) -> ExitCode {
        match (self.interrupted, self.failures.is_empty()) {
            (true, _) => ExitCode::from(130),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
        }
    }
}

/// Measures, prints, and keeps what was measured.
pub fn run(options: &Options) -> Result<Outcome, Error> {
    let rows = select(&options.rows)?;
    if options.list_rows {
        report::print_rows(ROWS);
    }
    let parse = |name: &String| Target::parse(name, &options.fels, options.vs.as_deref());
    let targets: Vec<Target> = options.target_names().iter().map(parse).collect::<Result<_, _>>()?;
    let machine = describe(options, &targets);
    let mut outcome = Outcome {
        rows,
        targets,
        samples: Vec::new(),
        failures: Vec::new(),
        commands: Vec::new(),
        machine,
        interrupted: false,
    };
    if options.list_rows {
        return Ok(outcome);
    }
    check_room(options, &outcome.targets)?;
    let interrupt = Interrupt::register()?;
    let work = Work::make()?;
    match measure(options, &mut outcome, &work.path, &interrupt) {
        Err(Error::Interrupted) => outcome.interrupted = true,
        other => other?,
    }
    drop(work);
    print!("{}", report::text(&outcome, options));
    if !options.no_keep && !outcome.samples.is_empty() {
        let directory = report::keep(&outcome, options)?;
        println!("kept in {}", directory.display());
    }
    Ok(outcome)
}

fn describe(options: &Options, targets: &[Target]) -> Machine {
    let mut machine = Machine::read(options.label.as_deref());
    if targets.iter().any(|target| !target.is_fels()) {
        machine.add_package("tgt");
    }
    for package in ["libiscsi-bin", "qemu-utils", "qemu-block-extra"] {
        machine.add_package(package);
    }
    for target in targets {
        if let Kind::FelsMemory(binary) | Kind::FelsFile(binary) = &target.kind {
            let binary = binary.display().to_string();
            let version = quick_output(&binary, &["--version"]);
            let digest = quick_output("sha256sum", &[&binary]);
            let digest = digest.and_then(|text| text.get(..16).map(|start| format!(", sha256 {start}...")));
            let text = version.map(|version| format!("{version}{}", digest.unwrap_or_default()));
            machine.add_version(&target.name, text);
        }
    }
    machine
}

/// Refuses volumes that do not fit into memory, before the kernel refuses them in its own way.
fn check_room(options: &Options, targets: &[Target]) -> Result<(), Error> {
    let needed_mib = options.size * targets.len() as u64;
    let free_mib = memory_kib("MemAvailable:").unwrap_or(u64::MAX) / 1024;
    if needed_mib + needed_mib / 8 > free_mib {
        let size = options.size;
        let count = targets.len();
        let text =
            format!("{count} volumes of {size} MiB do not fit into {free_mib} MiB of memory; use --size");
        return Err(Error::Options(text));
    }
    Ok(())
}

/// The working directory on tmpfs; removed when this value goes away.
struct Work {
    path: PathBuf,
}

impl Work {
    fn make() -> Result<Self, Error> {
        remove_left_over();
        let path = PathBuf::from(format!("{WORK_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(Error::io(format!("cannot make {}", path.display())))?;
        Ok(Self { path })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("warning: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes what runs that were killed left in memory: directories of process ids that are gone.
fn remove_left_over() {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let text = path.display().to_string();
        let Some(id) = text.strip_prefix(WORK_PREFIX).and_then(|id| id.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{id}")).exists() && fs::remove_dir_all(&path).is_ok() {
            eprintln!("removed {text}, left over by a run that was killed");
        }
    }
}

/// A target that answers, and its volume filled.
struct Ready {
    index: usize,
    server: Server,
}

fn measure(
    options: &Options,
    outcome: &mut Outcome,
    work: &Path,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let client = Client {
        work,
        core: options.client_core,
        volume_bytes: options.size << 20,
        seconds: options.seconds(),
        interrupt,
    };
    let mut ready = start_all(options, outcome, &client)?;
    for row in outcome.rows.clone() {
        measure_row(options, outcome, &client, &row, &mut ready)?;
    }
    for Ready { index, server } in ready {
        if !server.stop() {
            let target = outcome.targets[index].name.clone();
            let reason = "did not drain and exit with 0 in time after SIGTERM; killed".to_owned();
            outcome.failures.push(Failure { target, at: "stop".to_owned(), reason });
        }
    }
    Ok(())
}

fn start_all(options: &Options, outcome: &mut Outcome, client: &Client<'_>) -> Result<Vec<Ready>, Error> {
    let place = Place {
        work: client.work,
        core: options.server_core,
        volume_bytes: client.volume_bytes,
        port_base: options.port_base,
        interrupt: client.interrupt,
    };
    let mut ready = Vec::new();
    for (index, target) in outcome.targets.iter().enumerate() {
        eprintln!("starting {}", target.name);
        let offset = u16::try_from(index).unwrap_or(u16::MAX);
        let started = Server::start(target, &place, offset).and_then(|server| {
            client.fill(&server.url)?;
            Ok(server)
        });
        match started {
            Ok(server) => {
                outcome.commands.extend(server.commands.iter().cloned());
                ready.push(Ready { index, server });
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                eprintln!("error: {} did not start: {}", target.name, error.line());
                outcome.failures.push(Failure {
                    target: target.name.clone(),
                    at: "start".to_owned(),
                    reason: error.line(),
                });
            }
        }
    }
    Ok(ready)
}

/// Warm-up, then all rounds of one row, the targets in turn.
fn measure_row(
    options: &Options,
    outcome: &mut Outcome,
    client: &Client<'_>,
    row: &Row,
    ready: &mut [Ready],
) -> Result<(), Error> {
    // The rate of each target in this row, for clients that run by count; none once it failed.
    let mut rates: Vec<Option<f64>> = Vec::new();
    for Ready { index, server } in ready.iter_mut() {
        let target = &outcome.targets[*index].name;
        let warm = warm_up(client, row, server);
        if outcome.commands.iter().all(|command| !command.contains(row.name)) {
            let requests = warm.as_ref().map_or(0, |window| client.requests_for(window.iops));
            let lines = client.commands(row, &server.url, requests);
            let texts = lines.iter().map(|line| format!("{}    # {}, {target}", line.text(), row.name));
            outcome.commands.extend(texts);
        }
        match warm {
            Ok(window) => rates.push(Some(window.iops)),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                rates.push(None);
                outcome.failures.push(failure(target, row, "warm-up", &error));
            }
        }
    }
    for round in 1..=options.rounds() {
        for (Ready { index, server }, rate) in ready.iter_mut().zip(&mut rates) {
            let Some(iops) = *rate else { continue };
            let target = outcome.targets[*index].name.clone();
            match measure_window(client, row, server, &target, round, client.requests_for(iops)) {
                Ok(sample) => {
                    eprintln!("{} round {round}: {target} {:.0} IOPS", row.name, sample.iops);
                    *rate = Some(sample.iops);
                    outcome.samples.push(sample);
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    *rate = None;
                    outcome.failures.push(failure(&target, row, &format!("round {round}"), &error));
                }
            }
        }
    }
    Ok(())
}

fn failure(target: &str, row: &Row, at: &str, error: &Error) -> Failure {
    let reason = error.line();
    eprintln!("error: {target}, {} {at}: {reason}", row.name);
    Failure { target: target.to_owned(), at: format!("{} {at}", row.name), reason }
}

/// One window that does not count. Clients that run by count are probed first to learn the rate.
fn warm_up(client: &Client<'_>, row: &Row, server: &mut Server) -> Result<Window, Error> {
    const PROBE_REQUESTS: u64 = 1000;
    server.expect_running()?;
    let by_count = row.client() != "iscsi-perf";
    let requests = if by_count {
        let probe = client.run(row, &server.url, PROBE_REQUESTS)?;
        client.requests_for(probe.iops)
    } else {
        PROBE_REQUESTS
    };
    client.run(row, &server.url, requests)
}

fn measure_window(
    client: &Client<'_>,
    row: &Row,
    server: &mut Server,
    target: &str,
    round: u32,
    requests: u64,
) -> Result<Sample, Error> {
    server.expect_running()?;
    let ticks = ticks_per_second();
    let before = CpuTimes::read(server.id(), ticks)?;
    let begun = Instant::now();
    let window = client.run(row, &server.url, requests)?;
    let wall_s = begun.elapsed().as_secs_f64();
    let spent = CpuTimes::read(server.id(), ticks)?.since(&before);
    Ok(Sample::new(row, target, round, window, spent, wall_s))
}

/// How long the rounds alone will take, in seconds; for the report.
pub fn planned_seconds(options: &Options, outcome: &Outcome) -> f64 {
    let windows = outcome.rows.len() * outcome.targets.len();
    float(windows as u64) * f64::from(options.rounds() + 1) * f64::from(options.seconds())
}
