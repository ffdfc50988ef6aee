//! What disks say of themselves, through `smartctl --json`: their temperature, and whether they are well. Where there is no such program, or it
//! may not ask, nobody knows.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use monitor::metric::{Snapshot, table};
use serde::Deserialize;

use crate::collect::Collector;

/// How often disks are asked.
const INTERVAL: Duration = Duration::from_secs(600);
/// How long the program may take for a disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of its answer.
const MAX_BYTES: u64 = 4 << 20;
/// Bits of its exit status (smartctl(8)): nothing was found out.
const FAILED: u64 = 0b111;
/// The disk says that it fails, or an attribute is below what it may be.
const FAILING: u64 = 0b1_1000;
/// Trouble in the past, or in one of the logs.
const TROUBLE: u64 = 0b1110_0000;

/// How a disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Health {
    /// Degrees Celsius.
    pub temperature: Option<f64>,
    /// 0: well. 1: it has reported trouble. 2: it expects to fail.
    pub state: Option<u64>,
}

/// The parts of the answer that are looked at.
#[derive(Deserialize)]
struct Answer {
    smartctl: Option<Program>,
    temperature: Option<Temperature>,
    smart_status: Option<Status>,
    nvme_smart_health_information_log: Option<Nvme>,
}

#[derive(Deserialize)]
struct Program {
    exit_status: Option<u64>,
}

#[derive(Deserialize)]
struct Temperature {
    current: Option<f64>,
}

#[derive(Deserialize)]
struct Status {
    passed: Option<bool>,
}

#[derive(Deserialize)]
struct Nvme {
    critical_warning: Option<u64>,
    media_errors: Option<u64>,
}

/// Reads what `smartctl --json --all` has written.
pub fn read(json: &[u8]) -> Health {
    let Ok(answer) = serde_json::from_slice::<Answer>(json) else { return Health::default() };
    let exit = answer.smartctl.and_then(|program| program.exit_status).unwrap_or_default();
    let passed = answer.smart_status.and_then(|status| status.passed);
    let nvme = answer.nvme_smart_health_information_log;
    let warns = nvme.as_ref().and_then(|nvme| nvme.critical_warning).unwrap_or_default() != 0;
    let media = nvme.as_ref().and_then(|nvme| nvme.media_errors).unwrap_or_default() != 0;
    let is_known = passed.is_some() || nvme.is_some() || exit & FAILED == 0 && exit != 0;
    let state = if passed == Some(false) || warns || exit & FAILING != 0 {
        2
    } else {
        u64::from(media || exit & TROUBLE != 0)
    };
    let temperature = answer.temperature.and_then(|temperature| temperature.current);
    Health {
        temperature: temperature.filter(|degrees| degrees.is_finite()),
        state: is_known.then_some(state),
    }
}

/// What is known of the members of pools, by pool and slot.
#[derive(Default)]
pub(crate) struct Disks(Mutex<BTreeMap<(String, usize), Health>>);

impl Disks {
    /// Adds what is known to the figures of a moment.
    pub fn add(&self, snapshot: &mut Snapshot) {
        let disks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((pool, slot), health) in disks.iter() {
            let labels = [pool.as_str(), &slot.to_string()];
            if let Some(temperature) = health.temperature {
                snapshot.push(&table::MEMBER_TEMPERATURE, &labels, temperature);
            }
            if let Some(state) = health.state {
                snapshot.push(&table::MEMBER_SMART, &labels, state);
            }
        }
    }

    /// Asks all disks, one after the other, again and again.
    pub async fn watch(&self, collector: &Collector) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let mut known = BTreeMap::new();
            for (pool, slot, place) in collector.members() {
                let asked = tokio::task::spawn_blocking(move || disk(&place).map(|disk| ask(&disk)));
                if let Ok(Some(health)) = asked.await {
                    known.insert((pool, slot), health);
                }
            }
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
        }
    }
}

/// The disk that a member is on: the member itself, or the disk that it is a partition of. None for files. Blocks.
fn disk(member: &Path) -> Option<PathBuf> {
    let device = std::fs::canonicalize(member).ok().filter(|path| path.starts_with("/dev"))?;
    let name = device.file_name()?;
    let about = std::fs::canonicalize(Path::new("/sys/class/block").join(name)).ok()?;
    if !about.join("partition").exists() {
        return Some(device);
    }
    Some(Path::new("/dev").join(about.parent()?.file_name()?))
}

/// Asks a disk that turns, or not at all while it sleeps. Blocks.
fn ask(disk: &Path) -> Health {
    let started = Command::new("smartctl")
        .args(["--json", "--all", "--nocheck=standby"])
        .arg(disk)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(child) => read(&within(child, PATIENCE)),
        // There is no such program.
        Err(_) => Health::default(),
    }
}

/// What a program writes until it ends; nothing if it does not in time, when it is ended.
fn within(mut child: Child, patience: Duration) -> Vec<u8> {
    let end = Instant::now() + patience;
    let reader = child.stdout.take().map(|stdout| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.take(MAX_BYTES).read_to_end(&mut bytes).map(|_| bytes).unwrap_or_default()
        })
    });
    let is_over = loop {
        match child.try_wait() {
            Ok(Some(_)) => break true,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            Ok(None) | Err(_) => break false,
        }
    };
    if !is_over {
        // Its end is waited for, so that nothing of it stays.
        child.kill().ok();
        child.wait().ok();
    }
    let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    if is_over { bytes } else { Vec::new() }
}

#[cfg(test)]
mod tests;
