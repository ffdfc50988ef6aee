//! What was measured, for people and for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::served::Served;
use super::{Figures, Report};
use crate::error::Error;
use crate::machine::Machine;
use crate::report::{bar_table, latest_directory, new_directory};
use crate::stats::Spread;
use crate::table::table;

/// The file with every sample.
const SAMPLES: &str = "pools.json";
/// Why there is no figure of Linux md beside ours.
const WITHOUT_MD: &str = "\
Linux md is not beside it. That would be fair in one kernel, on one processor, over the same members. The guest of the tests has md, but
QEMU emulates its processor: vectors (parity, CRC32C) cost many times what they cost here, loads and branches a few times. md in the
guest beside Fels outside would compare a processor with an emulation, and both in the guest two emulations of other mixtures of
instructions. ";
/// What is to be said where md could be compared.
const WITH_MD: &str = "This kernel has md: docs/performance.md, \"Pools\", says how to compare by hand.\n";
/// And where it could not.
const NO_MD: &str = "This kernel has no md (no /proc/mdstat).\n";

/// Everything as text.
pub fn text(report: &Report) -> String {
    let Machine { cpu, date, commit, .. } = &report.machine;
    let mut text = format!("{cpu}, {date}, commit {commit}\n");
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "Pools of 6 members in memory (single 1, raid1 2), volumes of {} MiB. `plain` has no checksums. `by CPU` is the ratio of the CPU \
         times, which tells more than that of the throughput when others use the core.",
        report.size_mib
    );
    if !report.results.is_empty() {
        let _ = writeln!(
            text,
            "\nWithout a transport: one thread drives and runs them, {} rounds of {} ms in turn; CPU is that of the thread, the load \
             included.\n",
            report.rounds, report.milliseconds
        );
        text += &results(&report.results);
    }
    if !report.served.is_empty() {
        text += "\nThrough a transport: each served by a process of its own on one core, the lab on another, depth 32, in turn; CPU is that \
                 of the server for each request. A client whose core is full while the server's is not hides what the server could do.\n\n";
        text += &served(&report.served);
    }
    if let Some(why) = &report.without_isal {
        let _ = writeln!(text, "\nwithout isa-l: {why}\nhint: `make bench-peers` installs it");
    }
    if !report.bars.is_empty() {
        text += "\nBars (medians of the rounds' ratios)\n\n";
        text += &bar_table(&report.bars);
    }
    let this_kernel = if Path::new("/proc/mdstat").exists() { WITH_MD } else { NO_MD };
    let _ = write!(text, "\n{WITHOUT_MD}{this_kernel}");
    text
}

fn results(results: &[Figures]) -> String {
    let range =
        |spread: &Spread, digits: usize| format!("({:.digits$}..{:.digits$})", spread.min, spread.max);
    let rows = results.iter().map(|figures| {
        let name = format!("{} {} KiB", figures.load, figures.request_bytes >> 10);
        let mut cells = vec![name, figures.contender.clone()];
        cells.extend([
            format!("{:.1}", figures.iops.median / 1e3),
            format!("{:.0}", figures.mib_per_s.median),
        ]);
        cells.extend([format!("{:.2}", figures.cpu_us.median), range(&figures.cpu_us, 2)]);
        if let Some(ratio) = &figures.ratio {
            cells.extend([format!("{:.3} of {}", ratio.median, figures.base), range(ratio, 3)]);
        }
        if let Some(ratio) = &figures.cpu_ratio {
            cells.extend([format!("{:.3}", ratio.median), range(ratio, 3)]);
        }
        cells
    });
    table(&["load", "pool", "k/s", "MiB/s", "CPU us", "spread", "ratio", "spread", "by CPU", "spread"], rows)
}

fn served(results: &[Served]) -> String {
    let range =
        |spread: &Spread, digits: usize| format!("({:.digits$}..{:.digits$})", spread.min, spread.max);
    let rows = results.iter().map(|served| {
        let mut cells = vec![served.load.clone(), served.contender.clone()];
        cells.extend([
            format!("{:.1}", served.iops.median / 1e3),
            format!("{:.0}", served.mib_per_s.median),
            format!("{:.2}", served.server_us.median),
            range(&served.server_us, 2),
        ]);
        cells.extend(
            [served.server_percent, served.client_percent, served.others_percent]
                .map(|percent| format!("{percent:.0}")),
        );
        if let Some(ratio) = &served.ratio {
            cells.extend([format!("{:.3} of {}", ratio.median, served.base), range(ratio, 3)]);
        }
        if let Some(ratio) = &served.cpu_ratio {
            cells.extend([format!("{:.3}", ratio.median), range(ratio, 3)]);
        }
        cells
    });
    let head = ["load", "pool", "k/s", "MiB/s", "CPU us", "spread", "server %", "client %", "others %"];
    let head: Vec<&str> = head.into_iter().chain(["ratio", "spread", "by CPU", "spread"]).collect();
    table(&head, rows)
}

/// Writes the text and every sample into the latest run of this day and machine below `out`, or a new one if that has pools
/// already, and gives its directory.
pub fn keep(report: &Report, text: &str, out: &Path) -> Result<PathBuf, Error> {
    let beside = latest_directory(out, &report.machine).filter(|run| !run.join(SAMPLES).exists());
    let directory = beside.map_or_else(|| new_directory(out, &report.machine), Ok)?;
    let json = serde_json::to_string_pretty(report);
    let json = json.map_err(|error| Error::io("cannot write JSON")(error.into()))?;
    for (name, text) in [("pools.md", format!("# Pools\n\n```\n{text}```\n")), (SAMPLES, json + "\n")] {
        let path = directory.join(name);
        fs::write(&path, text).map_err(Error::io(format!("cannot write {}", path.display())))?;
    }
    Ok(directory)
}
