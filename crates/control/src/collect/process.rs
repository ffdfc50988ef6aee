//! The process itself, as the kernel knows it.

use std::fs;
use std::time::Duration;

use monitor::metric::{Snapshot, table};
use rustix::time::{ClockId, clock_gettime};

/// What the process has open.
const FILES: &str = "/proc/self/fd";

/// What cannot be read is left out: a figure that is not known is not zero.
pub(super) fn add(snapshot: &mut Snapshot) {
    for (name, seconds) in threads() {
        if let Some(shard) = name.strip_prefix("shard-") {
            snapshot.push(&table::SHARD_CPU, &[shard], seconds);
        }
    }
    snapshot.push(&table::PROCESS_CPU, &[], whole());
    if let Some(bytes) = resident() {
        snapshot.push(&table::PROCESS_MEMORY, &[], bytes);
    }
    if let Some(files) = files() {
        snapshot.push(&table::PROCESS_FILES, &[], files);
    }
}

/// CPU time of all threads in seconds, those that have ended too: what goes back when one ends would be taken for a counter that begins anew.
fn whole() -> f64 {
    // There is such a time, and it is not negative.
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default().as_secs_f64()
}

/// The names of all threads and their CPU time in seconds.
fn threads() -> Vec<(String, f64)> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let read = |path: std::path::PathBuf| {
        let name = fs::read_to_string(path.join("comm")).ok()?;
        // Nanoseconds on a core, nanoseconds of waiting for one, time slices.
        let times = fs::read_to_string(path.join("schedstat")).ok()?;
        let nanoseconds: u64 = times.split_whitespace().next()?.parse().ok()?;
        Some((name.trim().to_owned(), Duration::from_nanos(nanoseconds).as_secs_f64()))
    };
    tasks.filter_map(|task| read(task.ok()?.path())).collect()
}

/// How many files and sockets are open. Linux tells it as the size of the directory since 6.2; before, that is 0.
fn files() -> Option<u64> {
    let told = fs::metadata(FILES).ok()?.len();
    if told > 0 { Some(told) } else { Some(fs::read_dir(FILES).ok()?.count() as u64) }
}

/// Bytes of memory that are resident.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
