//! `bench pools`: what levels and checksums cost. Pools in memory are driven by the thread that runs them, in turn within every round,
//! so that nothing but the pool is in the figures; and some are `served`, as those who use them see them.

mod drive;
mod report;
mod served;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lab::pool::{OpenPool, PoolSpec, PoolTarget};
use plane::Request;
use plane::disk::MemoryDisk;
use plane::layers::Stack;
use plane::pool::Level;
use ring::{Buffer, Memory, Reactor, Ring};
use serde::Serialize;

use crate::arithmetic;
use crate::bars::Bar;
use crate::cli::PoolsOptions;
use crate::error::Error;
use crate::machine::Machine;
use crate::stats::{Spread, float};
use drive::{Load, Reached, slice};
use served::Served;

/// Members of every level that takes so many.
const MEMBERS: u16 = 6;
/// Bytes of a unit, as pools have them when nobody says.
const UNIT: u64 = 64 << 10;
/// Bytes of the requests of streams: whole rows of raid0 (6 units), raid10 (3) and raid6 (4).
const STREAM: u64 = 12 * UNIT;
/// Between two slices: what was acknowledged finds its place.
const PAUSE: Duration = Duration::from_millis(3);
/// The level that the others are held against, and what its reads may be ahead of those of raid6.
const RAID6_READ: f64 = 0.985;
/// What is left of the throughput with checksums.
const INTEGRITY: f64 = 0.95;
/// What raid6 writes of what raid0 writes.
const RAID6_STREAM: f64 = 0.60;
/// What the kernels of parity do of what isa-l does.
const PARITY: f64 = 1.0;

const READ: Load = Load { name: "4k-read", reads: true, random: true, bytes: 4096, depth: 32 };
const WRITE: Load = Load { reads: false, name: "4k-write", ..READ };
const STREAM_READ: Load = Load { name: "stream-read", reads: true, random: false, bytes: STREAM, depth: 4 };
const STREAM_WRITE: Load = Load { name: "stream-write", reads: false, ..STREAM_READ };

/// One of those that take turns.
#[derive(Clone, Debug, PartialEq)]
enum Contender {
    Pool(PoolSpec),
    /// The same bytes without a pool: what the load itself costs.
    Memory,
}

impl Contender {
    fn name(&self) -> String {
        match self {
            Contender::Pool(spec) if spec.integrity => spec.level.to_string(),
            Contender::Pool(spec) => format!("{} plain", spec.level),
            Contender::Memory => "no pool".to_owned(),
        }
    }
}

/// Contenders that are compared under some loads; the first one is the base.
#[derive(Clone, Debug)]
struct Group {
    contenders: Vec<Contender>,
    loads: Vec<Load>,
    /// What the second one is to reach of the base.
    wanted: f64,
}

/// All, in the order of the report.
fn groups(size_bytes: u64) -> Vec<Group> {
    let pool = |level: Level, integrity: bool| {
        let mut spec = PoolSpec::new(level);
        if level.takes(MEMBERS) {
            spec.members = MEMBERS;
        }
        Contender::Pool(PoolSpec { integrity, size_bytes, ..spec })
    };
    let levels = vec![pool(Level::Raid10, true), pool(Level::Raid6, true), Contender::Memory];
    let streams = vec![pool(Level::Raid0, true), pool(Level::Raid6, true), Contender::Memory];
    let mut groups = vec![
        Group { contenders: levels, loads: vec![READ], wanted: RAID6_READ },
        Group { contenders: streams, loads: vec![STREAM_WRITE], wanted: RAID6_STREAM },
    ];
    for level in Level::ALL {
        let contenders = vec![pool(level, false), pool(level, true)];
        let loads = [READ, WRITE, STREAM_READ, STREAM_WRITE].map(|load| fitting(load, level));
        groups.push(Group { contenders, loads: loads.to_vec(), wanted: INTEGRITY });
    }
    groups
}

/// Streams have whole rows of the level.
fn fitting(load: Load, level: Level) -> Load {
    let members = if level.takes(MEMBERS) { MEMBERS } else { *level.slots().start() };
    let row = u64::from(level.data_units(members)) * UNIT;
    let bytes = if load.random { load.bytes } else { STREAM / row * row };
    Load { bytes, ..load }
}

