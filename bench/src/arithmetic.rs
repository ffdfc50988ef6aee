//! P and Q of RAID 5 and 6: every kernel of this processor beside isa-l, in one thread.
//!
//! In every round all of them take their turn at a row. What they compute is compared first.

use std::hint::black_box;
use std::time::{Duration, Instant};

use isal::Isal;
use parity::Column::{Absent, Known, Missing};
use parity::{Column, Kernel};
use serde::Serialize;

use crate::cli::ParityOptions;
use crate::error::Error;
use crate::machine::Machine;
use crate::stats::{Spread, float};
use crate::table::table;

/// Memory through which rows out of the cache go: far more than any cache.
const LARGE_BYTES: usize = 512 << 20;
/// Columns begin at pages, as buffers do.
const ALIGNMENT: usize = 4096;
/// Stripes between two looks at the clock.
const STRIPES_PER_LOOK: usize = 16;
/// The name of the library in the results.
const ISAL: &str = "isa-l";
/// The same, as it is on processors without AVX-512.
const ISAL_AVX2: &str = "isa-l-avx2";

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// P of all columns.
    P,
    /// P and Q of all columns.
    Pq,
    /// P and Q after the first column has changed to the second one.
    Update,
    /// The first and the last of eight columns from the others, P and Q.
    Recover,
}

/// One row.
#[derive(Clone, Copy, Debug)]
struct Row {
    work: Work,
    columns: usize,
    column_bytes: usize,
    /// Always the same stripe; or one after the other through [`LARGE_BYTES`].
    in_cache: bool,
}

impl Row {
    /// All, in the order of the report.
    fn all() -> Vec<Self> {
        let shapes = [(Work::P, 8), (Work::Pq, 8), (Work::Pq, 4), (Work::Update, 8), (Work::Recover, 8)];
        let mut rows = Vec::new();
        for (work, columns) in shapes {
            for in_cache in [true, false] {
                for column_bytes in [4 << 10, 64 << 10, 1 << 20] {
                    rows.push(Self { work, columns, column_bytes, in_cache });
                }
            }
        }
        rows
    }

    fn name(&self) -> String {
        let (work, parity) = match self.work {
            Work::P => ("P", 1),
            Work::Pq => ("P+Q", 2),
            Work::Update => ("update", 2),
            Work::Recover => ("recover", 2),
        };
        let place = if self.in_cache { "cache" } else { "memory" };
        format!("{work} {}+{parity}, {} KiB, {place}", self.columns, self.column_bytes >> 10)
    }

    /// Bytes that count: of all data, or of the column that changes.
    fn bytes(&self) -> usize {
        if self.work == Work::Update { self.column_bytes } else { self.columns * self.column_bytes }
    }

    fn is_wanted(&self, options: &ParityOptions) -> bool {
        options.rows.is_empty() || options.rows.iter().any(|part| self.name().contains(part))
    }
}

/// Columns of data with room for P and Q.
struct Stripe<'a> {
    data: Vec<&'a [u8]>,
    p: &'a mut [u8],
    q: &'a mut [u8],
}

/// As many stripes as there is room for. Their columns lie anywhere, as buffers do: one behind the other they would
/// please or mislead some processors.
fn stripes<'a>(memory: &'a mut [u8], row: &Row) -> Vec<Stripe<'a>> {
    let mut parts: Vec<&mut [u8]> = memory.chunks_exact_mut(row.column_bytes).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut parts);
    let most = if row.in_cache { 1 } else { usize::MAX };
    let mut parts = parts.into_iter();
    let stripe = || {
        let (p, q) = (parts.next()?, parts.next()?);
        let data: Vec<&[u8]> = parts.by_ref().take(row.columns).map(|part| &*part).collect();
        (data.len() == row.columns).then_some(Stripe { data, p, q })
    };
    std::iter::from_fn(stripe).take(most).collect()
}

