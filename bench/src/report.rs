//! The report: a table to read, and everything to check it by.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bars::{Bar, bars};
use crate::cli::{Options, WARM_UP_S};
use crate::distance::Apart;
use crate::error::Error;
use crate::machine::Machine;
use crate::readme::{CHART, chart, server_list};
use crate::rows::{Row, rounds_text};
use crate::run::{Failure, Outcome};
use crate::server::{LIMIT_FILE, LIMIT_MEMORY, Server};
use crate::special::{FIO, VOLUME};
use crate::stats::{
    Fact, FactSummary, OTHERS_PERCENT, Ratio, Sample, Spread, Summary, ratio, summarize, summarize_facts,
};
use crate::table::table;

/// Prints the rows and servers that can be measured.
pub fn print_list(rows: &[Row], servers: &[Server]) {
    let cells = rows.iter().map(|row| vec![row.name.to_owned(), row.title.to_owned()]);
    print!("{}", table(&["row", "is"], cells));
    let cells = servers.iter().map(|server| vec![server.name.clone(), server.program.description()]);
    print!("\n{}", table(&["server", "is"], cells));
}

/// Which servers are compared with which: every Fels with the peers of its protocol and with another Fels binary.
fn pairs(servers: &[Server]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for server in servers.iter().filter(|server| server.ours) {
        let same = servers.iter().filter(|base| base.protocol == server.protocol);
        let bases = same.filter(|base| base.is_peer() || base.is_vs());
        pairs.extend(bases.map(|base| (server.name.clone(), base.name.clone())));
        pairs.push((server.name.clone(), FIO.to_owned()));
        pairs.push((server.name.clone(), LIMIT_MEMORY.to_owned()));
    }
    pairs.extend([VOLUME, LIMIT_FILE].map(|server| (server.to_owned(), FIO.to_owned())));
    pairs
}

/// The same for the bare program with memory: beside each bar is what that has.
fn bare_pairs(servers: &[Server]) -> Vec<(String, String)> {
    let peers = servers.iter().filter(|server| server.is_peer());
    peers.map(|peer| (LIMIT_MEMORY.to_owned(), peer.name.clone())).collect()
}

fn all_ratios(outcome: &Outcome, compared: &[(String, String)]) -> Vec<Ratio> {
    let of_row = |row: &Row| -> Vec<Ratio> {
        compared.iter().filter_map(|(server, base)| ratio(&outcome.samples, row.name, server, base)).collect()
    };
    outcome.rows.iter().flat_map(of_row).collect()
}

fn all_bars(outcome: &Outcome, summaries: &[Summary], facts: &[FactSummary], ratios: &[Ratio]) -> Vec<Bar> {
    let bare = all_ratios(outcome, &bare_pairs(&outcome.servers));
    bars(summaries, facts, &[ratios, &bare].concat())
}

fn all_summaries(outcome: &Outcome) -> Vec<Summary> {
    summarize(&outcome.samples, &outcome.rows, &outcome.server_names(), &outcome.limit_names())
}

