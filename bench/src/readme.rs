//! The table and the chart of a run, and the block of the project's README that shows the latest.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use chart::{Bar, Bars, Panel, Theme, Tone};

use crate::error::Error;
use crate::report::{Summarized, bar_line};
use crate::rows::{Kind, ROWS, Row, rounds_text};
use crate::server::{Protocol, Server};
use crate::stats::Summary;

const BEGIN: &str = "<!-- bench:begin -->";
const NVME_PEER: &str = "spdk-nvme";
const END: &str = "<!-- bench:end -->";
/// Name of the chart in a run's directory.
pub const CHART: &str = "chart.svg";

/// What is told of a row: its figure, of more digits where it is small.
fn figure(row: &Row, summary: &Summary) -> (f64, f64, f64, String) {
    let all = |spread: crate::stats::Spread, scale: f64| {
        (spread.median / scale, spread.min / scale, spread.max / scale)
    };
    let ((value, least, most), unit) = if row.is_latency() {
        (all(summary.mean_us, 1.0), "us")
    } else if row.is_throughput() {
        (all(summary.mib_per_s, 1024.0), "GiB/s")
    } else {
        (all(summary.iops, 1000.0), "k")
    };
    let digits = if row.is_throughput() { 2 } else { usize::from(value < 100.0) };
    (value, least, most, format!("{value:.digits$} {unit}"))
}

fn tone(server: &str) -> Tone {
    if server.starts_with("fels") {
        Tone::Ours
    } else if server.starts_with("limit") {
        Tone::Limit
    } else {
        Tone::Other
    }
}

fn loads(run: &Summarized) -> impl Iterator<Item = (&'static Row, Vec<&Summary>)> {
    let of = |row: &Row| run.summaries.iter().filter(|summary| summary.row == row.name).collect::<Vec<_>>();
    ROWS.iter()
        .filter(|row| matches!(row.kind, Kind::Closed | Kind::File))
        .map(move |row| (row, of(row)))
        .filter(|(_, summaries)| !summaries.is_empty())
}

/// The chart of a run: a panel for each row, a bar for each server.
pub fn chart(run: &Summarized) -> String {
    let panels = loads(run).map(|(row, summaries)| {
        let unit = match (row.is_latency(), row.is_throughput()) {
            (true, _) => "us, less is better",
            (_, true) => "GiB/s",
            _ => "thousand a second",
        };
        let bars = summaries.iter().map(|summary| {
            let (value, least, most, figure) = figure(row, summary);
            Bar {
                label: summary.server.clone(),
                value,
                spread: Some((least, most)),
                figure: format!("{figure}, {:.2} us", summary.server_us.median),
                tone: tone(&summary.server),
            }
        });
        Panel { title: format!("{}: {unit}", row.title), bars: bars.collect() }
    });
    let machine = &run.machine;
    let bars = Bars {
        title: format!("Fels beside others, {}", machine.date),
        note: format!(
            "{}, {} cores, Linux {}, {}. Server on one core, client on another. Behind the bar: figure, CPU time of the \
             server for each request. Dashed: what the loopback carries.",
            machine.cpu, machine.cores, machine.kernel, machine.tcp_congestion_control
        ),
        panels: panels.collect(),
        columns: 2,
        width: 1080,
    };
    bars.to_svg(Theme::Auto)
}

/// What was set so that pages that go from core to core stay in a cache, if it was.
fn short_lists(fraction: Option<&str>) -> String {
    let set = fraction.filter(|fraction| *fraction != "0");
    set.map_or_else(String::new, |fraction| format!(", vm.percpu_pagelist_high_fraction {fraction}"))
}

/// Rounds of the rows of large requests; of runs before, as many as of all others.
fn large_rounds(run: &Summarized) -> u32 {
    let large = loads(run).filter(|(row, _)| row.is_large()).flat_map(|(_, summaries)| summaries);
    large.map(|summary| summary.rounds).max().and_then(|rounds| rounds.try_into().ok()).unwrap_or(run.rounds)
}

