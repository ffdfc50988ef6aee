//! The row of sessions that ask nothing: what they cost.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cpu::{Reading, resident_kib};
use crate::error::Error;
use crate::process::{CommandLine, Process};
use crate::rows::{IDLE_SESSIONS, Row};
use crate::run::{Bed, Outcome};
use crate::server::{FelsOptions, Place, Protocol, Running, Server, start_fels};
use crate::stats::{Fact, float};

/// How long all sessions may take until they stand.
const SESSIONS_DEADLINE: Duration = Duration::from_secs(60);
/// How long no connection more comes before anything is measured.
const SETTLE: Duration = Duration::from_secs(1);
/// How long a command to the clients may take.
const TELL_DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of the volume.
const IDLE_BYTES: u64 = 64 << 20;
/// NVMe hosts that share the sessions: a subsystem takes no more than 64 controllers of one host.
const HOSTS: u32 = 20;
/// How long the server is watched: keep-alives that hosts send every 15 seconds and the server's own pings have their
/// share in it.
const WATCHED: Duration = Duration::from_secs(30);
/// How long it is watched while no client runs: less than what a client may be silent for.
const ALONE: Duration = Duration::from_secs(8);

/// CPU time and memory of sessions that ask nothing, with what clients send of their own accord and without it.
pub fn measure(
    bed: &Bed<'_>,
    outcome: &mut Outcome,
    row: &Row,
    ours: &[Server],
    binary: &Path,
) -> Result<(), Error> {
    for server in ours {
        let place = Place { volume_bytes: IDLE_BYTES, ..bed.place };
        let options = FelsOptions::default();
        let running = start_fels(binary, &options, &place)?;
        let memory = || resident_kib(running.id()).map_or(0.0, float);
        let before_kib = memory();
        let mut clients = clients(bed, server, &running)?;
        let percent = busy(bed, &running, WATCHED)?;
        let kib = (memory() - before_kib) / f64::from(IDLE_SESSIONS);
        signal(bed, &clients, "-STOP")?;
        let alone = busy(bed, &running, ALONE)?;
        signal(bed, &clients, "-CONT")?;
        clients.iter_mut().try_for_each(Process::expect_running)?;
        let name = &server.name;
        eprintln!("{}: {name} {percent:.3} % CPU, {alone:.3} % alone, {kib:.1} KiB a session", row.name);
        outcome.facts.push(Fact::new(row, name, 1, "CPU", "%", percent));
        outcome.facts.push(Fact::new(row, name, 1, "CPU while clients stand still", "%", alone));
        outcome.facts.push(Fact::new(row, name, 1, "memory of a session", "KiB", kib));
    }
    Ok(())
}

/// Starts the clients and waits until all sessions stand.
fn clients(bed: &Bed<'_>, server: &Server, running: &Running) -> Result<Vec<Process>, Error> {
    let url = running.url(server.protocol).unwrap_or_default();
    let hosts = if server.protocol == Protocol::Nvme { HOSTS } else { 1 };
    // The first request of every session but one is due long after the end.
    let load = "lab run --no-ceiling --threads 1 --depth 1 --rate 0.001 --time 600";
    let start = |host: u32| {
        let mut arguments: Vec<String> = load.split(' ').map(str::to_owned).collect();
        let jobs = (IDLE_SESSIONS / hosts).to_string();
        let name = format!("nqn.2026-11.internal.fels.bench:host-{host}");
        arguments.extend(["--jobs", &jobs, "--host-nqn", &name, "--target", url].map(str::to_owned));
        let line = CommandLine::new(bed.clients.fels.display().to_string(), arguments);
        line.on_core(bed.place.client_cores).spawn(&bed.place.work.join(format!("idle-{host}.log")))
    };
    let mut clients: Vec<Process> = (0..hosts).map(start).collect::<Result<_, _>>()?;
    let port = port_of(url).unwrap_or_default();
    // Some protocols have several connections for a session: wait until no more come.
    let seen = Cell::new((0, Instant::now()));
    let [first, ..] = &mut clients[..] else { return Ok(clients) };
    first.wait_until(SESSIONS_DEADLINE, bed.place.interrupt, |_| {
        let stand = established(port);
        if stand != seen.get().0 {
            seen.set((stand, Instant::now()));
        }
        stand >= IDLE_SESSIONS as usize && seen.get().1.elapsed() > SETTLE
    })?;
    Ok(clients)
}

/// The share of a core that the server uses for `span`, in percent.
fn busy(bed: &Bed<'_>, running: &Running, span: Duration) -> Result<f64, Error> {
    let ids = [running.id()];
    let before = Reading::now(&ids, &[])?;
    sleep(span);
    bed.place.interrupt.check()?;
    let spent = Reading::now(&ids, &[])?.since(&before, bed.clients.ticks_per_second);
    Ok(spent.server_s / spent.wall_s * 100.0)
}

fn signal(bed: &Bed<'_>, clients: &[Process], signal: &str) -> Result<(), Error> {
    let ids = clients.iter().map(|client| client.id().to_string());
    let line = CommandLine::new("kill", std::iter::once(signal.to_owned()).chain(ids));
    line.run(&bed.place.work.join("kill.log"), TELL_DEADLINE, bed.place.interrupt)?;
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
