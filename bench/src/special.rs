//! The rows that are more than one load on a server that runs: sessions that idle, shards, the start, files on a disk.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::{Window, fio_arguments};
use crate::cpu::{Reading, resident_kib};
use crate::error::Error;
use crate::output;
use crate::process::CommandLine;
use crate::rows::{IDLE_SESSIONS, Kind, Row, START_VOLUMES};
use crate::run::{Bed, Outcome};
use crate::server::{Backing, FelsOptions, Place, Program, Running, Server, start_fels, write_file};
use crate::stats::{Fact, Sample};

/// The one that measures a file without a server.
pub const FIO: &str = "fio";
/// Rounds of these rows at most: they take longer.
const MOST_ROUNDS: u32 = 3;
/// How long all sessions may take until they stand.
const SESSIONS_DEADLINE: Duration = Duration::from_secs(60);
/// How long no connection more comes before anything is measured.
const SETTLE: Duration = Duration::from_secs(1);
/// Bytes of the volume of idle sessions.
const IDLE_BYTES: u64 = 64 << 20;
/// Bytes of each of many volumes.
const SMALL_BYTES: u64 = 256 << 10;
/// Bytes of the file on the disk.
const FILE_BYTES: u64 = 1 << 30;

/// Measures a row that is not [`Kind::Closed`] or [`Kind::Tail`].
pub fn measure(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row) -> Result<(), Error> {
    let ours: Vec<Server> = outcome.servers.iter().filter(|server| server.ours).cloned().collect();
    let Some(Program::Fels(binary)) = ours.first().map(|server| server.program.clone()) else {
        return Ok(());
    };
    let rounds = bed.options.rounds().min(MOST_ROUNDS);
    match row.kind {
        Kind::Shards => shards(bed, outcome, row, &ours, &binary, rounds),
        Kind::Idle => idle(bed, outcome, row, &ours, &binary),
        Kind::Start => (1..=rounds).try_for_each(|round| start(bed, outcome, row, &binary, round)),
        Kind::File => file(bed, outcome, row, &ours, &binary, rounds),
        Kind::Closed | Kind::Tail => Ok(()),
    }
}

fn sessions_of(bed: &Bed<'_>, row: &Row, server: &Server, running: &mut Running) -> Result<Window, Error> {
    running.expect_running()?;
    let url = running.url(server.protocol).unwrap_or_default().to_owned();
    bed.clients.run(&row.request(&server.program, &url), &[running.id()])
}

