//! What checksums cost those who come over a network: the same pool with and without, each served by a process of its own on the
//! core of the servers, with the lab as their client on another core.

use lab::pool::PoolSpec;
use plane::pool::Level;
use serde::Serialize;

use super::INTEGRITY;
use crate::bars::Bar;
use crate::cli::PoolsOptions;
use crate::client::{Clients, Request, Window};
use crate::cpu::ticks_per_second;
use crate::distance::{Distance, PATIENCE};
use crate::error::Error;
use crate::process::Interrupt;
use crate::rows::Load;
use crate::run::in_turn;
use crate::server::{Backing, FelsOptions, Monitoring, Place, Program, Protocol, Running, start_fels};
use crate::stats::{Spread, float};
use crate::work::Work;

/// Seconds before a measurement.
const WARM_UP_S: f64 = 0.3;
/// The levels that are served: one that copies, and the one that computes most.
const LEVELS: [Level; 2] = [Level::Raid10, Level::Raid6];
/// What they are served over.
const PROTOCOLS: [(Protocol, &str); 2] = [(Protocol::Nbd, "nbd"), (Protocol::Nvme, "nvme")];
/// What is asked of them.
const LOADS: [(&str, Load); 4] = [
    ("4k-read", load(100, true, 4096)),
    ("4k-write", load(0, true, 4096)),
    ("128k-read", load(100, false, 128 << 10)),
    ("128k-write", load(0, false, 128 << 10)),
];

const fn load(read_percent: u8, random: bool, request_bytes: u32) -> Load {
    Load { read_percent, random, request_bytes, depth: 32, sessions: 1 }
}

