//! Whose CPU time is spent.
//!
//! A process's time is the sum of its threads' `schedstat`, in nanoseconds, so that a window of a second is enough.
//! Work of the network stack for a process counts as the process's own: the kernel does it on the sender's core.

use std::collections::HashMap;
use std::fs;

use crate::error::Error;
use crate::process::quick_output;
use crate::stats::float;

/// From so many ticks on, what threads spent that are gone is more than the ticks' own coarseness.
const TICKS_OF_DOUBT: f64 = 3.0;

/// CPU time of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Process {
    /// Of its threads, in nanoseconds by thread id.
    threads: HashMap<u32, u64>,
    /// Of all threads that it ever had, in ticks.
    ticks: u64,
}

impl Process {
    fn read(process: u32) -> Self {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let ticks = process_ticks(&stat).unwrap_or(0);
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
            return Self { ticks, ..Self::default() };
        };
        let thread = |path: std::path::PathBuf| {
            let id = path.file_name()?.to_str()?.parse().ok()?;
            let text = fs::read_to_string(path.join("schedstat")).ok()?;
            Some((id, run_ns(&text)?))
        };
        Self { threads: tasks.flatten().filter_map(|entry| thread(entry.path())).collect(), ticks }
    }

    /// What was spent since `earlier`, in seconds: exact, or in ticks where threads have come and gone since.
    fn seconds_since(&self, earlier: &Self, ticks_per_second: f64) -> f64 {
        let before = |id: &u32| earlier.threads.get(id).copied().unwrap_or(0);
        let spent = self.threads.iter().map(|(id, now)| now.saturating_sub(before(id)));
        let exact = float(spent.sum()) / 1e9;
        let coarse = float(self.ticks.saturating_sub(earlier.ticks)) / ticks_per_second;
        if coarse - exact > TICKS_OF_DOUBT / ticks_per_second { coarse } else { exact }
    }
}

/// utime + stime of a `/proc/PID/stat`, with those of threads that are gone. The name in brackets may contain anything, so
/// fields are counted from the last bracket.
fn process_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(field(14)? + field(15)?)
}

/// The time on a core, of `/proc/PID/task/TID/schedstat`.
fn run_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// CPU times at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When.
    pub at: std::time::Instant,
    server: Vec<Process>,
    clients: Vec<Process>,
    /// Busy and stolen ticks of the machine.
    machine: (u64, u64),
}

/// CPU seconds that were spent in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::struct_field_names, reason = "units stand last")]
pub struct Spent {
    /// Length of the window in seconds.
    pub wall_s: f64,
    /// By the server.
    pub server_s: f64,
    /// By the clients.
    pub clients_s: f64,
    /// By everything else on this machine.
    pub others_s: f64,
    /// Time that the hypervisor gave to somebody else.
    pub stolen_s: f64,
}

impl Reading {
    /// A reading for tests: a server and a client of one thread each.
    #[cfg(test)]
    pub fn of_two(at: std::time::Instant, server_ms: u64, client_ms: u64) -> Self {
        let [server, client] = [server_ms, client_ms]
            .map(|ms| Process { threads: HashMap::from([(1, ms * 1_000_000)]), ticks: ms / 10 });
        Self { at, server: vec![server], clients: vec![client], machine: (0, 0) }
    }

    /// Reads the counters.
    pub fn now(servers: &[u32], clients: &[u32]) -> Result<Self, Error> {
        let text = fs::read_to_string("/proc/stat").map_err(Error::io("cannot read /proc/stat"))?;
        let machine = machine_ticks(&text).ok_or_else(|| Error::Io {
            context: "cannot understand /proc/stat".to_owned(),
            source: std::io::ErrorKind::InvalidData.into(),
        })?;
        Ok(Self {
            at: std::time::Instant::now(),
            server: servers.iter().map(|&id| Process::read(id)).collect(),
            clients: clients.iter().map(|&id| Process::read(id)).collect(),
            machine,
        })
    }

