//! The run: servers up, volumes filled, rounds in turn, everything down again on every way out.

use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::{Options, WARM_UP_S};
use crate::client::{Clients, Request};
use crate::cpu::ticks_per_second;
use crate::distance::{Apart, Distance, PATIENCE};
use crate::error::Error;
use crate::gaps;
use crate::machine::{Machine, memory_kib};
use crate::process::{CommandLine, Interrupt, quick_output};
use crate::report;
use crate::rows::{Kind, ROWS, Row, select};
use crate::server::{Bare, Place, Program, Running, Server};
use crate::setting::Setting;
use crate::special;
use crate::stats::{Fact, Sample};
use crate::work::Work;

/// How long a thread of the lab looks for answers before it sleeps: longer than a batch of them takes a server, as a client of
/// other servers' looks all the time. Where answers come from a disk, as long as it does by itself.
const CLIENT_LOOK: &str = "250us";
/// Share of its peak at which a server's tail is measured.
const TAIL_OF_PEAK: f64 = 0.7;
/// How long is looked for gaps.
const GAPS_SPAN: Duration = Duration::from_secs(2);

/// Something that could not be measured. Never left out of the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the server.
    pub server: String,
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
    /// The servers that were asked for.
    pub servers: Vec<Server>,
    /// What was measured.
    pub samples: Vec<Sample>,
    /// What was measured and is no load.
    pub facts: Vec<Fact>,
    /// What was not.
    pub failures: Vec<Failure>,
    /// Commands that were run, with the working directory as `$WORK`.
    pub commands: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// Names of servers that use their core whether or not anything is asked of them.
    pub spinning: Vec<String>,
    /// How far the cores of the servers and the clients were apart; none before the first window.
    pub apart: Option<Apart>,
    /// Whether somebody stopped the run.
    pub interrupted: bool,
}

impl Outcome {
    /// Names of the servers, and of what else was measured.
    pub fn server_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.servers.iter().map(|server| server.name.clone()).collect();
        for sample in &self.samples {
            if !names.contains(&sample.server) {
                names.push(sample.server.clone());
            }
        }
        names
    }

    /// Names of the servers that are the limit.
    pub fn limit_names(&self) -> Vec<String> {
        let limits = self.servers.iter().filter(|server| server.is_limit());
        limits.map(|server| server.name.clone()).collect()
    }

    /// Success only if everything that was asked for was measured.
    pub fn exit_code(&self) -> ExitCode {
        match (self.interrupted, self.failures.is_empty()) {
            (true, _) => ExitCode::from(130),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
        }
    }

    /// Notes what could not be measured, and says it.
    pub fn fail(&mut self, server: &str, at: String, error: &Error) {
        let reason = error.line();
        eprintln!("error: {server}, {at}: {reason}");
        self.failures.push(Failure { server: server.to_owned(), at, reason });
    }
}

/// Measures, prints, and keeps what was measured.
pub fn run(options: &Options) -> Result<ExitCode, Error> {
    let rows = select(&options.rows)?;
    let mut servers = Server::parse_all(&options.server_names(), &options.fels, options.vs.as_deref())?;
    servers.extend(Server::beside(&options.beside)?);
    if options.list {
        report::print_list(ROWS, &servers);
        return Ok(ExitCode::SUCCESS);
    }
    check_room(options, &servers)?;
    let interrupt = Interrupt::register()?;
    let settings = (
        options.set_congestion_control.as_deref().map(Setting::congestion).transpose()?,
        options.set_page_lists.map(Setting::page_lists).transpose()?,
    );
    let machine = describe(options, &servers);
    let mut outcome = Outcome {
        rows,
        servers,
        samples: Vec::new(),
        facts: Vec::new(),
        failures: Vec::new(),
        commands: Vec::new(),
        machine,
        spinning: Vec::new(),
        apart: None,
        interrupted: false,
    };
    let work = Work::make()?;
    let (server_cores, client_cores) = (options.server_core.to_string(), options.client_core.to_string());
    let distance = Distance::new(&server_cores, &client_cores, PATIENCE);
    let bed = Bed {
        options,
        distance: &distance,
        place: Place {
            work: &work.path,
            cores: &server_cores,
            client_cores: &client_cores,
            volume_bytes: options.size << 20,
            port_base: options.port_base,
            interrupt: &interrupt,
        },
        clients: Clients {
            work: &work.path,
            fels: options.client.as_ref().unwrap_or(&options.fels),
            cores: &client_cores,
            seconds: options.seconds(),
            warm_up_s: WARM_UP_S,
            ticks_per_second: ticks_per_second(),
            interrupt: &interrupt,
        },
    };
    match measure(&bed, &mut outcome) {
        Err(Error::Interrupted) => outcome.interrupted = true,
        other => other?,
    }
    outcome.apart = distance.apart();
    drop(work);
    drop(settings);
    print!("{}", report::text(&outcome, options));
    if !options.no_keep && (!outcome.samples.is_empty() || !outcome.facts.is_empty()) {
        let directory = report::keep(&outcome, options)?;
        println!("kept in {}", directory.display());
    }
    Ok(outcome.exit_code())
}

