//! The bars: what is to be reached, and whether this run reached it.

use serde::{Deserialize, Serialize};

use crate::rows::{Client, Kind, ROWS};
use crate::server::{LIMIT_FILE, LIMIT_MEMORY};
use crate::special::{FIO, VOLUME};
use crate::stats::{FactSummary, Ratio, Summary};

/// One thing to be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Name of the row.
    pub row: String,
    /// Name of the server.
    pub server: String,
    /// What is compared.
    pub what: String,
    /// What was reached; the median.
    pub reached: f64,
    /// What is wanted.
    pub wanted: f64,
    /// Whether less is better.
    pub at_most: bool,
    /// The unit; empty for a ratio.
    pub unit: String,
    /// What the bare program with memory of the size of a volume reached, where it was asked the same; of a file, the one
    /// with that file.
    #[serde(default)]
    pub bare: Option<f64>,
}

impl Bar {
    /// Whether it was reached.
    pub fn met(&self) -> bool {
        self.holds(self.reached)
    }

    /// Whether it was reached neither here nor by the bare program.
    pub fn missed_by_both(&self) -> bool {
        !self.met() && self.bare.is_some_and(|bare| !self.holds(bare))
    }

    fn holds(&self, figure: f64) -> bool {
        if self.at_most { figure <= self.wanted } else { figure >= self.wanted }
    }
}

/// What is read from the summary of a row.
#[derive(Clone, Copy)]
enum Figure {
    ThousandIops,
    ServerUs,
    GibPerS,
    MeanUs,
}

const PROTOCOLS: [&str; 3] = ["fels-iscsi", "fels-nvme", "fels-nbd"];
/// The servers that the figures are also held against, in the same run, for each protocol. SPDK's run already if they do at
/// all, and were given by these names.
const PEERS: [&str; 3] = ["spdk-iscsi", "spdk-nvme", "nbdkit"];

/// A figure for iSCSI, NVMe/TCP and NBD: what is wanted on the machine of these figures, and what the peer reached there.
/// On another machine it is the same part of what the peer reaches that counts. The peers' figures are those that were not
/// held back by BBR.
struct Absolute {
    row: &'static str,
    figure: Figure,
    wanted: [f64; 3],
    peer: [f64; 3],
}

#[rustfmt::skip]
const ABSOLUTE: &[Absolute] = &[
    Absolute { row: "4k-read", figure: Figure::ThousandIops, wanted: [700.0, 720.0, 600.0], peer: [664.0, 678.0, 127.0] },
    Absolute { row: "4k-read", figure: Figure::ServerUs, wanted: [1.43, 1.4, 1.6], peer: [1.51, 1.47, 7.6] },
    Absolute { row: "4k-write", figure: Figure::ThousandIops, wanted: [750.0, 780.0, 600.0], peer: [729.0, 767.0, 149.0] },
    // Of nbdkit that of one session, as there is none of four.
    Absolute { row: "4k-read-4x32", figure: Figure::ThousandIops, wanted: [780.0, 880.0, 650.0], peer: [752.0, 860.0, 127.0] },
    Absolute { row: "database", figure: Figure::ThousandIops, wanted: [580.0, 550.0, 450.0], peer: [474.0, 522.0, 132.0] },
    Absolute { row: "128k-read", figure: Figure::GibPerS, wanted: [8.0, 8.8, 8.0], peer: [5.5, 8.6, 4.5] },
    Absolute { row: "128k-write", figure: Figure::GibPerS, wanted: [7.0, 9.0, 8.0], peer: [5.8, 8.8, 6.2] },
    Absolute { row: "4k-read-d1", figure: Figure::MeanUs, wanted: [18.0, 9.0, 18.0], peer: [22.4, 9.3, 57.0] },
];
/// Against tgt with its default backing store, of IOPS.
const TGT: (&str, f64) = ("tgt-rdwr", 13.0);
/// Against the better of the NBD servers of others, of CPU time for each request.
const NBD_CPU: f64 = 0.25;
/// Against the limit of the loopback.
const OF_LIMIT: f64 = 0.95;
/// Against fio on the same file.
const OF_FIO: f64 = 0.95;
/// Figures that are no loads: of which row, what, at least.
const AT_LEAST: &[(&str, &str, f64)] = &[("lab", "IOPS of a core", 1500.0)];
/// As those, at most.
const AT_MOST: &[(&str, &str, f64)] = &[
    ("tail", "99.9 % / mean", 5.0),
    ("shards", "CPU of two shards / one", 1.15),
    ("idle", "CPU", 0.5),
    ("idle", "memory of a session", 64.0),
    ("monitoring", "IOPS lost", 2.0),
    ("monitoring", "more CPU for each request", 2.0),
    ("monitoring", "core of what watches", 2.0),
    ("start", "time", 5.0),
];