/// Who computes.
#[derive(Clone, Copy)]
enum Contender<'a> {
    Kernel(Kernel),
    Isal(&'static str, &'a Isal),
}

impl Contender<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Kernel(kernel) => kernel.name(),
            Self::Isal(name, _) => name,
        }
    }

    fn can(self, work: Work) -> bool {
        matches!(self, Self::Kernel(_)) || matches!(work, Work::P | Work::Pq)
    }

    /// Seconds for each stripe over a span of time, beginning with the stripe `cursor`, which is moved on.
    fn measure(
        self,
        row: &Row,
        stripes: &mut [Stripe],
        cursor: &mut usize,
        span: Duration,
    ) -> Result<f64, Error> {
        match self {
            Self::Kernel(kernel) => {
                let count = stripes.len();
                timed(count, cursor, span, |index| {
                    compute(kernel, row.work, &mut stripes[index]);
                    true
                })
            }
            Self::Isal(_, library) => {
                let mut calls: Vec<isal::Call> =
                    stripes.iter_mut().map(|stripe| prepare(library, row.work, stripe)).collect();
                timed(calls.len(), cursor, span, |index| calls[index].run())
            }
        }
    }
}

fn timed(
    stripes: usize,
    cursor: &mut usize,
    span: Duration,
    mut run: impl FnMut(usize) -> bool,
) -> Result<f64, Error> {
    let mut done = 0_u64;
    let begun = Instant::now();
    loop {
        for _ in 0..STRIPES_PER_LOOK {
            if !black_box(run(*cursor)) {
                return Err(refused());
            }
            *cursor = (*cursor + 1) % stripes;
            done += 1;
        }
        let took = begun.elapsed();
        if took >= span {
            return Ok(took.as_secs_f64() / float(done));
        }
    }
}

fn refused() -> Error {
    Error::Output { program: ISAL, reason: "it refused the columns".to_owned() }
}

fn prepare<'a>(library: &'a Isal, work: Work, stripe: &'a mut Stripe<'_>) -> isal::Call<'a> {
    match work {
        Work::P => library.xor(stripe.p, &stripe.data),
        Work::Pq | Work::Update | Work::Recover => library.pq(stripe.p, stripe.q, &stripe.data),
    }
}

fn compute(kernel: Kernel, work: Work, stripe: &mut Stripe) {
    let Stripe { data, p, q } = stripe;
    match work {
        Work::P => kernel.xor(p, data),
        Work::Pq => kernel.pq(p, q, data),
        Work::Update => kernel.update_pq(p, q, 0, data[0], data[1]),
        Work::Recover => {
            // The lost columns are written where P and Q are, and what stands where they should be is taken for P and Q: that
            // takes as long, and leaves the data alone.
            let mut columns: [Column; 8] =
                std::array::from_fn(|index| data.get(index).map_or(Absent, |bytes| Known(bytes)));
            [columns[0], columns[7]] = [Missing(p), Missing(q)];
            let known = kernel.recover(&mut columns, &mut Known(data[0]), &mut Known(data[7]));
            debug_assert!(known.is_ok());
        }
    }
}

/// What `bench parity` measured.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    rounds: u32,
    milliseconds: u64,
    /// The kernel that the product takes on this machine.
    chosen: &'static str,
    /// Why there is no isa-l beside it.
    without_isal: Option<String>,
    results: Vec<Reached>,
}

/// All rounds of one contender in one row.
#[derive(Debug, Serialize)]
struct Reached {
    row: String,
    contender: &'static str,
    /// 10^9 bytes of data a second; of an update, of the column that changes.
    gb_per_s: Spread,
    /// The same against isa-l, round by round: the median, and the smallest and largest.
    of_isal: Option<Spread>,
    /// Every round.
    samples: Vec<f64>,
}