/// The same sessions on one shard and on two, in turn. Two shards use the client's core as well: what counts is CPU time.
fn shards(
    bed: &Bed<'_>,
    outcome: &mut Outcome,
    row: &Row,
    ours: &[Server],
    binary: &Path,
    rounds: u32,
) -> Result<(), Error> {
    let both = format!("{},{}", bed.place.cores, bed.place.client_cores);
    let start = |shards: u32, cores: &str| {
        let options = FelsOptions { shards, volumes: 1, backing: Backing::Memory };
        let running = start_fels(binary, &options, &Place { cores, ..bed.place })?;
        running.fill(&bed.place)?;
        Ok::<_, Error>(running)
    };
    let (mut one, mut two) = (start(1, bed.place.cores)?, start(2, &both)?);
    for round in 1..=rounds {
        for server in ours {
            let of_one = sessions_of(bed, row, server, &mut one)?;
            let of_two = sessions_of(bed, row, server, &mut two)?;
            let samples = [("1 shard", of_one), ("2 shards", of_two)].map(|(shards, window)| {
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

/// CPU time and memory of sessions that ask nothing.
fn idle(
    bed: &Bed<'_>,
    outcome: &mut Outcome,
    row: &Row,
    ours: &[Server],
    binary: &Path,
) -> Result<(), Error> {
    for server in ours {
        let place = Place { volume_bytes: IDLE_BYTES, ..bed.place };
        let options = FelsOptions { shards: 1, volumes: 1, backing: Backing::Memory };
        let running = start_fels(binary, &options, &place)?;
        let url = running.url(server.protocol).unwrap_or_default();
        let memory = || resident_kib(running.id()).unwrap_or(0);
        let before_kib = memory();
        // The first request of every session but one is due long after the end.
        let arguments = [
            "lab",
            "run",
            "--no-ceiling",
            "--threads",
            "1",
            "--depth",
            "1",
            "--rate",
            "0.001",
            "--time",
            "600",
        ];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
        arguments.extend([
            "--jobs".to_owned(),
            IDLE_SESSIONS.to_string(),
            "--target".to_owned(),
            url.to_owned(),
        ]);
        let line = CommandLine::new(bed.clients.fels.display().to_string(), arguments)
            .on_core(bed.place.client_cores);
        let log = bed.place.work.join("idle.log");
        let mut client = line.spawn(&log)?;
        let port = port_of(url).unwrap_or_default();
        // Some protocols have several connections for a session: wait until no more come.
        let seen = Cell::new((0, Instant::now()));
        client.wait_until(SESSIONS_DEADLINE, bed.place.interrupt, |_| {
            let stand = established(port);
            if stand != seen.get().0 {
                seen.set((stand, Instant::now()));
            }
            stand >= IDLE_SESSIONS as usize && seen.get().1.elapsed() > SETTLE
        })?;
        client.expect_running()?;
        let ids = [running.id()];
        let before = Reading::now(&ids, &[])?;
        sleep(Duration::from_secs(u64::from(bed.options.seconds()) + 2));
        let spent = Reading::now(&ids, &[])?.since(&before, bed.clients.ticks_per_second);
        client.expect_running()?;
        let percent = spent.server_s / spent.wall_s * 100.0;
        let kib =
            (crate::stats::float(memory()) - crate::stats::float(before_kib)) / f64::from(IDLE_SESSIONS);
        eprintln!("{}: {} {percent:.3} % CPU, {kib:.1} KiB a session", row.name, server.name);
        outcome.facts.push(Fact::new(row, &server.name, 1, "CPU", "%", percent));
        outcome.facts.push(Fact::new(row, &server.name, 1, "memory of a session", "KiB", kib));
    }
    Ok(())
}

/// The port of an address such as `nvme://127.0.0.1:4420/x`.
fn port_of(url: &str) -> Option<u16> {
    url.split_once("://")?.1.split(['/', '?']).next()?.rsplit_once(':')?.1.parse().ok()
}

/// Connections that stand at a port of this machine, counted at the server's end.
fn established(port: u16) -> usize {
    fs::read_to_string("/proc/net/tcp").map_or(0, |text| established_in(&text, port))
}

fn established_in(tcp: &str, port: u16) -> usize {
    let local = format!(":{port:04X}");
    let stands = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        matches!(fields[..], [_, address, _, "01"] if address.ends_with(&local))
    };
    tcp.lines().filter(stands).count()
}

/// The time from the start until many volumes are served.
fn start(bed: &Bed<'_>, outcome: &mut Outcome, row: &Row, binary: &Path, round: u32) -> Result<(), Error> {
    let place = Place { volume_bytes: SMALL_BYTES, ..bed.place };
    let options = FelsOptions { shards: 1, volumes: START_VOLUMES, backing: Backing::Memory };
    let begun = Instant::now();
    let running = start_fels(binary, &options, &place)?;
    let seconds = begun.elapsed().as_secs_f64();
    let kib = resident_kib(running.id()).map_or(0.0, crate::stats::float) / f64::from(START_VOLUMES);
    eprintln!("{} round {round}: {seconds:.2} s, {kib:.1} KiB a volume", row.name);
    outcome.facts.push(Fact::new(row, "fels", round, "time", "s", seconds));
    outcome.facts.push(Fact::new(row, "fels", round, "memory of a volume", "KiB", kib));
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

/// A volume in a file on a disk, beside fio on that file, in turn.
fn file(
    bed: &Bed<'_>,
    outcome: &mut Outcome,
    row: &Row,
    ours: &[Server],
    binary: &Path,
    rounds: u32,
) -> Result<(), Error> {
    let directory = fs::canonicalize(&bed.options.disk)
        .map_err(Error::io(format!("cannot use {} (see --disk)", bed.options.disk.display())))?;
    let bytes = FILE_BYTES.min(bed.place.volume_bytes);
    let path = directory.join(format!("fels-bench-{}.img", std::process::id()));
    let disk = DiskFile(path.clone());
    write_file(&disk.0, bytes)?;
    let options = FelsOptions { shards: 1, volumes: 1, backing: Backing::File(path.clone()) };
    let mut running = start_fels(binary, &options, &Place { volume_bytes: bytes, ..bed.place })?;
    for round in 1..=rounds {
        let mut samples = vec![Sample::new(row, FIO, round, &fio_on(bed, row, &path, bytes)?)];
        for server in ours {
            samples.push(Sample::new(
                row,
                &server.name,
                round,
                &sessions_of(bed, row, server, &mut running)?,
            ));
        }
        for sample in samples {
            eprintln!("{} round {round}: {} {:.0} IOPS", row.name, sample.server, sample.iops);
            outcome.samples.push(sample);
        }
    }
    // The server holds the file: it goes first.
    running.stop();
    drop(disk);
    Ok(())
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
    fn ports_are_found_in_addresses() {
        assert_eq!(port_of("nvme://127.0.0.1:4420/nqn.2026-11.internal:x/1"), Some(4420));
        assert_eq!(port_of("nbd://127.0.0.1:10809"), Some(10809));
        assert_eq!(port_of("null:"), None);
    }

    #[test]
    fn only_connections_that_stand_at_the_server_s_end_count() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue\n\
             0: 0100007F:1144 00000000:0000 0A 00000000:00000000 00:00000000\n\
             1: 0100007F:1144 0100007F:9C40 01 00000000:00000000 00:00000000\n\
             2: 0100007F:9C40 0100007F:1144 01 00000000:00000000 00:00000000\n\
             3: 0100007F:1144 0100007F:9C41 06 00000000:00000000 00:00000000\n";
        assert_eq!(established_in(tcp, 4420), 1);
        assert_eq!(established_in("", 4420), 0);
    }
}