fn figure(summary: &Summary, figure: Figure) -> (f64, &'static str, &'static str, bool) {
    match figure {
        Figure::ThousandIops => (summary.iops.median / 1e3, "IOPS", "k", false),
        Figure::ServerUs => (summary.server_us.median, "server CPU", "us", true),
        Figure::GibPerS => (summary.mib_per_s.median / 1024.0, "throughput", "GiB/s", false),
        Figure::MeanUs => (summary.mean_us.median, "mean latency", "us", true),
    }
}

/// What a ratio says of such a figure.
fn share(ratio: &Ratio, figure: Figure) -> Option<f64> {
    match figure {
        Figure::ThousandIops | Figure::GibPerS => Some(ratio.iops.median),
        Figure::ServerUs => ratio.server_us.as_ref().map(|spread| spread.median),
        Figure::MeanUs => Some(ratio.mean_us.median),
    }
}

/// The bars of what is on a file: with a network, beside what the bare program with that file has, and without one.
fn of_fio(ratios: &[Ratio]) -> impl Iterator<Item = Bar> {
    let iops = |row: &str, server: &str| {
        let same = |ratio: &&Ratio| ratio.row == row && ratio.server == server && ratio.base == FIO;
        ratios.iter().find(same).map(|ratio| ratio.iops.median)
    };
    let ours = ratios.iter().filter(|ratio| ratio.base == FIO && ratio.server != LIMIT_FILE);
    ours.map(move |ratio| Bar {
        row: ratio.row.clone(),
        server: ratio.server.clone(),
        what: "IOPS / fio".to_owned(),
        reached: ratio.iops.median,
        wanted: OF_FIO,
        at_most: false,
        unit: String::new(),
        bare: iops(&ratio.row, LIMIT_FILE).filter(|_| ratio.server != VOLUME),
    })
}

