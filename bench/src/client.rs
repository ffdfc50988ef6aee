//! The clients, their command lines, and what they reach in one window.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cpu::{Reading, Spent};
use crate::error::Error;
use crate::output::{self, Figures};
use crate::process::{CommandLine, Interrupt, Process};
use crate::rows::{Client, Load};
use crate::server::Program;

/// By how much the span in which CPU times count is shorter than the measurement, where that is not half of it.
const MARGIN: Duration = Duration::from_millis(250);
/// Between two readings of CPU times.
const BETWEEN_READINGS: Duration = Duration::from_millis(50);
/// Where the lab writes its figures, the first of those that run together and the others.
fn lab_json(work: &Path, number: usize) -> PathBuf {
    work.join(format!("lab-{number}.json"))
}

/// Where and how clients run.
#[derive(Clone, Copy, Debug)]
pub struct Clients<'a> {
    /// Directory for the outputs.
    pub work: &'a Path,
    /// The binary whose lab is the client.
    pub fels: &'a Path,
    /// Cores of the clients, as taskset takes them.
    pub cores: &'a str,
    /// Seconds of a measurement.
    pub seconds: f64,
    /// Seconds before.
    pub warm_up_s: f64,
    /// Ticks per second of /proc.
    pub ticks_per_second: f64,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

/// What one measured window gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// By the client.
    pub figures: Figures,
    /// CPU time in a span within it.
    pub spent: Spent,
}

/// What is asked of whom.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The client.
    pub client: Client,
    /// The server's program.
    pub program: &'a Program,
    /// Where the volume is.
    pub url: &'a str,
    /// What is asked.
    pub load: &'a Load,
    /// Requests per second of an open loop.
    pub rate: Option<f64>,
    /// How long the lab looks for answers at most before it sleeps, where that is not its own choice.
    pub busy_poll: Option<&'a str>,
}

