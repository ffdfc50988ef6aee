//! The rows that are more than one load on a server that runs: shards, the start, files on a disk, and those of [`idle`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::client::{Clients, Request, Window, fio_arguments};
use crate::cpu::resident_kib;
use crate::error::Error;
use crate::idle;
use crate::monitoring;
use crate::output;
use crate::process::CommandLine;
use crate::rows::{Kind, Load, Row, START_VOLUMES};
use crate::run::{Bed, Outcome, in_turn};
use crate::server::{
    Backing, Bare, FelsOptions, LIMIT_FILE, Place, Program, Protocol, Running, Server, start_bare_file,
    start_fels, write_file,
};
use crate::stats::{Fact, Sample};

/// The one that measures a file without a server.
pub const FIO: &str = "fio";
/// A volume in a file without a network: the stack of one core, driven by the thread that runs it.
pub const VOLUME: &str = "fels-volume";
/// Rounds of these rows at most: they take longer.
const MOST_ROUNDS: u32 = 3;
/// How long a command to the machine may take.
const TELL_DEADLINE: Duration = Duration::from_secs(10);
/// Who has nothing to do sleeps at once: to look for something is no work.
const AT_ONCE: &str = "0s";
/// Bytes of each of three volumes at most.
const SHARED_BYTES: u64 = 512 << 20;
/// Bytes of each of many volumes.
const SMALL_BYTES: u64 = 256 << 10;
/// Bytes of the file on the disk.
const FILE_BYTES: u64 = 1 << 30;
/// Seconds before each window of a file: each server and its client are new, and begin to try how long to look after
/// a second.
const FILE_WARM_UP_S: f64 = 3.0;

/// Measures a row that is not [`Kind::Closed`] or [`Kind::Tail`].
pub fn measure(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row) -> Result<(), Error> {
    let ours: Vec<Server> = outcome.servers.iter().filter(|server| server.ours).cloned().collect();
    let Some(Program::Fels(binary)) = ours.first().map(|server| server.program.clone()) else {
        return Ok(());
    };
    let rounds = bed.options.rounds().min(MOST_ROUNDS);
    match row.kind {
        // The bar is of a few hundredths.
        Kind::Shards => shards(bed, outcome, row, &ours, &binary, bed.options.rounds()),
        Kind::Idle => idle::measure(bed, outcome, row, &ours, &binary),
        // Its windows are long, and the bar is of a hundredth.
        Kind::Monitoring => monitoring::measure(bed, outcome, row, &ours, &binary, bed.options.rounds()),
        Kind::Start => (1..=rounds).try_for_each(|round| start(bed, outcome, row, &binary, round)),
        Kind::Lab => (1..=rounds).try_for_each(|round| lab(bed, outcome, row, &binary, round)),
        Kind::File => file(bed, outcome, row, bed.options.rounds()),
        Kind::Closed | Kind::Tail => Ok(()),
    }
}

/// The same sessions on a server of two shards, and half of them on each of two servers of one shard, in turn.
///
/// Two shards and the clients share two cores, so that batches are smaller and cores look and sleep more often than with
/// one shard that is full. Two servers of one shard have the very same share of the cores, of looking and of batches,
/// and share nothing with each other: what two shards cost more than they is what spreading costs. Looking for something to
/// do is no work: these shards sleep at once.
fn shards(
    bed: &Bed<'_>,
    outcome: &mut Outcome,
    row: &Row,
    ours: &[Server],
    binary: &Path,
    rounds: u32,
) -> Result<(), Error> {
    let cores = [bed.place.cores, bed.place.client_cores];
    let both = cores.join(",");
    let start = |shards: u32, cores: &str| {
        let options = FelsOptions { shards, busy_poll: Some(AT_ONCE.to_owned()), ..FelsOptions::default() };
        let volume_bytes = bed.place.volume_bytes.min(SHARED_BYTES);
        let running = start_fels(binary, &options, &Place { cores, volume_bytes, ..bed.place })?;
        running.fill(&bed.place)?;
        Ok::<_, Error>(running)
    };
    let (one, other, two) = (start(1, cores[0])?, start(1, cores[1])?, start(2, &both)?);
    for (shard, core) in cores.iter().enumerate() {
        pin(bed, &two, &format!("shard-{shard}"), core)?;
    }
    for round in 1..=rounds {
        for server in ours {
            let measure = |on| bed.distance.near(bed.place.interrupt, || halves(bed, row, server, on));
            let apart = measure([&one, &other])?;
            let spread = measure([&two, &two])?;
            let samples = [("2 x 1 shard", apart), ("2 shards", spread)].map(|(shards, window)| {
                Sample::new(row, &format!("{}, {shards}", server.name), round, &window)
            });
            let value = samples[1].server_us / samples[0].server_us;
            eprintln!("{} round {round}: {} CPU of two shards / one {value:.2}", row.name, server.name);
            outcome.samples.extend(samples);
            outcome.facts.push(Fact::new(row, &server.name, round, "CPU of two shards / one", "", value));
        }
    }
    Ok(())
}