/// The block between the markers: a line of a row for each protocol, the best peer beside it.
fn block(run: &Summarized, directory: &str) -> String {
    let machine = &run.machine;
    // SPDK, if it is in the run, is the only peer over NVMe/TCP.
    let nvme = run.summaries.iter().any(|summary| summary.server == NVME_PEER);
    let mut text = format!(
        "![Fels beside other servers, a bar for each]({directory}/{CHART})\n\n\
         Measured on {}, {} ({} cores, Linux {}, TCP congestion control {}{}), medians of {} of {} s: server on one core, \
         client on another, volume in memory. In brackets: CPU time of the server for each request.\n\n\
         | | iSCSI | NVMe/TCP | NBD | best peer over iSCSI | {}best peer over NBD | limit |\n|---|---|---|---|{}---|---|---|\n",
        machine.date,
        machine.cpu,
        machine.cores,
        machine.kernel,
        machine.tcp_congestion_control,
        short_lists(machine.page_lists.as_deref()),
        rounds_text(run.rounds, large_rounds(run)),
        run.seconds,
        if nvme { "best peer over NVMe/TCP | " } else { "" },
        if nvme { "---|" } else { "" },
    );
    for (row, summaries) in loads(run).filter(|(row, _)| row.kind == Kind::Closed && row.has(Protocol::Bare))
    {
        let cell = |name: &str| {
            let summary = summaries.iter().find(|summary| summary.server == name);
            summary.map_or_else(String::new, |summary| {
                format!("{} ({:.2} us)", figure(row, summary).3, summary.server_us.median)
            })
        };
        let best = |names: &[&str]| {
            let known = summaries.iter().filter(|summary| names.contains(&summary.server.as_str()));
            let best = known.max_by(|one, other| one.iops.median.total_cmp(&other.iops.median));
            best.map_or_else(String::new, |best| format!("{}: {}", best.server, cell(&best.server)))
        };
        let limit = summaries.iter().filter(|summary| tone(&summary.server) == Tone::Limit);
        let limit = limit.max_by(|one, other| one.iops.median.total_cmp(&other.iops.median));
        let _infallible = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {}{} | {} |",
            row.title,
            cell("fels-iscsi"),
            cell("fels-nvme"),
            cell("fels-nbd"),
            best(&["tgt-rdwr", "tgt-aio", "istgt", "istgt-queue", "spdk-iscsi"]),
            if nvme { format!("{} | ", best(&[NVME_PEER])) } else { String::new() },
            best(&["nbdkit", "qemu-nbd"]),
            limit.map_or_else(String::new, |limit| figure(row, limit).3),
        );
    }
    let _infallible = write!(
        text,
        "\n{}. All figures, samples and commands are in [{directory}]({directory}/README.md). \
         To repeat it: `make bench-peers` (more than an hour, on a quiet machine).\n",
        bar_line(&run.bars, "[bars](bench/README.md#the-bars)"),
    );
    text
}

/// Puts a block between the markers of a text.
fn replace(text: &str, block: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{block}{END}{after}"))
}

/// The newest directory of a run that has a summary of this program's form: by its name, which begins with the day.
fn latest(out: &Path) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(out).map_err(Error::io(format!("cannot read {}", out.display())))?;
    let mut runs: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.join(CHART).exists()).collect();
    // A second run of a day has a number behind the same name, so it sorts behind it, up to the ninth.
    runs.sort();
    runs.pop().ok_or_else(|| Error::Options(format!("{} has no run with a chart", out.display())))
}

/// Rewrites the block of `readme` with the run in `run`, or with the latest one below `out`.
pub fn rewrite(readme: &Path, run: Option<&Path>, out: &Path) -> Result<PathBuf, Error> {
    let directory = run.map_or_else(|| latest(out), |run| Ok(run.to_owned()))?;
    let path = directory.join("summary.json");
    let text = fs::read_to_string(&path).map_err(Error::io(format!("cannot read {}", path.display())))?;
    let summarized: Summarized = serde_json::from_str(&text)
        .map_err(|error| Error::Options(format!("{} is not of this program: {error}", path.display())))?;
    let before =
        fs::read_to_string(readme).map_err(Error::io(format!("cannot read {}", readme.display())))?;
    let block = block(&summarized, &directory.display().to_string());
    let after = replace(&before, &block)
        .ok_or_else(|| Error::Options(format!("{} has no lines {BEGIN} and {END}", readme.display())))?;
    fs::write(readme, after).map_err(Error::io(format!("cannot write {}", readme.display())))?;
    Ok(directory)
}