/// Where everything runs.
#[derive(Clone, Copy, Debug)]
pub struct Bed<'a> {
    /// What was asked for.
    pub options: &'a Options,
    /// Between the cores of both.
    pub distance: &'a Distance,
    /// Of the servers.
    pub place: Place<'a>,
    /// The other side.
    pub clients: Clients<'a>,
}

fn describe(options: &Options, servers: &[Server]) -> Machine {
    let mut machine = Machine::read(options.label.as_deref());
    let mut packages: Vec<&str> = servers.iter().filter_map(|server| server.program.package()).collect();
    packages.extend(["qemu-utils", "fio", "libiscsi-bin"]);
    packages.sort_unstable();
    packages.dedup();
    for package in packages {
        machine.add_package(package);
    }
    let client = options.client.as_ref().unwrap_or(&options.fels);
    for (name, binary) in
        [("fels", Some(&options.fels)), ("vs", options.vs.as_ref()), ("client", Some(client))]
    {
        let Some(binary) = binary.map(|binary| binary.display().to_string()) else { continue };
        let version = quick_output(&binary, &["--version"]);
        let digest = quick_output("sha256sum", &[&binary]);
        let digest = digest.and_then(|text| text.get(..16).map(|start| format!(", sha256 {start}...")));
        let text = version.map(|version| format!("{version}{}", digest.unwrap_or_default()));
        machine.add_version(name, text);
    }
    machine
}

/// The programs of some servers, each once.
fn programs(servers: &[Server]) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    for server in servers {
        if !programs.contains(&server.program) {
            programs.push(server.program.clone());
        }
    }
    programs
}

/// Refuses volumes that do not fit into memory, before the kernel refuses them in its own way.
fn check_room(options: &Options, servers: &[Server]) -> Result<(), Error> {
    let programs = programs(servers);
    let own = programs.iter().filter(|program| program.has_own_memory()).count();
    let takes_room = |program: &&Program| !matches!(program, Program::Beside(_));
    let shared = usize::from(programs.iter().filter(takes_room).any(|program| !program.has_own_memory()));
    let count = (own + shared) as u64;
    let needed_mib = options.size * count;
    let free_mib = memory_kib("MemAvailable:").unwrap_or(u64::MAX) / 1024;
    if needed_mib + needed_mib / 8 > free_mib {
        let size = options.size;
        let text =
            format!("{count} volumes of {size} MiB do not fit into {free_mib} MiB of memory; use --size");
        return Err(Error::Options(text));
    }
    Ok(())
}

/// A program that answers.
struct Ready {
    program: Program,
    running: Running,
}

fn measure(bed: &Bed<'_>, outcome: &mut Outcome) -> Result<(), Error> {
    let mut ready = start_all(bed, outcome)?;
    for row in outcome.rows.clone() {
        if matches!(row.kind, Kind::Closed | Kind::Tail) {
            measure_row(bed, outcome, &row, &mut ready)?;
            continue;
        }
        match special::measure(bed, outcome, &row) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => outcome.fail("fels", row.name.to_owned(), &error),
            Ok(()) => {}
        }
    }
    for Ready { program, running } in ready {
        if !running.stop() {
            let name = outcome.servers.iter().find(|server| server.program == program);
            let name = name.map_or_else(String::new, |server| server.name.clone());
            let error =
                Error::Options("did not drain and exit with 0 in time after SIGTERM; killed".to_owned());
            outcome.fail(&name, "stop".to_owned(), &error);
        }
    }
    Ok(())
}

fn start_all(bed: &Bed<'_>, outcome: &mut Outcome) -> Result<Vec<Ready>, Error> {
    let mut ready = Vec::new();
    let mut programs = programs(&outcome.servers);
    // One that runs already stands still before anybody fills a volume on its core.
    programs.sort_by_key(|program| !matches!(program, Program::Beside(_)));
    for program in programs {
        bed.place.interrupt.check()?;
        let mut names = outcome.servers.iter().filter(|server| server.program == program);
        let name = names.next().map_or_else(String::new, |server| server.name.clone());
        match &program {
            Program::Beside(beside) => eprintln!("taking {}: {}", beside.name, program.description()),
            _ => eprintln!("starting {}", program.description()),
        }
        match Running::start(&program, &bed.place) {
            Ok(running) => {
                outcome.commands.extend(running.commands.iter().cloned());
                if running.spins() {
                    outcome.spinning.push(name);
                }
                ready.push(Ready { program, running });
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // What was said of it on the command line is wrong: nothing was measured yet, so nothing is lost.
            Err(error @ Error::Beside { .. }) => return Err(error),
            Err(error) => outcome.fail(&name, "start".to_owned(), &error),
        }
    }
    Ok(ready)
}

/// The numbers of `count` that are measured in a round, another one first in each: what the one before left behind is not
/// always the same.
pub fn in_turn(count: usize, round: u32) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (turn + round as usize) % count)
}