/// Half of the sessions on each of two servers, or all on one. Each has a lab of its own, so that nothing is gathered for several
/// sessions on one side that is sent in parts on the other.
fn halves(bed: &Bed<'_>, row: &Row, server: &Server, on: [&Running; 2]) -> Result<Window, Error> {
    let load = Load { sessions: 1, ..row.load };
    let urls = on.map(|running| running.url(server.protocol).unwrap_or_default().to_owned());
    let request = |number: u32| Request {
        load: &load,
        busy_poll: Some(AT_ONCE),
        ..row.request(&server.program, &urls[usize::from(number >= row.load.sessions / 2)])
    };
    let requests: Vec<Request<'_>> = (0..row.load.sessions).map(request).collect();
    let mut ids = on.map(Running::id).to_vec();
    ids.dedup();
    bed.clients.run_together(&requests, &ids)
}

/// Keeps the thread of this name on a core.
fn pin(bed: &Bed<'_>, running: &Running, name: &str, core: &str) -> Result<(), Error> {
    let tasks = format!("/proc/{}/task", running.id());
    let listed = fs::read_dir(&tasks).map_err(Error::io(format!("cannot read {tasks}")))?;
    let is_it = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let Some(thread) = listed.flatten().find(is_it) else {
        return Err(Error::Options(format!("the server has no thread '{name}'")));
    };
    let id = thread.file_name().to_string_lossy().into_owned();
    let line = CommandLine::new("taskset", ["-p", "-c", core, &id]);
    line.run(&bed.place.work.join("taskset.log"), TELL_DEADLINE, bed.place.interrupt)?;
    Ok(())
}

/// The time from the start until many volumes are served.
fn start(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row, binary: &Path, round: u32) -> Result<(), Error> {
    let place = Place { volume_bytes: SMALL_BYTES, ..bed.place };
    let options = FelsOptions { volumes: START_VOLUMES, ..FelsOptions::default() };
    let begun = Instant::now();
    let running = start_fels(binary, &options, &place)?;
    let seconds = begun.elapsed().as_secs_f64();
    let kib = resident_kib(running.id()).map_or(0.0, crate::stats::float) / f64::from(START_VOLUMES);
    eprintln!("{} round {round}: {seconds:.2} s, {kib:.1} KiB a volume", row.name);
    outcome.facts.push(Fact::new(row, "fels", round, "time", "s", seconds));
    outcome.facts.push(Fact::new(row, "fels", round, "memory of a volume", "KiB", kib));
    Ok(())
}

/// What the client of all rows can do when nobody else has anything to do.
fn lab(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row, binary: &Path, round: u32) -> Result<(), Error> {
    let program = Program::Fels(binary.to_owned());
    let window = bed.clients.run(&row.request(&program, "null:"), &[])?;
    let thousands = window.figures.iops / 1e3;
    eprintln!("{} round {round}: {thousands:.0} k IOPS of a core", row.name);
    outcome.facts.push(Fact::new(row, "fels", round, "IOPS of a core", "k", thousands));
    Ok(())
}

/// A file that is removed when this value goes away.
struct DiskFile(PathBuf);

impl Drop for DiskFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            eprintln!("warning: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// One of those that use a file in turn.
enum OnFile<'a> {
    Fio,
    /// A volume without a network.
    Volume,
    /// A network without a volume.
    Bare,
    Served(&'a Server, &'a Path),
}

/// Every Fels that is measured, and another one beside it (`--vs`), with its binary.
fn fels_of_all(servers: &[Server]) -> Vec<(Server, PathBuf)> {
    let fels = servers.iter().filter(|server| server.ours || server.is_vs());
    let binary = |server: &Server| match &server.program {
        Program::Fels(binary) => Some((server.clone(), binary.clone())),
        _ => None,
    };
    fels.filter_map(binary).collect()
}

