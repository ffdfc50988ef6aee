//! The report: a table to read, and everything to check it by.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Options;
use crate::error::Error;
use crate::machine::Machine;
use crate::rows::Row;
use crate::run::{Failure, Outcome, planned_seconds};
use crate::stats::{Ratio, Sample, Spread, Summary, ratios, summarize};

/// Prints the rows that can be measured.
pub fn print_rows(rows: &[Row]) {
    let cells = rows.iter().map(|row| {
        vec![
            row.name.to_owned(),
            row.client().to_owned(),
            format!("{} bytes", row.request_bytes),
            format!("depth {}", row.depth),
            format!("sessions {}", row.sessions),
        ]
    });
    print!("{}", table(&["row", "client", "request", "", ""], cells));
}

/// Which targets are compared with which: every Fels with every other server and with another Fels
/// binary; without a Fels, everything with the first.
fn pairs(outcome: &Outcome) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (index, target) in outcome.targets.iter().enumerate() {
        for (other_index, base) in outcome.targets.iter().enumerate() {
            let against_peer = target.is_fels() && !base.is_fels();
            let against_binary = target.name == "fels" && base.name == "vs";
            let no_fels = !outcome.targets.iter().any(crate::target::Target::is_fels);
            if against_peer || against_binary || (no_fels && other_index == 0 && index > 0) {
                pairs.push((target.name.clone(), base.name.clone()));
            }
        }
    }
    pairs
}

fn all_ratios(outcome: &Outcome) -> Vec<Ratio> {
    let compared = pairs(outcome);
    let by_row = |row: &Row| -> Vec<Ratio> {
        let one = |(target, base): &(String, String)| ratios(&outcome.samples, &[*row], target, base);
        compared.iter().flat_map(one).collect()
    };
    outcome.rows.iter().flat_map(by_row).collect()
}

/// The report as plain text.
pub fn text(outcome: &Outcome, options: &Options) -> String {
    let summaries = summarize(&outcome.samples, &outcome.rows, &outcome.target_names());
    let ratios = all_ratios(outcome);
    let mut text = String::from("\n");
    if !summaries.is_empty() {
        text += &summary_table(&summaries);
    }
    if !ratios.is_empty() {
        text += "\nRatios of the medians (smallest..largest of a round); CPU is that of the server per request, less is better\n\n";
        text += &ratio_table(&ratios);
        text += &verdicts(&ratios);
    }
    let warned: Vec<&Summary> = summaries.iter().filter(|summary| !summary.warnings.is_empty()).collect();
    if !warned.is_empty() {
        text += "\nWarnings\n\n";
        for summary in warned {
            let _infallible =
                writeln!(text, "  {} {}: {}", summary.row, summary.target, summary.warnings.join("; "));
        }
    }
    if !outcome.failures.is_empty() {
        text += "\nNOT MEASURED\n\n";
        for Failure { target, at, reason } in &outcome.failures {
            let _infallible = writeln!(text, "  {target}, {at}: {reason}");
        }
    }
    if outcome.interrupted {
        text += "\nINTERRUPTED: what follows from this run is incomplete.\n";
    }
    let _infallible = writeln!(
        text,
        "\nMedian (smallest..largest) of {} rounds of {} s each. Latency is requests in flight / IOPS (Little's law); \
         neither client tells it.\nCPU in seconds per million requests = microseconds per request, utime + stime of all \
         threads of the server.\nServer on core {}, clients on core {}; % are shares of one core.",
        options.rounds(),
        options.seconds(),
        options.server_core,
        options.client_core,
    );
    text
}

fn verdicts(ratios: &[Ratio]) -> String {
    let mut text = String::from("\n");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for ratio in ratios {
        let pair = (ratio.target.as_str(), ratio.base.as_str());
        if seen.contains(&pair) {
            continue;
        }
        seen.push(pair);
        let of_pair = || ratios.iter().filter(|other| (other.target.as_str(), other.base.as_str()) == pair);
        let count = |verdict: &str| of_pair().filter(|other| other.verdict() == verdict).count();
        let _infallible = writeln!(
            text,
            "  {} to {}: ahead in every round of {} of {} rows, even in {}, behind in {}; less CPU per request in {}",
            pair.0,
            pair.1,
            count("ahead"),
            of_pair().count(),
            count("even"),
            count("behind"),
            of_pair().filter(|other| other.cheaper()).count(),
        );
    }
    text
}

