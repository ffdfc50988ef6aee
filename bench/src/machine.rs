//! The machine: what it is, and whose CPU time it spends.

use std::fs;

use serde::Serialize;

use crate::error::Error;
use crate::process::quick_output;

/// What a reader has to know of the machine to judge the figures.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Name of the machine, or the label that was given.
    pub label: String,
    /// Day of the run, UTC, as `2026-11-20`.
    pub date: String,
    /// Model of the CPU.
    pub cpu: String,
    /// Cores that are there.
    pub cores: usize,
    /// Name of the hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// TCP congestion control of new connections.
    pub tcp_congestion_control: String,
    /// Commit of the sources, with `-dirty` when files differ from it.
    pub commit: String,
    /// Name and version of every program that took part.
    pub versions: Vec<(String, String)>,
}

const UNKNOWN: &str = "unknown";

impl Machine {
    /// Asks the machine. Facts that cannot be had say `unknown`.
    pub fn read(label: Option<&str>) -> Self {
        let known = |fact: Option<String>| fact.unwrap_or_else(|| UNKNOWN.to_owned());
        let first_line = |path: &str| {
            fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_owned))
        };
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory_kib = memory_kib("MemTotal:").unwrap_or(0);
        Self {
            label: label.map_or_else(|| known(quick_output("hostname", &[])), str::to_owned),
            date: known(quick_output("date", &["-u", "+%Y-%m-%d"])),
            cpu: known(after_colon(&cpuinfo, "model name")),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            hypervisor: quick_output("systemd-detect-virt", &["--vm"])
                .or_else(|| cpuinfo.contains(" hypervisor").then(|| "yes, unnamed".to_owned())),
            kernel: known(first_line("/proc/sys/kernel/osrelease")),
            memory_mib: memory_kib / 1024,
            tcp_congestion_control: known(first_line("/proc/sys/net/ipv4/tcp_congestion_control")),
            commit: commit(),
            versions: Vec::new(),
        }
    }

    /// Adds the version of a program: its Debian package's where it has one.
    pub fn add_package(&mut self, package: &str) {
        let version = quick_output("dpkg-query", &["-W", "-f", "${Version}", package]);
        self.add_version(package, version);
    }

    /// Adds the version of a program.
    pub fn add_version(&mut self, program: &str, version: Option<String>) {
        let version = version.unwrap_or_else(|| UNKNOWN.to_owned());
        self.versions.push((program.to_owned(), version));
    }
}

/// A figure of /proc/meminfo, for example `MemAvailable:`.
pub fn memory_kib(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn after_colon(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn commit() -> String {
    let Some(commit) = quick_output("git", &["rev-parse", "--short=12", "HEAD"]) else {
        return UNKNOWN.to_owned();
    };
    let changed = quick_output("git", &["status", "--porcelain", "--untracked-files=no"]).is_some();
    if changed { format!("{commit}-dirty") } else { commit }
}

/// CPU seconds that were spent up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// utime + stime of all threads of the server, ended ones included.
    pub server: f64,
    /// The same of all children of this program that have ended: the clients.
    pub clients: f64,
    /// Everything that any core did, interrupts included.
    pub busy: f64,
    /// Time that the hypervisor gave to somebody else.
    pub stolen: f64,
}

impl CpuTimes {
    /// Reads the counters, the server's being those of process `server`.
    pub fn read(server: u32, ticks_per_second: f64) -> Result<Self, Error> {
        let read = |path: String| fs::read_to_string(&path).map_err(Error::io(format!("cannot read {path}")));
        let wrong = |path: &str| Error::Io {
            context: format!("cannot understand {path}"),
            source: std::io::ErrorKind::InvalidData.into(),
        };
        let server =
            process_ticks(&read(format!("/proc/{server}/stat"))?).ok_or_else(|| wrong("/proc/PID/stat"))?;
        let own =
            process_ticks(&read("/proc/self/stat".to_owned())?).ok_or_else(|| wrong("/proc/self/stat"))?;
        let (busy, stolen) =
            machine_ticks(&read("/proc/stat".to_owned())?).ok_or_else(|| wrong("/proc/stat"))?;
        let seconds = |ticks: u64| crate::stats::float(ticks) / ticks_per_second;
        Ok(Self {
            server: seconds(server.own),
            clients: seconds(own.ended_children),
            busy: seconds(busy),
            stolen: seconds(stolen),
        })
    }

    /// What was spent since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            server: self.server - earlier.server,
            clients: self.clients - earlier.clients,
            busy: self.busy - earlier.busy,
            stolen: self.stolen - earlier.stolen,
        }
    }

    /// What neither the server nor the clients spent: other programs on this machine.
    pub fn others(&self) -> f64 {
        (self.busy - self.server - self.clients).max(0.0)
    }
}

/// Clock ticks per second in /proc.
pub fn ticks_per_second() -> f64 {
    quick_output("getconf", &["CLK_TCK"]).and_then(|text| text.parse().ok()).unwrap_or(100.0)
}

struct ProcessTicks {
    own: u64,
    ended_children: u64,
}

/// utime + stime and cutime + cstime of a `/proc/PID/stat`. The name in brackets may contain anything,
/// so fields are counted from the last bracket.
fn process_ticks(stat: &str) -> Option<ProcessTicks> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessTicks { own: field(14)? + field(15)?, ended_children: field(16)? + field(17)? })
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
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat =
            "5328 (tg) t d) S 5324 5324 2777 0 -1 4194304 3067 0 1 0 67 630 5 7 20 0 17 0 70400 142442496";
        let ticks = process_ticks(stat).unwrap();
        assert_eq!((ticks.own, ticks.ended_children), (697, 12));
        assert!(process_ticks("5328 (cut) S 1 2").is_none());
        assert!(process_ticks("").is_none());
    }

    #[test]
    fn idle_and_waiting_are_not_busy() {
        let stat = "cpu  100 2 30 4000 500 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(machine_ticks(stat), Some((145, 8)));
        assert_eq!(machine_ticks("intr 5\n"), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let machine = Machine::read(Some("somewhere"));
        assert_eq!(machine.label, "somewhere");
        assert!(machine.cores > 0 && machine.memory_mib > 0);
        let ticks = ticks_per_second();
        let begin = CpuTimes::read(std::process::id(), ticks).unwrap();
        let end = CpuTimes::read(std::process::id(), ticks).unwrap();
        assert!(end.since(&begin).busy >= 0.0);
    }
}