/// Every bar that this run has figures for: loads, files, what is no load; each in the order of the rows.
pub fn bars(summaries: &[Summary], facts: &[FactSummary], ratios: &[Ratio]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let find = |row: &str, server: &str| {
        summaries.iter().find(|summary| summary.row == row && summary.server == server)
    };
    let is_load = |name: &str| {
        ROWS.iter().any(|row| row.name == name && row.kind == Kind::Closed && row.client == Client::Lab)
    };
    for summary in summaries.iter().filter(|summary| PROTOCOLS.contains(&summary.server.as_str())) {
        let bar = |what: &str, reached, wanted, at_most, unit: &str, bare| Bar {
            row: summary.row.clone(),
            server: summary.server.clone(),
            what: what.to_owned(),
            reached,
            wanted,
            at_most,
            unit: unit.to_owned(),
            bare,
        };
        let bare = find(&summary.row, LIMIT_MEMORY);
        let protocol = PROTOCOLS.iter().position(|name| *name == summary.server).unwrap_or_default();
        let ratio_of = |server: &str, base: &str| {
            ratios
                .iter()
                .find(|ratio| ratio.row == summary.row && ratio.server == server && ratio.base == base)
        };
        let own = |base: &str| ratio_of(&summary.server, base);
        let bare_of = |base: &str, of: Figure| share(ratio_of(LIMIT_MEMORY, base)?, of);
        for absolute in ABSOLUTE.iter().filter(|absolute| absolute.row == summary.row) {
            let (reached, what, unit, at_most) = figure(summary, absolute.figure);
            let wanted = absolute.wanted[protocol];
            bars.push(bar(
                what,
                reached,
                wanted,
                at_most,
                unit,
                bare.map(|bare| figure(bare, absolute.figure).0),
            ));
            let peer = PEERS[protocol];
            if let Some(reached) = own(peer).and_then(|ratio| share(ratio, absolute.figure)) {
                let (what, wanted) = (format!("{what} / {peer}"), wanted / absolute.peer[protocol]);
                bars.push(bar(&what, reached, wanted, at_most, "", bare_of(peer, absolute.figure)));
            }
        }
        if let Some(of_limit) = summary.of_limit.filter(|_| is_load(&summary.row)) {
            let bare = bare.and_then(|bare| bare.of_limit);
            bars.push(bar("IOPS / limit", of_limit, OF_LIMIT, false, "", bare));
        }
        if !["4k-read", "4k-write"].contains(&summary.row.as_str()) {
            continue;
        }
        if let Some(ratio) = own(TGT.0) {
            let bare = bare_of(TGT.0, Figure::ThousandIops);
            bars.push(bar("IOPS / tgt-rdwr", ratio.iops.median, TGT.1, false, "", bare));
        }
        // The better peer is the one to which our share is the larger one.
        let others = ["nbdkit", "qemu-nbd"];
        let cpu = others.iter().filter_map(|base| Some(own(base)?.server_us?.median));
        if let Some(worst) = cpu.reduce(f64::max) {
            let bare = others.iter().filter_map(|base| bare_of(base, Figure::ServerUs)).reduce(f64::max);
            bars.push(bar("server CPU / better of nbdkit, qemu-nbd", worst, NBD_CPU, true, "", bare));
        }
    }
    bars.extend(of_fio(ratios));
    let bare = |fact: &FactSummary| {
        let same = |other: &&FactSummary| {
            other.server == LIMIT_MEMORY && (&other.row, &other.what) == (&fact.row, &fact.what)
        };
        facts.iter().find(same).map(|other| other.value.median)
    };
    for fact in facts.iter().filter(|fact| fact.server.starts_with("fels")) {
        for (list, at_most) in [(AT_LEAST, false), (AT_MOST, true)] {
            let wanted = list.iter().find(|(row, what, _)| *row == fact.row && *what == fact.what);
            bars.extend(wanted.map(|(_, _, wanted)| Bar {
                row: fact.row.clone(),
                server: fact.server.clone(),
                what: fact.what.clone(),
                reached: fact.value.median,
                wanted: *wanted,
                at_most,
                unit: fact.unit.clone(),
                bare: bare(fact),
            }));
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    fn spread(median: f64) -> Spread {
        Spread { median, min: median, max: median }
    }

    fn summary(row: &str, server: &str, iops: f64, server_us: f64, of_limit: Option<f64>) -> Summary {
        Summary {
            row: row.to_owned(),
            server: server.to_owned(),
            rounds: 1,
            iops: spread(iops),
            mib_per_s: spread(iops / 256.0),
            mean_us: spread(10.0),
            p99_us: None,
            p99_9_us: None,
            server_us: spread(server_us),
            client_us: spread(1.0),
            server_percent: 100.0,
            client_percent: 100.0,
            others_percent: 0.0,
            of_limit,
            warnings: Vec::new(),
        }
    }

    fn ratio(server: &str, base: &str, iops: f64, server_us: f64) -> Ratio {
        Ratio {
            row: "4k-read".to_owned(),
            server: server.to_owned(),
            base: base.to_owned(),
            iops: spread(iops),
            server_us: Some(spread(server_us)),
            mean_us: spread(1.0),
            client_limited: false,
        }
    }

    fn met(bars: &[Bar]) -> Vec<(&str, bool)> {
        bars.iter().map(|bar| (bar.what.as_str(), bar.met())).collect()
    }

    #[test]
    fn each_protocol_has_its_own_bar() {
        let of = |server| bars(&[summary("4k-read", server, 650_000.0, 1.5, Some(0.96))], &[], &[]);
        assert_eq!(met(&of("fels-iscsi")), [("IOPS", false), ("server CPU", false), ("IOPS / limit", true)]);
        assert_eq!(met(&of("fels-nbd")), [("IOPS", true), ("server CPU", true), ("IOPS / limit", true)]);
        assert!(of("nbdkit").is_empty());
    }

    #[test]
    fn the_better_peer_is_the_one_that_counts() {
        let summaries = [summary("4k-read", "fels-nbd", 1e6, 1.0, None)];
        let ratios = [ratio("fels-nbd", "nbdkit", 9.0, 0.3), ratio("fels-nbd", "qemu-nbd", 9.0, 0.1)];
        let bars = bars(&summaries, &[], &ratios);
        let bar = bars.last().unwrap();
        assert!((bar.reached - 0.3).abs() < 1e-9 && !bar.met(), "{bar:?}");
    }

    #[test]
    fn thirteen_times_tgt_is_of_its_default() {
        let summaries = [summary("4k-read", "fels-iscsi", 1e6, 1.0, None)];
        let ratios = [ratio("fels-iscsi", "tgt-aio", 9.0, 0.3), ratio("fels-iscsi", "tgt-rdwr", 13.0, 0.1)];
        assert_eq!(met(&bars(&summaries, &[], &ratios))[2], ("IOPS / tgt-rdwr", true));
    }

    #[test]
    fn the_same_part_of_the_peer_counts_on_another_machine() {
        let of = |row: &str, server: &str, base: &str, iops| {
            let summaries = [summary(row, server, 1e6, 1.0, None)];
            let bars =
                bars(&summaries, &[], &[Ratio { row: row.to_owned(), ..ratio(server, base, iops, 0.9) }]);
            let found =
                bars.iter().filter(|bar| bar.what.ends_with(base)).map(|bar| (bar.what.clone(), bar.met()));
            found.collect::<Vec<_>>()
        };
        let spdk = |what: &str, met| (format!("{what} / spdk-nvme"), met);
        // 550 of 522 thousand, 1.4 of 1.47 us, 9 of 9.3 us, and of a mean that is the same.
        assert_eq!(of("database", "fels-nvme", "spdk-nvme", 1.05), [spdk("IOPS", false)]);
        assert_eq!(of("database", "fels-nvme", "spdk-nvme", 1.06), [spdk("IOPS", true)]);
        assert_eq!(
            of("4k-read", "fels-nvme", "spdk-nvme", 1.05),
            [spdk("IOPS", false), spdk("server CPU", true)]
        );
        assert_eq!(of("4k-read-d1", "fels-nvme", "spdk-nvme", 9.0), [spdk("mean latency", false)]);
        assert_eq!(of("128k-read", "fels-nbd", "nbdkit", 1.8), [("throughput / nbdkit".to_owned(), true)]);
        assert!(of("tail", "fels-nvme", "spdk-nvme", 2.0).is_empty());
        // A peer of another protocol is none.
        assert!(of("database", "fels-iscsi", "spdk-nvme", 2.0).is_empty());
    }

    #[test]
    fn beside_each_bar_is_what_the_bare_program_reached() {
        let summaries = [
            summary("4k-read", "fels-iscsi", 5e5, 2.0, Some(0.5)),
            summary("4k-read", "spdk-iscsi", 5e5, 2.0, Some(0.5)),
            summary("4k-read", "limit-memory", 6e5, 1.4, Some(0.96)),
        ];
        let fact = |server: &str, value| FactSummary {
            row: "tail".to_owned(),
            server: server.to_owned(),
            what: "99.9 % / mean".to_owned(),
            unit: String::new(),
            value: spread(value),
        };
        let facts = [fact("fels-iscsi", 20.0), fact("limit-memory", 30.0)];
        let ratios =
            [ratio("fels-iscsi", "spdk-iscsi", 1.0, 1.0), ratio("limit-memory", "spdk-iscsi", 1.2, 0.7)];
        let bars = bars(&summaries, &facts, &ratios);
        let found: Vec<_> =
            bars.iter().map(|bar| (bar.what.as_str(), bar.bare.unwrap(), bar.missed_by_both())).collect();
        let expected = [
            ("IOPS", 600.0, true),
            ("IOPS / spdk-iscsi", 1.2, false),
            ("server CPU", 1.4, false),
            ("server CPU / spdk-iscsi", 0.7, false),
            ("IOPS / limit", 0.96, false),
            ("99.9 % / mean", 30.0, true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_volume_alone_is_held_against_fio_as_well() {
        let summaries = [summary("file-4k-read", "fels-nbd", 9e4, 1.0, None)];
        let of = |server, iops| Ratio { row: "file-4k-read".to_owned(), ..ratio(server, "fio", iops, 1.0) };
        let ratios = [of("fels-nbd", 0.94), of("fels-volume", 0.95), of("limit-file", 0.9)];
        let bars = bars(&summaries, &[], &ratios);
        let found: Vec<_> = bars.iter().map(|bar| (bar.server.as_str(), bar.met(), bar.bare)).collect();
        assert_eq!(found, [("fels-nbd", false, Some(0.9)), ("fels-volume", true, None)]);
        assert!(bars[0].missed_by_both() && bars.iter().all(|bar| bar.what == "IOPS / fio"));
    }

    #[test]
    fn figures_that_are_no_loads_have_bars_by_name() {
        let fact = |row: &str, server: &str, what: &str, value| FactSummary {
            row: row.to_owned(),
            server: server.to_owned(),
            what: what.to_owned(),
            unit: String::new(),
            value: spread(value),
        };
        let facts = [
            fact("idle", "fels-nvme", "CPU", 0.6),
            fact("idle", "fels-nvme", "memory of a session", 30.0),
            fact("start", "fels", "memory of a volume", 30.0),
            fact("tail", "tgt-rdwr", "99.9 % / mean", 30.0),
            fact("lab", "fels", "IOPS of a core", 1400.0),
        ];
        let wanted = [("CPU", false), ("memory of a session", true), ("IOPS of a core", false)];
        assert_eq!(met(&bars(&[], &facts, &[])), wanted);
    }

    #[test]
    fn bars_name_rows_that_are_there() {
        let facts = AT_LEAST.iter().chain(AT_MOST).map(|(row, ..)| *row);
        let names = ABSOLUTE.iter().map(|absolute| absolute.row).chain(facts);
        for name in names {
            assert!(ROWS.iter().any(|row| row.name == name), "{name}");
        }
    }
}
