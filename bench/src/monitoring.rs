//! The row of being watched: a Fels that measures itself and is asked by Prometheus and Munin each second, beside one that does
//! not measure itself. Both are used at the same time and share the cores, so that what else happens on the machine befalls both alike.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;

use crate::client::{Clients, Window};
use crate::error::Error;
use crate::process::{CommandLine, Process};
use crate::rows::Row;
use crate::run::{Bed, Outcome};
use crate::server::{FelsOptions, Monitoring, Place, Running, Server, free_port, start_fels};
use crate::stats::{Fact, Sample};

/// Seconds of a measurement: the node measures itself every ten seconds, so that each window has one of these moments.
const WINDOW_S: f64 = 10.0;
/// Bytes of each of the two volumes at most.
const VOLUME_BYTES: u64 = 512 << 20;
/// How often both are asked. Prometheus asks every 15 seconds, and Munin every five minutes, when nobody says otherwise.
const ASKED_EVERY: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How far the doors are from the ports of the protocols.
const DOORS_FROM: u16 = 200;

/// Where the node is asked, both on 127.0.0.1.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doors {
    /// Port of `/metrics`
    #[arg(long)]
    pub http: u16,
    /// Port of Munin's protocol
    #[arg(long)]
    pub munin: u16,
}

/// What being watched costs, over each protocol.
pub fn measure(
    bed: &Bed<'_>,
    outcome: &mut Outcome,
    row: &Row,
    ours: &[Server],
    binary: &Path,
    rounds: u32,
) -> Result<(), Error> {
    let http = free_port(bed.place.port_base + DOORS_FROM)?;
    let doors = Doors { http, munin: free_port(http + 1)? };
    let start = |monitoring| {
        let options = FelsOptions { monitoring, ..FelsOptions::default() };
        let volume_bytes = bed.place.volume_bytes.min(VOLUME_BYTES);
        let running = start_fels(binary, &options, &Place { volume_bytes, ..bed.place })?;
        running.fill(&bed.place)?;
        Ok::<_, Error>(running)
    };
    let mut servers = [start(Monitoring::Off)?, start(Monitoring::Asked(doors))?];
    for round in 1..=rounds {
        for server in ours {
            let mut asking = ask(bed, doors)?;
            let (begun, before) = (Instant::now(), beside_shards(servers[1].id()));
            let [without, with] = windows(bed, row, server, &mut servers)?;
            let spent = beside_shards(servers[1].id()).saturating_sub(before);
            let watching = spent.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
            asking.expect_running()?;
            tell(outcome, row, server, round, &without, &with);
            eprintln!("{} round {round}: {} {watching:.2} % of a core watches", row.name, server.name);
            outcome.facts.push(Fact::new(row, &server.name, round, "core of what watches", "%", watching));
        }
    }
    Ok(())
}

/// CPU time of the threads of a server that are not its shards: they measure, keep, judge and answer.
fn beside_shards(id: u32) -> Duration {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else { return Duration::ZERO };
    let spent = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        // A kernel's worker of a ring is a part of its shard.
        if ["shard-", "iou-"].iter().any(|shard| name.starts_with(shard)) {
            return None;
        }
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(spent).sum())
}

/// Asks until the value that is returned goes away.
fn ask(bed: &Bed<'_>, doors: Doors) -> Result<Process, Error> {
    let (http, munin) = (doors.http.to_string(), doors.munin.to_string());
    let line = CommandLine::own(["ask", "--http", &http, "--munin", &munin]);
    line.on_core(bed.place.client_cores).spawn(&bed.place.work.join("ask.log"))
}

/// A window of each of the servers, at the same time.
fn windows(
    bed: &Bed<'_>,
    row: &Row,
    server: &Server,
    servers: &mut [Running; 2],
) -> Result<[Window; 2], Error> {
    let [without, with] = servers;
    let (clients, work) = (bed.clients, bed.clients.work);
    let window = |running: &mut Running, name: &str| {
        running.expect_running()?;
        let url = running.url(server.protocol).unwrap_or_default().to_owned();
        let work = work.join(name);
        fs::create_dir_all(&work).map_err(Error::io("cannot make a directory for the client"))?;
        let clients = Clients { seconds: WINDOW_S, work: &work, ..clients };
        clients.run(&row.request(&server.program, &url), &[running.id()])
    };
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| window(with, "with"));
        (window(without, "without"), other.join())
    });
    let with = both.1.unwrap_or_else(|_| Err(Error::Options("a client ended in a panic".to_owned())));
    Ok(without_each_other([both.0?, with?]))
}

/// Of each, the other one is no disturbance.
fn without_each_other(mut windows: [Window; 2]) -> [Window; 2] {
    let used = windows.map(|window| window.spent.server_s + window.spent.clients_s);
    for (window, other) in windows.iter_mut().zip([used[1], used[0]]) {
        window.spent.others_s = (window.spent.others_s - other).max(0.0);
    }
    windows
}

fn tell(outcome: &mut Outcome, row: &Row, server: &Server, round: u32, without: &Window, with: &Window) {
    let samples = [("without", without), ("with", with)]
        .map(|(which, window)| Sample::new(row, &format!("{}, {which}", server.name), round, window));
    let lost = (1.0 - samples[1].iops / samples[0].iops) * 100.0;
    let cpu = (samples[1].server_us / samples[0].server_us - 1.0) * 100.0;
    eprintln!("{} round {round}: {} {lost:.1} % of IOPS, {cpu:.1} % more CPU", row.name, server.name);
    outcome.facts.push(Fact::new(row, &server.name, round, "IOPS lost", "%", lost));
    outcome.facts.push(Fact::new(row, &server.name, round, "more CPU for each request", "%", cpu));
    outcome.samples.extend(samples);
}

/// Asks as Prometheus and Munin do, each second, until this program is ended.
pub fn ask_forever(doors: Doors) -> Result<(), Error> {
    let failed = |error| Error::io(format!("asking on ports {} and {}", doors.http, doors.munin))(error);
    loop {
        let begun = Instant::now();
        scrape(doors.http).map_err(failed)?;
        poll(doors.munin).map_err(failed)?;
        sleep(ASKED_EVERY.saturating_sub(begun.elapsed()));
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// All of `/metrics`.
fn scrape(port: u16) -> io::Result<()> {
    let mut stream = connect(port)?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let is_whole = answer.starts_with("HTTP/1.1 200") && answer.contains("fels_volume_operations_total");
    if is_whole { Ok(()) } else { Err(io::Error::other("no metrics in the answer")) }
}

/// What a master asks: the list, and each plugin's configuration, which has the values in it.
fn poll(port: u16) -> io::Result<()> {
    let mut stream = connect(port)?;
    let mut answers = BufReader::new(stream.try_clone()?).lines();
    let mut next = || answers.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    // It greets first.
    next()?;
    writeln!(stream, "cap multigraph dirtyconfig")?;
    next()?;
    writeln!(stream, "list")?;
    let plugins = next()?;
    let mut values = 0;
    for plugin in plugins.split_whitespace() {
        writeln!(stream, "config {plugin}")?;
        let mut line = next()?;
        while line != "." {
            values += usize::from(line.contains(".value "));
            line = next()?;
        }
    }
    if values > 0 { Ok(()) } else { Err(io::Error::other("no values in the answers of Munin's protocol")) }
}