/// All rounds of one row, the servers in turn. A server that failed is left out of the rounds after.
fn measure_row(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row, ready: &mut [Ready]) -> Result<(), Error> {
    let fits = |server: &&Server| {
        let is_asked_in_time = row.kind != Kind::Tail || server.program != Program::Bare(Bare::Sleeping);
        row.has(server.protocol) && server.program.serves(row.load.sessions) && is_asked_in_time
    };
    let servers: Vec<Server> = outcome.servers.iter().filter(fits).cloned().collect();
    let mut failed = vec![false; servers.len()];
    for round in 1..=bed.options.rounds_of(row) {
        if row.kind == Kind::Tail {
            look_at_machine(bed, outcome, row, round)?;
        }
        for index in in_turn(servers.len(), round) {
            let (server, failed) = (&servers[index], &mut failed[index]);
            let Some(ready) = ready.iter_mut().find(|ready| ready.program == server.program) else {
                continue;
            };
            if *failed {
                continue;
            }
            match measure_window(bed, outcome, row, round, server, &mut ready.running) {
                Ok(sample) => {
                    eprintln!(
                        "{} round {round}: {} {:.0} IOPS, {:.1} us mean, CPU {:.2} + {:.2} us",
                        row.name,
                        server.name,
                        sample.iops,
                        sample.mean_us,
                        sample.server_us,
                        sample.client_us
                    );
                    outcome.samples.push(sample);
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    *failed = true;
                    outcome.fail(&server.name, format!("{} round {round}", row.name), &error);
                }
            }
        }
    }
    Ok(())
}

/// What the machine takes away while nobody is measured: below it no tail can be.
fn look_at_machine(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row, round: u32) -> Result<(), Error> {
    let gaps = gaps::worst(&[bed.place.cores, bed.place.client_cores], GAPS_SPAN)?;
    let longest_ms = gaps.longest.as_secs_f64() * 1e3;
    eprintln!(
        "{} round {round}: the machine is away for {:.2} %, {longest_ms:.1} ms at most",
        row.name, gaps.percent
    );
    let mut tell =
        |what, unit, value| outcome.facts.push(Fact::new(row, "the machine", round, what, unit, value));
    tell("time in gaps of 0.2 ms and more", "%", gaps.percent);
    tell("longest gap", "ms", longest_ms);
    Ok(())
}

fn measure_window(
    bed: &Bed<'_>,
    outcome: &mut Outcome,
    row: &Row,
    round: u32,
    server: &Server,
    running: &mut Running,
) -> Result<Sample, Error> {
    running.expect_running()?;
    let url = running.url(server.protocol).unwrap_or_default();
    let request = Request { busy_poll: Some(CLIENT_LOOK), ..row.request(&server.program, url) };
    if round == 1 {
        note_command(bed, outcome, row, server, &request);
    }
    let ids = [running.id()];
    let _turn = running.turn()?;
    let measure = |request| bed.distance.near(bed.place.interrupt, || bed.clients.run(&request, &ids));
    let window = measure(request)?;
    if row.kind != Kind::Tail {
        return Ok(Sample::new(row, &server.name, round, &window));
    }
    let rate = window.figures.iops * TAIL_OF_PEAK;
    let window = measure(Request { rate: Some(rate), ..request })?;
    if let Some(p99_9_us) = window.figures.p99_9_us {
        let value = p99_9_us / window.figures.mean_us;
        outcome.facts.push(Fact::new(row, &server.name, round, "99.9 % / mean", "", value));
    }
    Ok(Sample::new(row, &server.name, round, &window))
}

/// Keeps the first command line of a row and server for the report.
fn note_command(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row, server: &Server, request: &Request<'_>) {
    let work = bed.place.work.display().to_string();
    let lines = bed.clients.commands(request).into_iter().take(1);
    let text = |line: CommandLine| {
        format!("{}    # {}, {}", line.text().replace(&work, "$WORK"), row.name, server.name)
    };
    outcome.commands.extend(lines.map(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_first_and_last_as_often_as_the_others() {
        let rounds: Vec<Vec<usize>> = (0..3).map(|round| in_turn(3, round).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        assert_eq!(in_turn(0, 1).count(), 0);
    }
}