fn range(spread: Spread, digits: usize) -> String {
    format!("({:.digits$}..{:.digits$})", spread.min, spread.max)
}

fn summary_table(summaries: &[Summary]) -> String {
    let cells = summaries.iter().map(|summary| {
        vec![
            summary.row.to_owned(),
            summary.target.clone(),
            format!("{:.0}", summary.iops.median),
            range(summary.iops, 0),
            format!("{:.1}", summary.mib_per_s.median),
            format!("{:.0}", summary.latency_us.median),
            format!("{:.2}", summary.server_cpu_s_per_million.median),
            range(summary.server_cpu_s_per_million, 2),
            format!("{:.0}", summary.server_percent),
            format!("{:.0}", summary.client_percent),
            format!("{:.0}", summary.others_percent),
            summary.client.to_owned(),
        ]
    });
    let head = [
        "row",
        "target",
        "IOPS",
        "",
        "MiB/s",
        "latency us",
        "CPU s/M",
        "",
        "server %",
        "client %",
        "others %",
        "client",
    ];
    table(&head, cells)
}

fn ratio_table(ratios: &[Ratio]) -> String {
    let cells = ratios.iter().map(|ratio| {
        vec![
            ratio.row.to_owned(),
            format!("{} / {}", ratio.target, ratio.base),
            format!("{:.2}", ratio.iops.median),
            range(ratio.iops, 2),
            format!("{:.2}", ratio.server_cpu.median),
            range(ratio.server_cpu, 2),
            ratio.verdict().to_owned(),
            if ratio.client_limited { "client is the limit" } else { "" }.to_owned(),
        ]
    });
    table(&["row", "targets", "IOPS", "", "CPU", "", "", ""], cells)
}

/// Aligned columns: words to the left, figures to the right. The line below the head is of dashes.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(&rows).collect();
    let width = |column| lines.iter().map(|line| cell(line, column).chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let figures = |column| {
        let starts =
            |line: &Vec<String>| cell(line, column).starts_with(|c: char| c.is_ascii_digit() || c == '(');
        !rows.is_empty() && rows.iter().all(starts)
    };
    let right: Vec<bool> = (0..head.len()).map(figures).collect();
    let mut text = String::new();
    let mut push = |line: &[String]| {
        let mut out = String::new();
        for (column, &width) in widths.iter().enumerate() {
            let cell = cell(line, column);
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) = if right[column] { (padding.as_str(), "") } else { ("", padding.as_str()) };
            out.extend([before, &cell, after, "  "]);
        }
        text += out.trim_end();
        text.push('\n');
    };
    push(&head);
    push(&widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>());
    for row in &rows {
        push(row);
    }
    text
}

#[derive(Serialize)]
struct Raw<'a> {
    machine: &'a Machine,
    rows: &'a [Row],
    rounds: u32,
    seconds: u32,
    volume_mib: u64,
    interrupted: bool,
    samples: &'a [Sample],
    failures: &'a [Failure],
}

#[derive(Serialize)]
struct Summarized<'a> {
    summaries: &'a [Summary],
    ratios: &'a [Ratio],
    failures: &'a [Failure],
}

/// Writes README.md, raw.json and summary.json into a new directory and returns its path.
pub fn keep(outcome: &Outcome, options: &Options) -> Result<PathBuf, Error> {
    let directory = new_directory(&options.out, &outcome.machine)?;
    let summaries = summarize(&outcome.samples, &outcome.rows, &outcome.target_names());
    let raw = Raw {
        machine: &outcome.machine,
        rows: &outcome.rows,
        rounds: options.rounds(),
        seconds: options.seconds(),
        volume_mib: options.size,
        interrupted: outcome.interrupted,
        samples: &outcome.samples,
        failures: &outcome.failures,
    };
    let ratios = all_ratios(outcome);
    let summarized = Summarized { summaries: &summaries, ratios: &ratios, failures: &outcome.failures };
    write(&directory.join("raw.json"), &json(&raw)?)?;
    write(&directory.join("summary.json"), &json(&summarized)?)?;
    write(&directory.join("README.md"), &readme(outcome, options))?;
    Ok(directory)
}

fn json<T: Serialize>(value: &T) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|error| Error::io("cannot write JSON")(error.into()))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::io(format!("cannot write {}", path.display())))
}

