//! Runs a scenario over many seeds, and one of them again.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use crate::Failure;

/// A scenario: from the seed to the world's trace and the operations that were acknowledged.
pub type Play = fn(u64) -> Result<(u64, u64), Failure>;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// The seeds that `FELS_SEEDS` names: so many, or `first..end`.
fn range(usual: u64) -> Range<u64> {
    let text = std::env::var("FELS_SEEDS").unwrap_or_default();
    match text.split_once("..") {
        Some((first, end)) if let (Ok(first), Ok(end)) = (first.parse(), end.parse()) => first..end,
        _ => 0..number("FELS_SEEDS").unwrap_or(usual),
    }
}

/// Plays `scenario` with `usual` seeds; with `FELS_SEEDS` of them, or those from `first..end`; or with the one seed `FELS_SEED`.
/// `test` is the name of the calling test. Panics with the seed and how to replay it.
///
/// `FELS_LOG=info` (or any other filter) shows what the product logs meanwhile.
pub fn run(test: &str, scenario: Play, usual: u64) {
    if let Ok(filter) = std::env::var("FELS_LOG") {
        let log = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false);
        log.with_test_writer().try_init().ok();
    }
    let seeds = match number("FELS_SEED") {
        Some(seed) => seed..seed + 1,
        None => range(usual),
    };
    assert!(!seeds.is_empty(), "no seed to run");
    let (start, count, mut operations) = (Instant::now(), seeds.end - seeds.start, 0);
    println!("{test}: seeds {seeds:?}");
    for seed in seeds {
        let replay = format!("FELS_SEED={seed} cargo test --release -p sim {test}");
        // A panic has told what is wrong by itself.
        let played = catch_unwind(AssertUnwindSafe(|| scenario(seed)));
        match played.unwrap_or_else(|_| Err(Failure("a panic, see above".to_owned()))) {
            Ok((_, done)) => operations += done,
            Err(failure) => panic!("seed {seed}: {failure}\nreplay: {replay}"),
        }
    }
    let milliseconds = start.elapsed().as_millis().max(1);
    let speed = u128::from(count) * 1000 / milliseconds;
    println!("{test}: {count} seeds, {operations} operations, {speed} seeds/s");
}

/// Plays each of a few seeds twice: the same seed has to give the same run, operation by operation.
pub fn run_twice(test: &str, scenario: Play, count: u64) {
    for seed in 0..count {
        let first = scenario(seed).unwrap_or_else(|failure| panic!("{test}, seed {seed}: {failure}"));
        let second = scenario(seed).unwrap_or_else(|failure| panic!("{test}, seed {seed}, again: {failure}"));
        assert_eq!(first, second, "{test}: seed {seed} gave two different runs");
    }
}

/// Plays each of a few seeds in `threads` threads at once: all have to give the same run.
pub fn run_beside_others(test: &str, scenario: Play, count: u64, threads: usize) {
    for seed in 0..count {
        let played = thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(move || scenario(seed))).collect();
            all.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        let runs = played.into_iter().map(|run| {
            let run = run.unwrap_or_else(|_| panic!("{test}, seed {seed}: a panic, see above"));
            run.unwrap_or_else(|failure| panic!("{test}, seed {seed}: {failure}"))
        });
        let runs: Vec<_> = runs.collect();
        assert!(
            runs.iter().all(|run| *run == runs[0]),
            "{test}: seed {seed} gave different runs at once: {runs:x?}"
        );
    }
}