/// One row: a pool without checksums and the same one with, over a protocol, under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    level: Level,
    protocol: (Protocol, &'static str),
    load: (&'static str, Load),
}

impl Row {
    fn load_name(&self) -> String {
        format!("{} {}", self.protocol.1, self.load.0)
    }

    fn name(&self) -> String {
        format!("{} {}", self.load_name(), self.contenders().join(" / "))
    }

    /// The base, and the one that is held against it.
    fn contenders(&self) -> [String; 2] {
        [format!("{} plain", self.level), self.level.to_string()]
    }
}

/// The rows that are asked for, those of a level one behind the other. A first look has one level.
fn rows(options: &PoolsOptions) -> Vec<Row> {
    let levels = if options.quick { &LEVELS[1..] } else { &LEVELS[..] };
    let mut rows = Vec::new();
    for level in levels {
        for protocol in PROTOCOLS {
            rows.extend(LOADS.map(|load| Row { level: *level, protocol, load }));
        }
    }
    let wanted = |row: &Row| options.rows.iter().any(|part| row.name().contains(part.as_str()));
    rows.retain(|row| options.rows.is_empty() || wanted(row));
    rows
}

/// Whether anything is to be served.
pub fn is_wanted(options: &PoolsOptions) -> bool {
    !rows(options).is_empty()
}

/// One contender of a row, over all rounds.
#[derive(Debug, Serialize)]
pub struct Served {
    /// Protocol and load.
    pub load: String,
    /// Who was measured.
    pub contender: String,
    /// Whom it is held against.
    pub base: String,
    /// Requests a second.
    pub iops: Spread,
    /// MiB a second.
    pub mib_per_s: Spread,
    /// Processor time of the server for each request, in microseconds.
    pub server_us: Spread,
    /// Requests a second of the base's, round by round; the base has none.
    pub ratio: Option<Spread>,
    /// The base's processor time for each request divided by its own, round by round.
    pub cpu_ratio: Option<Spread>,
    /// How much of its core the server used, in percent; the median.
    pub server_percent: f64,
    /// How much of its core the client used.
    pub client_percent: f64,
    /// What everything else on the machine used, in percent of a core.
    pub others_percent: f64,
    /// Requests a second of every round.
    pub samples: Vec<f64>,
}

impl Served {
    /// What is left with checksums, and what is to be.
    pub fn bar(&self) -> Option<Bar> {
        let ratio = self.ratio.as_ref()?;
        Some(Bar {
            row: self.load.clone(),
            server: self.contender.clone(),
            what: format!("of {}", self.base),
            reached: ratio.median,
            wanted: INTEGRITY,
            at_most: false,
            unit: String::new(),
            bare: None,
        })
    }
}

/// Measures every row that is asked for. The servers of a level run beside each other, and only one of them is asked at a time.
pub fn measure(options: &PoolsOptions) -> Result<Vec<Served>, Error> {
    let rows = rows(options);
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let interrupt = Interrupt::register()?;
    let work = Work::make()?;
    let (server_core, client_core) = (options.server_core.to_string(), options.client_core.to_string());
    let place = Place {
        work: &work.path,
        cores: &server_core,
        client_cores: &client_core,
        volume_bytes: options.size() << 20,
        port_base: options.port_base,
        interrupt: &interrupt,
    };
    let clients = Clients {
        work: &work.path,
        fels: &options.fels,
        cores: &client_core,
        seconds: f64::from(options.seconds),
        warm_up_s: WARM_UP_S,
        ticks_per_second: ticks_per_second(),
        interrupt: &interrupt,
    };
    let distance = Distance::new(&server_core, &client_core, PATIENCE);
    let mut results = Vec::new();
    for level in LEVELS {
        let rows: Vec<Row> = rows.iter().copied().filter(|row| row.level == level).collect();
        if rows.is_empty() {
            continue;
        }
        let mut servers = [start(options, level, false, &place)?, start(options, level, true, &place)?];
        for row in rows {
            results.extend(measure_row(options, &row, &mut servers, &clients, &distance)?);
        }
        for server in servers {
            if !server.stop() {
                eprintln!("warning: a server did not end in good order and was killed");
            }
        }
    }
    Ok(results)
}

fn start(options: &PoolsOptions, level: Level, integrity: bool, place: &Place<'_>) -> Result<Running, Error> {
    let spec = PoolSpec { integrity, size_bytes: place.volume_bytes, ..PoolSpec::new(level) };
    let (backing, monitoring) = (Backing::Pool(spec), Monitoring::Own);
    let served = FelsOptions { backing, monitoring, ..FelsOptions::default() };
    let running = start_fels(&options.fels, &served, place)?;
    running.fill(place)?;
    Ok(running)
}

/// All rounds, in each of which both have their turn, the other one first each time.
fn measure_row(
    options: &PoolsOptions,
    row: &Row,
    servers: &mut [Running; 2],
    clients: &Clients<'_>,
    distance: &Distance,
) -> Result<Vec<Served>, Error> {
    eprintln!("{}", row.name());
    let program = Program::Fels(options.fels.clone());
    let mut windows = [Vec::new(), Vec::new()];
    for round in 0..options.served_rounds() {
        for index in in_turn(servers.len(), round) {
            servers[index].expect_running()?;
            let url = servers[index].url(row.protocol.0).unwrap_or_default().to_owned();
            let request = Request {
                client: crate::rows::Client::Lab,
                program: &program,
                url: &url,
                load: &row.load.1,
                rate: None,
                busy_poll: None,
            };
            let ids = [servers[index].id()];
            windows[index].push(distance.near(clients.interrupt, || clients.run(&request, &ids))?);
        }
    }
    Ok(summarize(row, &windows))
}

fn summarize(row: &Row, windows: &[Vec<Window>; 2]) -> Vec<Served> {
    let contenders = row.contenders();
    let server_us = |window: &Window| window.spent.server_s / window.spent.wall_s / window.figures.iops * 1e6;
    let results = windows.iter().zip(&contenders).enumerate().filter_map(|(index, (own, contender))| {
        let iops = || own.iter().map(|window| window.figures.iops);
        let percent = |part: fn(&Window) -> f64| {
            let all = own.iter().map(|window| part(window) / window.spent.wall_s * 100.0);
            Spread::of(all).map_or(0.0, |spread| spread.median)
        };
        let rounds = || own.iter().zip(&windows[0]);
        let ratios = rounds().map(|(one, base)| one.figures.iops / base.figures.iops);
        let cpu_ratios = rounds().map(|(one, base)| server_us(base) / server_us(one));
        let mib = float(u64::from(row.load.1.request_bytes)) / f64::from(1 << 20);
        Some(Served {
            load: row.load_name(),
            contender: contender.clone(),
            base: contenders[0].clone(),
            iops: Spread::of(iops())?,
            mib_per_s: Spread::of(iops().map(|iops| iops * mib))?,
            server_us: Spread::of(own.iter().map(server_us))?,
            ratio: Spread::of(ratios).filter(|_| index > 0),
            cpu_ratio: Spread::of(cpu_ratios).filter(|_| index > 0),
            server_percent: percent(|window| window.spent.server_s),
            client_percent: percent(|window| window.spent.clients_s),
            others_percent: percent(|window| window.spent.others_s),
            samples: iops().collect(),
        })
    });
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Spent;
    use crate::output::Figures;

    fn window(iops: f64, server_s: f64) -> Window {
        let spent = Spent { wall_s: 0.5, server_s, clients_s: 0.25, others_s: 0.0, stolen_s: 0.0 };
        Window { figures: Figures { iops, ..Figures::default() }, spent }
    }

    #[test]
    fn rows_are_chosen_by_parts_of_their_names_and_a_first_look_has_one_level() {
        let chosen = |parts: &[&str], quick| {
            let options = PoolsOptions {
                rows: parts.iter().map(|&part| part.to_owned()).collect(),
                quick,
                ..super::super::tests::options()
            };
            rows(&options).len()
        };
        assert_eq!((chosen(&[], false), chosen(&[], true)), (16, 8));
        assert_eq!(chosen(&["nbd 4k-read raid6 plain / raid6"], false), 1);
        assert_eq!(chosen(&["nvme"], false), 8);
        assert_eq!(chosen(&["4k-read raid10 / raid6", "parity"], false), 0);
    }

    #[test]
    fn the_bar_is_of_the_ratios_of_the_rounds() {
        let row = Row { level: Level::Raid6, protocol: PROTOCOLS[1], load: LOADS[0] };
        let windows = [
            vec![window(1000.0, 0.5), window(2000.0, 0.5), window(500.0, 0.5)],
            vec![window(960.0, 0.5), window(1800.0, 0.5), window(500.0, 0.5)],
        ];
        let results = summarize(&row, &windows);
        assert!(results[0].ratio.is_none() && results[0].bar().is_none());
        let bar = results[1].bar().unwrap();
        assert!((bar.reached - 0.96).abs() < 1e-9 && bar.met(), "{bar:?}");
        assert_eq!((bar.row.as_str(), bar.server.as_str()), ("nvme 4k-read", "raid6"));
        assert!((results[1].server_us.median - 1e6 / 960.0).abs() < 1e-6, "{results:?}");
        assert!((results[1].server_percent - 100.0).abs() < 1e-9);
        assert!((results[1].client_percent - 50.0).abs() < 1e-9);
    }
}
