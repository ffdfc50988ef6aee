//! The machine: what it is.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::process::quick_output;
use crate::setting;

/// What a reader has to know of the machine to judge the figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// What `vm.percpu_pagelist_high_fraction` is; earlier runs did not ask.
    #[serde(default)]
    pub page_lists: Option<String>,
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
            tcp_congestion_control: known(setting::congestion()),
            page_lists: setting::page_lists(),
            commit: commit(),
            versions: Vec::new(),
        }
    }

    /// What a run of this day on this machine is called: `<date>-<label>`.
    pub fn run_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
        format!("{}-{}", self.date, self.label.chars().map(plain).collect::<String>())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_read() {
        let machine = Machine::read(Some("somewhere"));
        assert_eq!(machine.label, "somewhere");
        assert!(machine.cores > 0 && machine.memory_mib > 0);
    }
}