/// `<date>-<label>`, with a number appended when there is one of that name already.
fn new_directory(out: &Path, machine: &Machine) -> Result<PathBuf, Error> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
    let name = format!("{}-{}", machine.date, machine.label.chars().map(plain).collect::<String>());
    fs::create_dir_all(out).map_err(Error::io(format!("cannot make {}", out.display())))?;
    for number in 1..1000 {
        let path = out.join(if number == 1 { name.clone() } else { format!("{name}-{number}") });
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io(format!("cannot make {}", path.display()))(error)),
        }
    }
    Err(Error::Options(format!("{} holds a thousand runs of {name}; use --out", out.display())))
}

fn readme(outcome: &Outcome, options: &Options) -> String {
    let machine = &outcome.machine;
    let mut text = format!("# Side by side, {}, {}\n\n", machine.date, machine.label);
    let names = outcome.target_names().join(", ");
    let _infallible = write!(
        text,
        "Targets: {names}. Volumes of {} MiB in memory, written once before measuring. The targets alternate within every \
         round; {} rounds of {} s after one warm-up ({:.0} s of load in all).\n\n",
        options.size,
        options.rounds(),
        options.seconds(),
        planned_seconds(options, outcome),
    );
    for target in &outcome.targets {
        let _infallible = writeln!(text, "- `{}`: {}", target.name, target.description());
    }
    text += "\nReads are made by `iscsi-perf` of libiscsi, which cannot write, for a fixed time; writes by `qemu-img bench -w`, \
             which has no random offsets, for a count that takes about that time. \"Scattered\" writes jump by a stride near the \
             golden section of the volume and so visit every block before one comes back.\n\n## Machine\n\n| what | is |\n|---|---|\n";
    let mut fact = |name: &str, value: &str| {
        let _infallible = writeln!(text, "| {name} | {} |", value.replace('\n', " ").replace('|', "\\|"));
    };
    fact("CPU", &format!("{}, {} cores", machine.cpu, machine.cores));
    fact("hypervisor", machine.hypervisor.as_deref().unwrap_or("none"));
    fact("kernel", &machine.kernel);
    fact("memory", &format!("{} MiB", machine.memory_mib));
    fact("TCP congestion control", &machine.tcp_congestion_control);
    fact("commit", &machine.commit);
    for (program, version) in &machine.versions {
        fact(program, version);
    }
    let _infallible = write!(text, "\n## Result\n\n```\n{}\n```\n", self::text(outcome, options).trim());
    text += "\n## Repeat\n\n```\nmake bench-peers";
    let flags = repeat_flags(options);
    if !flags.is_empty() {
        let _infallible = write!(text, " BENCH_FLAGS='{flags}'");
    }
    text += "\n```\n\nThe commands that were run (`$WORK` is a directory on tmpfs; counts of the writes follow the speed of each target):\n\n```\n";
    text += &outcome.commands.join("\n");
    text += "\n```\n\nEvery sample is in `raw.json`, medians, spreads and ratios in `summary.json`.\n";
    text
}

/// The flags that repeat this run, without those that are at their default.
fn repeat_flags(options: &Options) -> String {
    let mut flags = vec![format!("--targets {}", options.targets.join(","))];
    if !options.rows.is_empty() {
        flags.push(format!("--rows {}", options.rows.join(",")));
    }
    if let Some(other) = &options.vs {
        flags.push(format!("--vs {}", other.display()));
    }
    flags.push(format!(
        "--rounds {} --seconds {} --size {}",
        options.rounds(),
        options.seconds(),
        options.size
    ));
    flags.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "1000".to_owned()]];
        let text = table(&["name", "figure"], rows.into_iter());
        assert_eq!(text, "name  figure\n----  ------\na          1\nlong    1000\n");
    }

    #[test]
    fn a_second_run_of_a_day_gets_its_own_directory() {
        let out = std::env::temp_dir().join(format!("fels-bench-report-{}", std::process::id()));
        let machine = Machine::read(Some("a/b c"));
        let first = new_directory(&out, &machine).unwrap();
        let second = new_directory(&out, &machine).unwrap();
        assert!(first.display().to_string().ends_with("-a_b_c"), "{}", first.display());
        assert_eq!(second.display().to_string(), format!("{}-2", first.display()));
        fs::remove_dir_all(&out).unwrap();
    }
}