/// The report as plain text.
pub fn text(outcome: &Outcome, options: &Options) -> String {
    let (summaries, ratios) = (all_summaries(outcome), all_ratios(outcome, &pairs(&outcome.servers)));
    let mut text = String::from("\n");
    if !summaries.is_empty() {
        text += &summary_table(&summaries);
    }
    let facts = summarize_facts(&outcome.facts);
    if !facts.is_empty() {
        text += "\n";
        text += &fact_table(&facts);
    }
    if !ratios.is_empty() {
        text += "\nMedians of the ratios within a round (smallest..largest); CPU is that of the server for each request\n\n";
        text += &ratio_table(&ratios);
        text += &verdicts(&ratios);
    }
    text += &spinning(&outcome.spinning);
    let bars = all_bars(outcome, &summaries, &facts, &ratios);
    if !bars.is_empty() {
        text += "\nBars (medians)\n\n";
        text += &bar_table(&bars);
    }
    text += &disturbed(&summaries);
    let warned: Vec<&Summary> = summaries.iter().filter(|summary| !summary.warnings.is_empty()).collect();
    if !warned.is_empty() {
        text += "\nWarnings\n\n";
        for summary in warned {
            let _infallible =
                writeln!(text, "  {} {}: {}", summary.row, summary.server, summary.warnings.join("; "));
        }
    }
    if !outcome.failures.is_empty() {
        text += "\nNOT MEASURED\n\n";
        for Failure { server, at, reason } in &outcome.failures {
            let _infallible = writeln!(text, "  {server}, {at}: {reason}");
        }
    }
    if outcome.interrupted {
        text += "\nINTERRUPTED: what follows from this run is incomplete.\n";
    }
    let _infallible = writeln!(
        text,
        "\nMedian (smallest..largest) of {} of {} s each. CPU us: time of all threads on a core, for each request, \
         in a span within the measurement.\nServer on core {}, clients on core {}; % are shares of one core. \
         \"of limit\": IOPS against the better of the bare programs in the same round, median. TCP congestion control: {}.",
        rounds(outcome, options),
        options.seconds(),
        options.server_core,
        options.client_core,
        outcome.machine.tcp_congestion_control,
    );
    text += &outcome.apart.map_or_else(String::new, |apart| apart.sentence() + "\n");
    text
}

/// Says what the CPU time of servers that spin does not say.
fn spinning(servers: &[String]) -> String {
    if servers.is_empty() {
        return String::new();
    }
    format!(
        "\nSPINNING: {}. Such a server uses its core whether or not anything is asked of it: its CPU us are the time of a core for \
         each request, which compares at depth 32, and is mostly waiting one at a time. That its core is full does not \
         say that it is the limit where the client's is full as well.\n",
        servers.join(", ")
    )
}

/// Says in one sentence how much other programs took part.
fn disturbed(summaries: &[Summary]) -> String {
    let others = || summaries.iter().map(|summary| summary.others_percent);
    let count = others().filter(|percent| *percent >= OTHERS_PERCENT).count();
    let most = others().fold(0.0, f64::max);
    if count == 0 {
        return String::new();
    }
    format!(
        "\nDISTURBED: in {count} of {} figures other programs used {OTHERS_PERCENT:.0} % of a core or more, {most:.0} % at \
         most: measure again on a quiet machine.\n",
        summaries.len()
    )
}

