//! What was measured, for people and for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Figures, Report};
use crate::error::Error;
use crate::machine::Machine;
use crate::report::bar_table;
use crate::stats::Spread;
use crate::table::table;

/// Why there is no figure of Linux md beside ours.
pub const WITHOUT_MD: &str = "\
Linux md is not beside it: this machine's kernel has no md that we may load, and the guest of the tests has it but runs in an emulated
processor (QEMU without KVM), which multiplies the time of its vectors (parity, CRC32C) by another factor than that of its loads and
branches. Fels in that guest beside md in it would compare two emulations, Fels outside beside md inside nothing at all. Where there is
KVM or md, docs/performance.md says how to compare.
";

/// Everything as text.
pub fn text(report: &Report) -> String {
    let Machine { cpu, date, commit, .. } = &report.machine;
    let mut text = format!("{cpu}, {date}, commit {commit}\n");
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "Pools of 6 members in memory (single 1, raid1 2), volumes of {} MiB; one thread drives and runs them, without a network; {} rounds of {} ms in \
         turn. `plain` has no checksums. CPU is that of the thread, the load included.\n",
        report.size_mib, report.rounds, report.milliseconds
    );
    if !report.results.is_empty() {
        text += &results(&report.results);
    }
    if let Some(why) = &report.without_isal {
        let _ = writeln!(text, "\nwithout isa-l: {why}\nhint: `make bench-peers` installs it");
    }
    if !report.bars.is_empty() {
        text += "\nBars (medians of the rounds' ratios)\n\n";
        text += &bar_table(&report.bars);
    }
    let _ = write!(text, "\n{WITHOUT_MD}");
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
        cells
    });
    table(&["load", "pool", "k/s", "MiB/s", "CPU us", "spread", "ratio", "spread"], rows)
}

/// Writes the text and every sample into the run of this day and machine below `out`, and gives its directory.
pub fn keep(report: &Report, text: &str, out: &Path) -> Result<PathBuf, Error> {
    let directory = out.join(report.machine.run_name());
    fs::create_dir_all(&directory).map_err(Error::io(format!("cannot make {}", directory.display())))?;
    let json = serde_json::to_string_pretty(report);
    let json = json.map_err(|error| Error::io("cannot write JSON")(error.into()))?;
    for (name, text) in [("pools.md", format!("# Pools\n\n```\n{text}```\n")), ("pools.json", json + "\n")] {
        let path = directory.join(name);
        fs::write(&path, text).map_err(Error::io(format!("cannot write {}", path.display())))?;
    }
    Ok(directory)
}