/// One contender under one load, over all rounds.
#[derive(Debug, Serialize)]
struct Figures {
    load: &'static str,
    request_bytes: u64,
    contender: String,
    base: String,
    iops: Spread,
    mib_per_s: Spread,
    cpu_us: Spread,
    /// Of the base, round by round; the base has none.
    ratio: Option<Spread>,
    /// The base's CPU time for each request divided by its own, round by round: what the ratio would be if nobody else used the
    /// core, and nothing waited.
    cpu_ratio: Option<Spread>,
    /// IOPS of every round.
    samples: Vec<f64>,
}

/// What `bench pools` measured.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    rounds: u32,
    milliseconds: u64,
    size_mib: u64,
    /// Without a transport.
    results: Vec<Figures>,
    /// Through one.
    served: Vec<Served>,
    /// Why there is no isa-l beside the kernels of parity.
    without_isal: Option<String>,
    bars: Vec<Bar>,
}

/// `bench pools`.
pub fn run(options: &PoolsOptions) -> Result<(), Error> {
    let groups: Vec<Group> =
        groups(options.size() << 20).into_iter().filter_map(|group| group.wanted_of(&options.rows)).collect();
    let with_parity =
        options.rows.is_empty() || options.rows.iter().any(|row| "parity".contains(row.as_str()));
    if groups.is_empty() && !with_parity && !served::is_wanted(options) {
        return Err(Error::Options("no row is called so".to_owned()));
    }
    if served::is_wanted(options) && !options.fels.exists() {
        let fels = options.fels.display();
        return Err(Error::Options(format!(
            "there is no {fels} to serve pools; `cargo build --release -p fels` makes it"
        )));
    }
    let mut machine = Machine::read(options.label.as_deref());
    let (mut results, mut bars) = (Vec::new(), Vec::new());
    for group in groups {
        let measured = measure(&group, options)?;
        bars.extend(measured.iter().filter_map(|result| group.bar(result)));
        results.extend(measured);
    }
    let served = served::measure(options)?;
    bars.extend(served.iter().filter_map(Served::bar));
    let mut without_isal = None;
    if with_parity {
        let parity = arithmetic::against_isal(options.quick)?;
        bars.extend(parity.reached.into_iter().map(|(row, reached)| Bar {
            row,
            server: parity.kernel.to_owned(),
            what: "of isa-l".to_owned(),
            reached,
            wanted: PARITY,
            at_most: false,
            unit: String::new(),
            bare: None,
        }));
        without_isal = parity.without_isal;
        if without_isal.is_none() {
            machine.add_package("libisal2");
        }
    }
    let (rounds, milliseconds) = (options.rounds(), options.milliseconds());
    let report = Report {
        machine,
        rounds,
        milliseconds,
        size_mib: options.size(),
        results,
        served,
        without_isal,
        bars,
    };
    let text = report::text(&report);
    print!("{text}");
    if let Some(directory) = &options.out {
        println!("kept in {}", report::keep(&report, &text, directory)?.display());
    }
    Ok(())
}

impl Group {
    /// What of it is asked for.
    fn wanted_of(mut self, rows: &[String]) -> Option<Group> {
        let row = |load: &Load| format!("{} {}", load.name, self.title());
        let is_wanted = |load: &Load| rows.is_empty() || rows.iter().any(|part| row(load).contains(part));
        self.loads = self.loads.iter().copied().filter(is_wanted).collect();
        (!self.loads.is_empty()).then_some(self)
    }

    fn title(&self) -> String {
        let names: Vec<String> = self.contenders.iter().take(2).map(Contender::name).collect();
        names.join(" / ")
    }

    /// What is to be reached by the one behind the base.
    fn bar(&self, result: &Figures) -> Option<Bar> {
        let is_it = self.contenders.get(1).is_some_and(|contender| contender.name() == result.contender);
        let ratio = result.ratio.as_ref().filter(|_| is_it)?;
        Some(Bar {
            row: result.load.to_owned(),
            server: result.contender.clone(),
            what: format!("of {}", result.base),
            reached: ratio.median,
            wanted: self.wanted,
            at_most: false,
            unit: String::new(),
            bare: None,
        })
    }
}