/// `bench parity`.
pub fn run(options: &ParityOptions) -> Result<(), Error> {
    let rows: Vec<Row> = Row::all().into_iter().filter(|row| row.is_wanted(options)).collect();
    if rows.is_empty() {
        return Err(Error::Options("no row is called so".to_owned()));
    }
    let report = measure(&rows, options)?;
    if options.json {
        println!("{}", serde_json::json!(report));
    } else {
        print(&report);
    }
    Ok(())
}

/// What the kernel of this machine does against isa-l.
pub struct AgainstIsal {
    /// The kernel.
    pub kernel: &'static str,
    /// Rows that both have, each with the median of the rounds' ratios.
    pub reached: Vec<(String, f64)>,
    /// Why there is no isa-l.
    pub without_isal: Option<String>,
}

/// Measures P, and P and Q, of columns of 64 KiB; not `quick`ly also of 4 KiB and 1 MiB, and out of the cache.
pub fn against_isal(quick: bool) -> Result<AgainstIsal, Error> {
    let both = |row: &Row| matches!(row.work, Work::P | Work::Pq);
    let first = |row: &Row| !quick || (row.in_cache && row.column_bytes == 64 << 10);
    let rows: Vec<Row> = Row::all().into_iter().filter(|row| both(row) && first(row)).collect();
    let options = ParityOptions { rows: Vec::new(), rounds: 9, milliseconds: 10, json: false };
    let report = measure(&rows, &options)?;
    let ours = report.results.iter().filter(|reached| reached.contender == report.chosen);
    let reached = ours.filter_map(|reached| Some((reached.row.clone(), reached.of_isal.as_ref()?.median)));
    Ok(AgainstIsal { kernel: report.chosen, reached: reached.collect(), without_isal: report.without_isal })
}

fn measure(rows: &[Row], options: &ParityOptions) -> Result<Report, Error> {
    let mut machine = Machine::read(None);
    let (library, without_isal) = match Isal::open() {
        Ok(library) => (Some(library), None),
        Err(error) => (None, Some(error)),
    };
    if library.is_some() {
        machine.add_package("libisal2");
    }
    let mut memory = vec![0_u8; LARGE_BYTES + ALIGNMENT];
    fastrand::Rng::with_seed(8).fill(&mut memory);
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let memory = &mut memory[start..][..LARGE_BYTES];

    let kernels = Kernel::all_available();
    if let Some(library) = &library {
        compare(library, &kernels, memory)?;
    }
    let library_avx2 = Isal::open_for_avx2();
    let libraries = [(ISAL_AVX2, &library_avx2), (ISAL, &library)];
    let libraries =
        libraries.iter().filter_map(|(name, library)| Some(Contender::Isal(name, library.as_ref()?)));
    let contenders: Vec<Contender> = kernels.into_iter().map(Contender::Kernel).chain(libraries).collect();
    let mut results = Vec::new();
    for row in rows {
        if !options.json {
            eprintln!("{}", row.name());
        }
        results.extend(measure_row(row, &contenders, memory, options)?);
    }
    let (rounds, milliseconds) = (options.rounds, options.milliseconds);
    Ok(Report { machine, rounds, milliseconds, chosen: Kernel::best().name(), without_isal, results })
}

/// P and Q of every kernel are those of isa-l, for all numbers of columns.
fn compare(library: &Isal, kernels: &[Kernel], memory: &mut [u8]) -> Result<(), Error> {
    const COLUMN_BYTES: usize = 4096 + 64;
    for columns in (2..=40).chain([parity::MAX_DATA_COLUMNS]) {
        let row = Row { work: Work::Pq, columns, column_bytes: COLUMN_BYTES, in_cache: true };
        for mut stripe in stripes(memory, &row) {
            let mut only_p = stripe.p.to_vec();
            if !prepare(library, Work::Pq, &mut stripe).run() {
                return Err(refused());
            }
            let theirs = [stripe.p.to_vec(), stripe.q.to_vec()];
            for kernel in kernels {
                kernel.pq(stripe.p, stripe.q, &stripe.data);
                kernel.xor(&mut only_p, &stripe.data);
                if *stripe.p != theirs[0] || *stripe.q != theirs[1] || only_p != theirs[0] {
                    let reason = format!("{columns} columns: P or Q of {} is another one", kernel.name());
                    return Err(Error::Output { program: ISAL, reason });
                }
            }
        }
    }
    Ok(())
}