/// A volume in a file on a disk, with a network and without one, beside fio on that file. Each round begins with another one: a disk
/// that others share may be faster after a pause.
fn file(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row, rounds: u32) -> Result<(), Error> {
    let bed = &Bed { clients: Clients { warm_up_s: FILE_WARM_UP_S, ..bed.clients }, ..*bed };
    let directory = fs::canonicalize(&bed.options.disk)
        .map_err(Error::io(format!("cannot use {} (see --disk)", bed.options.disk.display())))?;
    let disk = DiskFile(directory.join(format!("fels-bench-{}.img", std::process::id())));
    let bytes = FILE_BYTES.min(bed.place.volume_bytes);
    write_file(&disk.0, bytes)?;
    let backing = Backing::File(disk.0.clone());
    // Large requests wait for the disk's bandwidth: there is nothing to be gained by looking for longer.
    let busy_poll = bed.options.disk_busy_poll.as_ref().filter(|_| !row.is_throughput());
    let options = FelsOptions { backing, busy_poll: busy_poll.cloned(), ..FelsOptions::default() };
    let fels = fels_of_all(&outcome.servers);
    let serve = |server: &Server, binary: &Path| {
        let place = Place { volume_bytes: bytes, ..bed.place };
        let mut running = start_fels(binary, &options, &place)?;
        running.expect_running()?;
        let url = running.url(server.protocol).unwrap_or_default().to_owned();
        let busy_poll = busy_poll.map(String::as_str);
        let request = Request { busy_poll, ..row.request(&server.program, &url) };
        let window = bed.clients.run(&request, &[running.id()]);
        // Who serves the file keeps others from it.
        running.stop();
        window
    };
    let served = fels.iter().map(|(server, binary)| OnFile::Served(server, binary));
    let contenders: Vec<OnFile> =
        [OnFile::Fio, OnFile::Volume, OnFile::Bare].into_iter().chain(served).collect();
    for round in 1..=rounds {
        for contender in in_turn(contenders.len(), round).map(|index| &contenders[index]) {
            let measure = || match contender {
                OnFile::Fio => Ok((FIO, fio_on(bed, row, &disk.0, bytes)?)),
                OnFile::Volume => Ok((VOLUME, volume_on(bed, row, &disk.0)?)),
                OnFile::Bare => Ok((LIMIT_FILE, bare_on(bed, row, &disk.0)?)),
                OnFile::Served(server, binary) => Ok((server.name.as_str(), serve(server, binary)?)),
            };
            let (name, window) = bed.distance.near(bed.place.interrupt, measure)?;
            let sample = Sample::new(row, name, round, &window);
            eprintln!("{} round {round}: {} {:.0} IOPS", row.name, sample.server, sample.iops);
            outcome.samples.push(sample);
        }
    }
    Ok(())
}

/// The stack of a volume on the file, on the core of the servers. As fio, it is its own client.
fn volume_on(bed: &Bed<'_>, row: &Row, path: &Path) -> Result<Window, Error> {
    let load = &row.load;
    let mut arguments = vec!["volume-drive".to_owned()];
    let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    flag("file", path.display().to_string());
    flag("read-percent", load.read_percent.to_string());
    flag("request-bytes", load.request_bytes.to_string());
    flag("depth", load.depth.to_string());
    flag("seconds", bed.clients.seconds.to_string());
    flag("warm-up", bed.clients.warm_up_s.to_string());
    if load.random {
        arguments.push("--random".to_owned());
    }
    let line = CommandLine::own(arguments).on_core(bed.place.cores);
    bed.clients.run_lines(&[line], &[], |outputs| output::bare(&outputs[0], load))
}

/// The bare program with the file, asked by its own other side, which sleeps until something comes.
fn bare_on(bed: &Bed<'_>, row: &Row, path: &Path) -> Result<Window, Error> {
    let running = start_bare_file(path, &bed.place)?;
    let url = running.url(Protocol::Bare).unwrap_or_default().to_owned();
    let window = bed.clients.run(&row.request(&Program::Bare(Bare::Sleeping), &url), &[running.id()]);
    running.stop();
    window
}

/// fio with io_uring around the page cache, on the core of the servers. It has no server: its CPU time is the client's.
fn fio_on(bed: &Bed<'_>, row: &Row, path: &Path, bytes: u64) -> Result<Window, Error> {
    let mut arguments = fio_arguments(&row.load, bed.clients.seconds, bed.clients.warm_up_s);
    arguments.extend(["--ioengine=io_uring".to_owned(), "--direct=1".to_owned(), format!("--size={bytes}")]);
    arguments.push(format!("--filename={}", path.display()));
    let line = CommandLine::new("fio", arguments).on_core(bed.place.cores);
    bed.clients.run_lines(&[line], &[], |outputs| output::fio(&outputs[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_served_by_another_binary_too() {
        let names = ["fels-nbd", "vs-nbd", "nbdkit"].map(str::to_owned);
        let servers = Server::parse_all(&names, Path::new("new"), Some(Path::new("old"))).unwrap();
        let fels = fels_of_all(&servers);
        let fels: Vec<_> =
            fels.iter().map(|(server, binary)| (server.name.as_str(), binary.as_path())).collect();
        assert_eq!(fels, [("fels-nbd", Path::new("new")), ("vs-nbd", Path::new("old"))]);
    }
}
