//! What it costs to keep a history: `cargo run --release -p monitor --example history_cost -- [SERIES] [HOURS] [DIRECTORY]`.
//!
//! Plays hours of rows, one every 10 s of the simulated clock, and prints the CPU time of the whole process, kernel included, as a part of
//! the simulated time. Values change, and a tenth of them is unknown. A snapshot of as many counters goes before each row, as on a node.

#![expect(clippy::cast_precision_loss, reason = "a figure for people")]

use monitor::history::History;
use monitor::metric::{Recent, Snapshot, table};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// CPU seconds of this process so far: user, system.
fn cpu_s() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("proc is mounted");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    // utime and stime are the fields 14 and 15 of proc(5), in hundredths of a second.
    let field = |at: usize| fields[at - 3].parse::<f64>().expect("a number") / 100.0;
    (field(14), field(15))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let series: usize = arguments.next().map_or(10_000, |text| text.parse().expect("a number of series"));
    let hours: u64 = arguments.next().map_or(24, |text| text.parse().expect("a number of hours"));
    let directory = arguments.next().map_or_else(|| std::env::temp_dir().join("history-cost"), PathBuf::from);
    std::fs::remove_dir_all(&directory).unwrap_or_default();
    let mut history = History::open(&directory).expect("a history");
    let names: Vec<String> = (0..series).map(|number| format!("volume-{number}")).collect();
    let mut recent = Recent::new();
    let (mut counters, mut slowest) = (vec![0u64; series], Duration::ZERO);
    let (begun, before) = (Instant::now(), cpu_s());
    for row in 0..hours * 360 {
        let mut snapshot = Snapshot::new(1_800_000_000 + row * 10, Duration::from_secs(row * 10));
        for (number, (name, counter)) in names.iter().zip(&mut counters).enumerate() {
            *counter += row * 7919 % (number as u64 + 1000);
            if !(row + number as u64).is_multiple_of(10) {
                snapshot.push(&table::VOLUME_ERRORS, &[name], *counter);
            }
        }
        let view = recent.push(snapshot);
        let started = Instant::now();
        history.record(view.snapshot.unix_s, &view.readings).expect("a row");
        slowest = slowest.max(started.elapsed());
    }
    let ((user, system), seconds) = (cpu_s(), (hours * 3600) as f64);
    let (user, system) = (user - before.0, system - before.1);
    let bytes: u64 = std::fs::read_dir(&directory)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").metadata().expect("a file").len())
        .sum();
    println!(
        "{series} series, {hours} h simulated in {:.0} s: CPU {user:.2} s user + {system:.2} s system = {:.3} % of a core",
        begun.elapsed().as_secs_f64(),
        (user + system) / seconds * 100.0
    );
    println!(
        "slowest row {} ms, files {bytes} bytes, {} a series",
        slowest.as_millis(),
        bytes / series as u64
    );
    let started = Instant::now();
    drop(history);
    let history = History::open(&directory).expect("the history again");
    println!("opened again in {} ms, {} series", started.elapsed().as_millis(), history.series().count());
    std::fs::remove_dir_all(&directory).expect("the directory is removed");
}