    /// What was spent since `earlier`, a reading of the same processes.
    pub fn since(&self, earlier: &Self, ticks_per_second: f64) -> Spent {
        let sum = |now: &[Process], before: &[Process]| -> f64 {
            now.iter()
                .zip(before)
                .fold(0.0, |sum, (now, before)| sum + now.seconds_since(before, ticks_per_second))
        };
        let (server_s, clients_s) =
            (sum(&self.server, &earlier.server), sum(&self.clients, &earlier.clients));
        let ticks = |now: u64, before: u64| float(now.saturating_sub(before)) / ticks_per_second;
        Spent {
            wall_s: self.at.duration_since(earlier.at).as_secs_f64(),
            server_s,
            clients_s,
            others_s: (ticks(self.machine.0, earlier.machine.0) - server_s - clients_s).max(0.0),
            stolen_s: ticks(self.machine.1, earlier.machine.1),
        }
    }
}

/// Clock ticks per second in /proc.
pub fn ticks_per_second() -> f64 {
    quick_output("getconf", &["CLK_TCK"]).and_then(|text| text.parse().ok()).unwrap_or(100.0)
}

/// Memory of a process that is its own, in KiB.
pub fn resident_kib(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status_kib(&text, "VmRSS:")
}

fn status_kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Busy and stolen ticks of the first line of `/proc/stat`. Guest time is part of user time already.
fn machine_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>().ok()?;
    let at = |index: usize| ticks.get(index).copied();
    Some((at(0)? + at(1)? + at(2)? + at(5)? + at(6)?, at(7)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        let stat = "cpu  100 2 30 4000 500 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(machine_ticks(stat), Some((145, 8)));
        assert_eq!(machine_ticks("intr 5\n"), None);
    }

    #[test]
    fn the_first_figure_of_schedstat_is_the_time_on_a_core() {
        assert_eq!(run_ns("4947608 15 3\n"), Some(4_947_608));
        assert_eq!(run_ns(""), None);
    }

    fn process(threads: &[(u32, u64)], ticks: u64) -> Process {
        Process { threads: threads.iter().copied().collect(), ticks }
    }

    #[test]
    fn threads_that_come_count_exactly() {
        let before = process(&[(1, 1_000_000_000), (2, 5_000_000_000)], 600);
        let now = process(&[(1, 3_000_000_000), (2, 5_000_000_000), (3, 500_000_000)], 851);
        assert!((now.seconds_since(&before, 100.0) - 2.5).abs() < 1e-9);
        assert!(before.seconds_since(&before, 100.0).abs() < 1e-9);
    }

    #[test]
    fn threads_that_are_gone_count_in_ticks() {
        let before = process(&[(1, 1_000_000_000), (2, 5_000_000_000)], 600);
        let now = process(&[(1, 1_100_000_000)], 710);
        assert!((now.seconds_since(&before, 100.0) - 1.1).abs() < 1e-9);
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat =
            "5328 (tg) t d) S 5324 5324 2777 0 -1 4194304 3067 0 1 0 67 630 5 7 20 0 17 0 70400 142442496";
        assert_eq!(process_ticks(stat), Some(697));
        assert!(process_ticks("5328 (cut) S 1 2").is_none());
        assert!(process_ticks("").is_none());
    }

    #[test]
    fn work_of_this_process_is_seen() {
        let id = std::process::id();
        let before = Reading::now(&[id], &[]).unwrap();
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        while begun.elapsed().as_millis() < 100 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let spent = Reading::now(&[id], &[]).unwrap().since(&before, ticks_per_second());
        assert!(spent.server_s > 0.0 && spent.wall_s >= 0.1, "{spent:?}");
        assert!(resident_kib(id).unwrap() > 100);
        assert_eq!(status_kib("VmRSS:\t  77 kB\n", "VmRSS:"), Some(77));
    }
}