impl Clients<'_> {
    /// The command lines, one a process.
    pub fn commands(&self, request: &Request<'_>) -> Vec<CommandLine> {
        let lines = match (request.client, request.program) {
            (Client::Lab, Program::Bare(bare)) => vec![self.bare(request, bare.spins())],
            (Client::Lab, _) => vec![self.lab(request, 0)],
            (Client::Fio, _) => vec![self.fio(request)],
            (Client::IscsiPerf, _) => {
                (0..request.load.sessions).map(|number| self.iscsi_perf(request, number)).collect()
            }
        };
        lines.into_iter().map(|line| line.on_core(self.cores)).collect()
    }

    fn lab(&self, request: &Request<'_>, number: usize) -> CommandLine {
        let load = request.load;
        let mut arguments: Vec<String> =
            ["lab", "run", "--no-ceiling", "--threads", "1"].map(str::to_owned).into();
        let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        flag("target", request.url.to_owned());
        flag("rwmix", load.read_percent.to_string());
        flag("random", if load.random { "100" } else { "0" }.to_owned());
        flag("bs", load.request_bytes.to_string());
        flag("depth", load.depth.to_string());
        flag("jobs", load.sessions.to_string());
        flag("time", self.seconds.to_string());
        flag("warmup", self.warm_up_s.to_string());
        if let Some(rate) = request.rate {
            flag("rate", format!("{rate:.3}"));
        }
        // Other places in each window, as the bare program has: the same ones again are those that a cache has just lost.
        flag("seed", fastrand::u32(..).to_string());
        if let Some(span) = request.busy_poll {
            flag("busy-poll", span.to_owned());
        }
        flag("json", lab_json(self.work, number).display().to_string());
        CommandLine::new(self.fels.display().to_string(), arguments)
    }

    fn bare(&self, request: &Request<'_>, spin: bool) -> CommandLine {
        let load = request.load;
        let mut arguments = vec!["limit-drive".to_owned()];
        let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        flag("address", request.url.to_owned());
        flag("read-percent", load.read_percent.to_string());
        flag("request-bytes", load.request_bytes.to_string());
        flag("depth", load.depth.to_string());
        flag("sessions", load.sessions.to_string());
        flag("seconds", self.seconds.to_string());
        flag("warm-up", self.warm_up_s.to_string());
        arguments.extend(request.rate.map(|rate| format!("--rate={rate:.3}")));
        arguments.extend(spin.then(|| "--spin".to_owned()));
        arguments.extend(load.random.then(|| "--random".to_owned()));
        CommandLine::own(arguments)
    }

    fn fio(&self, request: &Request<'_>) -> CommandLine {
        let mut arguments = fio_arguments(request.load, self.seconds, self.warm_up_s);
        arguments.extend(["--ioengine=nbd".to_owned(), format!("--uri={}", request.url)]);
        CommandLine::new("fio", arguments)
    }

    fn iscsi_perf(&self, request: &Request<'_>, number: u32) -> CommandLine {
        let load = request.load;
        let mut arguments = vec![
            "-i".to_owned(),
            format!("iqn.2026-11.internal.fels.bench:client{number}"),
            "-m".to_owned(),
            load.depth.to_string(),
            "-b".to_owned(),
            (load.request_bytes / 512).to_string(),
            // It takes whole seconds.
            "-t".to_owned(),
            self.seconds.ceil().to_string(),
        ];
        if load.random {
            arguments.push("-r".to_owned());
        }
        arguments.push(request.url.to_owned());
        CommandLine::new("iscsi-perf", arguments)
    }

    /// Runs one window. `servers` are the processes whose CPU time counts as the server's.
    pub fn run(&self, request: &Request<'_>, servers: &[u32]) -> Result<Window, Error> {
        self.run_lines(&self.commands(request), servers, |outputs| match (request.client, request.program) {
            (Client::Lab, Program::Bare(_)) => output::bare(&outputs[0], request.load),
            (Client::Lab, _) => self.figures_of_lab(0),
            (Client::Fio, _) => output::fio(&outputs[0]),
            (Client::IscsiPerf, _) => output::iscsi_perf_all(outputs, request.load),
        })
    }

    fn figures_of_lab(&self, number: usize) -> Result<Figures, Error> {
        let path = lab_json(self.work, number);
        let context = format!("cannot read {}", path.display());
        output::lab(&fs::read_to_string(&path).map_err(Error::io(context))?)
    }

    /// Runs labs at the same time as one window.
    pub fn run_together(&self, requests: &[Request<'_>], servers: &[u32]) -> Result<Window, Error> {
        let line = |(number, request)| self.lab(request, number).on_core(self.cores);
        let lines: Vec<CommandLine> = requests.iter().enumerate().map(line).collect();
        self.run_lines(&lines, servers, |_| {
            let all: Vec<Figures> =
                (0..requests.len()).map(|number| self.figures_of_lab(number)).collect::<Result<_, _>>()?;
            Ok(Figures::of_all(&all))
        })
    }

    /// Runs command lines of a client as one window; `read` makes figures of what they wrote.
    pub fn run_lines(
        &self,
        lines: &[CommandLine],
        servers: &[u32],
        read: impl FnOnce(&[String]) -> Result<Figures, Error>,
    ) -> Result<Window, Error> {
        let mut processes = Vec::with_capacity(lines.len());
        for (number, line) in lines.iter().enumerate() {
            processes.push(line.spawn(&self.work.join(format!("client{number}.log")))?);
        }
        let ids: Vec<u32> = processes.iter().map(Process::id).collect();
        let deadline = Duration::from_secs_f64(self.seconds * 4.0 + 40.0);
        let until = Instant::now() + deadline;
        let mut readings = vec![Reading::now(servers, &ids)?];
        while processes.iter_mut().all(|process| process.expect_running().is_ok()) {
            self.interrupt.check()?;
            if Instant::now() > until {
                break;
            }
            sleep(BETWEEN_READINGS);
            readings.push(Reading::now(servers, &ids)?);
        }
        for process in &mut processes {
            process.wait(until, deadline, self.interrupt)?;
        }
        let measured = Duration::from_secs_f64(self.seconds);
        let measured = measured.saturating_sub(MARGIN).max(measured / 2);
        let spent = busiest(&readings, measured, self.ticks_per_second)
            .ok_or_else(|| Error::Options("the client ended before its time".to_owned()))?;
        // A client that met the same signal ended early and well; its figures are of a shorter window.
        self.interrupt.check()?;
        let outputs: Vec<String> = processes.iter().map(Process::output).collect();
        Ok(Window { figures: read(&outputs)?, spent })
    }
}

/// What was spent in the span of `length` in which the clients and the server together were the busiest: opening sessions and
/// closing them may take longer than the measurement, and no client says when it begins. The clients alone would not
/// do: several that start on one core keep it busier than when they wait for a server in turn.
fn busiest(readings: &[Reading], length: Duration, ticks_per_second: f64) -> Option<Spent> {
    let spans = readings.iter().enumerate().filter_map(|(index, begin)| {
        let end = readings[index..].iter().find(|reading| reading.at.duration_since(begin.at) >= length)?;
        Some(end.since(begin, ticks_per_second))
    });
    let busy = |spent: &Spent| (spent.clients_s + spent.server_s) / spent.wall_s;
    spans.max_by(|one, other| busy(one).total_cmp(&busy(other)))
}