fn verdicts(ratios: &[Ratio]) -> String {
    let mut text = String::from("\n");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for ratio in ratios {
        let pair = (ratio.server.as_str(), ratio.base.as_str());
        if seen.contains(&pair) {
            continue;
        }
        seen.push(pair);
        let of_pair = || ratios.iter().filter(|other| (other.server.as_str(), other.base.as_str()) == pair);
        let count = |verdict: &str| of_pair().filter(|other| other.verdict() == verdict).count();
        let _infallible = writeln!(
            text,
            "  {} to {}: ahead in every round of {} of {} rows, even in {}, behind in {}; less CPU for each request in {}",
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

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn summary_table(summaries: &[Summary]) -> String {
    let cells = summaries.iter().map(|summary| {
        vec![
            summary.row.clone(),
            summary.server.clone(),
            format!("{:.0}", summary.iops.median),
            range(summary.iops, 0),
            format!("{:.0}", summary.mib_per_s.median),
            format!("{:.1}", summary.mean_us.median),
            optional(summary.p99_us.map(|spread| spread.median), 0),
            format!("{:.2}", summary.server_us.median),
            range(summary.server_us, 2),
            format!("{:.2}", summary.client_us.median),
            format!("{:.0}", summary.server_percent),
            format!("{:.0}", summary.client_percent),
            format!("{:.0}", summary.others_percent),
            optional(summary.of_limit, 2),
        ]
    });
    let head = [
        "row",
        "server",
        "IOPS",
        "",
        "MiB/s",
        "mean us",
        "99% us",
        "server CPU us",
        "",
        "client CPU us",
        "server %",
        "client %",
        "others %",
        "of limit",
    ];
    table(&head, cells)
}

pub fn bar_table(bars: &[Bar]) -> String {
    let cells = bars.iter().map(|bar| {
        let is_fine = !format!("{:.3}", bar.wanted).ends_with('0');
        let digits = if bar.unit == "k" { 0 } else { 2 + usize::from(is_fine) };
        vec![
            bar.row.clone(),
            bar.server.clone(),
            bar.what.clone(),
            format!("{:.digits$}", bar.reached),
            if bar.at_most { "<=" } else { ">=" }.to_owned(),
            format!("{:.digits$}", bar.wanted),
            bar.unit.clone(),
            optional(bar.bare, digits),
            match (bar.met(), bar.missed_by_both()) {
                (true, _) => "met",
                (false, false) => "NOT MET",
                (false, true) => "NOT MET, nor there",
            }
            .to_owned(),
        ]
    });
    let beside = if bars.iter().any(|bar| bar.bare.is_some()) { "bare" } else { "" };
    table(&["row", "server", "", "reached", "", "wanted", "", beside, ""], cells)
        + &format!("\n  {}\n", bar_line(bars, "bars"))
}

/// How many of them are met, and how many the bare program does not meet either. `name` is what they are called.
pub fn bar_line(bars: &[Bar], name: &str) -> String {
    let count = |which: fn(&Bar) -> bool| bars.iter().filter(|bar| which(bar)).count();
    let met = format!("{} of {} {name} are met", count(Bar::met), bars.len());
    match count(Bar::missed_by_both) {
        0 => met,
        beyond => format!("{met}; {beyond} more are not met by a bare program either"),
    }
}

fn fact_table(facts: &[FactSummary]) -> String {
    let cells = facts.iter().map(|fact| {
        vec![
            fact.row.clone(),
            fact.server.clone(),
            fact.what.clone(),
            format!("{:.2}", fact.value.median),
            fact.unit.clone(),
            range(fact.value, 2),
        ]
    });
    table(&["row", "server", "figure", "median", "", ""], cells)
}

fn ratio_table(ratios: &[Ratio]) -> String {
    let cells = ratios.iter().map(|ratio| {
        vec![
            ratio.row.clone(),
            format!("{} / {}", ratio.server, ratio.base),
            format!("{:.2}", ratio.iops.median),
            range(ratio.iops, 2),
            optional(ratio.server_us.map(|spread| spread.median), 2),
            ratio.server_us.map_or_else(String::new, |spread| range(spread, 2)),
            format!("{:.2}", ratio.mean_us.median),
            ratio.verdict().to_owned(),
            if ratio.client_limited { "client is the limit" } else { "" }.to_owned(),
        ]
    });
    table(&["row", "servers", "IOPS", "", "CPU", "", "mean", "", ""], cells)
}

#[derive(Serialize)]
struct Raw<'a> {
    machine: &'a Machine,
    rows: &'a [Row],
    rounds: u32,
    seconds: f64,
    volume_mib: u64,
    interrupted: bool,
    samples: &'a [Sample],
    facts: &'a [Fact],
    failures: &'a [Failure],
}

/// What `summary.json` holds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Summarized {
    /// The machine.
    pub machine: Machine,
    /// Rounds of each row.
    pub rounds: u32,
    /// Seconds of each round.
    pub seconds: f64,
    /// Of each row and server.
    pub summaries: Vec<Summary>,
    /// Figures that are not of a load.
    pub facts: Vec<FactSummary>,
    /// Of Fels to the others.
    pub ratios: Vec<Ratio>,
    /// What was to be reached.
    pub bars: Vec<Bar>,
    /// Servers that use their core whether or not anything is asked of them.
    #[serde(default)]
    pub spinning: Vec<String>,
    /// How far the cores of servers and clients were apart; earlier runs did not look.
    #[serde(default)]
    pub apart: Option<Apart>,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

fn summarized(outcome: &Outcome, options: &Options) -> Summarized {
    let (summaries, facts, ratios) = (
        all_summaries(outcome),
        summarize_facts(&outcome.facts),
        all_ratios(outcome, &pairs(&outcome.servers)),
    );
    let bars = all_bars(outcome, &summaries, &facts, &ratios);
    Summarized {
        machine: outcome.machine.clone(),
        rounds: options.rounds(),
        seconds: options.seconds(),
        summaries,
        facts,
        ratios,
        bars,
        spinning: outcome.spinning.clone(),
        apart: outcome.apart,
        failures: outcome.failures.clone(),
    }
}

/// Writes README.md, raw.json, summary.json and the chart into a new directory and returns its path.
pub fn keep(outcome: &Outcome, options: &Options) -> Result<PathBuf, Error> {
    let directory = new_directory(&options.out, &outcome.machine)?;
    let raw = Raw {
        machine: &outcome.machine,
        rows: &outcome.rows,
        rounds: options.rounds(),
        seconds: options.seconds(),
        volume_mib: options.size,
        interrupted: outcome.interrupted,
        samples: &outcome.samples,
        facts: &outcome.facts,
        failures: &outcome.failures,
    };
    write(&directory.join("raw.json"), &json(&raw)?)?;
    let summarized = summarized(outcome, options);
    write(&directory.join("summary.json"), &json(&summarized)?)?;
    write(&directory.join(CHART), &chart(&summarized))?;
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

/// The directory of the latest run of this day and machine, if there is one.
pub fn latest_directory(out: &Path, machine: &Machine) -> Option<PathBuf> {
    let name = machine.run_name();
    let there = (1..1000).map(|number| out.join(numbered(&name, number)));
    there.take_while(|path| path.is_dir()).last()
}

fn numbered(name: &str, number: u32) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

/// `<date>-<label>`, with a number appended when there is one of that name already.
pub fn new_directory(out: &Path, machine: &Machine) -> Result<PathBuf, Error> {
    let name = machine.run_name();
    fs::create_dir_all(out).map_err(Error::io(format!("cannot make {}", out.display())))?;
    for number in 1..1000 {
        let path = out.join(numbered(&name, number));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io(format!("cannot make {}", path.display()))(error)),
        }
    }
    Err(Error::Options(format!("{} holds a thousand runs of {name}; use --out", out.display())))
}

/// How many rounds were measured.
fn rounds(outcome: &Outcome, options: &Options) -> String {
    let large = outcome.rows.iter().find(|row| row.is_large());
    rounds_text(options.rounds(), large.map_or(options.rounds(), |row| options.rounds_of(row)))
}

fn readme(outcome: &Outcome, options: &Options) -> String {
    let machine = &outcome.machine;
    let mut text = format!("# Side by side, {}, {}\n\n", machine.date, machine.label);
    let _infallible = write!(
        text,
        "Volumes of {} MiB in memory, written once before measuring. The servers alternate within every round; {} of \
         {} s, each after {} s of warm-up.\n\n",
        options.size,
        rounds(outcome, options),
        options.seconds(),
        WARM_UP_S,
    );
    text += &server_list(&outcome.servers);
    text += "\nThe client is `fels lab run` with its initiator for the protocol, but in the rows that are named after another one.\n\n\
             ## Machine\n\n| what | is |\n|---|---|\n";
    let mut fact = |name: &str, value: &str| {
        let _infallible = writeln!(text, "| {name} | {} |", value.replace('\n', " ").replace('|', "\\|"));
    };
    fact("CPU", &format!("{}, {} cores", machine.cpu, machine.cores));
    fact("hypervisor", machine.hypervisor.as_deref().unwrap_or("none"));
    fact("kernel", &machine.kernel);
    fact("memory", &format!("{} MiB", machine.memory_mib));
    fact("net.ipv4.tcp_congestion_control", &machine.tcp_congestion_control);
    if let Some(fraction) = &machine.page_lists {
        fact("vm.percpu_pagelist_high_fraction", fraction);
    }
    fact("commit", &machine.commit);
    for (program, version) in &machine.versions {
        fact(program, version);
    }
    let _infallible = write!(
        text,
        "\n## Result\n\n![a bar for each row and server]({CHART})\n\n```\n{}\n```\n",
        self::text(outcome, options).trim()
    );
    let _infallible =
        write!(text, "\n## Repeat\n\n```\nmake bench-peers BENCH_FLAGS='{}'\n```\n", repeat_flags(options));
    text += "\nThe commands that were run (`$WORK` is a directory on tmpfs):\n\n```\n";
    text += &outcome.commands.join("\n");
    text += "\n```\n\nEvery sample is in `raw.json`, medians, spreads and ratios in `summary.json`.\n";
    text
}

/// The flags that repeat this run, without those that are at their default.
fn repeat_flags(options: &Options) -> String {
    let mut flags = Vec::new();
    if !options.servers.is_empty() {
        flags.push(format!("--servers {}", options.servers.join(",")));
    }
    if !options.rows.is_empty() {
        flags.push(format!("--rows {}", options.rows.join(",")));
    }
    if let Some(other) = &options.vs {
        flags.push(format!("--vs {}", other.display()));
    }
    for beside in &options.beside {
        // The process is another one next time.
        let given = beside.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(',')?.1)));
        flags.extend(given.map(|(name, url)| format!("--beside {name}=PID,{url}")));
    }
    if let Some(other) = &options.client {
        flags.push(format!("--client {}", other.display()));
    }
    if let Some(name) = &options.set_congestion_control {
        flags.push(format!("--set-congestion-control {name}"));
    }
    if let Some(fraction) = options.set_page_lists {
        flags.push(format!("--set-page-lists {fraction}"));
    }
    if let Some(span) = &options.disk_busy_poll {
        flags.push(format!("--disk-busy-poll {span}"));
    }
    let (rounds, seconds, size) = (options.rounds(), options.seconds(), options.size);
    flags.push(format!("--rounds {rounds} --seconds {seconds} --size {size}"));
    flags.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

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

    const BESIDE: &str = "spdk-nvme=77,nvme://127.0.0.1:22042/nqn.2026-11.internal.x:malloc/1";

    #[test]
    fn a_server_that_ran_already_is_compared_with_what_speaks_the_same() {
        let mut servers = Server::parse_all(&["fels".to_owned()], Path::new("fels"), None).unwrap();
        servers.extend(Server::beside(&[BESIDE.to_owned()]).unwrap());
        let with = |base: &str| pairs(&servers).into_iter().filter(|pair| pair.1 == base).collect::<Vec<_>>();
        assert_eq!(with("spdk-nvme"), [("fels-nvme".to_owned(), "spdk-nvme".to_owned())]);
    }

    #[test]
    fn a_run_is_repeated_with_another_process() {
        let options = Options::parse_from(["bench", "--beside", BESIDE]);
        let flags = repeat_flags(&options);
        assert!(flags.contains("--beside spdk-nvme=PID,nvme://127.0.0.1:22042/"), "{flags}");
        assert!(!flags.contains("77"), "{flags}");
    }

    #[test]
    fn servers_that_spin_are_named_and_only_they() {
        assert_eq!(spinning(&[]), "");
        assert!(spinning(&["spdk-nvme".to_owned()]).contains("SPINNING: spdk-nvme."));
    }

    #[test]
    fn fels_is_compared_with_what_speaks_the_same_and_with_the_limit_from_memory() {
        let names: Vec<String> = crate::server::SERVERS.iter().map(|&name| name.to_owned()).collect();
        let servers = Server::parse_all(&names, Path::new("fels"), None).unwrap();
        let pairs: Vec<String> =
            pairs(&servers).iter().map(|(one, other)| format!("{one} {other}")).collect();
        assert_eq!(
            pairs,
            [
                "fels-iscsi tgt-rdwr",
                "fels-iscsi tgt-aio",
                "fels-iscsi istgt",
                "fels-iscsi istgt-queue",
                "fels-iscsi fio",
                "fels-iscsi limit-memory",
                "fels-nvme fio",
                "fels-nvme limit-memory",
                "fels-nbd nbdkit",
                "fels-nbd qemu-nbd",
                "fels-nbd fio",
                "fels-nbd limit-memory",
                "fels-volume fio",
                "limit-file fio"
            ]
        );
    }
}