/// The servers of a run by protocol, for people.
pub fn server_list(servers: &[Server]) -> String {
    servers.iter().fold(String::new(), |mut text, server| {
        let _infallible = writeln!(
            text,
            "- `{}` ({}): {}",
            server.name,
            server.protocol.title(),
            server.program.description()
        );
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::stats::Spread;

    #[test]
    fn what_was_set_of_the_machine_is_said() {
        for (fraction, said) in
            [(None, ""), (Some("0"), ""), (Some("20000"), ", vm.percpu_pagelist_high_fraction 20000")]
        {
            assert_eq!(short_lists(fraction), said);
        }
    }

    fn summary(row: &str, server: &str, iops: f64) -> Summary {
        let spread = |median| Spread { median, min: median, max: median };
        Summary {
            row: row.to_owned(),
            server: server.to_owned(),
            rounds: 1,
            iops: spread(iops),
            mib_per_s: spread(iops * 0.5),
            mean_us: spread(1e6 / iops),
            p99_us: None,
            p99_9_us: None,
            server_us: spread(1.5),
            client_us: spread(1.0),
            server_percent: 100.0,
            client_percent: 100.0,
            others_percent: 0.0,
            of_limit: None,
            warnings: Vec::new(),
        }
    }

    fn run() -> Summarized {
        Summarized {
            machine: Machine::read(Some("here")),
            rounds: 5,
            seconds: 2.0,
            summaries: vec![
                summary("4k-read", "fels-iscsi", 700_000.0),
                summary("4k-read", "tgt-rdwr", 50_000.0),
                summary("4k-read", "tgt-aio", 60_000.0),
                summary("4k-read", "limit", 900_000.0),
                summary("128k-read", "fels-iscsi", 16_384.0),
                summary("4k-read-d1", "fels-nbd", 100_000.0),
            ],
            facts: Vec::new(),
            ratios: Vec::new(),
            bars: Vec::new(),
            spinning: Vec::new(),
            apart: None,
            failures: Vec::new(),
        }
    }

    #[test]
    fn only_what_stands_between_the_markers_changes() {
        let text = format!("# A\n\n{BEGIN}\nold\n{END}\n\nrest\n");
        let new = replace(&text, "new\n").unwrap();
        assert_eq!(new, format!("# A\n\n{BEGIN}\nnew\n{END}\n\nrest\n"));
        assert_eq!(replace(&new, "new\n").unwrap(), new);
        assert!(replace("no markers", "new").is_none());
    }

    #[test]
    fn the_block_has_a_line_for_each_row_with_its_own_unit_and_the_best_peer() {
        let block = block(&run(), "bench/runs/x");
        let line = |start: &str| block.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert_eq!(
            line("| 4 KiB random read, depth 32 "),
            "| 4 KiB random read, depth 32 | 700 k (1.50 us) |  |  | tgt-aio: 60.0 k (1.50 us) |  | 900 k |"
        );
        assert!(line("| 128 KiB").contains("| 8.00 GiB/s (1.50 us) |"), "{block}");
        assert!(line("| 4 KiB random read, one").contains("| 10.0 us (1.50 us) |"), "{block}");
        assert!(block.contains("](bench/runs/x/chart.svg)"));
    }

    #[test]
    fn the_block_says_how_many_rounds_rows_of_large_requests_have() {
        for (large, said) in [(5, "of 5 rounds of 2 s"), (15, "of 5 rounds (15 of 128 KiB) of 2 s")] {
            let mut run = run();
            run.summaries
                .iter_mut()
                .for_each(|summary| summary.rounds = if summary.row == "128k-read" { large } else { 5 });
            let block = block(&run, "bench/runs/x");
            assert!(block.contains(said), "{block}");
        }
    }

    #[test]
    fn a_peer_over_nvme_has_its_own_column() {
        let mut run = run();
        run.summaries.push(summary("4k-read", NVME_PEER, 600_000.0));
        run.summaries.push(summary("4k-read", "spdk-iscsi", 500_000.0));
        let block = block(&run, "bench/runs/x");
        let table: Vec<&str> = block.lines().filter(|line| line.starts_with('|')).collect();
        let columns = |line: &str| line.matches('|').count();
        assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{block}");
        assert!(
            table[2].ends_with("| spdk-iscsi: 500 k (1.50 us) | spdk-nvme: 600 k (1.50 us) |  | 900 k |"),
            "{block}"
        );
    }

    #[test]
    fn the_chart_has_a_panel_for_each_row_and_a_bar_for_each_server() {
        let svg = chart(&run());
        assert_eq!(svg.matches("class=\"p\"").count(), 3);
        for (class, bars) in [("b0", 3), ("b1", 2), ("b2", 1)] {
            assert_eq!(svg.matches(&format!("<rect class=\"{class}\"")).count(), bars, "{class}");
        }
    }

    #[test]
    fn the_readme_is_rewritten_from_the_latest_run() {
        let out = std::env::temp_dir().join(format!("fels-bench-readme-{}", std::process::id()));
        for day in ["2026-11-20-a", "2026-11-21-a", "2026-11-22-old"] {
            fs::create_dir_all(out.join(day)).unwrap();
        }
        for day in ["2026-11-20-a", "2026-11-21-a"] {
            fs::write(out.join(day).join(CHART), "").unwrap();
            fs::write(out.join(day).join("summary.json"), serde_json::to_string(&run()).unwrap()).unwrap();
        }
        let readme = out.join("README.md");
        fs::write(&readme, format!("{BEGIN}\n{END}\n")).unwrap();
        let used = rewrite(&readme, None, &out).unwrap();
        assert!(used.ends_with("2026-11-21-a"), "{}", used.display());
        assert!(fs::read_to_string(&readme).unwrap().contains("700 k"));
        fs::write(&readme, "none").unwrap();
        assert!(rewrite(&readme, None, &out).is_err());
        fs::remove_dir_all(&out).unwrap();
    }
}