/// What a job of fio is, without its engine and its file.
pub fn fio_arguments(load: &Load, seconds: f64, warm_up_s: f64) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["--name=bench", "--thread", "--time_based", "--norandommap", "--group_reporting"]
            .map(str::to_owned)
            .into();
    let mut flag = |name: &str, value: String| arguments.push(format!("--{name}={value}"));
    flag("rw", if load.random { "randrw" } else { "rw" }.to_owned());
    flag("rwmixread", load.read_percent.to_string());
    flag("bs", load.request_bytes.to_string());
    flag("iodepth", load.depth.to_string());
    flag("numjobs", load.sessions.to_string());
    // fio takes whole milliseconds.
    flag("runtime", format!("{:.0}ms", seconds * 1000.0));
    flag("ramp_time", format!("{:.0}ms", warm_up_s * 1000.0));
    flag("output-format", "json".to_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;
    use crate::server::Bare;

    fn clients(interrupt: &Interrupt) -> Clients<'_> {
        Clients {
            work: Path::new("/tmp"),
            fels: Path::new("target/release/fels"),
            cores: "1",
            seconds: 3.0,
            warm_up_s: 0.5,
            ticks_per_second: 100.0,
            interrupt,
        }
    }

    #[test]
    fn each_row_becomes_a_command_on_the_client_s_core() {
        let interrupt = Interrupt::default();
        let clients = clients(&interrupt);
        for row in ROWS {
            let request = Request {
                client: row.client,
                program: &Program::Nbdkit,
                url: "nbd://h/x",
                load: &row.load,
                rate: None,
                busy_poll: None,
            };
            let lines = clients.commands(&request);
            let text = lines[0].text();
            let (program, size) = match row.client {
                Client::Lab => ("target/release/fels lab run", format!("--bs {} ", row.load.request_bytes)),
                Client::Fio => ("fio --name=bench", format!("--bs={} ", row.load.request_bytes)),
                Client::IscsiPerf => ("iscsi-perf -i", format!("-b {} ", row.load.request_bytes / 512)),
            };
            assert!(text.starts_with(&format!("taskset -c 1 {program}")), "{text}");
            assert!(text.contains("nbd://h/x") && text.contains(&size), "{text}");
        }
    }

    #[test]
    fn a_client_that_opens_slowly_is_measured_while_it_works() {
        let begun = Instant::now();
        // Two seconds of opening, one of work, half of closing.
        let run_ms = |ms: u64| ms.clamp(2000, 3000) - 2000;
        let reading = |ms: u64| Reading::of_two(begun + Duration::from_millis(ms), 0, run_ms(ms));
        let readings: Vec<Reading> = (0..=3500).step_by(50).map(reading).collect();
        let spent = busiest(&readings, Duration::from_millis(750), 100.0).unwrap();
        assert!((spent.clients_s / spent.wall_s - 1.0).abs() < 1e-6, "{spent:?}");
        assert!(busiest(&readings, Duration::from_secs(4), 100.0).is_none());
    }

    #[test]
    fn clients_that_are_busier_when_they_start_are_measured_while_the_server_works() {
        let begun = Instant::now();
        // A second in which the clients start; then they wait for the server for a fifth of the time.
        let reading = |ms: u64| {
            let work = ms.max(1000) - 1000;
            let clients = ms.min(1000) + work * 4 / 5;
            Reading::of_two(begun + Duration::from_millis(ms), work / 2, clients)
        };
        let readings: Vec<Reading> = (0..=2000).step_by(50).map(reading).collect();
        let spent = busiest(&readings, Duration::from_millis(750), 100.0).unwrap();
        assert!((spent.server_s / spent.wall_s - 0.5).abs() < 1e-6, "{spent:?}");
    }

    #[test]
    fn the_limit_is_driven_by_this_program_in_the_way_of_its_server() {
        let interrupt = Interrupt::default();
        for bare in [Bare::Spinning, Bare::Memory, Bare::Sleeping] {
            let request = Request {
                client: Client::Lab,
                program: &Program::Bare(bare),
                url: "127.0.0.1:1",
                load: &ROWS[0].load,
                rate: None,
                busy_poll: None,
            };
            let text = clients(&interrupt).commands(&request)[0].text();
            assert!(text.contains("limit-drive") && text.contains("--spin") == bare.spins(), "{text}");
        }
    }
}