/// One that is open.
struct Open {
    stack: Rc<Stack>,
    /// Kept as long as its stack.
    pool: Option<Rc<OpenPool>>,
    cursor: Cell<u64>,
    samples: Vec<Reached>,
}

async fn open(ring: &Ring, contender: &Contender, size_bytes: u64) -> Result<Open, Error> {
    let failed = |error: &dyn std::error::Error| Error::Options(format!("{}: {error}", contender.name()));
    let (stack, pool) = match contender {
        Contender::Pool(spec) => {
            let target = PoolTarget::new(spec.clone());
            let pool = target.bed().open(ring).await.map_err(|error| failed(&error))?;
            (pool.stack().clone(), Some(Rc::new(pool)))
        }
        Contender::Memory => {
            let memory = Memory::new(size_bytes).map_err(|error| failed(&error))?;
            let disk = Box::new(MemoryDisk::new(ring, Arc::new(memory), 512));
            let stack = Rc::new(Stack::new(ring.clone(), Vec::new(), disk));
            let filling = vec![0x5a; 1 << 20];
            // Through the disk, which then knows that all is there.
            for index in 0..size_bytes >> 20 {
                let write = Request::write(index << 20, Buffer::copy_of(&filling));
                stack.submit(write).await.result.map_err(|error| failed(&error))?;
            }
            (stack, None)
        }
    };
    Ok(Open { stack, pool, cursor: Cell::new(0), samples: Vec::new() })
}

fn measure(group: &Group, options: &PoolsOptions) -> Result<Vec<Figures>, Error> {
    let reactor =
        Reactor::new(&ring::Options::default()).map_err(|error| Error::Options(error.to_string()))?;
    let (ring, group) = (reactor.ring().clone(), group.clone());
    let (rounds, span) = (options.rounds(), Duration::from_millis(options.milliseconds()));
    let size_bytes = options.size() << 20;
    reactor.block_on(async move {
        let mut opened = Vec::new();
        for contender in &group.contenders {
            opened.push(open(&ring, contender, size_bytes).await?);
        }
        let mut results = Vec::new();
        for load in &group.loads {
            eprintln!("{}: {}", load.name, group.title());
            // The first round warms up.
            for round in 0..=rounds {
                for index in 0..opened.len() {
                    let open = &mut opened[(index + round as usize) % group.contenders.len()];
                    let reached = slice(&ring, &open.stack, *load, span, &open.cursor).await?;
                    if round > 0 {
                        open.samples.push(reached);
                    }
                    ring.sleep(PAUSE).await;
                }
            }
            results.extend(summarize(&group, load, &mut opened));
        }
        for open in opened {
            if let Some(pool) = open.pool {
                pool.close().await;
            }
        }
        Ok(results)
    })
}

fn summarize(group: &Group, load: &Load, opened: &mut [Open]) -> Vec<Figures> {
    let samples: Vec<Vec<Reached>> =
        opened.iter_mut().map(|open| std::mem::take(&mut open.samples)).collect();
    let Some(base) = group.contenders.first().map(Contender::name) else { return Vec::new() };
    let rounds = samples.iter().zip(&group.contenders).enumerate();
    let results = rounds.filter_map(|(index, (rounds, contender))| {
        let iops = || rounds.iter().map(|reached| reached.iops);
        let ratios = rounds.iter().zip(&samples[0]).map(|(one, base)| one.iops / base.iops);
        let cpu_ratios = rounds.iter().zip(&samples[0]).map(|(one, base)| base.cpu_us / one.cpu_us);
        let mib = |iops: f64| iops * float(load.bytes) / f64::from(1 << 20);
        Some(Figures {
            load: load.name,
            request_bytes: load.bytes,
            contender: contender.name(),
            base: base.clone(),
            iops: Spread::of(iops())?,
            mib_per_s: Spread::of(iops().map(mib))?,
            cpu_us: Spread::of(rounds.iter().map(|reached| reached.cpu_us))?,
            ratio: Spread::of(ratios).filter(|_| index > 0),
            cpu_ratio: Spread::of(cpu_ratios).filter(|_| index > 0),
            samples: iops().collect(),
        })
    });
    results.collect()
}

#[cfg(test)]
mod tests;