fn measure_row(
    row: &Row,
    contenders: &[Contender],
    memory: &mut [u8],
    options: &ParityOptions,
) -> Result<Vec<Reached>, Error> {
    let span = Duration::from_millis(options.milliseconds);
    let able: Vec<Contender> =
        contenders.iter().copied().filter(|contender| contender.can(row.work)).collect();
    let mut stripes = stripes(memory, row);
    let mut cursor = 0;
    let mut samples = vec![Vec::new(); able.len()];
    // The first round warms up.
    for round in 0..=options.rounds {
        for (contender, samples) in able.iter().zip(&mut samples) {
            let seconds = contender.measure(row, &mut stripes, &mut cursor, span)?;
            if round > 0 {
                samples.push(float(row.bytes() as u64) / seconds / 1e9);
            }
        }
    }
    let theirs =
        able.iter().position(|contender| contender.name() == ISAL).map(|index| samples[index].clone());
    let reached = able.iter().zip(samples).filter_map(|(contender, samples)| {
        let ratios =
            theirs.as_ref().map(|theirs| samples.iter().zip(theirs).map(|(ours, theirs)| ours / theirs));
        Some(Reached {
            row: row.name(),
            contender: contender.name(),
            gb_per_s: Spread::of(samples.iter().copied())?,
            of_isal: ratios.and_then(Spread::of),
            samples,
        })
    });
    Ok(reached.collect())
}

fn print(report: &Report) {
    let Machine { cpu, date, commit, versions, .. } = &report.machine;
    let versions: Vec<String> =
        versions.iter().map(|(name, version)| format!(", {name} {version}")).collect();
    let versions = versions.concat();
    println!("{cpu}, {date}, commit {commit}{versions}; kernel of this machine: {}", report.chosen);
    println!(
        "{} rounds of {} ms; GB/s are 10^9 bytes of data a second, of `update` those of the column that changes",
        report.rounds, report.milliseconds
    );
    match &report.without_isal {
        Some(error) => println!("without isa-l: {error}\nhint: `make bench-peers` installs it"),
        None => println!("P and Q of all kernels are those of isa-l, byte for byte"),
    }
    println!();
    let rows = report.results.iter().map(|reached| {
        let range =
            |spread: &Spread, digits: usize| format!("{:.digits$} .. {:.digits$}", spread.min, spread.max);
        let mut cells = vec![reached.row.clone(), reached.contender.to_owned()];
        cells.extend([format!("{:.1}", reached.gb_per_s.median), range(&reached.gb_per_s, 1)]);
        if let Some(ratio) = &reached.of_isal {
            cells.extend([format!("{:.2}", ratio.median), range(ratio, 2)]);
        }
        cells
    });
    print!("{}", table(&["row", "kernel", "GB/s", "spread", "x isa-l", "spread"], rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_measures_every_kernel() {
        let mut memory = vec![7; 1 << 20];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let contenders: Vec<Contender> = Kernel::all_available().into_iter().map(Contender::Kernel).collect();
        let options = ParityOptions { rows: Vec::new(), rounds: 2, milliseconds: 1, json: false };
        for row in Row::all().iter().filter(|row| row.column_bytes == 4096) {
            let reached = measure_row(row, &contenders, &mut memory[start..], &options).unwrap();
            assert_eq!(reached.len(), contenders.len(), "{}", row.name());
            for one in reached {
                assert!(one.gb_per_s.min > 0.0 && one.samples.len() == 2 && one.of_isal.is_none(), "{one:?}");
            }
        }
    }
}
